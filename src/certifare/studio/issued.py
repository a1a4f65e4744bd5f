"""A certificate that was issued: its files, its verification, and its history over time."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from certifare.bundle import BUNDLE_FILES, Bundle
from certifare.certificates.wording import plain_claim
from certifare.document import make_statement
from certifare.errors import FileError
from certifare.foundation.storage import atomic_file

if TYPE_CHECKING:
    import pyarrow as pa

CONFIDENCE = 0.95
#: No further look is offered if all of them would hold together with no more than this.
LEAST_CONFIDENCE = 0.5


@dataclass(frozen=True)
class Issued:
    """A bundle, the target that it was issued for, and the confidence of all looks at its records together.

    The encoded table and the history lie beside the bundle.
    """

    folder: Path
    target: float
    confidence: float
    signed: bool
    roles: Mapping[str, Sequence[str]]

    def encoder(self) -> Any:
        """Read the encoder."""
        from certifare.encoders import load_encoder

        return load_encoder(self.folder / "encoder.json")

    def encode(self, frame: pa.Table) -> None:
        """Write a whole table as ``certifare encode`` does, with its labels, and without records of an unknown group.

        Only an encoder that reads the group leaves these out.
        """
        from pyarrow import csv

        from certifare.encoders.records import typical_rows, with_typical

        encoder = self.encoder().set_params(output="cells")
        if encoder.reads_groups:
            known = np.logical_and.reduce([frame[name].is_valid().to_numpy() for name in self.roles["sensitive"]])
            frame = frame.take(np.flatnonzero(known))
        encoded = encoder.transform_from(0, frame, take_groups(encoder, frame, self.roles["sensitive"]))
        encoded = with_typical(encoded, typical_rows(encoder, frame))
        for name in self.roles["label"]:
            encoded = encoded.append_column(f"{name}_kept" if name in encoded.column_names else name, frame[name])
        with atomic_file(self._beside("encoded.csv")) as path:
            csv.write_csv(encoded, path)

    def file(self, name: str) -> Path:
        """Return a file by its name; only these names are known."""
        places = {"report.html": self.folder / "report.html", "encoded.csv": self._beside("encoded.csv")}
        if name not in places or not places[name].is_file():
            raise FileError(f"There is no file {name[:80]!r} in this project.")
        return places[name]

    def publish(self, key: Path) -> bytes:
        """Return what may be published, with the public key if it was signed, as a ZIP file."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(BUNDLE_FILES):
                archive.write(self.folder / name, f"bundle/{name}")
            if self.signed:
                archive.write(key, "bundle/producer.pub.pem")
        return packed.getvalue()

    def check(self, key: Path, fresh: Path | None = None) -> dict[str, Any]:
        """Verify the certificate, step by step; with fresh records, certify the encoder on them as well."""
        from certifare.document import Policy, verify_document

        policy, own = Policy(max_bound=self.target, min_confidence=self.confidence), key if self.signed else None
        verdict = verify_document(self.folder, policy, key=own, data=fresh)
        return {**verdict.to_dict(), "history": self._beside("history.json").exists()}

    def add_period(self, fresh: Path, period: str) -> None:
        """Add the records of a period to the history."""
        from certifare.certification.certifying import TableSource, count_records
        from certifare.certification.monitoring import History
        from certifare.document import digest, read_document
        from certifare.encoders.records import load_fitted, read_records
        from certifare.engines.counting import CountRequest

        document, encoder = read_document(self.folder / "certificate.json"), load_fitted(self.folder / "encoder.json")
        reading, named = document.statement.predicate.reading, digest(self.folder / "encoder.json")
        if reading is None:
            raise FileError("The certificate does not say how its records are read.")
        labelled, kept = document.certificate.claim.labelled, self._beside("history.json")
        table = read_records(encoder, fresh, reading, labelled=labelled)
        request = CountRequest(labelled=labelled, salt=bytes.fromhex(named)[:16])
        counted = count_records(encoder, TableSource(table), reading, request)
        history = (
            History.load(kept)
            if kept.exists()
            else History.begin(document.certificate, named, training=encoder.training_counts_)
        )
        seen = None if counted.checksum is None else hashlib.sha256(counted.checksum.encode()).hexdigest()
        history.add(period, counted.counts, digest=seen).save(kept)

    def history(self) -> str:
        """Return the history as a page."""
        from certifare.certification.monitoring import History
        from certifare.report import course_data, render_course

        if not self._beside("history.json").exists():
            raise FileError("There is no history yet: add the records of a period.")
        history = History.load(self._beside("history.json"))
        return render_course(course_data(history, history.findings()))

    def _beside(self, name: str) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{name}")


def take_groups(encoder: Any, frame: pa.Table, sensitive: Sequence[str]) -> pa.Table | None:
    """Return the groups of records for an encoder that reads them, and let it take them so; None for others."""
    from certifare.encoders.records import GroupColumns

    if not encoder.reads_groups:
        return None
    groups = GroupColumns.of(encoder, frame.column_names, sensitive)
    encoder.set_params(sensitive=None)
    return groups.read(frame)


def describe_result(bundle: Bundle) -> dict[str, Any]:
    """Return the result of a job as the page shows it."""
    figures, counted = bundle.to_dict(), bundle.frontier.look
    certificate, point, measured = bundle.certificate, bundle.point, bundle.measured
    after = None if counted is None else counted.next(CONFIDENCE).joint(CONFIDENCE)
    return {
        "verdict": bundle.verdict,
        "target": bundle.target,
        "bound": figures["bound"],
        "words": None if certificate is None else plain_claim(certificate),
        "claim": None if certificate is None else make_statement(certificate).predicate.claim.words,
        "cells": None if point is None else point.cells,
        "kind": None if point is None else point.kind,
        "accuracy": None if measured is None else measured.performance.accuracy.estimate,
        "follows": figures["follows"],
        "advice": [advice["text"] for advice in figures["advice"]],
        "notes": figures["notes"],
        "look": None if counted is None else counted.number,
        "next": after if after is not None and after > LEAST_CONFIDENCE else None,
    }
