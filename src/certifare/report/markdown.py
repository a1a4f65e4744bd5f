"""The report as Markdown, for a repository, a ticket or a mail."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

#: What Markdown or HTML could take for markup.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&-])")


def render_markdown(data: Mapping[str, Any]) -> str:
    """Render a report as Markdown.

    Parameters
    ----------
    data : mapping
        What :func:`certifare.report.report_data` gathered.

    Examples
    --------
    >>> from certifare import CellCounts, certify_counts
    >>> from certifare.report import report_data
    >>> c = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]))
    >>> print(render_markdown(report_data(c)).splitlines()[2][:60])
    With 95 % confidence, no classifier, score or rule that sees
    """
    failing = [check for check in data["verification"]["checks"] if check["ok"] is False]
    alert = []
    if failing:
        alert = ["**FAIL: verification failed.**"]
        alert.append(_list([f"{check['name']}: {check['message']}" for check in failing]))
    figures = data["figures"]
    if figures is None:
        return "\n\n".join(["# A certificate that does not hold", *alert, _made(data)]) + "\n"
    blocks = [*alert, f"# T\\* = {figures['bound_text']}", _text(data["claim"]["words"])]
    if data["target"] and not failing:
        met = data["target"]["met"]
        blocks.append(f"**{'PASS' if met else 'NO SOLUTION'}** (target {data['target']['value']:.4g})")
    blocks.append(
        _table(
            ["figure", "value"],
            [
                ["bound T\\*", figures["bound_text"]],
                ["lower limit L", figures["lower_text"]],
                ["distance in the sample", figures["estimate_text"]],
                ["confidence", figures["confidence_text"]],
                ["records", f"{figures['records']:,}"],
                ["cells", f"{figures['cells']:,}"],
                ["method", figures["method"]],
                *([f"records of {_text(group['name'])}", f"{group['records']:,}"] for group in data["groups"]),
            ],
        )
    )
    if len(data["pairs"]) > 1:
        blocks += ["## Pairs of groups", _pairs(data["pairs"])]
    blocks += ["## Cells and groups", _cells(data["cells"])]
    if data["suppression"]:
        blocks.append(
            f"Cells with a count below {data['suppression']['below']} are pooled with others on which the groups "
            "differ in the same direction; every figure stays exactly as it is."
        )
    blocks += [f"## {data['four_fifths']['title']}", *map(_text, _four_fifths(data["four_fifths"]))]
    blocks += ["## What was left out", _exclusions(data["exclusions"])]
    blocks += ["## What it assumes", _list([*data["assumptions"], data["selection"]])]
    blocks += ["## What it does not claim", _list(data["not_claimed"])]
    blocks.append("## How to verify it")
    for step in data["verify"]:
        blocks += [_text(step["what"]), _code(step["command"])]
    blocks += ["When this report was made:", _checks(data["verification"]["checks"]), _made(data)]
    if data["command"]:
        blocks.append(_code(data["command"]))
    return "\n\n".join(blocks) + "\n"


def _made(data: Mapping[str, Any]) -> str:
    """Say when and with what it was made, and whose signature there is."""
    signature = data["signature"]
    signers = f"signature of key {', '.join(signature['keys'])}: " if signature["keys"] else ""
    return _text(f"Made {data['created']} by {data['tool']}; {signers}{signature['words']}.")


def _checks(checks: Sequence[Mapping[str, Any]]) -> str:
    words = {True: "holds", False: "FAILS", None: "not checked"}
    return _table(["check", "", "found"], [[_text(c["name"]), words[c["ok"]], _text(c["message"])] for c in checks])


def _text(text: str) -> str:
    """Make any text harmless: on one line, with nothing that is markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def _code(text: str) -> str:
    """Put text into a block of code whose fence is longer than any run of backquotes inside."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _list(texts: Sequence[str]) -> str:
    return "\n".join(f"- {_text(text)}" for text in texts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _pairs(pairs: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            f"{_text(pair['groups'][0])} – {_text(pair['groups'][1])}",
            "" if pair["label"] is None else _text(pair["label"]),
            pair["estimate_text"],
            pair["bound_text"],
        ]
        for pair in sorted(pairs, key=lambda pair: -pair["bound"])
    ]
    return _table(["groups", "label", "in the sample", "bound"], rows)


def _cells(cells: Mapping[str, Any]) -> str:
    first, second = cells["pair"]
    head = ["cell", *map(_text, cells["groups"]), f"{_text(first)} less {_text(second)}, points"]
    rows = []
    for row in cells["rows"]:
        if row["pool"] not in (None, row["cell"]):
            rows.append([str(row["cell"]), f"pooled with cell {row['pool']}", *[""] * len(cells["groups"])])
            continue
        counts = [f"{group['records']:,} ({100 * group['share']:.1f} %)" for group in row["groups"]]
        rows.append([row["name"], *counts, f"{100 * row['difference']:+.1f}"])
    return _table(head, rows)


def _four_fifths(ratios: Mapping[str, Any]) -> list[str]:
    note = [ratios["whole_groups"]] if ratios["whole_groups"] else []
    return [*note, *(limit["words"] for limit in ratios["limits"])]


def _exclusions(exclusions: Sequence[Mapping[str, Any]]) -> str:
    if not exclusions:
        return "No certification record was left out."
    return _table(["reason", "records"], [[_text(e["reason"]), f"{e['records']:,}"] for e in exclusions])
