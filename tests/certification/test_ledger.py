"""Looks are counted (src/certifare/certification/ledger.py, src/certifare/certificates/looks.py)."""

import os
import sqlite3
import stat
import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from certifare import CellCounts, Policy, certify_counts
from certifare.bundle import produce
from certifare.certificates.assumptions import FIXED_LOOKS
from certifare.certificates.certificate import Certificate
from certifare.certificates.looks import Look, confidence_of_look
from certifare.certification.ledger import Ledger, open_ledger, sizes_origin, state_folder
from certifare.document import make_statement, sign, verify_document
from certifare.errors import ArgumentError, DocumentError, FileError, LooksError
from certifare.frontier import Grid, sweep
from certifare.tables.table import Table

COUNTS = CellCounts([[1200, 800], [300, 600]], groups=["f", "m"])


def people(n: int = 1000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "pay": rng.normal(size=n).round(3),
            "job": rng.choice(list("abcd"), n),
            "s": rng.choice(["f", "m"], n),
        }
    )
    frame["y"] = (frame["pay"] + rng.normal(size=n) > 0).astype(int)
    return frame


def table(frame: pd.DataFrame, **roles: object) -> Table:
    return Table.from_frame(frame, **{"label": "y", "sensitive": "s", **roles})


def look_at(records: Table, what: str, source: Table | None = None, planned: int | None = None) -> Look | None:
    ledger = open_ledger()
    return ledger.count(ledger.trace(records, source), [what], confidence_of_look(0.95, planned), planned)


def number(records: Table, what: str, source: Table | None = None) -> int:
    look = look_at(records, what, source)
    assert look is not None
    return look.number


# -- recognising records ------------------------------------------------------------------------------------------


def test_a_second_look_at_the_same_records_is_counted() -> None:
    records = table(people())
    assert look_at(records, "first") == Look(number=1)
    assert look_at(records, "second") == Look(number=2, spent=0.05)
    assert look_at(records, "third") == Look(number=3, spent=0.1)


def test_the_same_look_again_says_nothing_new_and_is_not_counted() -> None:
    records = table(people())
    number(records, "first")
    number(records, "second")
    assert number(records, "first") == 1
    assert number(records, "second") == 2
    assert number(records, "third") == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.sample(frac=1.0, random_state=1),
        lambda frame: frame.iloc[:300],
        lambda frame: frame.iloc[::7],
        lambda frame: frame.iloc[:40],
        lambda frame: pd.concat([frame.iloc[:100], people(900, seed=5)]),
        lambda frame: frame.drop(columns="job"),
        lambda frame: frame.assign(more=np.arange(len(frame))),
        lambda frame: frame.astype({"age": float, "pay": np.float32, "job": "category"}),
        lambda frame: frame.sample(frac=1.0, random_state=1).astype({"age": str, "pay": str}),
        lambda frame: frame.sample(frac=1.0, random_state=1).assign(age=lambda f: f["age"] * 2 + 1),
        lambda frame: frame.iloc[::2].assign(age=lambda f: (f["age"] - 50) / 20, job="e"),
        lambda frame: frame.assign(age=lambda f: f["age"] / 7, pay=lambda f: f["pay"] ** 3),
        lambda frame: frame[["s", "y", "pay"]].iloc[::-1],
    ],
    ids=[
        "order", "part", "thinned", "few", "mixed with others", "column dropped", "column added", "other types",
        "numbers as text", "scaled and shuffled", "half, and two columns changed", "all numbers changed", "few columns",
    ],
)  # fmt: skip
def test_overlapping_records_are_recognised(change) -> None:
    number(table(people()), "first")
    assert number(table(change(people())), "second") == 2


def test_other_roles_of_the_columns_do_not_hide_records() -> None:
    number(table(people()), "first")
    assert number(table(people(), label="job", sensitive="age>=60"), "second") == 2


