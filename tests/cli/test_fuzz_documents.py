"""Documents that nobody would write on purpose, through every command that reads them.

Real documents are damaged: keys go, come twice or change places, values become huge, negative, nested or of another
type, bytes are cut off. Whatever comes of it, a command ends with status 0, 1 or 2 (3 where ``verify`` cannot decide);
with 2 it says why in one line. ``CERTIFARE_FULL=1`` (``make test-slow``) tries a hundred times as many.
"""

import contextlib
import copy
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from certifare import BoostedEncoder, CalibratedEncoder, FairTreeEncoder, Table, certify
from certifare.bundle import write_rows
from certifare.certification.certifying import TableSource, count_records
from certifare.cli import main
from certifare.document import digest, write_document
from certifare.document.counts_files import CountsFile
from certifare.document.statement import canonical
from certifare.engines.counting import CountRequest
from certifare.tables.reading import Reading

FULL = os.environ.get("CERTIFARE_FULL") == "1"
#: No command may take more memory than this beyond what the process has, or hang.
ROOM, SECONDS = 4 << 30, 120
ROLES = ["--sensitive", "sex", "--label", "approved"]
SEARCH = ["--kind", "tree", "--max-cells", "4"]


def tries(n):
    return settings(
        max_examples=n * (100 if FULL else 1),
        deadline=None,
        derandomize=not FULL,
        suppress_health_check=list(HealthCheck),
        # A damage is shown by its seed; making it smaller would take longer than finding it.
        phases=(Phase.explicit, Phase.generate),
    )


def people(n, seed):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    job = rng.choice(["nurse", "clerk", "smith"], n).astype(object)
    job[rng.random(n) < 0.05] = None
    age = rng.normal(40, 12, n).round(1)
    approved = (age + 6 * (sex == "m") + 5 * (job == "smith") + rng.normal(0, 8, n) > 44).astype(int)
    return pd.DataFrame({"age": age, "job": job, "sex": sex, "approved": approved})


@pytest.fixture(scope="module")
def world(tmp_path_factory, few_trees):
    """Every kind of document, and records to use them on."""
    folder = tmp_path_factory.mktemp("documents")
    train, fresh = people(600, 0), people(400, 1)
    fresh.to_csv(folder / "fresh.csv", index=False)
    X, y = train[["age", "job"]], train["approved"]
    encoders = {
        "tree": FairTreeEncoder(0.3, 5, 20),
        "boosted": BoostedEncoder(0.3, 4, 20, folds=2, grid=3),
        "calibrated": CalibratedEncoder(target=0.5, max_cells=3, folds=2),
    }
    for name, encoder in encoders.items():
        encoder.fit(X, y, sensitive_features=train["sex"]).save(folder / f"{name}.json")
    encoder = encoders["tree"]
    (folder / "private").mkdir()
    encoder.fingerprint_.save(folder / "private" / "fingerprint.npz")
    (folder / "private").rename(folder / "private.kept")
    certificates = {
        "plain": certify(encoder, fresh[["age", "job"]], sensitive_features=fresh["sex"]),
        "odds": certify(
            encoder, fresh[["age", "job"]], fresh["approved"], sensitive_features=fresh["sex"], metric="equalized_odds"
        ),
    }
    columns = {"sensitive": ["sex"], "label": "approved"}
    for name, certificate in certificates.items():
        suppress = 30 if name == "plain" else None
        write_document(
            folder / f"{name}.cert", certificate, encoder=folder / "tree.json", suppress_below=suppress, reading=columns
        )
    reading, table = (
        Reading(sensitive=("sex",), label="approved"),
        Table.from_frame(fresh, sensitive="sex", label="approved", features=("age", "job")),
    )
    for i in (1, 2):
        request = CountRequest(labelled=True, salt=bytes([i]))
        counted = count_records(encoder, TableSource(table), reading, request)
        CountsFile.make(counted, digest(folder / "tree.json"), reading).save(folder / f"counts{i}.json")
    rows = [
        {"number": i, "kind": "tree", "gamma": 0.5, "cells": 4, "accuracy": 0.7, "retained": 0.1, "bound": i / 9}
        for i in range(6)
    ]
    write_rows(folder / "frontier.csv", [{**row, "chosen": row["number"] == 2} for row in rows])
    return folder


class HungError(Exception):
    """A command that does not end."""


