import copy
import pickle

import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from certifare import CellCounts, joint_cells
from certifare.certificates import Exclusion
from certifare.certificates.claims import estimate_of
from certifare.certificates.counts import GIVEN_MISSING, MAX_RECORDS, PlacedRecords, decode_counts, given_missing
from certifare.errors import ArgumentError, CountsError, GroupError, TableError

CELLS = [0, 1, 1, 0, 2]
GROUPS = ["f", "m", "f", "f", "m"]

tables = arrays(np.int64, st.tuples(st.just(4), st.just(2)), elements=st.integers(0, 1000))


def counts_of(table):
    return CellCounts(table, groups=["f", "m"])


@given(tables, tables, tables)
def test_addition_is_a_commutative_monoid(a, b, c):
    a, b, c = counts_of(a), counts_of(b), counts_of(c)
    zero = counts_of(np.zeros((4, 2), dtype=int))
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + zero == a
    assert (a + b).n_records == a.n_records + b.n_records


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("fmx"), st.sampled_from("01")), min_size=1), st.integers())
def test_counting_parts_equals_counting_the_whole(records, cut):
    cells, groups, labels = map(list, zip(*records, strict=True))
    whole = CellCounts.from_cells(cells, groups, labels, 4)
    cut = cut % len(records)
    parts = [
        CellCounts.from_cells(cells[i:j], groups[i:j], labels[i:j], 4)
        for i, j in ((0, cut), (cut, len(records)))
        if i < j
    ]
    total = sum(parts[1:], parts[0])
    for group in whole.groups:
        for label in whole.labels:
            assert total.given_label(label).of_groups(group) == whole.given_label(label).of_groups(group)
    naive = sum(1 for c, g, y in records if (c, g, y) == records[0])
    c, g, y = records[0]
    assert whole.table[c, whole.groups.index(g), whole.labels.index(y)] == naive


@given(tables.filter(lambda t: t.sum(axis=0).min() > 0), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_merging_cells_never_raises_the_estimate(table, mapping):
    merged = counts_of(table).merge_cells(mapping, 3)
    assert merged.group_sizes == counts_of(table).group_sizes
    assert estimate_of(merged.table) <= estimate_of(table) + 1e-15


def test_groups_are_matched_by_name():
    total = CellCounts([[1, 2]], ["f", "m"]) + CellCounts([[10, 20]], ["m", "x"])
    assert total.groups == ("f", "m", "x")
    assert total.table.tolist() == [[1, 12, 20]]
    with_labels = CellCounts([[[1], [2]]], ["f", "m"], ["0"]) + CellCounts([[[3, 4]]], ["m"], ["1", "0"])
    assert with_labels.table.tolist() == [[[1, 0], [6, 3]]]


@pytest.mark.parametrize(
    "kind",
    [
        list,
        np.array,
        lambda v: np.array(v, dtype=object),
        pd.Series,
        lambda v: pd.Series(v, dtype="category"),
        lambda v: pd.Series(v, dtype="string"),
        pl.Series,
        lambda v: pl.Series(v, dtype=pl.Categorical),
        pa.array,
        lambda v: pa.chunked_array([v[:2], v[2:]]),
    ],
)
def test_any_kind_of_column(kind):
    counts = CellCounts.from_cells(np.array(CELLS), kind(GROUPS), kind(list("01100")), n_cells=4)
    assert counts.groups == ("f", "m")
    assert counts.without_labels().table.tolist() == [[2, 0], [1, 1], [0, 1], [0, 0]]
    assert counts.given_label(1).table.tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    "table",
    [
        {"sex": ["f", "m", "f", "f"], "old": [1, 0, 0, 1]},
        pd.DataFrame({"sex": ["f", "m", "f", "f"], "old": [1.0, 0.0, 0.0, 1.0]}),
        pl.DataFrame({"sex": ["f", "m", "f", "f"], "old": [1, 0, 0, 1]}),
        pa.table({"sex": ["f", "m", "f", "f"], "old": [1, 0, 0, 1]}),
        np.array([["f", "1"], ["m", "0"], ["f", "0"], ["f", "1"]]),
    ],
)
def test_intersections_of_sensitive_columns(table):
    counts = CellCounts.from_cells([0, 0, 1, 1], table, n_cells=2)
    assert counts.groups == ("f × 0", "f × 1", "m × 0")
    assert counts.table.tolist() == [[0, 1, 1], [1, 1, 0]]


