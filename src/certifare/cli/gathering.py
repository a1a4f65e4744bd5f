"""Gather what a report says from the files of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from certifare.errors import FileError, MissingColumnError
from certifare.foundation.storage import open_regular

if TYPE_CHECKING:
    from securesystemslib.signer import SSlibKey

    from certifare.document import Document, Verdict

#: Columns of a frontier that are numbers, and where they lie; predicted bounds may exceed 1.
RANGES = {
    "bound": (0, 10),
    "utility": (-1e6, 1),
    "accuracy": (0, 1),
    "auc": (0, 1),
    "explained": (-1e6, 1),
    "retained": (-1e6, 1),
    "cells": (1, 1e9),
    "gamma": (0, 1),
    "step": (1, 1e3),
}

#: A table of encoders is not read beyond these; an encoder takes a hundred bytes, and a sweep tries some hundreds.
MAX_FRONTIER_BYTES, MOST_POINTS = 16 << 20, 20_000


def gather(
    certificate: Path, key: Path | SSlibKey | None = None, document: Document | None = None
) -> tuple[dict[str, Any], Verdict]:
    """Read the files of a bundle, as far as they are there, verify them, and gather what a report says.

    A document that is given stands for the certificate's file.
    """
    from certifare.document import read_document, verify_document
    from certifare.document.verification import ANY
    from certifare.encoders.format import EncoderFile
    from certifare.report import describe_encoder, report_data
    from certifare.report.findings import Findings

    encoder = frontier = findings = None
    if certificate.is_dir():
        folder, certificate = certificate, certificate / "certificate.json"
        beside = (folder / name for name in ("encoder.json", "frontier.csv", "findings.json"))
        encoder, frontier, findings = (path if path.exists() else None for path in beside)
    document = read_document(certificate) if document is None else document
    file = None if encoder is None else EncoderFile(encoder)
    verdict = verify_document(document, ANY, key=key, encoder=file)
    # An encoder that the certificate is not about stays out of the report, which would mix up two.
    shown = file if all(check.name != "encoder" for check in verdict.failures) else None
    points = None if frontier is None else read_frontier(frontier)
    chosen = None if points is None else next((i for i, point in enumerate(points) if point.get("chosen")), None)
    sequence = document.certificate.sequence
    target = {"target": None if sequence is None else sequence.target}
    measured = target if findings is None else Findings.read(findings).shown()
    data = report_data(
        document,
        verdict=verdict,
        encoder=None if shown is None else describe_encoder(shown),
        frontier=points,
        chosen=chosen,
        **measured,
        files={"certificate": certificate.name} | ({} if encoder is None else {"encoder": encoder.name}),
    )
    return data, verdict


def read_frontier(path: Path) -> list[dict[str, Any]]:
    """Read the table of the encoders that were tried, as a bundle or a sweep wrote it."""
    import csv
    import io

    with open_regular(path) as file:
        content = file.read(MAX_FRONTIER_BYTES + 1)
    if len(content) > MAX_FRONTIER_BYTES:
        raise FileError(
            f"{str(path)!r} is larger than {MAX_FRONTIER_BYTES >> 20} MB, too large for a table of encoders."
        )
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8"), newline=""))
        names, rows = reader.fieldnames or (), list[dict[str, Any]](reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{str(path)!r} is no table of encoders: {error}.") from error
    if len(rows) > MOST_POINTS:
        raise FileError(f"{str(path)!r} has {len(rows):,} rows, where {MOST_POINTS:,} are the most.")
    if "bound" not in names:
        raise MissingColumnError(f"{str(path)!r} has no column 'bound': it is no table of encoders.")
    for line, row in enumerate(rows, 2):
        for name in row:
            if name in ("chosen", "certified"):
                row[name] = (row[name] or "").lower() == "true"
            elif name in RANGES:
                row[name] = _number(row[name], RANGES[name], f"{str(path)!r}, line {line}, {name}")
    return rows


def _number(text: str | None, within: tuple[float, float], where: str) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        raise FileError(f"{where}: {text!r} is no number.") from None
    if number is not None and not within[0] <= number <= within[1]:
        raise FileError(f"{where}: {text!r} lies outside of {within[0]:g} to {within[1]:g}.")
    return number
