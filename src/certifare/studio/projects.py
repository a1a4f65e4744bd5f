"""One project: a table with its roles, the encoders that were tried, and the certificates that were issued.

Each window of the browser has a project of its own, in a folder of its own, which holds the table. What the user has
decided is kept in ``project.json`` there: a project can be opened again after a restart; searches are run again.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from certifare.bundle import produce
from certifare.certificates.claims import Claim
from certifare.certificates.exact import epsilon_at
from certifare.certificates.issuing import certify_counts
from certifare.certificates.planning import plan_table
from certifare.errors import ArgumentError, CertifareError, FileError, LooksError
from certifare.foundation.storage import atomic_file, open_regular
from certifare.frontier import Grid
from certifare.frontier.calibrating import CalibratedSearch
from certifare.frontier.large import is_large
from certifare.frontier.readiness import Readiness, check_table
from certifare.frontier.search import Candidate, Search
from certifare.studio.issued import CONFIDENCE, Issued, describe_result, take_groups
from certifare.tables.files import read_file
from certifare.tables.splitting import CERTIFY, PARTS, split
from certifare.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

#: Parts of calibrated cells. The certify part is that of the other encoders (:data:`PARTS`), record by record: what is
#: explored with either of them, no certification record has been looked at.
AWARE_PARTS = {"train": PARTS["train"] + PARTS["select"], CERTIFY: PARTS[CERTIFY]}
ROLES = ("label", "sensitive", "cluster", "drop")
#: Columns with these names identify records, or are no property of a person: left out until the user says otherwise.
LEFT_OUT = re.compile(r"(id|uuid|index|rowid|fnlwgt|split)(?![a-z])", re.IGNORECASE)
PLANNED = (2, 4, 8, 16, 32)
PREVIEWED = 8
MOST_POINTS = 1500
#: Stages of a job in which no certification record has been looked at: it can be cancelled, as if it had not begun.
BEFORE_THE_LOOK = ("preparing", "growing", "fitting scores", "planning")
#: Sections of a report that are about the encoder, not about a certificate.
SECTIONS = ("encoder", "drives", "retained", "calibration")
BUSY = "Something is running in this project: wait for it, or cancel it."
LOOKED_BEFORE = (
    "These certification records, or some of them, were looked at before, in this project or in another. Tick “Look "
    "again” if a lower confidence is enough, or use new records."
)


class Cancelled(Exception):  # noqa: N818  (not an error: the user asked for it)
    """The user has stopped the work that is going on."""


class Project:
    """The state of one window, whose files are below its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = folder.name
        self.events: list[dict[str, Any]] = []  # what happened, in order: after a reload the page is told again
        self.running: str | None = None  # the work that is going on: ``explore`` or ``issue``
        # again: the confidence of all looks together if the certification records are looked at once more
        self._kept: dict[str, Any] = dict.fromkeys(("source", "name", "roles", "again")) | {"choice": {}, "issued": []}
        self._native: pa.Table | None = None
        self._notes: tuple[str, ...] = ()
        self._found: Readiness | None = None
        self._table: Table | None = None
        self._blind: Search | None = None
        self._waiting: Future[None] | None = None  # the work, which can be taken back before a thread has begun it
        self._cancelled = threading.Event()
        self._lock = threading.RLock()

    @classmethod
    def load(cls, folder: Path) -> Project:
        """Open a project of an earlier run of the server."""
        project = cls(folder)
        try:
            with open_regular(folder / "project.json") as file:
                project._kept |= json.loads(file.read())
        except (OSError, ValueError, TypeError) as error:
            raise FileError(f"The project {folder.name} cannot be opened again: {error}.") from error
        return project

    # -- opening ----------------------------------------------------------------------------------------------

    def open(self, source: Path, name: str) -> None:
        """Read the table, of which a copy is kept, and guess the roles of its columns."""
        with self._lock:
            if self._kept["source"] is not None:
                raise ArgumentError("This project has its table already: open the other one in a new project.")
            if is_large(source):  # its records would be split otherwise where it lies than in memory
                raise ArgumentError("The table is too large for memory: use certifare fit.")
            if source.parent != self.folder:  # the copy stays as it is if the file changes
                self.folder.mkdir(parents=True, exist_ok=True)
                source = Path(shutil.copyfile(source, self.folder / f"table{source.suffix}"))
            self._native, self._notes = read_file(source)
            left_out = [column for column in self._native.column_names if LEFT_OUT.match(column)]
            roles = {**{role: [] for role in ROLES}, "drop": left_out}
            self._keep(source=str(source), name=name[:200], roles=roles)
            try:
                found = self._check()
                self._keep(roles={**roles, "label": list(found.label), "sensitive": list(found.sensitive)})
            except CertifareError:  # no column is likely: the user chooses
                self._found = None

    def set_roles(self, asked: Mapping[str, Any]) -> None:
        """Set which columns are the label, the group, and left out."""
        if not all(isinstance(asked.get(role, []), list) for role in ROLES):
            raise ArgumentError("Roles are lists of columns.")
        names = self._frame().column_names
        chosen = {role: [str(name) for name in asked.get(role, ())] for role in ROLES}
        for role, columns in chosen.items():
            for column in columns:
                if column not in names:
                    raise ArgumentError(f"No column {column!r} ({role}).")
        if not chosen["label"] or not chosen["sensitive"]:
            raise ArgumentError("Choose a label, which is to be predicted, and at least one column of groups.")
        with self._idle():
            if chosen != self._kept["roles"]:
                self._forget()
                self._keep(roles=chosen, choice={}, again=None)

    def state(self) -> dict[str, Any]:
        """Return what the page shows, as plain data."""
        kept = self._kept
        shown: dict[str, Any] = {
            "id": self.id,
            "running": self.running,
            **{name: kept[name] for name in ("name", "choice", "issued", "roles", "again")},
        }
        if kept["source"] is not None:
            frame = self._frame()
            rows = frame.slice(0, PREVIEWED).to_pylist()
            shown["table"] = {
                "records": frame.num_rows,
                "notes": list(self._notes),
                "columns": frame.column_names,
                "head": [["" if v is None else str(v)[:80] for v in row.values()] for row in rows],
            }
            try:
                shown["found"] = self._readiness()
            except CertifareError as error:
                shown["problem"] = str(error)
        return shown

    def summary(self) -> dict[str, Any]:
        """Return what a list of projects shows."""
        return {"id": self.id, "name": self._kept["name"], "issued": len(self._kept["issued"])}

    def holds(self, path: Path) -> bool:
        """Return whether a file is the project's table."""
        return bool(self._kept["source"] == str(path))

    def _readiness(self) -> dict[str, Any]:
        """Return what ``certifare check`` finds, and the T* that calibrated cells can have."""
        with self._lock:
            found = self._check()
        plans = plan_table(found.certification, PLANNED, epsilon_at(CONFIDENCE)) if found.plans else ()
        return {
            "ready": found.ready,
            **{name: getattr(found, name) for name in ("records", "groups", "labels", "certification", "least_bound")},
            "findings": [msgspec.to_builtins(finding) for finding in found.findings],
            "plans": [{"cells": row.cells, "bound": row.bound} for row in plans],
        }

    # -- exploring --------------------------------------------------------------------------------------------

    def explore(self) -> None:
        """Try encoders on training and select records, and tell the page of each growth. Runs in a thread."""
        table = self._read()
        # Trees first: their points are there after a second.
        blind = Search(table, Grid(kinds=("tree", "boosted")), Claim(confidence=CONFIDENCE), parts=PARTS)
        blind.run(
            progress=self._progress, found=lambda found: self._tell(kind="points", points=list(map(_point, found)))
        )
        price = blind.boosting_utility()
        self._blind = blind
        self._tell(kind="order", family="blind", order=[_point(blind.candidates[i], i) for i in blind.chain()])
        self._tell(kind="price", utility=price)
        try:
            aware = CalibratedSearch(table, Claim(confidence=CONFIDENCE), parts=AWARE_PARTS)
            aware.run(progress=self._progress)
        except CertifareError as error:
            self._tell(kind="note", text=f"No cells that read the group: {error}")
            return
        useful = set(aware.useful())
        front = [_point(aware.candidates[i], i) for i in aware.front() if i in useful]
        self._tell(kind="points", points=front[:MOST_POINTS])
        self._tell(kind="order", family="aware", order=front)

    def choose(self, target: float, family: str) -> dict[str, str]:
        """Keep the target, and whether cells may read the group; return the command that issues the same."""
        _check_choice(target, family)
        self._keep(choice={"target": target, "family": family})
        return {"command": self._command(target, family)}

    # -- understanding ----------------------------------------------------------------------------------------

    def understand(self, number: int) -> str:
        """Return the parts of a report that are about an encoder, from select records, as a page."""
        from certifare.report import describe_encoder, report_data
        from certifare.report.evaluation import evaluate
        from certifare.report.html import render_parts

        encoder, select = self._tried(number), self._blind.select  # type: ignore[union-attr]  # it was tried
        cells = np.asarray(encoder.apply(select.features), dtype=np.int64)
        counted = certify_counts(select.count(cells, encoder.n_cells_), min_group_size=1)
        evaluation = evaluate(encoder, select, cells=cells)
        data = report_data(counted, encoder=describe_encoder(encoder), evaluation=evaluation)
        return render_parts(data, SECTIONS, "select")

    def explain(self, number: int | None, record: int) -> dict[str, Any]:
        """Explain why a select record is in its cell: by an encoder that was tried, or by the issued one."""
        table = self._read()
        rows = split(table, PARTS)["select"]
        if not 1 <= record <= len(rows):
            raise ArgumentError(f"There is no record {record:,}: choose one from 1 to {len(rows):,}.")
        roles = self._kept["roles"]
        if number is None:
            issued = self.last_issued()
            encoder, roles = issued.encoder(), issued.roles
        else:
            encoder = self._tried(number)
        one = table.take(rows[record - 1 : record])
        whole = one.select(one.column_names)
        groups = take_groups(encoder, whole, roles["sensitive"])
        given = {} if groups is None else {"sensitive_features": groups}
        explanation = encoder.explain(whole.select([column.name for column in encoder.columns_]), **given)
        values = {name: "" if v is None else str(v)[:80] for name, v in explanation.values.items()}
        return {"record": record, "of": len(rows), "text": str(explanation), "values": values}

    def _tried(self, number: int) -> Any:
        if self._blind is None or not 0 <= number < len(self._blind.candidates):
            raise ArgumentError("This encoder is not in memory any more: explore once more.")
        return self._blind.encoder(number)

    # -- issuing ----------------------------------------------------------------------------------------------

    def _command(self, target: float, family: str, confidence: float = CONFIDENCE) -> str:
        words = ["certifare", "fit", self._kept["name"]]
        for role, columns in self._kept["roles"].items():
            words += [word for column in columns for word in (f"--{role}", column)]
        words += ["--target", f"{target:g}"]
        if family == "aware":
            words += ["--group-aware", "--split", ",".join(f"{share:g}" for share in AWARE_PARTS.values())]
        return shlex.join([*words, *(["--confidence", f"{confidence:g}"] if confidence != CONFIDENCE else [])])

    def issue(self, target: float, family: str, key: Path | None, *, again: bool = False) -> None:
        """Certify: the ordinary job, as ``certifare fit`` does it, which counts the look. Runs in a thread.

        With ``again``, records may have been looked at before: the certificate has the confidence that is left.
        """
        _check_choice(target, family)
        confidence = (self._kept["again"] if again else None) or CONFIDENCE
        aware, number = family == "aware", len(self._kept["issued"]) + 1
        try:
            bundle = produce(
                self._kept["source"],
                **self._named(),
                target=target,
                confidence=confidence,
                group_aware=aware,
                parts=AWARE_PARTS if aware else PARTS,
                progress=self._progress,
            )
        except LooksError as error:
            self._keep(again=error.left)
            raise ArgumentError(LOOKED_BEFORE if error.left else str(error)) from error
        command, folder = self._command(target, family, confidence), self.folder / f"issue-{number}"
        result = {
            **describe_result(bundle),
            "command": command,
            "folder": folder.name,
            "signed": key is not None,
            "roles": self._kept["roles"],
        }
        try:
            if bundle.certificate is not None:
                self._progress("writing the report", 0, 1)
                bundle.save(folder, key=key, dataset=self._kept["name"], command=command)
                Issued(folder, target, confidence, key is not None, self._kept["roles"]).encode(self._frame())
        except BaseException as error:
            result |= {"verdict": "NOT WRITTEN", "bound": None, "advice": [str(error)]}
            raise
        finally:  # the look was taken, whatever came of it
            self._keep(issued=[*self._kept["issued"], {**result, "confidence": confidence}], again=result["next"])
        self._tell(kind="issued")

    def last_issued(self) -> Issued:
        """Return the last certificate that was issued."""
        for result in reversed(self._kept["issued"]):
            if result["bound"] is not None:
                named = ("target", "confidence", "signed", "roles")
                return Issued(self.folder / str(result["folder"]), *(result[name] for name in named))
        raise ArgumentError("No certificate has been issued in this project yet.")

    # -- work that takes long ---------------------------------------------------------------------------------

    def begin(self, name: str, submit: Callable[[Callable[[], None]], Future[None]], work: Callable[[], None]) -> None:
        """Hand over work to a thread; refuse it if something is running already."""
        with self._idle():
            self.running = name
            self._cancelled.clear()
            if name == "explore":
                self.events, self._blind = [], None
            self._tell(kind="started", work=name)
            self._waiting = submit(lambda: self._run(work))

    def _run(self, work: Callable[[], None]) -> None:
        """Do work, and tell the page how it ended."""
        try:
            work()
            self._end("finished")
        except Cancelled:
            self._end("cancelled")
        except CertifareError as error:
            self._end("failed", text=str(error))
        except Exception as error:  # the page must not wait for ever
            self._end("failed", text=f"A mistake in certifare itself: {type(error).__name__}: {error}")
            raise

    def fail(self, error: CertifareError) -> None:
        """Tell the page what went wrong before it asked for anything."""
        self._tell(kind="failed", work=None, text=str(error))

    def cancel(self) -> None:
        """Ask the work that is going on to stop."""
        self._cancelled.set()
        if self.running is not None and self._waiting is not None and self._waiting.cancel():
            self._end("cancelled")

    def _end(self, kind: str, **details: Any) -> None:
        work, self.running = self.running, None
        self._tell(kind=kind, work=work, **details)

    def _progress(self, stage: str, done: int, total: int) -> None:
        looking = self.running == "issue" and not stage.startswith(BEFORE_THE_LOOK)
        if self._cancelled.is_set() and not looking:
            raise Cancelled
        # How far the tests went is a part of their result.
        self._tell(kind="progress", stage=stage, done=0 if looking else done, total=total, looking=looking)

    def _tell(self, **event: Any) -> None:
        self.events.append(event)

    # -- what others need -------------------------------------------------------------------------------------

    def _frame(self) -> pa.Table:
        if self._kept["source"] is None:
            raise ArgumentError("Open a table first.")
        if self._native is None:
            self._native, self._notes = read_file(self._kept["source"])
        return self._native

    def _check(self) -> Readiness:
        """Check the table as ``certifare check`` does; roles that are not set are guessed."""
        if self._found is None:
            self._found = check_table(self._frame(), **self._named(), parts=PARTS, ledger=False)
        return self._found

    def _read(self) -> Table:
        """Return the table with its roles, as ``certifare fit`` reads it."""
        if self._table is None:
            self._table = Table.from_frame(self._frame(), **self._named())
        return self._table

    def _named(self) -> dict[str, Any]:
        """Return the roles as keywords."""
        return {
            role: columns[0] if role == "cluster" else tuple(columns)
            for role, columns in self._kept["roles"].items()
            if columns
        }

    def _forget(self) -> None:
        self._found = self._table = self._blind = None
        self.events = []

    @contextmanager
    def _idle(self) -> Iterator[None]:
        """Within this, nothing is running in the project, and nothing begins."""
        with self._lock:
            if self.running is not None:
                raise ArgumentError(BUSY)
            yield

    def _keep(self, **decided: Any) -> None:
        self._kept |= decided
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.folder / "project.json") as path:
            path.write_text(json.dumps(self._kept), "utf-8")


def _point(candidate: Candidate, number: int | None = None) -> dict[str, Any]:
    """Return what the page draws of an encoder."""
    return {
        "number": number,
        "kind": candidate.setting.kind,
        "cells": candidate.cells,
        "bound": float(candidate.prediction.bound),
        "utility": float(candidate.utility),
        "accuracy": float(candidate.accuracy),
    }


def _check_choice(target: float, family: str) -> None:
    if not 0.0 < target <= 1.0:
        raise ArgumentError(f"The target {target:g} is no distance: choose one above 0, at most 1.")
    if family not in ("blind", "aware"):
        raise ArgumentError("Choose whether cells may read the group.")
