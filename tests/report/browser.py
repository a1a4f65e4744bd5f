"""A real Chromium, driven over its own debugging pipe: no driver, no extra package."""

import base64
import itertools
import json
import os
import select
import shutil
import struct
import subprocess
import tempfile
import time
import zlib
from importlib.resources import files

import numpy as np
from numba import njit

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


class Browser:
    """One browser with one page. Whatever the page says to the console, or asks the network for, is kept."""

    def __init__(self):
        self._profile = tempfile.mkdtemp(prefix="certifare-chromium-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        script = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", CHROMIUM, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._ids = itertools.count(1)
        self._session = None
        self._events = []
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self._process.terminate()
        self._process.wait(20)
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method, **params):
        """Send a command and wait for its answer."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]
            self._events.append(answer)

    def _next(self, patience=60):
        deadline = time.monotonic() + patience
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer."
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "Chromium has ended."
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, width, height=900, *, dark=False, media=""):
        """Show a file at a given width, in light or dark, on screen or on paper."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._events = []
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next())

    def run(self, expression):
        """Evaluate an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def violations(self):
        """What axe-core finds wrong for people who listen, see little or use no mouse: rule, and where."""
        self.run(files("axe_core_python").joinpath("axe.min.js").read_text("utf-8") + ";0")
        found = self.run("axe.run({resultTypes: ['violations']}).then(found => found.violations)")
        return [(rule["impact"], rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found]

    def complaints(self):
        """What the page said to the console, and errors."""
        self.run("0")  # whatever was said before arrives before this answer
        kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Network.loadingFailed")
        return [event for event in self._events if event.get("method") in kinds]

    def requests(self):
        """Addresses that the page asked for."""
        return [e["params"]["request"]["url"] for e in self._events if e.get("method") == "Network.requestWillBeSent"]

    def picture(self, selector=None):
        """Pixels of an element, or of the whole page: height × width × channels."""
        if selector is None:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        else:
            box = self.run(
                f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                "return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height} })()"
            )
            clip = {**box, "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return decode_png(base64.b64decode(answer["data"]))


def decode_png(data):
    """Pixels of a PNG file with eight bits per channel."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, packed = 8, b""
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack(">IIBB", body[:10])
            channels = {2: 3, 6: 4}[colours]
            assert depth == 8
        elif kind == b"IDAT":
            packed += body
        place += 12 + length
    rows = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(height, 1 + width * channels)
    return _unfilter(rows[:, 0].copy(), rows[:, 1:].copy(), channels).reshape(height, width, channels)


@njit  # not cached: tests know this module by two names, and a cached function finds one alone
def _unfilter(filters, rows, step):
    for y in range(rows.shape[0]):
        for x in range(rows.shape[1]):
            left = int(rows[y, x - step]) if x >= step else 0
            up = int(rows[y - 1, x]) if y > 0 else 0
            corner = int(rows[y - 1, x - step]) if y > 0 and x >= step else 0
            if filters[y] == 1:
                add = left
            elif filters[y] == 2:
                add = up
            elif filters[y] == 3:
                add = (left + up) // 2
            elif filters[y] == 4:
                base = left + up - corner
                a, b, c = abs(base - left), abs(base - up), abs(base - corner)
                add = left if a <= b and a <= c else (up if b <= c else corner)
            else:
                add = 0
            rows[y, x] = (int(rows[y, x]) + add) % 256
    return rows
