"""Cards: what a notebook shows of an object, in the colours and with the charts of the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from markupsafe import Markup

from certifare.drawing.palette import FONT, PALETTE
from certifare.drawing.svg import tag
from certifare.foundation.display import Drawing
from certifare.foundation.formatting import undirected

#: Rows of a table in a card; the rest is counted.
MOST_ROWS = 20
_SERIF = '"Iowan Old Style", "Palatino Linotype", Palatino, Georgia, serif'
_STYLE = f"""
.certifare {{ box-sizing: border-box; max-width: 700px; padding: 16px 20px; border: 1px solid var(--cf-line);
  border-radius: 8px; background: var(--cf-paper); color: var(--cf-ink); font: 14px/1.5 {FONT}; }}
.certifare p {{ margin: 0; }}
.certifare .kind {{ color: var(--cf-muted); font-size: 13px; }}
.certifare .headline {{ margin: 2px 0 10px; font: 600 19px/1.3 {_SERIF}; }}
.certifare table {{ width: 100%; margin: 10px 0 0; border-collapse: collapse; font-size: 13px; background: none;
  font-variant-numeric: lining-nums tabular-nums; }}
.certifare th, .certifare td {{ padding: 4px 12px 4px 0; border: 0; border-bottom: 1px solid var(--cf-line);
  background: none; color: inherit; text-align: left; vertical-align: top; font-weight: 400; white-space: normal; }}
.certifare tbody th, .certifare thead th {{ color: var(--cf-muted); }}
.certifare tbody th {{ width: 1%; min-width: 8em; }}
.certifare svg {{ display: block; max-width: 100%; height: auto; }}
"""


def html_card(
    kind: str,
    headline: str,
    facts: Iterable[Sequence[object]],
    *,
    head: Sequence[str] = (),
    drawing: Drawing | None = None,
) -> str:
    """Write a card as HTML: what the thing is, its headline, a chart, and a table of facts. Everything is escaped.

    - ``facts``: rows, the first entry of each of which names it.
    - ``head``: names of the columns; with them, the table is cut after some rows.
    """
    rows = [list(row) for row in facts]
    shown = rows[:MOST_ROWS] if head else rows
    body = [tag("tr", tag("th", str(row[0]), scope="row"), *(tag("td", str(v)) for v in row[1:])) for row in shown]
    columns = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in head))) if head else Markup("")
    more = f"and {len(rows) - len(shown):,} more" if len(rows) > len(shown) else ""
    return undirected(
        tag(
            "div",
            tag("style", Markup(_style())),  # noqa: S704  (our own)
            tag("p", kind, class_="kind"),
            tag("p", headline, class_="headline"),
            Markup("" if drawing is None else drawing.svg()),  # noqa: S704  (a drawing escapes names)
            tag("table", columns, tag("tbody", *body)),
            *([tag("p", more, class_="kind")] if more else []),
            class_="certifare",
        )
    )


@cache
def _style() -> str:
    """Return the rules of a card, in light and dark."""
    names = ("ink", "muted", "line", "paper")
    light, dark = (" ".join(f"--cf-{name}: {PALETTE[name][mode]};" for name in names) for mode in (0, 1))
    return (
        f".certifare {{ {light} }} @media screen and (prefers-color-scheme: dark) {{ .certifare {{ {dark} }} }}{_STYLE}"
    )