def test_each_of_many_models_in_one_table_is_a_look_of_its_own() -> None:
    """Twenty useless models: were each one's certificate a first look, one of them would soon pass by chance."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"d{i}": rng.integers(0, 2, 400) for i in range(20)})
    frame["s"] = rng.choice(["f", "m"], 400)
    found = [look_at(table(frame, label=[], feature=f"d{i}"), f"model {i}") for i in range(20)]
    assert [look.number for look in found if look is not None] == list(range(1, 21))
    assert found[-1] == Look(number=20, spent=0.95)


def test_each_feature_of_one_table_is_a_look_though_rows_lack_a_group_and_roles_change() -> None:
    frame = people().assign(region=lambda f: f["job"].where(f["age"] < 80))
    number(table(frame, feature="age"), "first")
    assert number(table(frame, feature="pay"), "second") == 2
    assert number(table(frame, feature="pay", label="job"), "third") == 3
    assert number(table(frame, feature="age", sensitive="region"), "fourth") == 4


def test_columns_that_agree_recognise_records_together_though_others_between_them_changed() -> None:
    """No column says who a record is of, nor do few that stand side by side: those that did not change do, together."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"d{i}": rng.integers(0, 2, 60) for i in range(12)})
    frame["s"] = np.repeat(["f", "m"], 30)
    number(table(frame, label=[]), "first")
    assert number(table(frame.assign(**{f"d{i}": frame[f"d{i}"] + 5 for i in range(6)}), label=[]), "scaled") == 2
    fresh = pd.DataFrame({f"d{i}": rng.integers(0, 2, 60) + 5 * (i < 6) for i in range(12)}).assign(s=frame["s"])
    assert number(table(fresh, label=[]), "fresh") == 1


def test_models_in_files_of_their_own_are_looks_at_the_same_people() -> None:
    """Two columns of few values say nothing about who a record is of; the order of the groups does."""
    rng = np.random.default_rng(0)
    groups = rng.choice(["f", "m"], 1000)
    for i in range(3):
        decisions = pd.DataFrame({"s": groups, "decision": rng.integers(0, 2, 1000)})
        assert number(table(decisions, label=[]), f"model {i}") == i + 1
    renamed = pd.DataFrame({"sex": np.where(groups == "f", "female", "male"), "score": rng.integers(0, 2, 1000)})
    assert number(table(renamed, label=[], sensitive="sex"), "renamed") == 4


@pytest.mark.parametrize(
    "groups",
    [
        np.repeat(["f", "m"], 1000),
        np.tile(["f", "m"], 10_000),
        np.tile(["f", "m", "m", "f", "x"], 400),
        np.repeat([f"state {i}" for i in range(40)], np.arange(20, 60)),
    ],
    ids=["sorted", "by turns", "in a pattern", "many, sorted"],
)
def test_fresh_records_of_the_same_shape_and_sizes_are_a_first_look(groups) -> None:
    for seed in range(5):
        assert number(table(people(len(groups), seed).assign(s=groups)), f"sample {seed}") == 1
        few = people(len(groups), 100 + seed)[["job", "y"]].assign(s=groups)
        assert number(table(few), f"sample {seed} of few columns") == 1


def test_numbers_of_rows_and_ranks_do_not_make_fresh_records_the_same() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        row = np.sort(rng.choice(1500, 1000, replace=False)) if seed else np.arange(1000)
        frame = people(1000, seed)[["s", "y", "job"]].assign(row=row, rank=rng.permutation(1000) / 1000 + 0.0005)
        assert number(table(frame), f"sample {seed}") == 1
    customers = rng.choice(10**9, 1000, replace=False)
    for look in (1, 2):
        frame = people(1000, 10 + look)[["s", "y"]].assign(customer=customers)
        assert number(table(frame.sample(frac=1.0, random_state=look)), f"look {look}") == look


