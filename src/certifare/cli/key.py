"""``certifare key``: keys that sign certificates."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.help import Command
from certifare.cli.options import Json, declare
from certifare.cli.terminal import emit, out
from certifare.errors import FileError

app = typer.Typer(add_completion=False, help="Make and show keys that sign certificates.", no_args_is_help=True)


@app.command(cls=Command)
def new(
    name: Annotated[Path, typer.Argument(help="Name of the pair: NAME.pem is to be kept, NAME.pub.pem handed on.")],
    passphrase: Annotated[
        bool,
        declare(
            None,
            "Lock the key with a passphrase: that in CERTIFARE_PASSPHRASE, or one that is asked for.",
            "--passphrase",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a key pair. Files that exist are not overwritten."""
    from certifare.document import load_public_key, new_key

    private, public = new_key(name, _passphrase() if passphrase else None)
    keyid = load_public_key(public).keyid

    def tell() -> None:
        out.print(f"{private}  signs; keep it to yourself", soft_wrap=True)
        out.print(f"{public}  checks signatures; hand it on with your certificates", soft_wrap=True)
        out.print(f"key id {keyid}", soft_wrap=True)

    emit({"private": str(private), "public": str(public), "keyid": keyid}, as_json, tell)


def _passphrase() -> str:
    """Take the passphrase from the environment, or ask for it where a person is there."""
    from certifare.document.keys import PASSPHRASE_VARIABLE

    given = os.environ.get(PASSPHRASE_VARIABLE)
    if given is not None:
        return given
    if sys.stdin is None or not sys.stdin.isatty():
        raise FileError(
            f"--passphrase: there is no terminal to ask on. Put the passphrase into the variable {PASSPHRASE_VARIABLE}."
        )
    return str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True))


@app.command(cls=Command)
def show(
    path: Annotated[Path, typer.Argument(help="A public key.")],
    as_json: Json = False,
) -> None:
    """Print a public key's id, to compare it with one that came another way."""
    from certifare.document import load_public_key

    keyid = load_public_key(path).keyid
    emit({"public": str(path), "keyid": keyid}, as_json, lambda: out.print(keyid, soft_wrap=True))
