"""Reports as HTML, PDF, Markdown and JSON.

:func:`report_data` collects the content of a report from a certificate; :func:`render_html` and
:func:`render_markdown` render it, :func:`render_pdf` prints the HTML page; the JSON form is the content itself.
:func:`render_course` renders the history of a certificate over several periods.
"""

from certifare.report.contents import report_data
from certifare.report.course import course_data, render_course
from certifare.report.encoder import describe_encoder
from certifare.report.html import render_html
from certifare.report.markdown import render_markdown
from certifare.report.pdf import render_pdf

__all__ = [
    "course_data",
    "describe_encoder",
    "render_course",
    "render_html",
    "render_markdown",
    "render_pdf",
    "report_data",
]