def test_fresh_records_of_any_population_are_seldom_taken_for_others() -> None:
    """Each of 20 fresh samples of a population is compared with the earlier ones: 190 pairs of each."""
    populations = {
        "few values": lambda rng, n: {"a": rng.integers(0, 5, n), "b": rng.choice(list("abc"), n)},
        "binary": lambda rng, n: {f"b{i}": rng.integers(0, 2, n) for i in range(12)},
        "codes": lambda rng, n: {f"k{i}": rng.integers(0, 40, n) for i in range(5)},
        "heavy": lambda rng, n: {f"h{i}": np.floor(rng.pareto(1.0, n) * 10) for i in range(5)},
        "rounded": lambda rng, n: {f"r{i}": rng.normal(size=n).round(i) for i in range(5)},
        "heaped": lambda rng, n: {"g": np.where(rng.random(n) < 0.8, 0.0, rng.lognormal(8, 1, n).round(-1))},
        "panel": lambda rng, n: {"p": rng.normal(size=n // 3).round(2)[rng.integers(0, n // 3, n)]},
    }  # fmt: skip
    pairs = alarms = 0
    for name, draw in populations.items():
        for seed in range(20):
            rng = np.random.default_rng([seed, len(name)])
            n = (60, 300, 1000)[seed % 3]
            frame = pd.DataFrame({**draw(rng, n), "s": rng.choice(["f", "m"], n)})
            alarms += number(table(frame, label=[]), f"{name} {seed}") - 1
            pairs += seed
    assert alarms <= 0.005 * pairs


def test_a_file_and_the_counts_of_it_are_looks_at_the_same_records() -> None:
    ledger = open_ledger()
    records = table(people())
    assert records.groups is not None
    counts = records.count(np.zeros(len(records), dtype=np.int64), 1)
    half = records.take(np.arange(500))
    assert half.groups is not None
    number(records, "first")
    for n, origin in enumerate((sizes_origin(records.groups), sizes_origin(counts)), 2):
        assert ledger.count(ledger.origin(("place", str(n)), origin), [f"look {n}"], 0.95) == Look(
            number=n, spent=0.05 * (n - 1)
        )
    assert ledger.count(ledger.origin(sizes_origin(half.groups)), ["half"], 0.95) == Look(number=1)
    assert number(half, "part", records) == 5


def test_the_counts_of_labelled_records_alone_are_known_too() -> None:
    records = table(people().assign(y=lambda f: f["y"].where(f["age"] < 70)))
    counts = records.count(np.zeros(len(records), dtype=np.int64), 1, labels=True)
    assert counts.n_records < len(records)
    number(records, "first")
    ledger = open_ledger()
    assert ledger.count(ledger.origin(sizes_origin(counts)), ["second"], 0.95) == Look(number=2, spent=0.05)


def test_records_whose_columns_were_all_renamed_are_known_by_the_sizes_of_groups() -> None:
    number(table(people()), "first")
    renamed = people().sample(frac=1.0, random_state=1).rename(columns=str.upper)
    assert number(table(renamed, label="Y", sensitive="S"), "second") == 2
    fewer = people(998).rename(columns=str.title)
    assert number(table(fewer, label="Y", sensitive="S"), "third") == 1


def test_values_are_the_same_whatever_their_type() -> None:
    frame = pd.DataFrame(
        {
            "day": pd.date_range("2020-01-01", periods=300).date,
            "paid": [Decimal(i * i) / 4 for i in range(300)],
            "ok": np.arange(300) % 3 == 0,
            "s": np.where(np.arange(300) % 7 < 3, "f", "m"),
            "many": [[i, None] for i in range(300)],
        }
    )
    plain = frame.assign(
        day=frame["day"].astype(str),
        paid=frame["paid"].astype(float),
        ok=frame["ok"].astype(float),
        s=frame["s"].astype("category"),
        many=frame["many"].astype(str),
    )
    ledger = open_ledger()
    roles = {"label": [], "sensitive": "s", "drop": ["day", "many"]}
    one, other = (ledger.trace(Table.from_frame(found, **roles)).columns for found in (frame, plain))
    assert len(one) == 5
    assert one.keys() == other.keys()
    for name, hashes in one.items():
        np.testing.assert_array_equal(hashes, other[name])


def test_missing_values_of_every_type_are_alike() -> None:
    frame = pd.DataFrame({"a": [1.0, None] * 20, "b": ["x", None] * 20, "s": ["f", "f", "m", "m"] * 10})
    ledger = open_ledger()
    texts = ledger.trace(table(frame, label=[])).columns
    numbers = ledger.trace(table(frame.assign(a=["1", None] * 20, b=[2.5, None] * 20), label=[])).columns
    for name, hashes in texts.items():
        assert (hashes[1::2] == numbers[name][1::2]).all()


def test_a_table_without_its_other_columns_is_known_by_labels_and_groups() -> None:
    frame = people().drop(columns="pay").assign(age=lambda f: f["age"] * 1000 + np.arange(1000))
    bare = replace(table(frame), others=None)
    number(bare, "first")
    changed = frame.sample(frac=1.0, random_state=1).assign(age=lambda f: -f["age"], job="e")
    ledger = open_ledger()
    assert ledger.trace(bare).columns.keys() == ledger.trace(table(changed)).columns.keys()
    assert number(table(frame.sample(frac=0.5, random_state=2)), "second") == 2


def test_fresh_records_of_the_same_population_are_a_first_look() -> None:
    for seed in range(10):
        assert number(table(people(seed=seed)), f"sample {seed}") == 1
        assert number(table(people(60, seed=100 + seed)), f"few, sample {seed}") == 1


def test_fresh_records_that_equal_others_by_chance_are_a_first_look() -> None:
    for seed in range(20):
        frame = people(60 if seed % 2 else 1000, seed).drop(columns="pay").assign(age=lambda f: f["age"] // 10)
        assert number(table(frame), f"sample {seed}") == 1


def test_another_split_of_a_table_whose_records_are_alike_is_recognised_by_the_table() -> None:
    frame = people().drop(columns="pay").assign(age=lambda f: f["age"] // 30)
    whole = table(frame)
    assert number(whole.take(np.arange(300)), "first", whole) == 1
    shuffled = table(frame.sample(frac=1.0, random_state=2))
    assert number(shuffled.take(np.arange(300)), "second", shuffled) == 2


def test_what_shares_records_with_a_look_does_so_with_all_looks_at_its_records() -> None:
    frame = people()
    number(table(frame), "whole")
    assert number(table(frame.sample(frac=0.5, random_state=1)), "half") == 2
    changed = frame.assign(age=frame["age"] / 7, pay=frame["pay"] ** 3)
    # Its order tells that these are the people of the first look. That shares records with the half.
    assert number(table(changed), "changed") == 3
    # It shares values with the first look and the half alone, and the changed records are those of the first.
    assert number(table(frame.sample(frac=0.3, random_state=2)), "part") == 4


def test_records_counted_elsewhere_are_known_by_where_they_came_from() -> None:
    ledger = open_ledger()
    assert ledger.count(ledger.origin(("a", "b"), ("c",)), ["first"], 0.95) == Look(number=1)
    assert ledger.count(ledger.origin(("c",)), ["second"], 0.99) == Look(number=2, spent=0.05)
    assert ledger.count(ledger.origin(("ab",)), ["third"], 0.95) == Look(number=1)


# -- the file -----------------------------------------------------------------------------------------------------


def test_the_ledger_holds_digests_only_and_is_the_users_own(state_folder: Path) -> None:
    number(table(people()), "first")
    content = (state_folder / "ledger.sqlite").read_bytes()
    for word in (b"age", b"pay", b"first", b"job", b"sensitive"):
        assert word not in content
    if os.name == "posix":
        assert stat.S_IMODE((state_folder / "ledger.sqlite").stat().st_mode) == 0o600


def test_its_size_is_bounded(state_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certifare.certification.ledger.MOST_LOOKS", 3)
    for seed in range(6):
        number(table(people(100, seed)), "first")
    with sqlite3.connect(state_folder / "ledger.sqlite") as connection:
        assert connection.execute("SELECT count(*), max(length(sample)) FROM looks").fetchone() == (3, 100 * 5 * 4)
    connection.close()


def test_of_a_wide_table_fewer_records_are_kept_and_recognised(state_folder: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 700)), columns=[f"x{i}" for i in range(700)])
    frame = frame.assign(s=rng.choice(["f", "m"], 300))
    number(table(frame, label=[]), "first")
    with sqlite3.connect(state_folder / "ledger.sqlite") as connection:
        assert connection.execute("SELECT length(sample) FROM looks").fetchone()[0] < 300_000
    connection.close()
    changed = frame.sample(frac=1.0, random_state=1)
    changed = changed.assign(**{name: changed[name] * 2 for name in changed.columns[:650]})
    assert number(table(changed, label=[]), "second") == 2


@pytest.mark.parametrize(
    "harm",
    [b"no ledger at all, but text that is long enough" * 100, "half", "emptied", "newer", "older", "no list", "shorn"],
)
def test_a_damaged_ledger_is_an_error_that_names_it_and_the_remedy(state_folder: Path, harm: bytes | str) -> None:
    number(table(people()), "first")
    path = state_folder / "ledger.sqlite"
    changes = {
        "emptied": "DROP TABLE looks",
        "newer": "UPDATE about SET version = 99",
        "older": "UPDATE about SET version = 1",
        "no list": "UPDATE looks SET columns = '5'",
        "shorn": "UPDATE looks SET sample = x'00'",
    }
    if isinstance(harm, str) and harm in changes:
        with sqlite3.connect(path) as connection:
            connection.execute(changes[harm])
        connection.close()
    else:
        path.write_bytes(path.read_bytes()[:5000] if isinstance(harm, str) else harm)
    with pytest.raises(FileError, match=r"ledger\.sqlite.*move it away"):
        number(table(people(seed=1)), "second")


def test_runs_at_the_same_time_count_each_other(state_folder: Path) -> None:
    records = table(people(200))
    found: list[int] = []
    runs = [threading.Thread(target=lambda i=i: found.append(number(records, f"look {i}"))) for i in range(8)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert sorted(found) == list(range(1, 9))


def test_where_it_cannot_be_written_looks_are_not_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CERTIFARE_STATE", str(tmp_path / "file" / "below"))
    assert look_at(table(people()), "first") is None
    assert "looks are not counted" in str(open_ledger().reason)


def test_the_state_folder_is_the_platforms_unless_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CERTIFARE_STATE", "off")
    assert state_folder() is None
    assert open_ledger() == Ledger(None)
    monkeypatch.delenv("CERTIFARE_STATE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "certifare"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local" / "state" / "certifare"


# -- the certificate ----------------------------------------------------------------------------------------------


def test_a_certificate_states_its_look_and_the_joint_confidence() -> None:
    alone = certify_counts(COUNTS)
    assert (alone.look, alone.joint_confidence) == (None, 0.95)
    assert "not counted" in alone.look_words
    first = alone.at_look(Look(number=1))
    assert str(first) == str(alone)
    assert first.look_words == "By the producer's ledger this is the first look at the certification records."
    third = alone.at_look(Look(number=3, spent=0.1))
    assert (third.look, third.spent, third.confidence, third.joint_confidence) == (3, 0.1, 0.95, 0.85)
    assert "with 85 % confidence" in str(third)
    assert "look 3, 95 % by itself" in str(third)
    assert FIXED_LOOKS in third.assumptions
    assert "look 3" in make_statement(third).predicate.claim.words
    assert Certificate.from_dict(third.to_dict()) == third
    assert alone.at_look(Look(number=30, spent=1.45)).joint_confidence == 0.0


def test_each_earlier_look_counts_with_something() -> None:
    """Confidences very near 1 spend next to nothing; a certificate counts such looks with 10⁻⁶, or its own ε."""
    hardly = certify_counts(COUNTS).at_look(Look(number=4, spent=3e-12))
    assert hardly.spent == pytest.approx(3e-6)
    assert hardly.joint_confidence < 0.95
    strict = certify_counts(COUNTS, confidence=1 - 1e-8).at_look(Look(number=4, spent=3e-8))
    assert strict.spent == 3e-8
    for confidence, planned in ((0.999999, 1000), (0.95, 1000), (0.5, 3)):
        share = confidence_of_look(confidence, planned)
        look = Look(number=1, planned=planned)
        for _ in range(min(planned - 1, 50)):
            look = Look(number=look.number + 1, spent=look.next(share).spent, planned=planned)
        certificate = certify_counts(COUNTS, confidence=share).at_look(look)
        assert certificate.spent == look.spent  # what was planned is kept
        assert certificate.joint_confidence >= confidence


def test_planned_looks_share_epsilon() -> None:
    for confidence in (0.9, 0.95, 0.99, 0.999):
        for planned in (1, 2, 3, 7, 100):
            share = confidence_of_look(confidence, planned)
            for n in (1, planned):
                look = Look(number=n, spent=(n - 1) * (1 - share) if n > 1 else 0.0, planned=planned)
                assert look.joint(share) >= confidence - 1e-12
            assert Look(number=1, planned=planned).joint(share) >= confidence
    assert confidence_of_look(0.95, 1) == 0.95
    for wrong in (0, -1, 1.5, True, 10**6):
        with pytest.raises(ArgumentError, match="looks="):
            confidence_of_look(0.95, wrong)  # type: ignore[arg-type]


def test_a_look_beyond_the_plan_is_refused_and_not_counted() -> None:
    records = table(people())
    for n in (1, 2, 3):
        look = look_at(records, f"look {n}", planned=3)
        assert look is not None
        assert (look.number, look.planned) == (n, 3)
        assert look.joint(confidence_of_look(0.95, 3)) >= 0.95
    with pytest.raises(LooksError, match=r"3 looks were planned.*used 3 times.*fresh"):
        look_at(records, "look 4", planned=3)
    assert look_at(records, "look 3", planned=3) == look
    assert number(records, "look 4, unplanned") == 4


def test_looks_that_cannot_be_counted_cannot_be_planned() -> None:
    with pytest.raises(LooksError, match="ledger is off"):
        produce(people(), label="y", sensitive="s", looks=2, ledger=False)


@pytest.mark.parametrize(
    "figures",
    [
        {"look": 0},
        {"look": 1, "spent": 0.05},
        {"look": 2, "spent": 0.0},
        {"look": 500, "spent": 1e-9},
        {"look": 500, "spent": 0.00049},
        {"look": 500, "spent": 0.00049, "planned_looks": 600},
        {"look": 3, "spent": 0.1, "planned_looks": 2},
        {"look": None, "spent": 0.05},
        {"look": None, "planned_looks": 2},
        {"look": 2, "spent": -0.05},
    ],
)
def test_figures_of_looks_that_contradict_each_other_are_refused(figures: dict) -> None:
    with pytest.raises(DocumentError):
        Certificate.from_dict({**certify_counts(COUNTS).to_dict(), **figures})


def outcome(certificate: Certificate, **policy: object) -> dict[str, bool | None]:
    content = sign(make_statement(certificate), None).to_bytes()
    return {check.name: check.ok for check in verify_document(content, Policy(**policy)).checks}  # type: ignore[arg-type]


def test_max_looks_and_min_confidence_are_about_all_looks_together() -> None:
    alone = certify_counts(COUNTS)
    first, second = alone.at_look(Look(number=1)), alone.at_look(Look(number=2, spent=0.05))
    assert outcome(alone, max_looks=1)["looks"] is False
    assert outcome(first, max_looks=1)["looks"] is True
    assert outcome(second, max_looks=1)["looks"] is False
    assert outcome(second, max_looks=2)["looks"] is True
    assert outcome(first)["confidence"] is True
    assert outcome(second)["confidence"] is False
    assert outcome(second, min_confidence=0.9)["confidence"] is True
    planned = certify_counts(COUNTS, confidence=confidence_of_look(0.95, 3)).at_look(Look(number=1, planned=3))
    assert outcome(planned)["confidence"] is True
    assert all(ok is not False for ok in outcome(second, min_confidence=0.9).values())


def test_a_later_look_must_say_what_it_assumes() -> None:
    second = certify_counts(COUNTS).at_look(Look(number=2, spent=0.05))
    silent = Certificate.from_dict({**second.to_dict(), "assumptions": list(certify_counts(COUNTS).assumptions)})
    assert outcome(silent)["statement"] is False


def test_two_looks_at_the_same_records_hold_together() -> None:
    """Two encoders, certified on the same records at ε/2 each: seldom does either exceed its T*, at most in ε."""
    rng = np.random.default_rng(0)
    epsilon, runs, misses = 0.2, 400, 0
    confidence = confidence_of_look(1 - epsilon, 2)
    # Four kinds of people; each encoder tells two from the others. Both have about the same distance.
    kinds = np.array([[0.4, 0.1, 0.1, 0.4], [0.1, 0.4, 0.4, 0.1]])
    encoders = [np.array([0, 1, 1, 0]), np.array([0, 1, 0, 1])]
    truths = [abs(float(kinds[0][cells == 0].sum() - kinds[1][cells == 0].sum())) for cells in encoders]
    for _ in range(runs):
        drawn = np.array([rng.multinomial(60, share) for share in kinds])
        missed = False
        for cells, truth in zip(encoders, truths, strict=True):
            counts = np.array([drawn[:, cells == cell].sum(axis=1) for cell in (0, 1)])
            missed |= certify_counts(CellCounts(counts, ["f", "m"]), confidence=confidence).bound < truth
        misses += missed
    assert 0 < misses <= binom.ppf(0.999, runs, epsilon)


# -- the whole job ------------------------------------------------------------------------------------------------

GRID = Grid(kinds=["tree"], gammas=[0.5], min_cell_sizes=[50], cells=[2, 4])


def test_a_second_run_with_another_target_or_seed_is_a_second_look() -> None:
    frame = people(3000)
    roles = {"label": "y", "sensitive": "s", "grid": GRID}
    first = produce(frame, target=0.3, **roles)
    assert first.certificate.look == 1
    again = produce(frame, target=0.3, **roles)
    assert again.certificate == first.certificate
    with pytest.raises(LooksError, match="95 % confidence cannot be reached"):
        produce(frame, target=0.3, seed=1, **roles)
    with pytest.raises(LooksError, match="looked at once before"):
        produce(frame, target=0.2, **roles)
    second = produce(frame, target=0.3, seed=1, confidence=0.9, **roles)
    assert second.certificate.confidence == 0.95
    assert second.confidence == 0.9
    assert (second.certificate.look, second.certificate.joint_confidence) == (2, 0.9)
    assert second.to_dict()["look"]["number"] == 2
    frontier = sweep(Table.from_frame(frame, label="y", sensitive="s"), GRID, seed=2, confidence=0.8)
    assert frontier.look is not None
    assert frontier.look.number == 3
    uncounted = produce(frame, target=0.3, seed=3, ledger=False, **roles)
    assert uncounted.certificate.look is None


def test_the_advice_says_what_another_look_costs() -> None:
    bundle = produce(people(3000), label="y", sensitive="s", target=0.001, grid=GRID)
    assert bundle.verdict == "NO SOLUTION"
    text = bundle.advice[-1].text
    assert "look 2" in text
    assert "90 %" in text
    assert "fresh records" in text
