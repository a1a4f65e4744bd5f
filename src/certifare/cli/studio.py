"""``certifare studio``: the whole job in a browser, for people who do not program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.options import declare
from certifare.cli.terminal import out
from certifare.errors import FileError, MissingPackageError


def studio(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Table to begin with: CSV, Parquet, Arrow or Feather.")] = None,
    folder: Annotated[
        Path, declare(None, "Folder for projects, uploaded tables, certificates and the signing key.")
    ] = Path("certifare-studio"),
    port: Annotated[int, declare(None, "Port on this machine; 0 takes a free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, declare(None, "Open the page in the browser.", "--browser/--no-browser")] = True,
) -> None:
    """Go from a file to a signed certificate in a browser.

    The page is served on this machine alone (127.0.0.1), to anyone who has the printed address: it holds a random
    token. Nothing is loaded from the network. Stop it with Ctrl-C; projects are kept in the folder.
    """
    from certifare.cli.honoured import refuse_ignored

    refuse_ignored(context)
    try:
        from certifare.studio.server import Studio, serve
    except ImportError as error:
        raise MissingPackageError("The studio needs Starlette and uvicorn: pip install 'certifare[studio]'.") from error
    if file is not None and not file.is_file():
        raise FileError(f"There is no file {str(file)!r}.")
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{str(folder)!r} is not a folder: name another with --folder.")

    def show(address: str) -> None:
        out.print("studio   open this address in a browser on this machine:", soft_wrap=True)
        print(f"\n  {address}\n", flush=True)
        out.print(f"projects are kept in {folder}; Ctrl-C stops the studio", soft_wrap=True)
        if browser:
            import webbrowser

            webbrowser.open(address)

    serve(Studio(folder, file), port=port, show=show)