def test_names_of_numbers_sort_by_value():
    assert CellCounts.from_cells([0, 0, 0], [10, 9, 2]).groups == ("2", "9", "10")
    assert CellCounts.from_cells([0, 0], [True, False]).groups == ("False", "True")


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA, pd.NaT])
def test_missing_groups(gap):
    groups = ["f", gap, "m", "f", gap]
    with pytest.raises(TableError, match=r"2 of 5 records lack a group.*unknown.*drop"):
        CellCounts.from_cells(CELLS, groups)
    counted = CellCounts.from_cells(CELLS, groups, missing="unknown")
    assert counted.group_sizes == {"f": 2, "m": 1, "unknown": 2}
    dropped = CellCounts.from_cells(CELLS, groups, missing="drop", n_cells=3)
    assert dropped.n_records == 3
    assert dropped.exclusions == (Exclusion("group missing", 2),)
    assert (dropped + dropped).exclusions == (Exclusion("group missing", 4),)


def test_missing_labels_are_refused_or_dropped():
    labels = [1.0, float("nan"), 0.0, 1.0, 0.0]
    with pytest.raises(TableError, match="1 records lack a label"):
        CellCounts.from_cells(CELLS, GROUPS, labels)
    with pytest.raises(TableError):
        CellCounts.from_cells(CELLS, GROUPS, labels, missing="unknown")
    counts = CellCounts.from_cells(CELLS, GROUPS, labels, missing="drop")
    assert counts.n_records == 4
    assert counts.exclusions == (Exclusion("label missing", 1),)


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        ([[1, -2]], CountsError, "is -2"),
        ([[1.5, 2]], CountsError, "found 1.5"),
        ([[float("nan"), 2]], CountsError, "found nan"),
        ([["a", "b"]], CountsError, "whole numbers"),
        ([[1, 2], [3]], CountsError, "differ in length"),
        ([1, 2], CountsError, "two axes"),
        ([[1, 2, 3]], CountsError, "2 groups"),
        (np.zeros((0, 2)), CountsError, "two axes"),
        ([[2**53, 2**53]], CountsError, "More than"),
        ([[10**30, 1]], CountsError, "whole numbers"),
    ],
)
def test_bad_tables_are_refused(table, error, words):
    with pytest.raises(error, match=words):
        CellCounts(table, groups=["f", "m"])


def test_bad_names_are_refused():
    with pytest.raises(CountsError, match="must differ"):
        CellCounts([[1, 2]], groups=["f", "f"])
    with pytest.raises(CountsError, match="No groups"):
        CellCounts(np.zeros((1, 0)), groups=[])


@pytest.mark.parametrize(
    ("cells", "n_cells", "words"),
    [
        ([0, 3], 3, "1 cell ids lie outside 0 … 2; the first is 3, at record 1"),
        ([-1, 0], 3, "first is -1"),
        ([0, 5, 4], 3, "2 cell ids lie outside 0 … 2; the first is 5, at record 1"),
        ([0.5, 1], 3, "whole numbers"),
        ([[0, 1]], 3, "one id per record"),
        ([0, 0], 0, "at least one cell"),
    ],
)
def test_bad_cells_are_refused(cells, n_cells, words):
    with pytest.raises(CountsError, match=words):
        CellCounts.from_cells(cells, ["f", "m"], n_cells=n_cells)