@pytest.fixture(scope="module", autouse=True)
def little_room():
    """Let memory run out before the machine does; room that is only reserved, as for drawing charts, is free."""
    status = Path("/proc/self/status")
    if not status.exists():
        yield
        return
    used = int(next(line for line in status.read_text().splitlines() if line.startswith("VmData")).split()[1]) * 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + ROOM, hard))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def run(*arguments):
    """Run a command as the shell would, and check how it ends."""
    written, said = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["certifare", *map(str, arguments)]

    def hang(*_):
        raise HungError(f"{arguments} takes more than {SECONDS} s")

    alarm = signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(written), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a command may well have something to say
            main()
    except SystemExit as end:
        status = end.code
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, alarm)
        sys.argv = before
    lines = said.getvalue().strip().splitlines()
    assert "mistake in certifare" not in said.getvalue(), said.getvalue()
    assert status in ((0, 1, 2, 3) if arguments[0] == "verify" else (0, 1, 2)), (status, lines)
    assert "Traceback" not in said.getvalue()
    assert not any((ord(c) < 32 and c != "\n") or c == "\x7f" for c in said.getvalue()), lines
    if status == 2:
        assert len(lines) == 1, lines
        assert lines[0].startswith("Error: "), lines
        assert len(lines[0]) < 3_000, lines
    return status, lines


# -- damage ---------------------------------------------------------------------------------------------------------

VALUES = [
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf")),
    *(2**31, 2**31 - 1, 2**32, 2**53, 2**63, 2**64, -(2**63), 10**30, 10**400),
    *("", "x", "0", "f", "age", "tree", "\x1b[31m", "a\nb", "[/]", "\u202e", "\ud800", "x" * 5_000),
    *([], {}, [[]], [[[]]], [None], [0], [1, 0], [0.5] * 3, ["a", "a"], {"x": 1}, {"": {}}),
    *([0] * 3_000, [[0, 0]] * 2_000),
]


