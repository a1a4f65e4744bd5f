"""Reports: one dictionary, shown as a page, on paper, as Markdown, or as it is.

:func:`report_data` gathers what there is to say about a certificate; :func:`render_html` and :func:`render_markdown`
show it, :func:`render_pdf` prints the page; as JSON it is the dictionary itself. :func:`render_course` shows the course
of a certificate over several periods.
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
