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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from certifare.bundle import produce
from certifare.certificates.claims import Claim
from certifare.certificates.issuing import certify_counts
from certifare.errors import ArgumentError, CertifareError, FileError, LooksError
from certifare.foundation.storage import atomic_file, open_regular
from certifare.frontier import Grid
from certifare.frontier.calibrating import CalibratedSearch
from certifare.frontier.large import is_large
from certifare.frontier.readiness import Readiness, check_table
from certifare.frontier.search import Candidate, Search
from certifare.studio.issued import Issued, describe_result, studio_key
from certifare.tables.files import read_file
from certifare.tables.splitting import CERTIFY, PARTS, split
from certifare.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

CONFIDENCE = 0.95
#: Parts of calibrated cells. The certify part is that of the other encoders (:data:`PARTS`), record by record: what is
#: explored with either of them, no certification record has been looked at. ``fit --group-aware`` lets more records set
#: thresholds, some of which have shown here what other encoders reach before the target was chosen.
AWARE_PARTS = {"train": PARTS["train"] + PARTS["select"], CERTIFY: PARTS[CERTIFY]}
#: Columns with these names identify records, or are no property of a person: left out until the user says otherwise.
LEFT_OUT = re.compile(r"(id|uuid|index|rowid|fnlwgt|split)(?![a-z])", re.IGNORECASE)
PREVIEWED = 8
#: Stages of a job in which no certification record has been looked at: it can be cancelled, as if it had not begun.
BEFORE_THE_LOOK = ("preparing", "growing", "fitting scores", "planning")
#: Sections of a report that are about the encoder, not about a certificate.
SECTIONS = ("encoder", "drives", "retained", "calibration")
LOOKED_BEFORE = (
    "These certification records, or some of them, were looked at before, in this project or in another. Tick “Look "
    "again” if a lower confidence is enough, or use new records."
)


class Cancelled(Exception):  # noqa: N818  (not an error: the user asked for it)
    """The user has stopped the work that is going on."""


class ChosenRoles(msgspec.Struct):
    """What the columns are."""

    label: list[str]
    sensitive: list[str]
    cluster: list[str] = []
    drop: list[str] = []


class Choice(msgspec.Struct):
    """The target, and whether cells may read the group."""

    target: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
    aware: bool


