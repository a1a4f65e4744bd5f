"""Every command sees the records that the certificate is about, wherever they lie and however they were read.

A bundle is made with options; fresh records are then given to each command without repeating any of them. What all
commands must see is worked out here once more, with pandas, from the definition of each case.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from tests.conftest import FULL

from certifare import FairTreeEncoder, load_encoder
from certifare.certificates.rounding import round_up
from certifare.certification.certifying import TableSource, certify_records
from certifare.document import read_document, write_document
from certifare.encoders.records import load_fitted, read_records
from certifare.engines.counting import PieceRecords
from certifare.errors import CertifareError, CountsError
from certifare.frontier import large
from certifare.tables.reading import Reading

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")

FEATURES = ["age", "hours", "job"]
FILES = ("csv", "parquet", "arrow")
#: Ways of which not all records are in memory.
ELSEWHERE = ("stream", "duckdb", "sqlite", "postgres")
WAYS = (*FILES, *ELSEWHERE)
CLUSTERS = ("dask", "spark")
N = 1_500

Column = Callable[[pd.DataFrame], pd.Series]


# -- records ------------------------------------------------------------------------------------------------------


def people(n: int, seed: int) -> pd.DataFrame:
    """People with features, of which some are missing, and columns for every role, of which none are."""
    rng = np.random.default_rng(seed)
    sex, race = rng.choice(["f", "m"], n), rng.choice(["a", "b", "c", "d", "zulu"], n, p=[0.3, 0.3, 0.2, 0.1, 0.1])
    age = rng.normal(48, 12, n).round(1).clip(18, 90)
    job = rng.choice(["nurse", "clerk", "smith", "cook"], n, p=[0.3, 0.3, 0.2, 0.2]).astype(object)
    hours = rng.normal(38, 6, n).round(1)
    income = (15_000 + 300 * (age - 18) + 3_000 * (sex == "m") + rng.normal(0, 5_000, n)).round(-1).clip(0)
    score = (1 / (1 + np.exp((30_000 - income) / 8_000))).round(3)
    job[rng.random(n) < 0.05] = None
    frame = pd.DataFrame({"age": age, "hours": hours, "job": job, "sex": sex, "race": race, "score": score})
    frame["income"] = income.astype(int)
    frame["approved"] = np.where(age + 4 * (sex == "m") + rng.normal(0, 8, n) > 50, "yes", "no")
    frame["decision"] = np.select([score > 0.5, score > 0.3], ["grant", "ask"], "deny")
    frame["weight"] = rng.choice([1.0, 1.5, 3.0, 8.0], n, p=[0.4, 0.3, 0.2, 0.1])
    frame["home"] = rng.permutation(n) // 3
    for text in ("sex", "race", "approved", "decision"):
        frame[text] = frame[text].astype(object)
    frame.loc[rng.random(n) < 0.04, "age"] = np.nan
    return frame


def lacking(frame: pd.DataFrame, **shares: float) -> pd.DataFrame:
    """Take some values away, others in each column."""
    frame = frame.copy()
    for i, (column, share) in enumerate(shares.items()):
        lost = np.random.default_rng([len(frame), i]).random(len(frame)) < share
        if frame[column].dtype == object:
            frame.loc[lost, column] = None
        else:
            frame[column] = frame[column].where(~lost)
    return frame


def renamed(frame: pd.DataFrame, **names: dict[str, str]) -> pd.DataFrame:
    return frame.assign(**{column: frame[column].replace(of_column) for column, of_column in names.items()})


def of(*columns: str) -> Column:
    """Name groups, or labels, by columns; None where one of them has no value."""

    def text(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    def name(frame: pd.DataFrame) -> pd.Series:
        rows = frame[list(columns)].astype(object).itertuples(index=False)
        names = [None if any(map(pd.isna, row)) else " × ".join(map(text, row)) for row in rows]
        return pd.Series(names, index=frame.index, dtype=object)

    return name


def filled(column: Column, value: str) -> Column:
    return lambda frame: column(frame).map(lambda name: value if name is None else name)


def pooled(column: Column, *kept: str) -> Column:
    return lambda frame: column(frame).map(lambda name: name if name is None or name in kept else "other groups")


def compared(column: str, at: float, above: str, below: str) -> Column:
    def name(frame: pd.DataFrame) -> pd.Series:
        names = [None if pd.isna(v) else above if v >= at else below for v in frame[column]]
        return pd.Series(names, index=frame.index, dtype=object)

    return name


# -- cases --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """How a bundle was made, and what its fresh records are."""

    options: tuple[str, ...]  # of the command that makes the bundle, which knows them from then on
    # Name the group, and the label if the metric looks at one, of each record; None: it is left out
    group: Column = field(default=of("sex"))
    label: Column | None = None
    made: Callable[[pd.DataFrame], pd.DataFrame] = field(default=lambda frame: frame)  # what is peculiar to the records
    later: Callable[[pd.DataFrame], pd.DataFrame] = field(default=lambda frame: frame)  # what fresh ones have become
    command: str = "certify"  # or "fit", or "column": what makes the bundle
    kept: tuple[str, ...] | None = None  # groups that are not pooled
    csv: dict[str, Any] = field(default_factory=dict)  # how pandas writes the CSV file
    ways: tuple[str, ...] = WAYS  # where the records can lie


SEX = ("--sensitive", "sex")
RACE = ("--sensitive", "race")
OPPORTUNITY = ("--metric", "equal_opportunity", "--label")
ODDS = ("--metric", "equalized_odds", "--label")
TREE = ("--kind", "tree", "--max-cells", "4", "--label", "approved")
TREE += tuple(text for name in FEATURES for text in ("--feature", name))
BOOSTED = ("--kind", "boosted", *TREE[2:])
#: Calibrated cells without a tie column are read in memory: databases refuse them, and blocks of a stream or a cluster
#: number their rows themselves, by which records with equal scores are parted.
IN_MEMORY = FILES
AWARE = ("--group-aware", "--max-cells", "4", "--label", "approved")
AWARE += tuple(text for name in FEATURES for text in ("--feature", name))

ODD_NAMES = {"a": "unknown", "b": "other groups"}
bands = partial(
    pd.cut,
    bins=[-np.inf, 20_000, 30_000, np.inf],
    right=False,
    labels=["income < 20000", "20000 <= income < 30000", "income >= 30000"],
)

CASES: dict[str, Case] = {
    "parity": Case(SEX),
    "opportunity of a named label": Case((*SEX, *OPPORTUNITY, "approved", "--positive", "no"), label=of("approved")),
    "opportunity above a number": Case(
        (*SEX, *OPPORTUNITY, "income>=22000"), label=compared("income", 22_000, "income >= 22000", "income < 22000")
    ),
    "opportunity below a number": Case(
        (*SEX, *OPPORTUNITY, "income<22000"), label=compared("income", 22_000, "income >= 22000", "income < 22000")
    ),
    "odds of bands": Case(
        (*SEX, *ODDS, "income", "--label-cuts", "20000,30000"),
        label=lambda frame: bands(frame["income"]).astype(object),
    ),
    "bands of a label that some lack": Case(
        (*SEX, *ODDS, "income", "--label-cuts", "20000,30000"),
        label=lambda frame: bands(frame["income"]).astype(object).where(frame["income"].notna(), None),
        made=partial(lacking, income=0.1),
    ),
    "groups pooled by fit": Case(
        (*RACE, *TREE, "--pool-groups", "250"),
        command="fit",
        group=pooled(of("race"), "a", "b", "c"),
        made=lambda frame: lacking(renamed(frame, race={"d": f"d{len(frame)}"}), race=0.05),  # one that is new
    ),
    "pooled, and some of no group": Case(
        (*RACE, "--unknown-groups"),
        kept=("a", "unknown", "zulu"),
        group=pooled(filled(of("race"), "unknown"), "a", "unknown", "zulu"),
        made=partial(lacking, race=0.1),
    ),
    "pooled with those of no group": Case(
        (*RACE, *SEX, "--unknown-groups"),
        kept=("a × f", "a × m"),
        group=pooled(filled(of("race", "sex"), "unknown"), "a × f", "a × m"),
        made=partial(lacking, race=0.1, sex=0.1),
    ),
    "pooled intersections": Case(
        (*SEX, *RACE),
        kept=("f × a", "m × zulu"),
        group=pooled(of("sex", "race"), "f × a", "m × zulu"),
        made=partial(lacking, race=0.1, sex=0.1),
    ),
    "some of no group": Case(
        (*RACE, "--unknown-groups"), group=filled(of("race"), "unknown"), made=partial(lacking, race=0.1)
    ),
    "some of no group, by two columns": Case(
        (*SEX, *RACE, "--unknown-groups"),
        group=filled(of("sex", "race"), "unknown"),
        made=lambda frame: lacking(renamed(frame, sex={"m": "x"}, race={"d": "c", "zulu": "c"}), sex=0.1, race=0.1),
    ),
    "groups left out, by two columns": Case(
        (*SEX, *RACE, *ODDS, "approved"),
        group=of("sex", "race"),
        label=of("approved"),
        made=lambda frame: lacking(
            renamed(frame, race={"c": "a", "d": "b", "zulu": "b"}), sex=0.1, race=0.1, approved=0.1
        ),
    ),
    "each of two attributes": Case((*SEX, *RACE, "--each"), group=of("sex", "race"), made=partial(lacking, sex=0.1)),
    "each of two attributes, by label": Case(
        (*SEX, *RACE, "--each", *ODDS, "approved"),
        group=of("sex", "race"),
        label=of("approved"),
        made=partial(lacking, race=0.1, approved=0.1),
    ),
    "within the values of a column": Case(
        (*SEX, "--given", "decision"), label=of("decision"), made=partial(lacking, sex=0.1, decision=0.1)
    ),
    "within the values of a column, of which one is rare": Case(
        (*SEX, "--given", "decision"),
        label=of("decision"),
        made=lambda frame: every(frame, len(frame) // 40, decision="appeal"),
    ),
    "each of two attributes, within the values of a column": Case(
        (*SEX, "--sensitive", "old", "--each", "--given", "decision"),
        group=of("sex", "old"),
        label=of("decision"),
        made=lambda frame: frame.assign(old=np.where(frame["age"] >= 48, "old", "young").astype(object)),
    ),
    "groups of numbers": Case(
        ("--sensitive", "first", "--sensitive", "second"),
        group=of("first", "second"),
        made=lambda frame: lacking(
            frame.assign(
                first=frame["sex"].map({"f": 9, "m": 10}),
                second=frame["race"].map(lambda race: 9 if race < "b" else 10),
            ),
            second=0.1,
        ),
    ),
    "groups by a comparison": Case(("--sensitive", "age>=60"), group=compared("age", 60, "age >= 60", "age < 60")),
    "groups by a comparison with text": Case(
        ("--sensitive", "race==a", *ODDS, "sex!=f"),
        group=lambda frame: of("race")(frame).map(lambda race: race and ("race == a" if race == "a" else "race != a")),
        label=lambda frame: of("sex")(frame).map(lambda sex: sex and ("sex == f" if sex == "f" else "sex != f")),
        made=lambda frame: lacking(frame, race=0.1, sex=0.1).astype({"race": "category"}),
    ),
    "categories": Case(
        (*RACE, *ODDS, "approved"),
        group=of("race"),
        label=of("approved"),
        made=lambda frame: lacking(frame, race=0.1).astype(dict.fromkeys(("race", "approved", "job"), "category")),
    ),
    "groups that are truth values": Case(
        ("--sensitive", "old", *OPPORTUNITY, "paid", "--positive", "False"),
        group=of("old"),
        label=of("paid"),
        made=lambda frame: frame.assign(old=frame["age"] >= 48, paid=frame["income"] > 22_000),
        ways=tuple(way for way in WAYS if way != "sqlite"),  # which has none
    ),
    "groups called unknown and other groups": Case(
        RACE, group=of("race"), made=lambda frame: lacking(renamed(frame, race=ODD_NAMES), race=0.05)
    ),
    "one group called unknown, and some of none": Case(
        (*RACE, "--unknown-groups"),
        group=filled(of("race"), "unknown"),
        made=lambda frame: lacking(renamed(frame, race={"a": "unknown"}), race=0.05),
    ),
    "labels called unknown and other groups": Case(
        (*SEX, *OPPORTUNITY, "opinion", "--positive", "unknown"),
        label=of("opinion"),
        made=lambda frame: lacking(
            frame.assign(opinion=frame["race"].map(lambda race: ODD_NAMES.get(race, "other"))), opinion=0.05, sex=0.05
        ),
    ),
    "odds, and some without a label": Case(
        (*SEX, *ODDS, "approved"), label=of("approved"), made=partial(lacking, approved=0.1, sex=0.1)
    ),
    "a label of nobody in a group": Case(
        (*SEX, *ODDS, "approved"),
        label=of("approved"),
        made=lambda frame: lacking(frame, sex=0.1).pipe(
            lambda lost: lost.assign(approved=lost["approved"].where(lost["sex"].notna(), "withdrawn"))
        ),
    ),
    "a label that parity does not look at": Case((*SEX, "--label", "approved"), made=partial(lacking, approved=0.1)),
    "a label that parity does not look at, and that is gone": Case(
        (*SEX, "--label", "approved"), later=lambda frame: frame.drop(columns="approved")
    ),
    "a label that was fitted to, and is gone": Case(
        (*SEX, *TREE), command="fit", later=lambda frame: frame.drop(columns="approved")
    ),
    "words for missing values, and decimal commas": Case(
        (*RACE, *OPPORTUNITY, "approved", "--positive", "no", "--missing", "nil", "--decimal", ","),
        group=of("race"),
        label=of("approved"),
        made=partial(lacking, race=0.1, approved=0.1, hours=0.2),
        csv={"sep": ";", "decimal": ",", "na_rep": "nil", "float_format": "%.3f"},  # which might be thousands
    ),
    "words for missing values that fit was told": Case(
        (*RACE, *TREE, "--missing", "nil", "--decimal", ",", "--pool-groups", "250"),
        command="fit",
        group=pooled(of("race"), "a", "b", "c"),
        made=partial(lacking, race=0.1, hours=0.2),
        csv={"sep": ";", "decimal": ",", "na_rep": "nil", "float_format": "%.3f"},
    ),
    "a boosted encoder": Case((*SEX, *BOOSTED), command="fit", made=partial(lacking, hours=0.1, sex=0.05)),
    "calibrated cells with a tie column": Case(
        (*SEX, *AWARE, "--tie-column", "person"),
        command="fit",
        made=lambda frame: frame.assign(person=np.arange(len(frame)) + 10**6 * len(frame)),
    ),
    "a group-aware encoder": Case((*SEX, *AWARE), command="fit", ways=IN_MEMORY),
    "a group-aware encoder by two columns": Case(
        (*SEX, "--sensitive", "income>=25000", *AWARE),
        command="fit",
        ways=IN_MEMORY,
        group=lambda frame: of("sex", "rich")(
            frame.assign(rich=compared("income", 25_000, "income >= 25000", "income < 25000"))
        ),
    ),
    "a group-aware encoder with some of no group": Case(
        (*SEX, *AWARE, "--unknown-groups"),
        command="fit",
        ways=IN_MEMORY,
        group=filled(of("sex"), "unknown"),
        made=partial(lacking, sex=0.15),
    ),
    "a group-aware encoder, and fresh records of no group": Case(
        (*SEX, *AWARE), command="fit", later=partial(lacking, sex=0.15), ways=IN_MEMORY
    ),
    "a column": Case((*SEX, "--column", "decision"), command="column", made=partial(lacking, decision=0.1)),
    "a column with labels": Case(
        (*SEX, *ODDS, "approved", "--column", "decision"),
        command="column",
        label=of("approved"),
        made=partial(lacking, approved=0.1),
    ),
    "a column that is cut": Case((*SEX, "--column", "score", "--cuts", "0.3,0.6"), command="column"),
}

#: Records that are drawn at random, which needs all of them in memory.
DRAWN: dict[str, Case] = {
    "weights": Case((*SEX, "--weight", "weight"), made=partial(lacking, weight=0.05, sex=0.05)),
    "capped weights": Case((*SEX, "--weight", "weight", "--cap", "2"), made=partial(lacking, weight=0.05)),
    "clusters": Case((*SEX, "--cluster", "home"), made=partial(lacking, home=0.05)),
    "clusters, for records": Case(
        (*SEX, "--cluster", "home", "--population", "records"), made=partial(lacking, sex=0.05)
    ),
    "weights and clusters": Case(
        (*SEX, *OPPORTUNITY, "approved", "--positive", "no", "--weight", "weight", "--cluster", "home"),
        label=of("approved"),
        made=partial(lacking, sex=0.1, approved=0.1, weight=0.05),
    ),
}


def in_ways(ways_of: Mapping[str, Sequence[str]], most: int = 3, quick: int = 1) -> list[Any]:
    """Return cases with their ways: at full size all of them, otherwise a few of each case, in turn.

    `make test` runs the first ``quick`` of each: one if it is compared with what is worked out here, two if ways are
    compared with one another.
    """
    return [
        pytest.param(name, ways[(i + j) % len(ways)], marks=[pytest.mark.slow] * (j >= quick))
        for i, (name, ways) in enumerate(ways_of.items())
        for j in range(len(ways) if FULL else min(most, len(ways)))
    ]


# -- where records lie --------------------------------------------------------------------------------------------


class World:
    """Bundles and fresh records of all cases, each made by whoever asks first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: dict[str, dict[str, Any]] = {}
        self.found: dict[str, Any] = {}
        train = people(2_000, 0)
        encoder = FairTreeEncoder(max_cells=5, min_cell_size=60)
        encoder.fit(train[FEATURES], train["approved"], sensitive_features=train["sex"])
        encoder.save(folder / "encoder.json")
        encoder.fingerprint_.save(folder / "fingerprint.npz")

    def same(self, name: str, content: Any) -> bool:
        """Whether this is what was found when it was first asked for."""
        return bool(self.found.setdefault(name, content) == content)

    def path(self, name: str) -> Path:
        found = self.folder / re.sub(r"\W+", "-", name)
        found.mkdir(exist_ok=True)
        return found

    def write(self, name: str, frame: pd.DataFrame, csv: dict[str, Any] | None = None) -> None:
        """Write records in every form of a file, and to DuckDB and SQLite."""
        folder = self.path(name)
        frame.to_csv(folder / "fresh.csv", index=False, **(csv or {}))
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
        # Two row groups, so that a stream has pieces to put together.
        pq.write_table(table, folder / "fresh.parquet", row_group_size=N // 2 + 1)
        pyarrow.feather.write_feather(table, folder / "fresh.arrow")
        with duckdb.connect(str(folder / "fresh.duckdb")) as connection:
            connection.register("fresh", table)
            connection.execute("CREATE TABLE people AS SELECT * FROM fresh")
        with closing(sqlite3.connect(folder / "fresh.sqlite")) as lite:
            frame.to_sql("people", lite, index=False)
        frame.to_pickle(folder / "fresh.pickle")

    def fresh(self, name: str) -> pd.DataFrame:
        return pd.read_pickle(self.path(name) / "fresh.pickle")  # noqa: S301  (written above)

    def bundle(self, cli: Any, name: str, case: Case) -> Path:
        """Make the bundle of a case, and write its fresh records."""
        folder = self.path(name)
        bundle = folder / "bundle"
        if bundle.exists():
            assert (bundle / "certificate.json").exists(), "the bundle could not be made"
            return bundle
        bundle.mkdir()
        self.write(name, case.later(case.made(people(N, 2))), case.csv)
        records = folder / "certification.csv"
        case.made(people(3 * N if case.command == "fit" else N + 1, 1)).to_csv(records, index=False, **case.csv)
        if case.command == "fit":
            made = cli("fit", records, *case.options, "--target", "0.9", "-o", bundle)
            assert made.status == 0, made.stderr
            return bundle
        if case.command == "column":
            made = cli("certify", records, *case.options, "-o", bundle)
            assert made.status == 0, made.stderr
            return bundle
        (bundle / "private").mkdir()
        written = ["-o", bundle / "certificate.json"]
        (bundle / "encoder.json").write_bytes((self.folder / "encoder.json").read_bytes())
        (bundle / "private" / "fingerprint.npz").write_bytes((self.folder / "fingerprint.npz").read_bytes())
        made = cli("certify", bundle / "encoder.json", records, *case.options, *written)
        assert made.status == 0, made.stderr
        if case.kept is not None:
            self._pool(bundle, records, case.kept)
        return bundle

    def _pool(self, bundle: Path, records: Path, kept: tuple[str, ...]) -> None:
        """Write a certificate that pools groups, which fit alone decides on."""
        reading = read_document(bundle / "certificate.json").statement.predicate.reading
        assert reading is not None
        reading = msgspec.structs.replace(reading, kept_groups=kept)
        encoder = load_fitted(bundle / "encoder.json")
        source = TableSource(read_records(encoder, records, reading, labelled=False))
        certificate = certify_records(encoder, source, reading)
        write_document(bundle / "certificate.json", certificate, encoder=bundle / "encoder.json", reading=reading)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("agreement"))


