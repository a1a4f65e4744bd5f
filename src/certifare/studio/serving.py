"""Serve the studio on this machine, until it is stopped."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from certifare.errors import ArgumentError
from certifare.studio.server import Studio, make_app

#: The one address that the studio listens on: no other machine reaches it.
HOST = "127.0.0.1"


def serve(
    folder: Path,
    file: Path | None = None,
    *,
    port: int = 0,
    show: Callable[[str], None],
) -> None:
    """Serve the studio until the process is interrupted.

    Parameters
    ----------
    folder, file
        As in :class:`~certifare.studio.server.Studio`.
    port : int
        0 takes a free one.
    show : callable
        Told the address to open, with its token, when the server listens.
    """
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
        except OSError as error:
            raise ArgumentError(f"Port {port} cannot be used: {error.strerror}. Name another with --port.") from error
        found, token = listening.getsockname()[1], secrets.token_urlsafe(32)
        app = make_app(Studio(folder, file), token, found)
        # Requests are not logged: addresses hold the token, and names of files.
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
        listening.listen()
        show(f"http://{HOST}:{found}/?token={token}")
        uvicorn.Server(config).run(sockets=[listening])
