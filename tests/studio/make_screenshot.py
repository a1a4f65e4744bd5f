"""Take the picture of the studio that the documentation shows: ``python -m tests.studio.make_screenshot``.

Run it after a change of the page, and look at it before committing.
"""

import base64
import os
import tempfile
from pathlib import Path

from .served import Served
from .window import Window

FIGURES = Path(__file__).parents[2] / "docs" / "figures"


def main():
    """Explore Adult, and take a picture of the frontier."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CERTIFARE_STATE"] = str(Path(folder, "state"))
        served = Served(Path(folder, "studio"))
        window = Window(served.entrance, width=900)
        try:
            window.click("#example")
            window.wait("state.found")
            window.go("explore")
            window.click("#start")
            window.wait("state.running === null && orders.aware", patience=120)
            window.wait("points.length > 300")
            end = window.run("document.querySelector('.choice').getBoundingClientRect().bottom + scrollY")
            clip = {"x": 0, "y": 0, "width": 900, "height": int(end) + 24, "scale": 1}
            picture = window.browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
            (FIGURES / "studio.png").write_bytes(base64.b64decode(picture["data"]))
        finally:
            window.close()
            served.close()


if __name__ == "__main__":
    main()