def test_other_bad_input_is_refused():
    with pytest.raises(ArgumentError, match="cells has 5 records, sensitive_features has 2"):
        CellCounts.from_cells(CELLS, ["f", "m"])
    with pytest.raises(ArgumentError, match="y has 1"):
        CellCounts.from_cells(CELLS, GROUPS, ["1"])
    with pytest.raises(GroupError):
        CellCounts.from_cells([], [], n_cells=2)
    with pytest.raises(ArgumentError, match="refuse"):
        CellCounts.from_cells(CELLS, GROUPS, missing="ignore")
    with pytest.raises(CountsError, match="different encoders"):
        CellCounts([[1, 2]], "fm") + CellCounts([[1, 2], [3, 4]], "fm")
    with pytest.raises(CountsError, match="labels"):
        CellCounts([[1, 2]], "fm") + CellCounts([[[1], [2]]], "fm", ["0"])
    with pytest.raises(GroupError, match="No group 'x'"):
        CellCounts([[1, 2]], "fm").of_groups("x")
    with pytest.raises(ArgumentError):
        CellCounts([[1, 2]], "fm").given_label(1)


def test_counts_cannot_change_and_copy_well():
    counts = CellCounts([[1, 2]], "fm", exclusions=[Exclusion("why", 3)])
    with pytest.raises(AttributeError):
        counts.groups = ("a", "b")
    with pytest.raises(ValueError, match="read-only"):
        counts.table[0, 0] = 5
    assert copy.deepcopy(counts) == counts
    assert pickle.loads(pickle.dumps(counts)) == counts  # noqa: S301 (our own bytes)
    assert hash(copy.copy(counts)) == hash(counts)
    assert repr(counts) == "<CellCounts: 1 cells, f: 1, m: 2>"


def test_dictionary_round_trip_and_hostile_documents():
    counts = CellCounts([[[1, 0], [2, 5]]], "fm", ["0", "1"], [Exclusion("group missing", 2)])
    assert CellCounts.from_dict(counts.to_dict()) == counts
    good = CellCounts([[1, 2]], "fm").to_dict()
    for change in (
        {"extra": 1},
        {"exclusions": [{"reason": "x"}]},
        {"exclusions": [{"reason": "x", "records": -1}]},
        {"groups": "fm"},
        {"groups": [1, 2]},
        {"table": "no"},
        {"table": None},
    ):
        with pytest.raises(CountsError):
            CellCounts.from_dict({**good, **change})


def test_joint_release():
    cells, k = joint_cells([0, 1, 1], [2, 0, 2], n_cells=[2, 3])
    assert k == 6
    assert cells.tolist() == [2, 3, 5]
    with pytest.raises(ArgumentError):
        joint_cells([0, 1], n_cells=[2, 3])
    with pytest.raises(ArgumentError):
        joint_cells([0, 1], [0], n_cells=[2, 3])


# -- edges --------------------------------------------------------------------------------------------------------


def test_as_many_records_as_stay_exact_are_counted():
    assert CellCounts([[MAX_RECORDS - 5, 5]], "fm").n_records == MAX_RECORDS == 2**53
    with pytest.raises(CountsError, match="More than"):
        CellCounts([[MAX_RECORDS, 2]], "fm")
    for records, accepted in ((0, True), (MAX_RECORDS, True), (MAX_RECORDS + 1, False), (-1, False)):
        document = {**CellCounts([[1, 2]], "fm").to_dict(), "exclusions": [{"reason": "why", "records": records}]}
        if accepted:
            counts = CellCounts.from_dict(document)
            assert counts == CellCounts([[1, 2]], "fm", exclusions=[Exclusion("why", records)])
            assert counts.exclusions == ((Exclusion("why", records),) if records else ())
        else:
            with pytest.raises(CountsError):
                CellCounts.from_dict(document)
            with pytest.raises(CountsError):
                CellCounts([[1, 2]], "fm", exclusions=[Exclusion("why", records)])


@pytest.mark.parametrize("count", [-1, -0.5, 0.5, -2, 1e17])
def test_what_is_no_number_of_records_is_refused(count):
    with pytest.raises(CountsError):
        CellCounts([[3, count]], "fm")