@pytest.fixture
def desk(world: World, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[..., list[Any]]:
    """Say where the fresh records of a case lie, as commands are told: a file, or a table of a database."""

    def place(name: str, way: str) -> list[Any]:
        folder = world.path(name)
        if way == "stream":
            monkeypatch.setattr(large, "LARGE", 0)
            way = "parquet"
        if way in FILES:
            return [folder / f"fresh.{way}"]
        if way == "postgres":
            table, address = folder.name.replace("-", "_"), request.getfixturevalue("postgres")
            _to_postgres(address, table, world.fresh(name))
            return ["--sql", address, "--table", table]
        return ["--sql", f"{way}:///{folder / f'fresh.{way}'}", "--table", "people"]

    return place


def _to_postgres(address: str, table: str, frame: pd.DataFrame) -> None:
    psycopg = pytest.importorskip("psycopg")
    pytest.importorskip("sqlalchemy")
    types = {"object": "text", "str": "text", "float64": "double precision", "int64": "bigint", "bool": "boolean"}
    types["category"] = "text"
    columns = ", ".join(f'"{name}" {types[str(dtype)]}' for name, dtype in frame.dtypes.items())
    rows = frame.astype(object).where(frame.notna(), None)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(f"CREATE TABLE {table} ({columns})")
        with connection.cursor().copy(f"COPY {table} FROM STDIN") as target:
            for row in rows.itertuples(index=False):
                target.write_row(row)


# -- what commands see --------------------------------------------------------------------------------------------


def expected(case: Case, frame: pd.DataFrame, bundle: Path) -> tuple[Counter[Any], dict[str, int]]:
    """Count records by cell, group and label, and those that are left out, from the definition of a case."""
    encoder = load_encoder(bundle / "encoder.json")
    groups = case.group(frame)
    labels = case.label(frame) if case.label is not None else pd.Series("", index=frame.index)
    grouped = groups.notna()
    known = frame[grouped]
    named = {"sensitive_features": groups[grouped].to_numpy()} if encoder.reads_groups else {}
    cells = encoder.set_params(sensitive=None).apply(known[[c.name for c in encoder.columns_]], **named)
    found = [(int(c), g, y) for c, g, y in zip(cells, groups[grouped], labels[grouped], strict=True)]
    without_label = "value of the given column missing" if "--given" in case.options else "label missing"
    left_out = {"group missing": int((~grouped).sum()), without_label: int((grouped & labels.isna()).sum())}
    return Counter(place for place in found if not pd.isna(place[2])), {k: n for k, n in left_out.items() if n}


def table_of(counts: dict[str, Any]) -> Counter[Any]:
    """Spread a table of counts, as it stands in JSON."""
    table, labels = np.array(counts["table"]), counts["labels"] or [""]
    table = table.reshape(len(table), len(counts["groups"]), len(labels))
    found = {
        (int(c), counts["groups"][g], labels[y]): int(table[c, g, y]) for c, g, y in zip(*table.nonzero(), strict=True)
    }
    return Counter(found)


def said(result: Any) -> str:
    """Return what a command printed on standard error, in one line."""
    return " ".join(result.stderr.split())


def period(
    cli: Any, bundle: Path, records: Sequence[Any], history: Path
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Monitor a period; return what was found (of each attribute and value), and the counts that the history keeps."""
    result = cli("monitor", bundle, *records, "--period", "fresh", "--history", history, "--json")
    assert result.status in (0, 1), result.stderr
    return result.json["periods"], json.loads(history.read_text())["periods"][0]["counts"]


def own_records(cli: Any, bundle: Path, file: Path) -> str:
    """Say what an auditor is told of records of their own."""
    result = cli("verify", bundle, "--data", file, "--json")
    assert result.status in (0, 1), result.stderr + result.stdout
    return next(check["message"] for check in result.json["checks"] if check["name"] == "data")


def agree(cli: Any, bundle: Path, records: list[Any], folder: Path, *, capped: bool = False) -> dict[str, Any]:
    """Ask every command about fresh records, and compare what they see; return the certificate."""
    result = cli("certify", bundle, *records, "--json")
    assert result.status == 0, said(result)
    certificate: dict[str, Any] = result.json
    counts = certificate["counts"]

    counted = cli("count", bundle, *records, "-o", folder / "counts.json")
    assert counted.status == 0, said(counted)
    of_counts = cli("certify", bundle, folder / "counts.json", "--json")
    assert of_counts.status == 0, said(of_counts)
    for part in ("counts", "metric", "scope", "positive", "bound", "estimate", "population"):
        assert of_counts.json.get(part) == certificate.get(part), part

    # Neither periods nor an auditor's records are held against capped weights.
    for i, fresh in enumerate(() if capped else (records, [folder / "counts.json"])):
        found, kept = period(cli, bundle, fresh, folder / f"history-{i}.json")
        assert kept == counts
        assert not any(of_course["small"] for of_course in found)
        assert all(of_course["exclusions"] == counts["exclusions"] for of_course in found)
        assert max(of_course["estimate"] for of_course in found) == certificate["estimate"]
    if len(records) == 1 and not capped:
        n, estimate = int(np.sum(counts["table"])), certificate["estimate"]
        assert own_records(cli, bundle, records[0]).startswith(
            f"{n:,} records of your own give T* = {round_up(certificate['bound'])} (estimate {estimate:.4f},"
        )
    return certificate


@pytest.mark.parametrize(("name", "way"), in_ways({name: case.ways for name, case in CASES.items()}))
def test_every_command_sees_the_records_that_the_certificate_is_about(
    cli: Any, world: World, desk: Any, tmp_path: Path, name: str, way: str
) -> None:
    case = CASES[name]
    bundle = world.bundle(cli, name, case)
    certificate = agree(cli, bundle, desk(name, way), tmp_path)
    counts = certificate["counts"]
    found, left_out = expected(case, world.fresh(name), bundle)
    assert table_of(counts) == found
    assert {e["reason"]: e["records"] for e in counts["exclusions"]} == left_out
    # Groups and labels are those that occur, in one order wherever they were counted.
    assert set(counts["groups"]) == {group for _, group, _ in found}
    assert set(counts["labels"] or [""]) == {label for *_, label in found}
    first = world.seen.setdefault(name, certificate)
    for part in ("counts", "metric", "scope", "positive", "bound", "estimate", "lower", "population"):
        assert certificate.get(part) == first.get(part), part


@pytest.mark.parametrize(
    ("name", "way"),
    in_ways(
        {
            name: case.ways
            for name, case in CASES.items()
            if case.command != "fit" and case.kept is None and "gone" not in name
        },
        2,
    ),
)
def test_a_certificate_says_the_same_wherever_its_records_lie(
    cli: Any, world: World, desk: Any, tmp_path: Path, name: str, way: str
) -> None:
    """With options, and no bundle that knows them."""
    case = CASES[name]
    bundle, records, options = world.bundle(cli, name, case), desk(name, way), [*case.options]
    if way != "csv" and "--missing" in options:
        del options[options.index("--missing") :]
    certificate = tmp_path / "made" / "certificate.json"
    encoder = [] if case.command == "column" else [world.folder / "encoder.json"]
    if encoder:
        certificate.parent.mkdir()
    made = cli("certify", *encoder, *records, *options, "--json", "-o", certificate if encoder else certificate.parent)
    assert made.status == 0, said(made)
    found, left_out = expected(case, world.fresh(name), bundle if encoder else certificate.parent)
    assert table_of(made.json["counts"]) == found
    assert {e["reason"]: e["records"] for e in made.json["counts"]["exclusions"]} == left_out
    reading = read_document(certificate).statement.predicate.reading
    stated = read_document(bundle / "certificate.json").statement.predicate.reading
    assert stated is not None
    if way != "csv":  # other files have no words for missing values
        stated = msgspec.structs.replace(stated, missing_words=(), decimal=None)
    assert reading == stated
    first = world.seen.setdefault(f"{name}, with options", made.json)
    for part in ("counts", "metric", "scope", "positive", "bound", "estimate", "population"):
        assert made.json.get(part) == first.get(part), part
    if not encoder:
        assert world.same(f"{name}, written", (certificate.parent / "encoder.json").read_bytes())


@pytest.mark.parametrize("way", WAYS)
def test_a_label_that_is_named_must_be_there_even_if_nobody_looks_at_it(
    cli: Any, world: World, desk: Any, tmp_path: Path, way: str
) -> None:
    bundle = world.bundle(cli, "parity", CASES["parity"])
    refused = cli("certify", bundle, *desk("parity", way), "--label", "aproved", "-o", tmp_path / "certificate.json")
    assert refused.status == 2
    assert "No column 'aproved' (--label). Did you mean 'approved'" in said(refused)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["csv", "stream"])
def test_fit_on_a_stream_says_how_records_are_read(cli: Any, world: World, desk: Any, tmp_path: Path, way: str) -> None:
    """As a fit in memory does, for all who read fresh ones."""
    name, bundle = "fitted on a stream", world.path("fitted on a stream") / "bundle"
    case = Case(
        (*RACE, *ODDS, "income", "--label-cuts", "20000,30000", "--pool-groups", "120"),
        group=pooled(of("race"), "a", "b", "c"),
        label=lambda frame: bands(frame["income"]).astype(object),
    )
    if not bundle.exists():
        table = pa.Table.from_pandas(people(6 * N, 1), preserve_index=False)
        pq.write_table(table, tmp_path / "people.parquet", row_group_size=2 * N)
        options = [*TREE[: TREE.index("--label")], *TREE[TREE.index("--feature") :], "--target", "0.9"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large, "LARGE", 0)
            patch.setattr(large, "SAMPLE_RECORDS", 2 * N)
            made = cli("fit", tmp_path / "people.parquet", *case.options, *options, "-o", bundle)
        assert made.status == 0, said(made)
        world.write(name, people(N, 2))
    certificate = agree(cli, bundle, desk(name, way), tmp_path)
    found, left_out = expected(case, world.fresh(name), bundle)
    assert table_of(certificate["counts"]) == found
    assert left_out == {}
    assert world.same(name, certificate["counts"])


# -- records on a cluster -----------------------------------------------------------------------------------------


@pytest.fixture
def frame_of(world: World, request: pytest.FixtureRequest) -> Callable[[str, str], Any]:
    """Say where the fresh records of a case lie on a cluster."""

    def frame(name: str, way: str) -> Any:
        session = request.getfixturevalue({"dask": "client", "spark": "spark"}[way])
        if way == "spark":
            return session.read.parquet(str(world.path(name) / "fresh.parquet"))
        from dask import dataframe

        return dataframe.from_pandas(world.fresh(name), npartitions=3)

    return frame


def on_clusters(names: Iterable[str]) -> list[Any]:
    """Return cases with clusters: at full size both, otherwise one of each case, in turn. Those of Spark are slow."""
    return [
        pytest.param(name, way, marks=[pytest.mark.slow] * (way == "spark"))
        for i, name in enumerate(names)
        for way in (CLUSTERS if FULL else (CLUSTERS[i % 2],))
    ]


def on_a_cluster(bundle: Path, frame: Any) -> Any:
    """Certify records on a cluster, as the certificate of the bundle says."""
    document = read_document(bundle / "certificate.json")
    reading, claim = document.statement.predicate.reading, document.certificate.claim
    assert reading is not None
    encoder, records = load_fitted(bundle / "encoder.json"), PieceRecords.of(frame)
    return certify_records(encoder, records, reading, metric=claim.metric, each=bool(claim.each))


@pytest.mark.parametrize(("name", "way"), on_clusters(name for name, case in CASES.items() if case.ways != IN_MEMORY))
def test_a_cluster_sees_the_records_that_the_certificate_is_about(
    cli: Any, frame_of: Any, world: World, desk: Any, name: str, way: str
) -> None:
    bundle = world.bundle(cli, name, CASES[name])
    certificate = json.loads(json.dumps(on_a_cluster(bundle, frame_of(name, way)).to_dict()))
    of_file = cli("certify", bundle, *desk(name, "parquet"), "--json")
    assert of_file.status == 0, said(of_file)
    for part in ("counts", "metric", "scope", "positive", "bound", "estimate", "lower", "population"):
        assert certificate.get(part) == of_file.json.get(part), part


def test_a_comparison_names_the_positive_label_in_python_too(cli: Any, client: Any, world: World, desk: Any) -> None:
    """Unless one was named, the label that a comparison such as income<22000 is about."""
    from dask import dataframe

    name = "opportunity below a number"
    bundle = world.bundle(cli, name, CASES[name])
    (file,) = desk(name, "parquet")
    reading = Reading(sensitive=("sex",), label="income<22000")
    encoder = load_fitted(bundle / "encoder.json")
    cluster = PieceRecords.of(dataframe.from_pandas(world.fresh(name), npartitions=3))
    for source in (TableSource(read_records(encoder, file, reading)), PieceRecords.of(file), cluster):
        assert certify_records(encoder, source, reading, metric="equal_opportunity").positive == "income < 22000"


# -- records that are drawn ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "way"), in_ways(dict.fromkeys(DRAWN, FILES), 2))
def test_every_command_draws_the_same_records(
    cli: Any, world: World, desk: Any, tmp_path: Path, name: str, way: str
) -> None:
    case = DRAWN[name]
    bundle, records = world.bundle(cli, name, case), desk(name, way)
    capped = "--cap" in case.options
    certificate = agree(cli, bundle, records, tmp_path, capped=capped)
    first = world.seen.setdefault(name, certificate)
    for part in ("counts", "metric", "positive", "bound", "estimate", "lower", "population", "tail"):
        assert certificate.get(part) == first.get(part), part
    frame = world.fresh(name)
    all_of_them, _ = expected(case, frame, bundle)
    drawn = table_of(certificate["counts"])
    assert drawn <= all_of_them
    assert drawn.total() < all_of_them.total()
    left_out = sum(exclusion["records"] for exclusion in certificate["counts"]["exclusions"])
    assert drawn.total() + left_out == len(frame)
    if name == "clusters":
        assert drawn.total() == frame["home"].nunique()
    if capped:
        whole = cli("certify", bundle, *records, "--cap", "inf", "--json")
        assert whole.status == 0, said(whole)
        assert whole.json["counts"] != certificate["counts"]
        n = int(np.sum(whole.json["counts"]["table"]))
        assert own_records(cli, bundle, records[0]).startswith(
            f"{n:,} records of your own give T* = {round_up(whole.json['bound'])} "
        )
        refused = cli("monitor", bundle, *records, "--history", tmp_path / "history.json")
        assert refused.status == 2
        assert "capped weights" in said(refused)


@pytest.mark.parametrize(("name", "way"), in_ways(dict.fromkeys(DRAWN, ELSEWHERE), 1))
def test_a_draw_from_records_that_are_not_in_memory_is_refused_with_the_remedy(
    cli: Any, world: World, desk: Any, tmp_path: Path, name: str, way: str
) -> None:
    case = DRAWN[name]
    bundle, records = world.bundle(cli, name, case), desk(name, way)
    by = "home" if "--cluster" in case.options else "weight"
    commands: list[list[Any]] = [["certify", bundle, *records], ["count", bundle, *records, "-o", tmp_path / "n.json"]]
    if "--cap" not in case.options:
        commands.append(["monitor", bundle, *records, "--period", "fresh", "--history", tmp_path / "history.json"])
    for command in commands:
        refused = cli(*command)
        assert refused.status == 2
        assert f"The records are sampled by the column '{by}', which needs all of them in memory" in said(refused)
        assert "Export an extract that fits" in said(refused)
        assert "certifare count" in said(refused)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "way"), on_clusters(DRAWN))
def test_a_draw_on_a_cluster_is_refused_with_the_remedy(
    cli: Any, frame_of: Any, world: World, name: str, way: str
) -> None:
    bundle = world.bundle(cli, name, DRAWN[name])
    with pytest.raises(CountsError, match="which needs all of them in memory, but they are on a cluster. Export"):
        on_a_cluster(bundle, frame_of(name, way))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("clusters", ["--seed", "7"]),
        ("weights", ["--max-weight", "16"]),
        ("clusters, for records", ["--max-weight", "5"]),
    ],
)
def test_count_takes_options_of_a_draw_that_the_bundle_knows(
    cli: Any, world: World, desk: Any, tmp_path: Path, name: str, options: list[str]
) -> None:
    bundle, records = world.bundle(cli, name, DRAWN[name]), desk(name, "csv")
    counted = cli("count", bundle, *records, *options, "-o", tmp_path / "counts.json")
    assert counted.status == 0, said(counted)
    of_counts = cli("certify", bundle, tmp_path / "counts.json", "--json").json["counts"]
    if "--seed" in options:
        assert of_counts == cli("certify", bundle, *records, *options, "--json").json["counts"]
    assert of_counts != cli("certify", bundle, *records, "--json").json["counts"]


def test_the_cap_that_a_bundle_knows_can_be_lifted(cli: Any, world: World, desk: Any) -> None:
    name = "capped weights"
    bundle, records = world.bundle(cli, name, DRAWN[name]), desk(name, "csv")
    lifted = cli("certify", bundle, *records, "--cap", "inf", "--json")
    assert lifted.status == 0, said(lifted)
    assert lifted.json["tail"] is None


def count_by_holders(cli: Any, world: World, desk: Any, folder: Path, name: str, *options: str) -> list[Path]:
    """Count the fresh records of a drawn case, and those of another holder."""
    bundle, (file,) = world.bundle(cli, name, DRAWN[name]), desk(name, "csv")
    DRAWN[name].made(people(N, 3)).to_csv(folder / "other.csv", index=False)
    made = []
    for i, records in enumerate((file, folder / "other.csv")):
        made.append(folder / f"{i}.json")
        counted = cli("count", bundle, records, *options, "-o", made[-1])
        assert counted.status == 0, said(counted)
    return made


def test_holders_who_agree_on_the_largest_weight_certify_together(
    cli: Any, world: World, desk: Any, tmp_path: Path
) -> None:
    """With the bundle, whose certificate knows no largest weight, as without it."""
    files = count_by_holders(cli, world, desk, tmp_path, "weights", "--max-weight", "9")
    alone = cli("certify", *files, "--json")
    assert alone.status == 0, said(alone)
    together = cli("certify", world.bundle(cli, "weights", DRAWN["weights"]), *files, "--json")
    assert together.status == 0, said(together)
    assert together.json["counts"] == alone.json["counts"]
    assert together.json["bound"] == alone.json["bound"]


def test_holders_of_capped_weights_are_told_what_they_can_do(cli: Any, world: World, desk: Any, tmp_path: Path) -> None:
    """Whoever does as the message says can certify together."""
    name, agreed = "capped weights", ("--max-weight", "9")
    refused = cli("certify", *count_by_holders(cli, world, desk, tmp_path, name, *agreed))
    assert refused.status == 2
    remedy = re.search(r"Count each file again with (--\S+) ([^\s.]+)", said(refused))
    assert remedy is not None, said(refused)
    made = cli("certify", *count_by_holders(cli, world, desk, tmp_path, name, *agreed, *remedy.groups()))
    assert made.status == 0, said(made)


# -- records that all refuse --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """Fresh records that no command takes for those of the certificate, and why."""

    case: str
    made: Callable[[pd.DataFrame], pd.DataFrame]
    words: str
    ways: tuple[str, ...] = WAYS


def every(frame: pd.DataFrame, step: int, **values: Any) -> pd.DataFrame:
    """Give values to every so many records."""
    frame = frame.copy()
    for column, value in values.items():
        frame.loc[::step, column] = value
    return frame


def thrice(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame[:400]] * 3, ignore_index=True)


#: Ways of which records are seen, and not only counts.
SEEING = (*FILES, "stream")
REFUSALS: dict[str, Refusal] = {
    "a value that was not there": Refusal(
        "a column", partial(every, step=50, decision="perhaps"), "30 records have values of the column 'decision'"
    ),
    "no group": Refusal("parity", lambda frame: frame.drop(columns="sex"), "No column 'sex'"),
    "no feature": Refusal("parity", lambda frame: frame.drop(columns="hours"), "No column 'hours'"),
    "no label": Refusal("odds of bands", lambda frame: frame.drop(columns="income"), "No column 'income'"),
    "a label of text that is to be cut": Refusal(
        "odds of bands", lambda frame: frame.assign(income="much"), "A label with cuts must hold numbers"
    ),
    "no record with a label": Refusal(
        "odds, and some without a label",
        lambda frame: frame.assign(approved=None).astype({"approved": object}),
        "No record has a label",
        (*FILES, "stream", "sqlite", "postgres"),  # DuckDB knows that the column has no type
    ),
    "an infinite number": Refusal("parity", partial(every, step=500, age=np.inf), "finite"),
    "two groups of one name": Refusal(
        "groups left out, by two columns",
        lambda frame: frame.assign(
            sex=frame["sex"].map({"f": "f", "m": "f × a"}),
            race=np.where(frame["sex"] == "f", "a × b", "b").astype(object),
        ),
        "Two groups would be called 'f × a × b'",
    ),
    "an unknown group of an encoder that reads it": Refusal(
        "a group-aware encoder",
        partial(every, step=50, sex="x"),
        "a group that the encoder was not fitted with",
        IN_MEMORY,
    ),
    "training records": Refusal("parity", lambda _: people(2_000, 0), "played no part in fitting", SEEING),
    "copies": Refusal("parity", thrice, "equal another one in every column", SEEING),
    "copies, of which a column tells nothing": Refusal("a column", thrice, "equal another one in every column", SEEING),
}


def refused_records(cli: Any, world: World, name: str, refusal: Refusal) -> Path:
    """Make the bundle of a refusal, and write its fresh records; return the bundle."""
    bundle = world.bundle(cli, refusal.case, CASES[refusal.case])
    if not (world.path(name) / "fresh.pickle").exists():
        world.write(name, refusal.made(CASES[refusal.case].made(people(N, 2))))
    return bundle


def refusals(cli: Any, bundle: Path, records: list[Any], folder: Path) -> dict[str, str]:
    """Give records to every command; return what each of them says."""
    commands: dict[str, list[Any]] = {
        "certify": ["certify", bundle, *records],
        "count": ["count", bundle, *records, "-o", folder / "counts.json"],
        "monitor": ["monitor", bundle, *records, "--period", "fresh", "--history", folder / "history.json"],
    }
    if len(records) == 1:
        commands["verify"] = ["verify", bundle, "--data", records[0]]
    found = {}
    for name, command in commands.items():
        result = cli(*command)
        assert result.status != 0, (name, result.stdout)
        found[name] = said(result) or " ".join(result.stdout.split())
    assert list(folder.iterdir()) == []
    return found


@pytest.mark.parametrize(("name", "way"), in_ways({name: found.ways for name, found in REFUSALS.items()}))
def test_every_command_refuses_for_the_same_reason(
    cli: Any, world: World, desk: Any, tmp_path: Path, name: str, way: str
) -> None:
    refusal = REFUSALS[name]
    bundle = refused_records(cli, world, name, refusal)
    for command, words in refusals(cli, bundle, desk(name, way), tmp_path).items():
        assert refusal.words in words, command


MANY = {
    "many labels": Refusal(
        "opportunity of a named label",
        lambda frame: frame.assign(
            approved=[y if y == "no" else f"yes {i % 150}" for i, y in enumerate(frame["approved"])]
        ),
        "",
    ),
    "many groups that are pooled": Refusal(
        "groups pooled by fit",
        lambda frame: frame.assign(
            race=[race if race in ("a", "b", "c") else f"d{i % 150}" for i, race in enumerate(frame["race"])]
        ),
        "",
    ),
}


@pytest.mark.parametrize(("name", "way"), in_ways(dict.fromkeys(MANY, WAYS), 4, quick=2))
def test_more_labels_and_groups_than_usual_are_counted_or_refused_everywhere(
    cli: Any, world: World, desk: Any, tmp_path: Path, name: str, way: str
) -> None:
    bundle = refused_records(cli, world, name, MANY[name])
    records = desk(name, way)
    monitored = ["--period", "fresh", "--history", tmp_path / "history.json"]
    found = {
        "certify": cli("certify", bundle, *records),
        "count": cli("count", bundle, *records, "-o", tmp_path / "counts.json"),
        "monitor": cli("monitor", bundle, *records, *monitored),
    }
    assert world.same(name, {command: (r.status, r.status and said(r)) for command, r in found.items()})


ALONE = {
    "records of one group": Refusal("parity", lambda frame: frame.assign(sex="f"), "'f'"),
    "records of one label": Refusal("opportunity of a named label", lambda frame: frame.assign(approved="yes"), "'no'"),
}


@pytest.mark.parametrize(("name", "way"), in_ways(dict.fromkeys(ALONE, WAYS), 4, quick=2))
def test_holders_may_count_what_is_no_distance_alone(
    cli: Any, world: World, desk: Any, tmp_path: Path, name: str, way: str
) -> None:
    """With those of others it may be one; by itself it is refused, for the same reason wherever it lies."""
    refusal = ALONE[name]
    bundle = refused_records(cli, world, name, refusal)
    records = desk(name, way)
    counted = cli("count", bundle, *records, "-o", tmp_path / "counts.json")
    assert counted.status == 0, said(counted)
    monitored = ["--period", "fresh", "--history", tmp_path / "history.json"]
    found: dict[str, Any] = {
        "certify": cli("certify", bundle, *records),
        "certify counts": cli("certify", bundle, tmp_path / "counts.json"),
        "monitor": cli("monitor", bundle, *records, *monitored),
        "monitor counts": cli("monitor", bundle, tmp_path / "counts.json", *monitored),
    }
    assert {result.status for result in found.values()} == {2}
    reasons = [said(result) for result in found.values()]
    assert refusal.words in reasons[0]
    assert reasons[0] == reasons[1]
    assert reasons[2] == reasons[3]
    assert world.same(name, reasons)
    if len(records) == 1:
        verdict = cli("verify", bundle, "--data", *records)
        assert verdict.status == 3, said(verdict)
        assert "The check is inconclusive" in " ".join(verdict.stdout.split())


@pytest.mark.parametrize(("name", "way"), on_clusters(REFUSALS))
def test_a_cluster_refuses_for_the_same_reason(cli: Any, frame_of: Any, world: World, name: str, way: str) -> None:
    bundle = refused_records(cli, world, name, REFUSALS[name])
    with pytest.raises(CertifareError) as refused:
        on_a_cluster(bundle, frame_of(name, way))
    assert REFUSALS[name].words in str(refused.value)