class Project:
    """The state of one window, whose files are below its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = folder.name
        self.events: list[dict[str, Any]] = []  # what happened, in order: after a reload the page is told again
        self.running: str | None = None  # the work that is going on: ``explore`` or ``issue``
        # again: the confidence that is left for one more look, once a look was refused for want of it
        self._kept: dict[str, Any] = dict.fromkeys(("source", "name", "roles", "again")) | {"choice": {}, "issued": []}
        self._native: pa.Table | None = None
        self._notes: tuple[str, ...] = ()
        self._found: Readiness | None = None
        self._table: Table | None = None
        self._blind: Search | None = None
        self.cancelled = threading.Event()  # set it to stop the work
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

    def open(self, source: Path, name: str) -> None:
        """Read the table, of which a copy is kept, and guess the roles of its columns."""
        with self._lock:
            if self._kept["source"] is not None:
                raise ArgumentError("This project has its table already: open the other one in a new project.")
            if is_large(source):  # its records would be split otherwise where it lies than in memory
                raise ArgumentError("The table is too large for memory: use certifare fit.")
            self._native, self._notes = read_file(source)
            self.folder.mkdir(parents=True, exist_ok=True)
            copy = shutil.copyfile(source, self.folder / "table")  # it stays as it is if the file changes
            left_out = [column for column in self._native.column_names if LEFT_OUT.match(column)]
            roles = {"label": [], "sensitive": [], "cluster": [], "drop": left_out}
            self._keep(source=str(copy), name=name[:200], roles=roles)
            with suppress(CertifareError):  # no column is likely: the user chooses
                found = self._check()
                self._keep(roles={**roles, "label": list(found.label), "sensitive": list(found.sensitive)})

    def set_roles(self, roles: ChosenRoles) -> None:
        """Set which columns are the label, the group, the person, and left out."""
        chosen, names = msgspec.to_builtins(roles), self._frame().column_names
        for column in (name for columns in chosen.values() for name in columns if name not in names):
            raise ArgumentError(f"There is no column {column!r}.")
        if not roles.label or not roles.sensitive:
            raise ArgumentError("Choose a label, which is to be predicted, and at least one column of groups.")
        with self._idle():
            if chosen != self._kept["roles"]:
                self._found = self._table = self._blind = None
                self.events = []
                self._keep(roles=chosen, choice={}, again=None)

    def state(self) -> dict[str, Any]:
        """Return what the page shows, as plain data."""
        shown = {name: self._kept[name] for name in ("name", "choice", "issued", "roles", "again")}
        shown |= {"id": self.id, "running": self.running}
        if self._kept["source"] is not None:
            frame = self._frame()
            rows = frame.slice(0, PREVIEWED).to_pylist()
            shown["table"] = {
                "records": frame.num_rows,
                "notes": list(self._notes),
                "columns": frame.column_names,
                "head": [["" if v is None else str(v)[:80] for v in row.values()] for row in rows],
            }
            try:
                with self._lock:
                    shown["found"] = self._check().to_dict()
            except CertifareError as error:
                shown["problem"] = str(error)
        return shown

    def summary(self) -> dict[str, Any]:
        """Return what a list of projects shows."""
        return {"id": self.id, "name": self._kept["name"], "issued": len(self._kept["issued"])}

    def explore(self) -> None:
        """Try encoders on training and select records, and tell the page of each growth. Runs in a thread."""
        table = self._read()
        # Trees first: their points are there after a second.
        blind = Search(table, Grid(kinds=("tree", "boosted")), Claim(confidence=CONFIDENCE), parts=PARTS)
        blind.run(
            progress=self._progress, found=lambda found: self.tell(kind="points", points=list(map(_point, found)))
        )
        self._blind, price = blind, blind.boosting_utility()
        order = [_point(blind.candidates[i], i) for i in blind.chain()]
        self.tell(kind="order", family="blind", order=order, price=price)
        try:
            aware = CalibratedSearch(table, Claim(confidence=CONFIDENCE), parts=AWARE_PARTS)
            aware.run(progress=self._progress)
        except CertifareError as error:
            self.tell(kind="note", text=f"No cells that read the group: {error}")
            return
        useful = set(aware.useful())
        front = [_point(aware.candidates[i], i) for i in aware.front() if i in useful]
        self.tell(kind="points", points=front)
        self.tell(kind="order", family="aware", order=front, price=price)

    def choose(self, choice: Choice) -> dict[str, str]:
        """Keep the choice; return the command that issues the same."""
        self._keep(choice=msgspec.to_builtins(choice))
        return {"command": self._command(choice, CONFIDENCE)}

    def understand(self, number: int | None) -> str:
        """Return the parts of a report that are about an encoder, from select records, as a page."""
        from certifare.report import describe_encoder, report_data
        from certifare.report.evaluation import evaluate
        from certifare.report.html import render_parts

        encoder, select = self._tried(number), self._blind.select  # type: ignore[union-attr]  # it was tried
        cells = np.asarray(encoder.apply(select.features), dtype=np.int64)
        counted = certify_counts(select.count(cells, encoder.n_cells_), min_group_size=1)
        shown: dict[str, Any] = {
            "encoder": describe_encoder(encoder),
            "evaluation": evaluate(encoder, select, cells=cells),
        }
        return render_parts(report_data(counted, **shown), SECTIONS, "select")

    def explain(self, number: int | None, record: int) -> dict[str, Any]:
        """Explain why a select record is in its cell: by an encoder that was tried, or by the issued one."""
        table = self._read()
        rows = split(table, PARTS)["select"]
        if not 1 <= record <= len(rows):
            raise ArgumentError(f"There is no record {record:,}: choose one from 1 to {len(rows):,}.")
        one = table.take(rows[record - 1 : record])
        encoder = self.last_issued().encoder() if number is None else self._tried(number)
        groups = None if number is not None else self.last_issued().groups(encoder, one.select(one.column_names))
        features = one.select([column.name for column in encoder.columns_])
        explanation = encoder.explain(features, sensitive_features=groups, row=int(rows[record - 1]))
        return {"of": len(rows), "text": str(explanation)}

    def _tried(self, number: int | None) -> Any:
        if self._blind is None or number is None or not 0 <= number < len(self._blind.candidates):
            raise ArgumentError("This encoder is not in memory any more: explore once more.")
        return self._blind.encoder(number)

    def _command(self, choice: Choice, confidence: float) -> str:
        """Return what gives the same certificate in a terminal; parts of calibrated cells are set in Python."""
        if choice.aware:
            given = {**self._named(), "target": choice.target, "parts": AWARE_PARTS}
            given |= {} if confidence == CONFIDENCE else {"confidence": confidence}
            keywords = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items()]
            call = ", ".join([json.dumps(self._kept["name"], ensure_ascii=False), *keywords, "group_aware=True"])
            return shlex.join(["python", "-c", f'from certifare import produce; produce({call}).save("bundle")'])
        words = ["certifare", "fit", self._kept["name"]]
        for role, columns in self._kept["roles"].items():
            words += [word for column in columns for word in (f"--{role}", column)]
        words += ["--target", f"{choice.target:g}"]
        return shlex.join([*words, *(["--confidence", f"{confidence:g}"] if confidence != CONFIDENCE else [])])

    def issue(self, choice: Choice, *, again: bool = False) -> None:
        """Certify and sign: the ordinary job, as ``certifare fit`` does it, which counts the look. Runs in a thread.

        With ``again``, records may have been looked at before: the certificate has the confidence that is left.
        """
        key, folder = studio_key(self.folder.parent), self.folder / f"issue-{len(self._kept['issued']) + 1}"
        confidence = (self._kept["again"] if again else None) or CONFIDENCE
        try:
            bundle = produce(
                self._kept["source"],
                **self._named(),
                target=choice.target,
                confidence=confidence,
                group_aware=choice.aware,
                parts=AWARE_PARTS if choice.aware else PARTS,
                progress=self._progress,
            )
        except LooksError as error:
            self._keep(again=error.left)
            raise ArgumentError(LOOKED_BEFORE if error.left else str(error)) from error
        command, roles = self._command(choice, confidence), self._kept["roles"]
        result = describe_result(bundle)
        result |= {"folder": folder.name, "command": command, "confidence": confidence, "roles": roles}
        try:
            if bundle.certificate is not None:
                self._progress("writing the report", 0, 1)
                bundle.save(folder, key=key, dataset=self._kept["name"], command=command)
                Issued(folder, choice.target, confidence, roles).write(self._frame())
        except BaseException as error:
            result |= {"verdict": "NOT WRITTEN", "bound": None, "advice": [str(error)]}
            raise
        finally:  # the look was taken, whatever came of it
            self._keep(issued=[*self._kept["issued"], result], again=None)

    def last_issued(self) -> Issued:
        """Return the last certificate that was issued."""
        for made in reversed(self._kept["issued"]):
            if made["bound"] is not None:
                return Issued(self.folder / made["folder"], made["target"], made["confidence"], made["roles"])
        raise ArgumentError("No certificate has been issued in this project yet.")

    def begin(self, name: str, work: Callable[[], None]) -> None:
        """Begin work in a thread; refuse it if something is running already."""
        with self._idle():
            self.running = name
            self.cancelled.clear()
            if name == "explore":
                self.events, self._blind = [], None
            self.tell(kind="started", work=name)
            threading.Thread(target=self._run, args=(work,), name=f"studio {self.id}").start()

    def _run(self, work: Callable[[], None]) -> None:
        """Do work, and tell the page how it ended."""
        ended: dict[str, Any] = {"kind": "failed", "text": "A mistake in certifare itself; the terminal says more."}
        try:
            work()
            ended = {"kind": "finished"}
        except Cancelled:
            ended = {"kind": "cancelled"}
        except CertifareError as error:
            ended["text"] = str(error)
        finally:  # the page must not wait for ever
            name, self.running = self.running, None
            self.tell(**ended, work=name)

    def tell(self, **event: Any) -> None:
        """Tell the page what happens."""
        self.events.append(event)

    def _progress(self, stage: str, done: int, total: int) -> None:
        looking = self.running == "issue" and not stage.startswith(BEFORE_THE_LOOK)
        if self.cancelled.is_set() and not looking:
            raise Cancelled
        # How far the tests went is a part of their result.
        self.tell(kind="progress", stage=stage, done=0 if looking else done, total=total, looking=looking)

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
        roles = self._kept["roles"].items()
        return {role: columns[0] if role == "cluster" else tuple(columns) for role, columns in roles if columns}

    @contextmanager
    def _idle(self) -> Iterator[None]:
        """Within this, nothing is running in the project, and nothing begins."""
        with self._lock:
            if self.running is not None:
                raise ArgumentError("Something is running in this project: wait for it, or cancel it.")
            yield

    def _keep(self, **decided: Any) -> None:
        self._kept |= decided
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
