"""``certifare show``: cells, tree and certificate in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree

from certifare.cli.arguments import encoder_file
from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import Json, declare
from certifare.cli.running import REFUSED
from certifare.cli.terminal import emit, out, printable
from certifare.cli.verdicts import print_failures
from certifare.errors import FileError
from certifare.foundation.storage import open_regular

#: The most cells that are listed; the JSON document has them all.
MOST_LISTED = 30


def show(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="A bundle, an encoder.json or a certificate.json.")],
    key: Annotated[
        Path | None, declare(None, "Public key that the signature must match.", "--key", needs="certified")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what a bundle, an encoder or a certificate holds.

    A certificate is verified first. Exit status 1 means that it does not hold: what fails is said at the top.
    """
    from certifare.encoders.format import EncoderFile

    document: dict[str, Any] = {}
    verdict = None
    within = path / "encoder.json"
    file = EncoderFile(within) if path.is_dir() and within.exists() else None
    certificate_file = path / "certificate.json" if path.is_dir() else path
    is_encoder = path.is_dir() or _looks_like_encoder(path)
    is_certified = certificate_file.exists() and (path.is_dir() or not is_encoder)
    refuse_ignored(context, "encoder" if is_encoder else "certificate", *(("certified",) if is_certified else ()))
    if is_certified:
        from certifare.document import read_document, verify_document
        from certifare.document.verification import ANY

        read = read_document(certificate_file)
        verdict = verify_document(read, ANY, key=key, encoder=file)
        document["verification"] = verdict.to_dict()
        document["certificate"] = read.certificate
    if is_encoder:
        from certifare.report import describe_encoder

        document["encoder"] = describe_encoder(file or encoder_file(path))

    def print_all() -> None:
        if verdict is not None:
            print_failures(verdict)
            if verdict.figures_hold:
                _print_certificate(document["certificate"], verdict)
        if "encoder" in document:
            _print_cells(document["encoder"])
            if document["encoder"]["nodes"]:
                _print_tree(document["encoder"]["nodes"])

    plain = {**document, "certificate": document["certificate"].to_dict()} if is_certified else document
    outcome = "DONE" if verdict is None else verdict.outcome
    emit(plain, as_json, print_all, outcome=outcome, status=0 if verdict is None or verdict.passed else REFUSED)


def _looks_like_encoder(path: Path) -> bool:
    if not path.exists():
        raise FileError(f"There is no file or bundle {str(path)!r}.")
    with open_regular(path) as file:
        return b"certifare/encoder" in file.read(4096)


def _print_certificate(certificate: Any, verdict: Any) -> None:
    from certifare.certificates.rounding import round_up

    out.print(printable(str(certificate)), style="bold", soft_wrap=True)
    table = RichTable("groups", "label", "records", "estimate", "bound T*", box=None, pad_edge=False)
    for part in certificate.parts:
        records = " + ".join(f"{n:,}" for n in part.records)
        table.add_row(
            printable(" / ".join(part.groups)),
            printable(part.label or ""),
            records,
            f"{part.estimate:.4f}",
            round_up(part.bound),
        )
    out.print(table)
    for sentence in (*certificate.what_follows(), *certificate.cap_words, certificate.look_words):
        out.print(f"- {printable(sentence)}", soft_wrap=True)
    unchecked = [printable(check.message) for check in verdict.unchecked if check.name == "signature"]
    for message in unchecked:
        out.print(f"Not checked: {message}", style="yellow", soft_wrap=True)
    out.print()


def _print_cells(encoder: dict[str, Any]) -> None:
    cells = encoder["cells"]
    out.print(Text.assemble((f"{encoder['kind']} encoder", "bold"), f", {len(cells)} cells"))
    table = RichTable("cell", "records", "groups", "labels", "rules", box=None, pad_edge=False)
    listed = cells[:MOST_LISTED]
    for cell in listed:
        table.add_row(
            str(cell["cell"]),
            "" if cell["records"] is None else f"{cell['records']:,}",
            _shares(cell["groups"]),
            _shares(cell["labels"]),
            printable(" and ".join(cell["rules"]) or "every record"),
        )
    out.print(table)
    if len(listed) < len(cells):
        out.print(f"… and {len(cells) - len(listed)} more (--json lists all)")
    out.print()


def _shares(columns: dict[str, dict[str, float]]) -> str:
    return printable("; ".join(" ".join(f"{v}:{p:.0%}" for v, p in shares.items()) for shares in columns.values()))


def _print_tree(nodes: list[dict[str, Any]]) -> None:
    root: Tree | None = None
    path: list[Tree] = []
    for node in nodes:
        text = node["question"] if node["cell"] is None else f"cell {node['cell']}"
        label = printable(f"{node['answer']}: {text}" if node["answer"] else text)
        if root is None:
            root = Tree(label)
            path = [root]
        else:
            path = path[: node["depth"]]
            path.append(path[-1].add(label))
    if root is not None:
        out.print(root)
