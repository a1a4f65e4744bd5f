"""The audit kit of ``certifare demo``: what an auditor is given, and what each check of it prints."""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certifare.foundation.storage import atomic_folder, check_folder, open_regular
from certifare.foundation.version import VERIFY_PAGE

if TYPE_CHECKING:
    from certifare.bundle import Bundle

#: What the producer of the kit tried: trees, which take seconds and can be read.
GAMMAS = (0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
#: Records that the producer never had: the auditor's own.
FRESH = 16_000
#: What an auditor does, in this order: name of the expected output → command.
CHECKS = {
    "1-key": "certifare key show producer.pub.pem",
    "2-figures": "certifare verify certificate.json",
    "3-signature": "certifare verify certificate.json --key producer.pub.pem",
    "4-encoder": "certifare verify certificate.json --key producer.pub.pem --encoder encoder.json",
    "5-own-records": "certifare verify certificate.json --key producer.pub.pem --encoder encoder.json --data fresh.csv "
    "--max 0.1",
    "6-encoded-file": "certifare encode encoder.json fresh.csv again.csv --keep income",
    "7-one-classifier": "certifare verify certificate.json --predictions predictions.csv",
    "8-too-strict": "certifare verify certificate.json --max 0.05",
    "9-altered": "certifare verify altered.json --key producer.pub.pem",
}
FILES = frozenset(
    (
        *("README.txt", "certificate.json", "encoder.json", "report.html", "producer.pub.pem", "fresh.csv"),
        *("encoded.csv", "predictions.csv", "altered.json"),
    )
)
NOTE = """An audit kit made by `certifare demo --audit-kit`.

A producer turned people of the Adult table (UCI; Becker & Kohavi 1996; CC BY 4.0) into cells, bounded the distance
between the sexes, and signed the certificate. You are the auditor. You have

  certificate.json   the claim, signed
  encoder.json       what maps a record to its cell
  report.html        the claim for people
  producer.pub.pem   the producer's public key
  fresh.csv          {fresh:,} records of your own; the producer never had them
  encoded.csv        these records as the producer encoded them, with the column income
  predictions.csv    a consumer's classifier: its prediction for each cell
  altered.json       the certificate, with a smaller bound written into it

Run these commands here, in this order. What each printed when the kit was made is in expected/, with its exit status.

{commands}

After the sixth, again.csv must be encoded.csv, byte by byte. The page for auditors explains each answer.

Without installing anything: open {page} in a browser, and drop
certificate.json, producer.pub.pem and encoder.json on it; then altered.json. Nothing leaves your computer.
"""


def is_kit(folder: Path) -> bool:
    """Whether a folder is an audit kit and nothing else, so that it may be replaced."""
    note = folder / "README.txt"
    if not note.is_file():
        return False
    title = NOTE.splitlines()[0].encode()
    with open_regular(note) as file:
        if file.read(len(title)) != title:
            return False
    names = {f"{name}.txt" for name in CHECKS}
    inside = {entry.name for entry in folder.iterdir()}
    expected = folder / "expected"
    return inside <= FILES | {"expected", "again.csv"} and (
        not expected.exists() or {entry.name for entry in expected.iterdir()} <= names
    )


def check_kit(folder: Path) -> None:
    """Refuse a folder that a kit could not be written to, before any work is done."""
    check_folder(folder, replace=is_kit)


def make_kit(
    folder: Path, *, target: float, seed: int, dataset: str, command: str, progress: Callable[[str, int, int], None]
) -> Bundle:
    """Make an audit kit of the Adult table; gives the producer's bundle. Without a solution nothing is written."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as pacsv

    from certifare.bundle import produce
    from certifare.data import adult
    from certifare.document import new_key
    from certifare.foundation.randomness import stream
    from certifare.frontier import Grid

    progress("reading Adult", 0, 1)
    table = adult()
    order = stream(seed, "audit kit", table.records).permutation(len(table))
    fresh, own = table.take(np.sort(order[:FRESH])), table.take(np.sort(order[FRESH:]))
    grid = Grid(kinds=("tree",), gammas=GAMMAS)
    bundle = produce(own, target=target, grid=grid, seed=seed, progress=progress, ledger=False)
    if bundle.certificate is None:
        return bundle
    progress("writing the kit", 0, 1)
    with atomic_folder(folder, replace=is_kit) as kit, tempfile.TemporaryDirectory() as private:
        key, public = new_key(Path(private, "producer"))
        bundle.save(Path(private, "bundle"), key=key, dataset=dataset, command=command)
        for name in ("certificate.json", "encoder.json", "report.html"):
            shutil.copy(Path(private, "bundle", name), kit)
        shutil.copy(public, kit)
        groups: Any = fresh.sensitive
        columns = {name: fresh.features.column(name) for name in fresh.features.column_names}
        columns |= {name: groups.column(name) for name in groups.column_names} | {"income": fresh.y}
        plain = {name: pa.array(column.to_pylist()) for name, column in columns.items()}
        pacsv.write_csv(pa.table(plain), kit / "fresh.csv")
        _write_predictions(kit / "predictions.csv", bundle.encoder, fresh)
        _write_altered(kit / "altered.json", kit / "certificate.json", bundle.certificate.bound / 2)
        _run("certifare encode encoder.json fresh.csv encoded.csv --keep income", kit)
        (kit / "expected").mkdir()
        for done, (name, line) in enumerate(CHECKS.items()):
            progress("writing what each check prints", done, len(CHECKS))
            (kit / "expected" / f"{name}.txt").write_text(f"$ {line}\n{_run(line, kit)}", "utf-8")
        (kit / "again.csv").unlink()
        (kit / "README.txt").write_text(
            NOTE.format(fresh=FRESH, page=VERIFY_PAGE, commands="\n".join(f"  {c}" for c in CHECKS.values())), "utf-8"
        )
    return bundle


def _run(line: str, folder: Path) -> str:
    """Run a command in a folder; gives what it prints, and its exit status."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    words = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(  # noqa: S603  (our own commands)
        words, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )
    return f"{done.stdout}{done.stderr}exit status {done.returncode}\n"


def _write_predictions(path: Path, encoder: Any, records: Any) -> None:
    """Write the majority vote of each cell, which is fixed by the training records."""
    found = dict(zip(encoder.apply(records.features).tolist(), encoder.predict(records.features).tolist(), strict=True))
    lines = ["cell,prediction", *(f"{cell},{int(found.get(cell) == '>50K')}" for cell in range(encoder.n_cells_))]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _write_altered(path: Path, source: Path, bound: float) -> None:
    """Write the certificate with a smaller bound in it, and the signature as it was."""
    with open_regular(source) as file:
        envelope = json.load(file)
    statement = json.loads(base64.b64decode(envelope["payload"]))
    certificate = statement["predicate"]["certificate"]
    certificate["bound"] = certificate["sequence"]["target"] = bound
    text = json.dumps(statement, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    envelope["payload"] = base64.b64encode(text.encode()).decode()
    path.write_text(json.dumps(envelope, separators=(",", ":"), sort_keys=True), "utf-8")
