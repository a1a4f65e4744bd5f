"""The folder of a bundle: what it holds, what may be published of it, and when it may be replaced."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certifare.errors import ArgumentError, FileError
from certifare.foundation.storage import atomic_folder, check_folder, write_private

if TYPE_CHECKING:
    from certifare.bundle.result import Bundle
    from certifare.document import Terms
    from certifare.encoders import Fingerprint

#: Files of a bundle, and of its private folder; a folder with anything else in it is not replaced.
BUNDLE_FILES = frozenset({"encoder.json", "certificate.json", "report.html", "frontier.csv", "findings.json"})
PRIVATE_FILES = frozenset({"README.txt", "fingerprint.npz", "run.json"})
PRIVATE_NOTE = """\
Nothing in this folder may be handed on.

fingerprint.npz  shows anyone who has it whether a given record was among the training records, or among those
                 that set thresholds of cells that read the group.
                 `certifare certify` reads it, to refuse records that the encoder was fitted on.
run.json         how the bundle was made, with what result.
"""


def write_bundle(
    bundle: Bundle,
    folder: str | os.PathLike[str],
    *,
    key: Any,
    suppress: int | None,
    dataset: str | None,
    terms: Terms | Mapping[str, str] | None,
    command: str | None,
    replace: bool,
) -> Path:
    """Write a bundle to a folder, which appears as a whole or not at all."""
    from certifare.document import load_private_key, verify_document, write_document
    from certifare.document.verification import ANY
    from certifare.encoders.format import EncoderFile
    from certifare.report import describe_encoder, render_html, report_data
    from certifare.report.findings import Findings

    if bundle.certificate is None:
        raise ArgumentError("There is no solution, and so nothing to publish: advice says what would help.")
    check_output(folder, replace=replace)
    signer = load_private_key(key) if isinstance(key, str | os.PathLike) else key
    with atomic_folder(folder, replace=is_bundle if replace else None) as temporary:
        encoder_file = EncoderFile.write(
            temporary / "encoder.json", bundle.encoder.to_document(statistics=suppress is None)
        )
        document = write_document(
            temporary / "certificate.json",
            bundle.certificate,
            signer,
            encoder=encoder_file,
            data_digest=bundle.run["certify_digest"],
            selection={
                "tried": bundle.tried,
                "correction": "holdout" if bundle.certificate.sequence is None else "sequence",
            },
            suppress_below=suppress,
            reading=bundle.frontier.search.reading,
            dataset=dataset,
            terms=terms,
            command=command,
        )
        rows = bundle.rows()
        write_rows(temporary / "frontier.csv", rows)
        chosen = next(i for i, row in enumerate(rows) if row["chosen"])
        public = None if signer is None else signer.public_key
        findings = Findings.of(
            target=bundle.target,
            measured=None if bundle.measured is None else bundle.measured.to_dict(),
            boosting=None if bundle.boosting is None else bundle.boosting.to_dict(),
            evaluation=_evaluate(bundle, calibrated=suppress is None),
        )
        (temporary / "findings.json").write_bytes(findings.to_bytes())
        data = report_data(
            document,
            verdict=verify_document(document, ANY, key=public, encoder=encoder_file),
            encoder=describe_encoder(encoder_file),
            frontier=rows,
            chosen=chosen,
            **findings.shown(),
        )
        (temporary / "report.html").write_text(render_html(data), encoding="utf-8")
        log = {**bundle.run, **bundle.to_dict(), "command": command}
        write_private_folder(temporary / "private", bundle.encoder.fingerprint_, log)
    return Path(folder)


def _evaluate(bundle: Bundle, *, calibrated: bool) -> dict[str, Any]:
    """Return what the cells do on the certification records."""
    from certifare.report.evaluation import evaluate

    search = bundle.frontier.search
    assert bundle.point is not None  # noqa: S101  (there is a certificate)
    cells = search.certify_cells(bundle.encoder, search.candidates[bundle.point.number])
    return evaluate(bundle.encoder, search.certify_sample.table, cells=cells, calibrated=calibrated)


def write_private_folder(folder: Path, fingerprint: Fingerprint | None, log: Mapping[str, Any]) -> None:
    """Write what may not be handed on: what recognises the records that an encoder has seen, and how it was made."""
    folder.mkdir(mode=0o700)
    write_private(folder / "README.txt", PRIVATE_NOTE.encode())
    if fingerprint is not None:
        fingerprint.save(folder / "fingerprint.npz")
    write_private(folder / "run.json", (json.dumps(log, ensure_ascii=False, indent=2) + "\n").encode())


def is_bundle(folder: Path) -> bool:
    """Return whether a folder, its private one included, holds nothing but a bundle, and so may be replaced."""
    private = folder / "private"
    return (
        (folder / "certificate.json").exists()
        and _holds_only(folder, BUNDLE_FILES, {"private"})
        and (not private.exists() or _holds_only(private, PRIVATE_FILES))
    )


def _holds_only(folder: Path, files: Set[str], folders: Set[str] = frozenset()) -> bool:
    with os.scandir(folder) as entries:
        return all(
            (entry.name in files and entry.is_file(follow_symlinks=False))
            or (entry.name in folders and entry.is_dir(follow_symlinks=False))
            for entry in entries
        )


def check_output(folder: str | os.PathLike[str], *, replace: bool = False) -> None:
    """Refuse a folder that a bundle could not be saved in, before any work is done."""
    if not replace and Path(folder).is_dir() and is_bundle(Path(folder)):
        raise FileError(
            f"{str(folder)!r} holds a bundle already: name another folder, or replace it (--replace; in Python "
            "replace=True)."
        )
    check_folder(folder, replace=is_bundle if replace else None)


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write plain rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: str(v).lower() if isinstance(v, bool) else v for k, v in row.items()})
