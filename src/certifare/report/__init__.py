"""Reports: one dictionary, shown as a page, on paper, as Markdown, or as it is.

:func:`report_data` gathers what there is to say about a certificate; :func:`render_html` and :func:`render_markdown`
show it, :func:`render_pdf` prints the page; as JSON it is the dictionary itself.
"""

from certifare.report.contents import report_data
from certifare.report.encoder import describe_encoder
from certifare.report.html import render_html
from certifare.report.markdown import render_markdown
from certifare.report.pdf import render_pdf

__all__ = ["describe_encoder", "render_html", "render_markdown", "render_pdf", "report_data"]
