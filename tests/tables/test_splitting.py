import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.errors import ArgumentError, RoleError
from certifare.tables.splitting import PARTS, split, training_quantiles
from certifare.tables.table import Table


def make(groups, labels, clusters=None) -> Table:
    columns = {"x": np.arange(len(groups)), "s": pa.array(groups), "y": pa.array(labels)}
    if clusters is not None:
        columns["c"] = pa.array(clusters)
    return Table.from_frame(pa.table(columns), label="y", sensitive="s", cluster=None if clusters is None else "c")


@st.composite
def tables(draw, clustered=False):
    n = draw(st.integers(60, 400))
    seed = draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", "c"][: draw(st.integers(2, 3))], n, p=None)
    groups[:2] = ["a", "b"]
    labels = (rng.random(n) < draw(st.floats(0.05, 0.95))).astype(int)
    labels[:2] = [0, 1]
    clusters = rng.integers(0, n // 3 + 1, n) if clustered else None
    return make(groups, labels, clusters)


@st.composite
def shares(draw):
    weights = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    names = draw(st.permutations(["train", "select", "certify", "test"]))
    return {name: w / sum(weights) for name, w in zip(names, weights, strict=False)}


@given(tables(), shares(), st.integers(0, 100))
def test_each_record_is_in_exactly_one_part(table, parts, seed):
    rows = split(table, parts, seed)
    assert list(rows) == list(parts)
    assert sorted(np.concatenate(list(rows.values())).tolist()) == list(range(len(table)))


@given(tables(clustered=True), st.integers(0, 100))
def test_no_cluster_is_in_two_parts(table, seed):
    rows = split(table, PARTS, seed)
    of_record = np.empty(len(table), dtype=object)
    for name, part in rows.items():
        of_record[part] = name
    for cluster in np.unique(table.clusters):
        assert len(set(of_record[table.clusters == cluster])) == 1


@given(tables(), shares(), st.integers(0, 100))
def test_sizes_follow_the_shares(table, parts, seed):
    rows = split(table, parts, seed)
    for name, share in parts.items():
        assert abs(len(rows[name]) - share * len(table)) <= 2


@given(tables(), st.integers(0, 100))
def test_parts_are_stratified(table, seed):
    rows = split(table, PARTS, seed)
    stratum = table.groups.codes * 2 + table.labels[0].codes
    certify = table.groups.codes[rows["certify"]]
    assert np.all(np.abs(np.bincount(certify, minlength=3) - 0.4 * np.bincount(table.groups.codes, minlength=3)) <= 1)
    rest = np.setdiff1d(np.arange(len(table)), rows["certify"])
    available = np.bincount(stratum[rest], minlength=6)
    for name in ("train", "select"):
        found = np.bincount(stratum[rows[name]], minlength=6)
        assert np.all(np.abs(found - available * PARTS[name] / 0.6) < 2)


def test_the_certify_part_is_drawn_without_regard_to_the_label():
    """Its label shares vary as in a simple random sample; tied to those of the rest they would not be independent."""
    table = make(["a", "b"] * 200, [0, 0, 1, 1] * 100)
    positives = [table.labels[0].codes[split(table, PARTS, seed)["certify"]].sum() for seed in range(400)]
    # A hypergeometric count: 160 of 400 records, half of them positive, 80 of 200 in each group.
    expected = 160 * 0.25 * (1 - 80 / 200) * 200 / 199
    assert 0.75 * expected < np.var(positives) < 1.3 * expected


def test_tables_of_one_shape_are_split_independently_at_one_seed():
    """A stream that knew only the number of rows would deal the same rows of all tables that are sorted alike."""
    groups, labels = np.repeat(["a", "b"], 500), np.tile([0, 1], 500)
    one, other = (
        Table.from_frame(pd.DataFrame({"x": np.random.default_rng(i).random(1000), "s": groups, "y": labels}),
                         label="y", sensitive="s")
        for i in range(2)
    )  # fmt: skip
    shared = np.isin(split(one)["certify"], split(other)["certify"])
    assert 100 < shared.sum() < 220  # 160 of 400 by chance


def test_equal_seeds_give_equal_parts_and_others_do_not():
    table = make(["a", "b"] * 100, [0, 0, 1, 1] * 50)
    first, again, other = split(table, PARTS, 0, by_group=True), split(table), split(table, seed=2)
    assert all(np.array_equal(first[name], again[name]) for name in PARTS)
    assert not all(np.array_equal(first[name], other[name]) for name in PARTS)


def test_too_few_records_are_refused():
    with pytest.raises(ArgumentError, match="Too few"):
        split(make(["a", "b"], [0, 1]))


def test_records_without_a_label_are_dealt_like_all_others():
    rng = np.random.default_rng(0)
    table = make(rng.choice(["a", "b"], 4000), np.where(rng.random(4000) < 0.3, None, rng.integers(0, 2, 4000)))
    for name, part in split(table).items():
        assert len(part) == pytest.approx(PARTS[name] * 4000, abs=2)
        # The certify part is drawn by group alone, the others by label as well.
        share = (~table.labelled[part]).mean() - (~table.labelled).mean()
        assert abs(share) < (0.05 if name == "certify" else 0.02)


def test_clusters_of_several_groups_are_drawn_without_regard_to_the_group():
    """One cluster of both groups is enough: how many of each group are certified varies as in a simple random draw."""
    groups = np.repeat(["a"] * 100 + ["b"] * 100, 2)
    clusters = np.repeat(np.arange(200), 2)
    pure = make(groups, [0, 1] * 200, clusters)
    groups = groups.copy()
    groups[1] = "b"
    mixed = make(groups, [0, 1] * 200, clusters)
    first = {}
    for name, table in (("pure", pure), ("mixed", mixed)):
        certified = [np.unique(table.clusters[split(table, PARTS, seed)["certify"]]) for seed in range(120)]
        assert {len(found) for found in certified} == {80}
        first[name] = [int((found < 100).sum()) for found in certified]
    assert set(first["pure"]) == {40}
    # A hypergeometric number: 80 of 200 clusters, 100 of which begin with a.
    expected = 80 * 0.25 * (200 - 80) / 199
    assert np.mean(first["mixed"]) == pytest.approx(40, abs=4 * np.sqrt(expected / 120))
    assert 0.6 * expected < np.var(first["mixed"]) < 1.6 * expected


def test_clusters_are_dealt_to_the_other_parts_by_the_label_of_their_first_record():
    labels = np.array([[0, 1]] * 60 + [[1, 0]] * 60).ravel()
    table = make(np.repeat(["a", "b"] * 60, 2), labels, np.repeat(np.arange(120), 2))
    first = np.array([0] * 60 + [1] * 60)
    for seed in range(10):
        rows = split(table, {"train": 0.4, "select": 0.6}, seed)
        for name, share in (("train", 0.4), ("select", 0.6)):
            clusters = np.unique(table.clusters[rows[name]])
            # In each of four strata of 30: 12 and 18.
            strata = np.bincount(first[clusters] * 2 + clusters % 2, minlength=4)
            assert strata.tolist() == [round(30 * share)] * 4


def test_what_rounding_takes_in_one_stratum_is_given_back_in_the_next():
    """Seven strata of five records and a share of .3: one or two of each, and ten or eleven together."""
    table = make(np.repeat(list("abcdefg"), 5), [0, 1, 0, 1, 0] * 7)
    for seed in range(10):
        certify = split(table, {"certify": 0.3, "train": 0.7}, seed)["certify"]
        each = np.bincount(table.groups.codes[certify], minlength=7)
        assert set(each) <= {1, 2}
        assert each.sum() in (10, 11)
        # Never more than one ahead or behind, after any number of strata.
        assert np.abs(np.cumsum(each) - 1.5 * np.arange(1, 8)).max() < 1.0


def test_without_groups_the_other_parts_tell_nothing_of_the_certify_part():
    """Drawn by group, the certify part has 40 of 100; drawn by none, their number varies as in a random draw."""
    table = make(["a", "b"] * 100, [0, 0, 1, 1] * 50)
    numbers = [
        int((table.groups.codes[split(table, PARTS, seed, by_group=False)["certify"]] == 0).sum())
        for seed in range(120)
    ]
    expected = 80 * 0.25 * (200 - 80) / 199
    assert 0.6 * expected < np.var(numbers) < 1.6 * expected
    assert np.mean(numbers) == pytest.approx(40, abs=4 * np.sqrt(expected / 120))
    assert {int((table.groups.codes[split(table, PARTS, seed)["certify"]] == 0).sum()) for seed in range(20)} == {40}


@pytest.mark.parametrize("n", [2, 3, 4, 10])
def test_bands_of_a_quantity_are_cut_by_the_records_that_are_not_certified(n):
    rng = np.random.default_rng(n)
    frame = pd.DataFrame({"pay": rng.normal(size=500), "s": ["f", "m"] * 250})
    rows = split(Table.from_frame(frame, sensitive="s"), PARTS, 3)
    seen = np.sort(frame["pay"].to_numpy()[np.concatenate([rows["train"], rows["select"]])])
    # The smallest value that at least so large a share of them does not exceed, as NumPy counts positions.
    expected = [seen[int(np.ceil(i / n * (len(seen) - 1)))] for i in range(1, n)]
    roles = {"label": "pay", "sensitive": "s"}
    assert training_quantiles(frame, n, **roles, seed=3) == tuple(expected)
    assert training_quantiles(frame, n, **roles) == training_quantiles(frame, n, **roles, seed=0)


def test_a_band_below_the_smallest_value_is_none():
    """Half of all records have the smallest value: a cut there would leave an empty band."""
    frame = pd.DataFrame({"pay": [0.0] * 200 + [1.0] * 100 + [2.0] * 100, "s": ["f", "m"] * 200})
    assert set(training_quantiles(frame, 10, label="pay", sensitive="s")) == {1.0, 2.0}
    missing = frame.assign(pay=frame["pay"].where(frame["pay"] > 0))
    assert training_quantiles(missing, 10, label="pay", sensitive="s") == (2.0,)


def test_quantiles_need_one_column_of_numbers_and_two_bands():
    frame = pd.DataFrame({"pay": np.arange(100.0), "job": ["x", "y"] * 50, "age": np.arange(100), "s": ["f", "m"] * 50})
    assert len(training_quantiles(frame, 2, label="age", sensitive="s")) == 1
    for n, label in ((1, "pay"), (0, "pay"), (2, ["pay", "age"]), (2, "job")):
        with pytest.raises(RoleError):
            training_quantiles(frame, n, label=label, sensitive="s")
    with pytest.raises(RoleError, match="no value"):
        training_quantiles(frame.assign(pay=np.nan), 2, label="pay", sensitive="s")


def test_shares_are_positive_and_add_up_to_one_but_for_roundings():
    table = make(["a", "b"] * 50, [0, 0, 1, 1] * 25)
    assert len(split(table, {"train": 1.0})["train"]) == 100
    assert len(split(table, {"certify": 1.0})["certify"]) == 100
    for more in (9.5e-7, -9.5e-7):
        assert len(split(table, {"train": 0.5, "certify": 0.5 + more})["train"]) == 50
    for parts in (
        {},
        {"train": 0.5},
        {"train": 1.5, "test": -0.5},
        {"train": float("nan")},
        {"train": 1.0, "test": 0.0},
        {"train": 0.5, "test": 0.5 + 1.05e-6},
        {"train": 0.5, "test": 0.5 - 1.05e-6},
    ):
        with pytest.raises(ArgumentError, match="add up to 1"):
            split(table, parts)


def deviation(table, parts, seed):
    """By how much a part was ahead or behind at most, after any number of strata in their order."""
    rows = split(table, parts, seed)
    each = np.array([np.bincount(table.groups.codes[rows[name]], minlength=len(table.groups.names)) for name in parts])
    wanted = np.outer(list(parts.values()), np.bincount(table.groups.codes))
    assert (each.sum(axis=0) == np.bincount(table.groups.codes)).all()
    return np.abs(np.cumsum(each - wanted, axis=1)).max()


def of_sizes(sizes):
    """A table without labels, of so many records of each group."""
    groups = np.repeat([f"{i:02}" for i in range(len(sizes))], sizes)
    return Table.from_frame(pa.table({"x": np.arange(len(groups)), "s": groups}), sensitive="s")


def test_what_was_given_too_early_is_taken_from_the_part_that_is_furthest_ahead():
    """Parts that are ahead get nothing in a stratum; what the others are owed together may then be too much for it."""
    parts = {f"part {i}": weight / 35 for i, weight in enumerate([9, 7, 9, 7, 1, 1, 1])}
    table = of_sizes([1, 3, 3, 2, 1, 3, 2, 2, 3, 2, 2, 2, 3])
    assert deviation(table, parts, 0) <= 1.0 + 1e-9


def test_intersections_are_not_balanced_if_each_attribute_is_claimed():
    """Of 100 people in each of four intersections, chance decides how many certify; the intersection balances them."""
    people = pd.DataFrame({"x": range(400), "s": ["f", "m"] * 200, "r": ["a", "a", "b", "b"] * 100, "y": [0, 1] * 200})
    for each in (True, False):
        table = Table.from_frame(people, label="y", sensitive=["s", "r"], each=each)
        sizes = [np.bincount(table.groups.codes[split(table, seed=seed)["certify"]]).tolist() for seed in range(3)]
        assert (sizes != [[40] * 4] * 3) == each
