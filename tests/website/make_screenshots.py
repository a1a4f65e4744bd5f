"""Take the pictures of the site that the documentation shows: ``python -m tests.website.make_screenshots``.

Run it after a change of the first page or of the style, and look at them before committing.
"""

import base64
import tempfile
from pathlib import Path

from tests.report.browser import Browser

from .serving import ROOT, Served, build

FIGURES = ROOT / "docs" / "figures"
#: File → page, width, height, dark, medium.
PICTURES = {
    "site.png": ("", 1280, 900, False, ""),
    "site-dark.png": ("", 1280, 900, True, ""),
    "site-phone.png": ("", 390, 900, False, ""),
    "site-paper.png": ("auditor/", 794, 1123, False, "print"),
}


def take(site, folder):
    """Take all pictures of a built site."""
    browser, served = Browser(), Served(site)
    try:
        for name, (place, width, height, dark, media) in PICTURES.items():
            browser.open(served.page(place), width, height, dark=dark, media=media)
            clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
            picture = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
            (folder / name).write_bytes(base64.b64decode(picture["data"]))
    finally:
        served.close()
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as built:
        status, said = build(built)
        assert status == 0, said
        take(Path(built), FIGURES)