class Damage:
    """Random changes to plain data, from one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def places(self, document):
        """All places of a document, as (container, key)."""
        found, stack = [], [document]
        while stack:
            value = stack.pop()
            items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for key, entry in items:
                found.append((value, key))
                stack.append(entry)
        return found

    def change(self, document):
        """Change one place."""
        # Long lists would be chosen nearly always: first a kind of place, then one of it.
        by_name = {}
        for container, key in self.places(document):
            name = key if isinstance(key, str) else f"in {type(container[key]).__name__}"
            by_name.setdefault(name, []).append((container, key))
        if not by_name:
            return
        container, key = self.random.choice(by_name[self.random.choice(sorted(by_name))])
        how = self.random.choice(["replace"] * 4 + ["delete", "swap", "copy", "number", "rename", "repeat"])
        value = container[key]
        if how == "delete":
            del container[key]
        elif how == "swap":
            other, place = self.random.choice(self.places(document))
            other[place], container[key] = copy.deepcopy(value), copy.deepcopy(other[place])
        elif how == "copy":
            container[key] = copy.deepcopy(self.random.choice(self.places(document)))[0]
        elif how == "number" and isinstance(value, int | float) and not isinstance(value, bool):
            container[key] = self.random.choice([value + 1, value - 1, -value, value * 2, value * 10**9, value / 2])
        elif how == "rename" and isinstance(container, dict):
            container[self.random.choice(["", "x", "format", "\x00", key.upper()])] = container.pop(key)
        elif how == "repeat" and isinstance(value, list) and value:
            container[key] = (value * 3)[: self.random.randrange(3 * len(value))]
        else:
            container[key] = copy.deepcopy(self.random.choice(VALUES))

    def document(self, content, times):
        """Change a document in so many places, and write it."""
        document = json.loads(content)
        for _ in range(times):
            self.change(document)
        return document

    def bytes(self, content):
        """Damage the bytes of a file."""
        how = self.random.choice(["cut", "flip", "insert", "deep", "twice", "nothing", "bom"])
        place = self.random.randrange(len(content) + 1)
        if how == "cut":
            return content[:place]
        if how == "flip" and place < len(content):
            return content[:place] + bytes([self.random.randrange(256)]) + content[place + 1 :]
        if how == "insert":
            pieces = [b"\x00", b"[", b"{", b'"', b"-", b"9" * 5_000, b"\xff", b"\n", b",", b"1e999", b"NaN"]
            return content[:place] + self.random.choice(pieces) + content[place:]
        if how == "deep":
            return content[:place] + b'{"a":[' * 30_000 + content[place:]
        if how == "twice":
            # Some key occurs twice.
            for key in (b'"version":', b'"groups":', b'"nodes":', b'"bound":'):
                if key in content:
                    return content.replace(key, key + b"1," + key, 1)
        return b"\xef\xbb\xbf" + content if how == "bom" else b""


def dumped(document):
    """Write plain data as JSON; a lone surrogate cannot be encoded, and is left to the reader."""
    return json.dumps(document).encode("utf-8", "surrogatepass")


def shape(document, key):
    """Put the digest of a part of a statement right, so that what lies behind that check is reached."""
    with contextlib.suppress(Exception):
        for subject in document["subject"]:
            if subject["name"] == "counts":
                counts = document["predicate"]["certificate"]["counts"]
                subject["digest"]["sha256"] = hashlib.sha256(canonical(counts)).hexdigest()
            elif subject["name"] == "encoder" and key is not None:
                subject["digest"]["sha256"] = key
    return document


SEEDS = st.integers(0, 2**32)


@tries(60)
@given(SEEDS)
def test_damaged_encoders_are_read_or_refused(world, tmp_path, seed):
    damage = Damage(seed)
    kind = damage.random.choice([p.stem for p in world.glob("*.json") if "counts" not in p.stem])
    content = (world / f"{kind}.json").read_bytes()
    if damage.random.random() < 0.15:
        content = damage.bytes(content)
    else:
        content = dumped(damage.document(content, damage.random.choice([1, 1, 1, 2, 4])))
    encoder = tmp_path / "encoder.json"
    encoder.write_bytes(content)
    shutil.copytree(world / "private.kept", tmp_path / "private", dirs_exist_ok=True)
    statement = shape(json.loads((world / "plain.cert").read_bytes()), hashlib.sha256(content).hexdigest())
    certificate = tmp_path / "certificate.json"
    certificate.write_bytes(dumped(statement))
    fresh = world / "fresh.csv"
    command = damage.random.choice(
        [
            ["show", encoder],
            ["show", encoder, "--json"],
            ["show", tmp_path],
            ["sql", encoder, "--table", "people"],
            ["encode", encoder, fresh, tmp_path / "out.csv"],
            ["encode", encoder, fresh, tmp_path / "out.csv", "--as", "onehot"],
            ["certify", encoder, fresh, "--sensitive", "sex"],
            ["count", encoder, fresh, *ROLES, "-o", tmp_path / "counts.json"],
            ["verify", certificate, "--encoder", encoder],
            ["verify", certificate, "--encoder", encoder, "--data", fresh],
            ["report", certificate, "--encoder", encoder, "-o", tmp_path / "report.html"],
            ["report", tmp_path, "--json"],
        ]
    )
    run(*command)


@tries(60)
@given(SEEDS)
def test_damaged_certificates_are_read_or_refused(world, tmp_path, seed):
    damage = Damage(seed)
    content = (world / f"{damage.random.choice(['plain', 'odds'])}.cert").read_bytes()
    if damage.random.random() < 0.15:
        content = damage.bytes(content)
    else:
        document = json.loads(content)
        part = damage.random.choice([document, document["predicate"], document["predicate"]["certificate"]])
        for _ in range(damage.random.choice([1, 1, 1, 2, 4])):
            damage.change(part)
        content = dumped(shape(document, None) if damage.random.random() < 0.7 else document)
    certificate = tmp_path / "certificate.json"
    certificate.write_bytes(content)
    shutil.copy(world / "tree.json", tmp_path / "encoder.json")
    shutil.copy(world / "frontier.csv", tmp_path / "frontier.csv")
    command = damage.random.choice(
        [
            ["show", certificate],
            ["show", certificate, "--json"],
            ["show", tmp_path],
            ["verify", certificate],
            ["verify", tmp_path, "--max", "0.5"],
            ["verify", tmp_path, "--data", world / "fresh.csv"],
            ["report", certificate, "-o", tmp_path / "report.html"],
            ["report", tmp_path, "-o", tmp_path / "report.html", "--target", "0.4"],
            ["report", tmp_path, "--json"],
            ["certify", certificate, world / "fresh.csv", "--sensitive", "sex"],
        ]
    )
    run(*command)


@tries(30)
@given(SEEDS)
def test_damaged_counts_are_read_or_refused(world, tmp_path, seed):
    damage = Damage(seed)
    content = (world / "counts1.json").read_bytes()
    damaged = (
        damage.bytes(content)
        if damage.random.random() < 0.15
        else dumped(damage.document(content, damage.random.choice([1, 1, 2, 4])))
    )
    counts = tmp_path / "counts.json"
    counts.write_bytes(damaged)
    command = damage.random.choice(
        [
            ["certify", counts],
            ["certify", counts, world / "counts2.json", "-o", tmp_path / "certificate.json"],
            ["certify", world / "tree.json", counts, world / "counts2.json", "--json"],
            ["certify", world / "tree.json", counts, "--metric", "equalized_odds_max"],
            ["show", counts],
            ["verify", counts],
        ]
    )
    run(*command)


CELLS = [
    "",
    "x",
    "-1",
    "2",
    "nan",
    "inf",
    "1e400",
    "true",
    "True",
    "9" * 400,
    "[/]",
    "\x1b[31m",
    '"a\nb"',
    "0.5",
    "\u202e",
    "tree",
]


@tries(20)
@given(SEEDS)
def test_damaged_frontiers_are_read_or_refused(world, tmp_path, seed):
    damage = Damage(seed)
    rows = [line.split(",") for line in (world / "frontier.csv").read_text().splitlines()]
    for _ in range(damage.random.choice([1, 1, 2, 5])):
        row = damage.random.choice(rows[:1] + rows)
        row[damage.random.randrange(len(row))] = damage.random.choice([*CELLS, "bound", "chosen"])
    how = damage.random.random()
    if how < 0.1:
        rows = rows[:1] if how < 0.05 else [row[:-1] for row in rows]
    elif how < 0.15:
        rows += rows[1:] * 5_000
    content = "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")
    if damage.random.random() < 0.15:
        content = damage.bytes(content)
    (tmp_path / "frontier.csv").write_bytes(content)
    shutil.copy(world / "plain.cert", tmp_path / "certificate.json")
    form = damage.random.choice([["--json"], ["-o", tmp_path / "report.html"]])
    run("report", tmp_path, *form)


@tries(15)
@given(SEEDS)
def test_damaged_fingerprints_are_read_or_refused(world, tmp_path, seed):
    damage = Damage(seed)
    (tmp_path / "private").mkdir(exist_ok=True)
    shutil.copy(world / "tree.json", tmp_path / "encoder.json")
    kept, path = world / "private.kept" / "fingerprint.npz", tmp_path / "private" / "fingerprint.npz"
    if damage.random.random() < 0.4:
        path.write_bytes(damage.bytes(kept.read_bytes()))
    else:
        with np.load(kept) as file:
            arrays = dict(file)
        name = damage.random.choice(sorted(arrays))
        odd = [
            np.zeros(0),
            np.array("x"),
            np.full(5, -1),
            np.arange(9).reshape(3, 3),
            np.array([1e308]),
            arrays[name][:-1:2] if arrays[name].ndim else arrays[name],
        ]
        arrays[name] = damage.random.choice(odd)
        if damage.random.random() < 0.2:
            del arrays[name]
        np.savez(path, **arrays)
    fresh = world / "fresh.csv"
    command = damage.random.choice(
        [
            ["certify", tmp_path / "encoder.json", fresh, "--sensitive", "sex"],
            ["count", tmp_path / "encoder.json", fresh, *ROLES, "-o", tmp_path / "counts.json"],
            ["verify", world / "plain.cert", "--encoder", tmp_path / "encoder.json", "--data", fresh],
        ]
    )
    run(*command)


def test_every_document_in_every_place(world, tmp_path):
    """A file of one kind where one of another kind is expected."""
    files = [*world.glob("*.json"), world / "plain.cert", world / "fresh.csv", world / "frontier.csv", world]
    fresh = world / "fresh.csv"
    for path in files:
        for command in (
            ["show", path],
            ["sql", path],
            ["verify", path],
            ["verify", world / "plain.cert", "--encoder", path],
            ["verify", world / "plain.cert", "--predictions", path],
            ["verify", world / "plain.cert", "--key", path],
            ["report", path, "-o", tmp_path / "report.html"],
            ["certify", path, fresh, "--sensitive", "sex"],
            ["certify", world / "tree.json", path, "--sensitive", "sex"],
            ["encode", path, fresh, tmp_path / "out.csv"],
            ["count", path, fresh, *ROLES, "-o", tmp_path / "counts.json"],
        ):
            run(*command)


def test_the_documents_themselves_are_fine(world, tmp_path):
    """What is damaged above works undamaged, or the tests would show nothing."""
    fresh = world / "fresh.csv"
    for encoder in ("tree", "boosted"):
        assert run("show", world / f"{encoder}.json")[0] == 0
        assert run("encode", world / f"{encoder}.json", fresh, tmp_path / f"{encoder}.csv")[0] == 0
        assert run("certify", world / f"{encoder}.json", fresh, "--sensitive", "sex")[0] == 0
    for certificate in ("plain", "odds"):
        status, lines = run("verify", world / f"{certificate}.cert", "--encoder", world / "tree.json")
        assert status == 0, lines
        assert run("report", world / f"{certificate}.cert", "-o", tmp_path / "report.html")[0] == 0
    assert run("certify", world / "tree.json", world / "counts1.json", world / "counts2.json")[0] == 0
    shutil.copy(world / "frontier.csv", tmp_path)
    shutil.copy(world / "plain.cert", tmp_path / "certificate.json")
    assert run("report", tmp_path, "--json")[0] == 0