def test_counts_are_equal_in_all_they_hold_or_they_are_not():
    counts = CellCounts([[[1, 2], [3, 4]]], "fm", "01", [Exclusion("why", 3)])
    others = [
        CellCounts([[[1, 2], [3, 5]]], "fm", "01", [Exclusion("why", 3)]),
        CellCounts([[[1, 2], [3, 4]]], "fx", "01", [Exclusion("why", 3)]),
        CellCounts([[[1, 2], [3, 4]]], "fm", "02", [Exclusion("why", 3)]),
        CellCounts([[[1, 2], [3, 4]]], "fm", "01", [Exclusion("why", 4)]),
        CellCounts([[[1, 2], [3, 4]]], "fm", "01"),
    ]
    assert counts == CellCounts([[[1, 2], [3, 4]]], "fm", "01", [Exclusion("why", 3)])
    assert not any(counts == other for other in others)
    assert counts != "counts"


def test_exclusions_are_added_up_and_sorted():
    exclusions = [Exclusion("b", 2), Exclusion("a", 1), Exclusion("c", 0), Exclusion("b", 5)]
    assert CellCounts([[1, 2]], "fm", exclusions=exclusions).exclusions == (Exclusion("a", 1), Exclusion("b", 7))


@pytest.mark.parametrize("what", ["groups", "labels", "exclusions"])
def test_a_thousand_names_are_read_from_a_file_and_no_more(what):
    for n, accepted in ((1000, True), (1001, False)):
        names = [f"{i:04}" for i in range(n)]
        shapes = {"groups": (1, n, 2), "labels": (1, 2, n), "exclusions": (1, 2, 2)}
        document = {
            "groups": names if what == "groups" else ["f", "m"],
            "labels": names if what == "labels" else ["0", "1"],
            "table": np.ones(shapes[what], dtype=int).tolist(),
            "exclusions": [{"reason": name, "records": 1} for name in names] if what == "exclusions" else [],
        }
        if accepted:
            assert CellCounts.from_dict(document).n_records == np.prod(shapes[what])
        else:
            with pytest.raises(CountsError, match=f"length <= 1000.*{what}"):
                CellCounts.from_dict(document)


def test_counts_are_added_to_counts_alone():
    assert CellCounts([[1, 2]], "fm").__add__(3) is NotImplemented
    with pytest.raises(TypeError):
        CellCounts([[1, 2]], "fm") + 3


@pytest.mark.slow
def test_a_table_of_a_million_counts_is_read_from_a_file_and_no_larger_one():
    for cells, accepted in ((2**19, True), (2**19 + 1, False)):
        document = {"groups": ["f", "m"], "table": np.ones((cells, 2), dtype=int).tolist()}
        if accepted:
            assert CellCounts.from_dict(document).n_cells == cells
        else:
            with pytest.raises(CountsError, match="1,048,578 counts"):
                CellCounts.from_dict(document)


def test_names_in_a_file_are_all_text():
    good = CellCounts([[[1, 2], [3, 4]]], "fm", "01").to_dict()
    for change in (
        {"groups": ["f", 1]},
        {"labels": ["0", 1]},
        {"labels": "01"},
        {"groups": None},
    ):
        with pytest.raises(CountsError, match="Not a table of counts: Expected `(str|array)"):
            CellCounts.from_dict({**good, **change})


def test_cells_may_be_whole_numbers_of_any_type():
    expected = CellCounts.from_cells([0, 2, 1], ["f", "m", "f"], n_cells=3)
    for cells in (np.array([0.0, 2.0, 1.0]), np.array([0, 2, 1], dtype=np.uint8), pd.Series([0, 2, 1])):
        assert CellCounts.from_cells(cells, ["f", "m", "f"], n_cells=3) == expected
    assert CellCounts.from_cells([0, 2, 1], ["f", "m", "f"]) == expected
    for cells in ([0.0, 2.5, 1.0], [0.0, np.nan, 1.0], [0.0, np.inf, 1.0], ["0", "2", "1"], [-1, 2, 1], [0, 3, 1]):
        with pytest.raises(CountsError):
            CellCounts.from_cells(cells, ["f", "m", "f"], n_cells=3)


