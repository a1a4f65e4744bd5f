"""A certificate that was issued: its files, its verification, and its history over time."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from certifare.bundle import BUNDLE_FILES, Bundle
from certifare.certificates.wording import plain_claim
from certifare.document import make_statement
from certifare.document.keys import new_key
from certifare.errors import FileError
from certifare.foundation.storage import atomic_file

if TYPE_CHECKING:
    import pyarrow as pa

PUBLIC_KEY = "producer.pub.pem"


@dataclass(frozen=True)
class Issued:
    """A bundle, the target that it was issued for, and the confidence of all looks at its records together.

    The encoded table, the ZIP file and the history lie beside the bundle, the key that signs beside the project.
    """

    folder: Path
    target: float
    confidence: float
    roles: Mapping[str, Sequence[str]]

    def encoder(self) -> Any:
        """Read the encoder."""
        from certifare.encoders.records import load_fitted

        return load_fitted(self.folder / "encoder.json")

    def groups(self, encoder: Any, frame: pa.Table) -> pa.Table | None:
        """Return the groups of records for an encoder that reads them, and let it take them so; None for others."""
        from certifare.encoders.records import GroupColumns

        if not encoder.reads_groups:
            return None
        groups = GroupColumns.of(encoder, frame.column_names, self.roles["sensitive"])
        encoder.set_params(sensitive=None)
        return groups.read(frame)

    def write(self, frame: pa.Table) -> None:
        """Write what may be published as a ZIP file, and the whole table as ``certifare encode`` does, with its labels.

        An encoder that reads the group leaves out records of an unknown one.
        """
        from pyarrow import csv

        from certifare.encoders.records import typical_rows, with_typical

        encoder = self.encoder().set_params(output="cells")
        if encoder.reads_groups:
            known = np.logical_and.reduce([frame[name].is_valid().to_numpy() for name in self.roles["sensitive"]])
            frame = frame.take(np.flatnonzero(known))
        encoded = encoder.transform_from(0, frame, self.groups(encoder, frame))
        encoded = with_typical(encoded, typical_rows(encoder, frame))
        for name in self.roles["label"]:
            encoded = encoded.append_column(f"{name}_kept" if name in encoded.column_names else name, frame[name])
        with atomic_file(self._beside("encoded.csv")) as path:
            csv.write_csv(encoded, path)
        with (
            atomic_file(self._beside("bundle.zip")) as path,
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for part in (*(self.folder / name for name in sorted(BUNDLE_FILES)), self._public_key):
                archive.write(part, f"bundle/{part.name}")

    def file(self, name: str) -> Path:
        """Return a file by its name; only these names are known."""
        places = {"report.html": self.folder / "report.html"}
        places |= {name: self._beside(name) for name in ("bundle.zip", "encoded.csv", "history.html")}
        if name not in places or not places[name].is_file():
            raise FileError(f"There is no file {name[:80]!r} in this project.")
        return places[name]

    def check(self, fresh: Path | None = None) -> dict[str, Any]:
        """Verify the certificate, step by step; with fresh records, certify the encoder on them as well."""
        from certifare.document import Policy, verify_document

        policy = Policy(max_bound=self.target, min_confidence=self.confidence)
        verdict = verify_document(self.folder, policy, key=self._public_key, data=fresh)
        return {**verdict.to_dict(), "history": self._beside("history.html").exists()}

    def add_period(self, fresh: Path, period: str) -> None:
        """Add the records of a period to the history, as ``certifare monitor`` does."""
        from certifare.certification.certifying import TableSource, count_records
        from certifare.certification.monitoring import History
        from certifare.document import digest, read_document
        from certifare.encoders.records import read_records
        from certifare.engines.counting import CountRequest
        from certifare.report import render_course

        document, encoder = read_document(self.folder / "certificate.json"), self.encoder()
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
        history = history.add(period, counted.counts, digest=counted.checksum_digest)
        page = render_course(history, history.findings())
        history.save(kept)
        with atomic_file(self._beside("history.html")) as path:
            path.write_text(page, "utf-8")

    @property
    def _public_key(self) -> Path:
        return self.folder.parents[1] / PUBLIC_KEY

    def _beside(self, name: str) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{name}")


def studio_key(folder: Path) -> Path:
    """Return the key that signs the certificates of all projects of a folder; it is made on first use."""
    key = folder / "producer.pem"
    return key if key.exists() else new_key(key)[0]


def describe_result(bundle: Bundle) -> dict[str, Any]:
    """Return the result of a job as the page shows it."""
    figures, certificate, look = bundle.to_dict(), bundle.certificate, bundle.frontier.look
    shown = ("verdict", "target", "bound", "confidence", "encoder", "measured", "follows", "notes")
    return {
        **{name: figures[name] for name in shown},
        "advice": [advice["text"] for advice in figures["advice"]],
        "look": None if look is None else look.number,
        "words": None if certificate is None else plain_claim(certificate),
        "claim": None if certificate is None else make_statement(certificate).predicate.claim.words,
    }
