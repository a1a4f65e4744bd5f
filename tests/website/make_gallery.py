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


if __name__ == "__main__":
    GALLERY.mkdir(exist_ok=True)
    for path in EXAMPLES:
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        text, picture = run(path)
        (GALLERY / f"{path.stem}.txt").write_text(text, "utf-8")
        (GALLERY / f"{path.stem}.svg").write_text(picture.svg(), "utf-8")
        print(path.stem, text, sep="\n")
