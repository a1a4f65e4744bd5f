"""Render a report as Markdown, for a repository, a ticket or a mail."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from certifare.foundation.formatting import undirected
from certifare.report.html import FILTERS, best_points

if TYPE_CHECKING:
    from jinja2 import Environment

#: Characters that are special in Markdown or HTML.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&-])")


def render_markdown(data: Mapping[str, Any]) -> str:
    """Render a report as Markdown.

    Parameters
    ----------
    data : mapping
        The result of :func:`certifare.report.report_data`.

    Examples
    --------
    >>> from certifare import CellCounts, certify_counts
    >>> from certifare.report import report_data
    >>> c = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]))
    >>> print(render_markdown(report_data(c)).splitlines()[2][6:])
    = 0.2584** with 95 % confidence
    """
    text = _environment().get_template("report.md").render(data=data, best_points=best_points)
    return undirected(re.sub(r"\n{3,}", "\n\n", text).strip()) + "\n"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("certifare.report"),
        # The result of a macro is markup; everything else is escaped for Markdown, and so for HTML.
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(_text(value)),  # noqa: S704
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**FILTERS, "code": _code}
    return environment


def _text(text: Any) -> str:
    """Escape text: put it on one line, without markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def _code(text: str) -> Markup:
    """Return text as a code block whose fence is longer than any run of backquotes inside."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}\n{text}\n{fence}")  # noqa: S704  (inside a fence nothing is markup)
