"""Reports of certificates as a page, on paper and as data.

:func:`report_data` collects the content of a report from a certificate, which is its JSON form; :func:`render_html`
renders it, and :func:`render_pdf` prints the page. :func:`render_course` renders the history of a certificate.
"""

from certifare.report.contents import report_data
from certifare.report.course import render_course
from certifare.report.encoder import describe_encoder
from certifare.report.html import render_html
from certifare.report.pdf import render_pdf

__all__ = ["describe_encoder", "render_course", "render_html", "render_pdf", "report_data"]
