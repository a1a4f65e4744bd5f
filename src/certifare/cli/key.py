"""``certifare key``: keys that sign certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.common import Json, emit, out

app = typer.Typer(help="Make and show keys that sign certificates.", no_args_is_help=True)


@app.command()
def new(
    name: Annotated[Path, typer.Argument(help="Name of the pair: NAME.pem is to be kept, NAME.pub.pem handed on.")],
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Ask for a passphrase to lock the key with.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a key pair. Files that exist are not overwritten."""
    from certifare.document import load_public_key, new_key

    secret = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True) if passphrase else None
    private, public = new_key(name, secret)
    keyid = load_public_key(public).keyid

    def tell() -> None:
        out.print(f"{private}  signs; keep it to yourself", soft_wrap=True)
        out.print(f"{public}  checks signatures; hand it on with your certificates", soft_wrap=True)
        out.print(f"key id {keyid}", soft_wrap=True)

    emit({"private": str(private), "public": str(public), "keyid": keyid}, as_json, tell)


@app.command()
def show(
    path: Annotated[Path, typer.Argument(help="A public key.")],
    as_json: Json = False,
) -> None:
    """Print a public key's id, to compare it with one that came another way."""
    from certifare.document import load_public_key

    keyid = load_public_key(path).keyid
    emit({"public": str(path), "keyid": keyid}, as_json, lambda: out.print(keyid, soft_wrap=True))
