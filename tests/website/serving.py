"""The site, built as ``make docs`` builds it, and served to a browser on this machine."""

import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]


def build(folder, config=ROOT / "mkdocs.yml"):
    """Build the site; gives the exit status and what was said. (With --quiet, warnings would not count as errors.)"""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(folder)]
    quiet = {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **quiet}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and says nothing."""

    def log_message(self, *_):
        """Keep quiet."""


class Served:
    """A folder that is served until it is closed."""

    def __init__(self, folder):
        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
        )
        self.address = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def page(self, place):
        """A page, as the browser opens it."""
        return SimpleNamespace(as_uri=lambda: self.address + place)

    def close(self):
        self._server.shutdown()
        self._server.server_close()
