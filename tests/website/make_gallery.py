"""Run the examples and keep what they print and draw: ``python -m tests.website.make_gallery [NAME …]``.

Each example leaves a chart called ``chart``. Pages are made from these files when the site is built.
"""

import contextlib
import io
import runpy
import sys
import warnings

from .serving import ROOT

GALLERY = ROOT / "docs" / "gallery"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"), key=lambda path: int(path.name.split("_")[0]))


def run(example):
    """Run an example; gives what it prints, and its chart."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        names = runpy.run_path(str(example))
    return printed.getvalue(), names["chart"]


def draw(chart):
    """Draw a chart as SVG, in colours that can be told apart."""
    import vl_convert

    config = {
        "view": {"continuousWidth": 420, "continuousHeight": 240, "discreteHeight": 120, "stroke": None},
        "range": {"category": ["#00594f", "#c2571a", "#4c3fbf", "#8a8a8a"]},
        "bar": {"color": "#00594f"},
        # Room for fonts that are wider than the one that places were computed with.
        "axis": {"gridColor": "#e4e4e4", "labelFontSize": 12, "titleFontSize": 12},
        "axisY": {"titlePadding": 18},
        "legend": {"labelFontSize": 12, "titleFontSize": 12, "orient": "top", "columnPadding": 30},
        "padding": 12,
    }
    specification = chart.to_dict()
    specification["config"] = {**specification.get("config", {}), **config}
    return vl_convert.vegalite_to_svg(specification)


if __name__ == "__main__":
    GALLERY.mkdir(exist_ok=True)
    for path in EXAMPLES:
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        text, picture = run(path)
        (GALLERY / f"{path.stem}.txt").write_text(text, "utf-8")
        (GALLERY / f"{path.stem}.svg").write_text(draw(picture), "utf-8")
        print(path.stem, text, sep="\n")
