"""Take the pictures of the report that the documentation shows: ``python -m tests.report.make_screenshots``.

They show a signed bundle of the Adult table. Run it after a change of the report, and look at them before committing.
"""

import base64
import os
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from certifare.document import new_key

from .browser import Browser

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
#: File → width, height (None: the whole summary), dark, medium, and the part of the page at its top.
PICTURES = {
    "report.png": (900, None, False, "", None),
    "report-first-dark.png": (900, None, True, "", None),
    "report-use.png": (900, 1100, False, "", "#use"),
    "report-evidence.png": (900, 1400, False, "", "#cells"),
    "report-dark.png": (900, 1400, True, "", "#cells"),
    "report-phone.png": (390, 1400, False, "", None),
    "report-paper.png": (794, 1123, False, "print", None),
}


def take(page, folder):
    """Take all pictures of a page."""
    browser = Browser()
    try:
        for name, (width, height, dark, media, section) in PICTURES.items():
            browser.open(page, width, dark=dark, media=media)
            end = browser.run("document.querySelector('#use').getBoundingClientRect().top + scrollY")
            if media:  # one sheet: its margins are no part of the page, and what comes next is on another
                browser.run("document.body.style.padding = '16mm 15mm'")
                browser.run("document.querySelectorAll('#use, #use ~ *').forEach(e => e.remove())")
            place = f"document.querySelector({section!r}).getBoundingClientRect().top + scrollY" if section else "0"
            clip = {"x": 0, "y": browser.run(place), "width": width, "height": height or int(end), "scale": 1}
            picture = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
            (folder / name).write_bytes(base64.b64decode(picture["data"]))
    finally:
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        new_key(Path(folder, "producer"))
        # A ledger of its own: whoever runs this again has looked at these records before.
        environment = {**os.environ, "XDG_STATE_HOME": folder}
        source = files("certifare.data") / "adult.parquet"
        fit = (
            f"fit {source} --label income --sensitive sex --drop split,fnlwgt --target 0.08 --key producer.pem -o demo"
        )
        stated = ["--producer", "Example Bank", "--purpose", "Credit scoring", "--valid-until", "2030-12-31"]
        subprocess.run(
            [sys.executable, "-m", "certifare", *fit.split(), *stated], cwd=folder, check=True, env=environment
        )
        report = ["report", "demo", "--key", "producer.pub.pem", "-o", "report.html"]
        subprocess.run([sys.executable, "-m", "certifare", *report], cwd=folder, check=True)
        take(Path(folder, "report.html"), FIGURES)
