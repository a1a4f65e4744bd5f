"""``certifare studio``: the whole job in a browser, for people who do not program."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.terminal import out
from certifare.errors import FileError, MissingPackageError

#: Where projects are kept unless a folder is named.
FOLDER = Path("certifare-studio")


def studio(
    place: Annotated[
        Path | None,
        typer.Argument(help=f"Table to begin with (CSV, Parquet …), or folder of projects; {FOLDER} unless given."),
    ] = None,
) -> None:
    """Go from a file to a signed certificate in a browser.

    The page is served on this machine alone (127.0.0.1), to anyone who has the printed address: it holds a random
    token. Nothing is loaded from the network. Stop it with Ctrl-C. Projects, uploaded tables, certificates and the
    signing key are kept in the folder.
    """
    try:
        from certifare.studio.server import Studio, serve
    except ImportError as error:
        raise MissingPackageError("The studio needs Starlette and uvicorn: pip install 'certifare[studio]'.") from error
    if place is not None and not place.exists():
        raise FileError(f"There is no file or folder {str(place)!r}.")
    folder, file = (place, None) if place is not None and place.is_dir() else (FOLDER, place)
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{str(folder)!r} is not a folder: name another as the argument.")

    def show(address: str) -> None:
        import webbrowser

        out.print("studio   open this address in a browser on this machine:", soft_wrap=True)
        print(f"\n  {address}\n", flush=True)
        out.print(f"projects are kept in {folder}; Ctrl-C stops the studio", soft_wrap=True)
        webbrowser.open(address)

    with suppress(KeyboardInterrupt):  # the usual end: what was issued is kept
        serve(Studio(folder, file), show=show)