def test_the_first_negative_count_is_named():
    with pytest.raises(CountsError, match=r"position \(0, 1\) is -3"):
        CellCounts([[4, -3], [-2, 5]], ["f", "m"])


def test_counts_that_are_read_already_stay_as_they_are():
    counts = CellCounts([[4, 3], [2, 5]], ["f", "m"])
    assert decode_counts(CellCounts, counts) is counts
    assert decode_counts(CellCounts, counts.to_dict()) == counts


@pytest.mark.parametrize("table", [[[True, 1]], [[1.0, 2]], "counts", None, [[[1], [2]]]])
def test_only_tables_of_whole_numbers_are_read(table):
    with pytest.raises((CountsError, msgspec.ValidationError)):
        decode_counts(CellCounts, {"groups": ["f", "m"], "table": table})


def test_a_label_that_only_records_without_a_group_have_does_not_count():
    counts = CellCounts.from_cells([0, 0, 0], [None, "f", "m"], ["a", "b", "c"], missing="drop")
    assert counts.labels == ("b", "c")


def test_two_groups_of_one_name_are_refused():
    groups = {"first": ["a × b", "a"], "second": ["c", "b × c"]}
    with pytest.raises(GroupError, match="Two groups would be called 'a × b × c'"):
        CellCounts.from_cells([0, 1], groups)


def test_releases_have_as_many_cells_together_as_counts_are_exact():
    assert joint_cells([1], [2], n_cells=[2**26, 2**27])[1] == MAX_RECORDS
    with pytest.raises(CountsError, match="cells together"):
        joint_cells([1], [2], n_cells=[2**26 + 1, 2**27])


@pytest.mark.parametrize("labels", [["a", "b"], ["b", "a"]])
def test_whose_group_is_missing_adds_no_label_whatever_it_is(labels):
    counts = CellCounts.from_cells([0, 0], [None, "f"], labels, missing="drop")
    assert counts.labels == (labels[1],)
    assert counts.table.tolist() == [[[1]]]


def test_counts_take_the_groups_and_labels_of_others_in_their_order():
    counts = CellCounts([[[1, 2], [3, 4], [5, 6]]], "fmx", "01", [Exclusion("why", 3)])
    other = CellCounts(np.ones((1, 2, 3), dtype=int), "xf", "120")
    assert counts.like(other) == CellCounts([[[6, 0, 5], [2, 0, 1]]], "xf", "120", [Exclusion("why", 3)])
    assert counts.like(other.without_labels()) == CellCounts([[11, 3]], "xf", exclusions=[Exclusion("why", 3)])
    with pytest.raises(CountsError, match="No label '1' among '0'"):
        counts.like(CellCounts([[[1], [2]]], "xf", "0"))
    with pytest.raises(ArgumentError, match="have no labels"):
        counts.without_labels().like(other)


def test_some_of_the_placed_records_are_counted_without_the_others():
    placed = PlacedRecords.of([0, 1, 1, 0], ["f", "m", None, "f"], list("0110"), 2, missing="drop")
    assert placed.count() == CellCounts(
        [[[2, 0], [0, 0]], [[0, 0], [0, 1]]], "fm", "01", [Exclusion("group missing", 1)]
    )
    some = placed.count(np.array([True, False, True, False]))
    assert some == CellCounts([[[1, 0], [0, 0]], [[0, 0], [0, 0]]], "fm", "01")


def test_a_missing_value_of_the_given_column_is_called_so():
    counts = CellCounts([[1, 2]], "fm", exclusions=[Exclusion("group missing", 2), Exclusion("label missing", 3)])
    assert given_missing(counts) == [Exclusion("group missing", 2), Exclusion(GIVEN_MISSING, 3)]


def test_sensitive_features_have_a_column():
    for empty in ({}, pd.DataFrame(index=range(2)), np.empty((2, 0))):
        with pytest.raises(GroupError, match="has no column"):
            CellCounts.from_cells([0, 1], empty)
