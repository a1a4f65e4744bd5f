"""``certifare sign``: sign a certificate that was written without a key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.arguments import signing_key
from certifare.cli.gathering import gather
from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import Json, TermsOptions, declare, with_options
from certifare.cli.terminal import emit, out
from certifare.errors import DocumentError
from certifare.foundation.storage import atomic_file, open_regular


@with_options
def sign(
    context: typer.Context,
    bundle: Annotated[Path, typer.Argument(help="A bundle's folder, or a certificate file.")],
    key: Annotated[Path, declare(None, "Private key to sign with (certifare key new).")],
    *,
    stated: TermsOptions,
    as_json: Json = False,
) -> None:
    """Sign the certificate of a bundle, and write its report again.

    Claim, figures and date stay as they are. You can add producer, purpose and the last day of validity, which are
    signed too. The certificate is verified first; one that does not hold, or is signed already, is refused.
    """
    import msgspec

    from certifare.document import read_document, verify_document, with_terms
    from certifare.document import sign as sign_statement
    from certifare.document.envelopes import MAX_BYTES
    from certifare.document.verification import ANY
    from certifare.report import render_html

    refuse_ignored(context, "output")
    given = {name: text for name, text in msgspec.structs.asdict(stated.terms()).items() if text is not None}
    signer = signing_key(key)
    assert signer is not None  # noqa: S101  (the key is required)
    folder = bundle if bundle.is_dir() else None
    path = bundle if folder is None else folder / "certificate.json"
    with open_regular(path, replaceable=True) as file:
        document = read_document(file.read(MAX_BYTES + 1))
    if document.signatures:
        raise DocumentError(
            f"{str(path)!r} is signed already (key {document.signatures[0].keyid[:16]}). Ask for an unsigned one."
        )
    statement = with_terms(
        document.statement, msgspec.structs.replace(document.statement.predicate.stated_terms, **given)
    )
    signed = sign_statement(statement, signer)
    encoder = None if folder is None or not (folder / "encoder.json").exists() else folder / "encoder.json"
    verdict = verify_document(signed, ANY, key=signer.public_key, encoder=encoder)
    if not verdict.passed:
        raise DocumentError(f"{str(path)!r} does not hold, and was not signed: {verdict.failures[0].message}")
    page = None if folder is None else render_html(gather(folder, signer.public_key, signed)[0])
    with atomic_file(path) as name:
        name.write_bytes(signed.to_bytes())
    if folder is not None and page is not None:
        with atomic_file(folder / "report.html") as name:
            name.write_text(page, encoding="utf-8")
    keyid = signed.signatures[0].keyid
    result = {"certificate": str(path), "keyid": keyid, "id": signed.id, "terms": given}

    def show() -> None:
        out.print(f"{path}  signed with key {keyid[:16]}, certificate {signed.id}", soft_wrap=True)
        if folder is not None:
            out.print(str(folder / "report.html"), soft_wrap=True)

    emit(result, as_json, show)
