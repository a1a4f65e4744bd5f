"""Draw the curves of scale.md: ``python docs/figures/draw_scale.py`` reads scale.json and writes scale.svg beside it.

``python benchmarks/scale.py --results docs/figures/scale.json`` measures anew.
"""

import json
from pathlib import Path
from typing import Any

from certifare.drawing import Panel, Scale, Series, draw_panels

FOLDER = Path(__file__).parent


def panels(measured: dict[str, Any]) -> list[Panel]:
    """Arrange what is drawn: time by rows, columns, cells and workers."""
    million = 1e6
    rows = [Series("streamed", [(r["rows"] / million, r["seconds"]) for r in measured["rows"]])]
    for key, name in (("lightgbm", "LightGBM"), ("sklearn", "scikit-learn")):
        rows.append(Series(name, [(r["rows"] / million, r[key]["seconds"]) for r in measured["others"] if key in r]))
    columns = [
        Series(step, [(r["columns"], r["core_steps"][step] / 5) for r in measured["columns"]])
        for step in ("survey", "code", "grow")
    ]
    cells = [Series("grow", [(r["cells"], r["core_steps"]["grow"] / 5) for r in measured["cells"]])]
    threads = [(r["threads"], r["seconds"]) for r in measured["workers"] if "threads" in r]
    workers = [r for r in measured["workers"] if r.get("ahead") == 16]
    dask = [(r["workers"], r["prepare_seconds"] + r["grow_seconds"]) for r in workers]
    a_row = Scale("µs of a core for each row", zero=True)
    return [
        Panel(rows, Scale("million rows", log=True), Scale("seconds", log=True), "9 columns"),
        Panel(columns, Scale("columns", zero=True), a_row, "5 million rows"),
        Panel(cells, Scale("cells", log=True), a_row, "5 million rows"),
        Panel(
            [Series("threads", threads), Series("Dask", dask)],
            Scale("processors", zero=True),
            Scale("seconds", zero=True),
            "10 million rows",
        ),
    ]


if __name__ == "__main__":
    found = json.loads((FOLDER / "scale.json").read_text())
    draw_panels("Time by rows, columns, cells and processors", panels(found)).save(FOLDER / "scale.svg")
