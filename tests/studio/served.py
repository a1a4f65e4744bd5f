"""A studio on this machine, for tests and benchmarks: in a thread, on a free port, with a token that is known."""

import socket
import threading
import time

import uvicorn

from certifare.studio.server import MOST_UPLOAD, Studio, make_app

TOKEN = "a-token-that-tests-know"  # noqa: S105


class Served:
    """A running studio, until it is closed."""

    def __init__(self, folder, file=None, most=MOST_UPLOAD, port=0):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.studio = Studio(folder, file, most)
        config = uvicorn.Config(make_app(self.studio, TOKEN, self.port), log_level="error", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.address = f"http://127.0.0.1:{self.port}"

    @property
    def entrance(self):
        """The address that the command prints."""
        return f"{self.address}/?token={TOKEN}"

    def close(self):
        self._server.should_exit = True
        self._thread.join(20)
        self._socket.close()
