"""Entries laid out as counts equal ``CellCounts.from_cells``."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.certificates import CellCounts
from certifare.certificates.counts import GROUP_MISSING, LABEL_MISSING, Exclusion
from certifare.engines.entries import Entry, lay_out, name_entry
from certifare.errors import ArgumentError, CertifareError, CountsError, GroupError, TableError
from certifare.foundation.levels import UNKNOWN
from certifare.tables.reading import POOLED, Reading
from certifare.tables.table import band_names

values = st.sampled_from(["f", "m", "10", "9", "-1", "unknown", None])


@given(
    records=st.lists(st.tuples(st.integers(0, 3), values, values, values), min_size=1, max_size=30),
    two_columns=st.booleans(),
    labelled=st.booleans(),
    missing=st.sampled_from(["refuse", "unknown", "drop"]),
)
def test_equal_to_from_cells(records: list[Any], two_columns: bool, labelled: bool, missing: Any) -> None:
    cells = [cell for cell, *_ in records]
    groups = {0: [r[1] for r in records]} | ({1: [r[2] for r in records]} if two_columns else {})
    labels = [r[3] for r in records] if labelled else None
    entries = [Entry(r[0], r[1:3] if two_columns else r[1:2], r[3], 1) for r in records]

    def outcome(make: Any) -> Any:
        try:
            return make()
        except CertifareError as error:
            return type(error)

    wanted = outcome(lambda: CellCounts.from_cells(cells, groups, labels, 4, missing=missing))
    assert outcome(lambda: lay_out(entries, 4, labelled=labelled, missing=missing)) == wanted


def test_bad_entries_are_refused() -> None:
    with pytest.raises(CountsError, match=r"1 cell ids lie outside 0 … 3; the first is 4"):
        lay_out([Entry(4, ("f",), None, 1)], 4, labelled=False)
    with pytest.raises(ArgumentError, match="missing"):
        lay_out([], 4, labelled=False, missing="guess")  # type: ignore[arg-type]
    with pytest.raises(GroupError):
        lay_out([], 4, labelled=False)


def test_counts_of_many_records_stay_exact() -> None:
    entries = [Entry(0, ("f",), None, 10**12), Entry(0, ("m",), None, 1)]
    np.testing.assert_array_equal(lay_out(entries, 1, labelled=False).table, [[10**12, 1]])


def test_counted_labels_fall_into_the_bands_of_memory():
    """As in memory: a number on a cut belongs to the band above, and NaN is no label."""
    reading = Reading(sensitive=("sex",), label="income", label_cuts=(20.0, 50.0))
    values = ("19.9", "20", "49", "50", "inf", "nan", None)
    labels = [name_entry(Entry(0, ("f",), value, 1), reading).label for value in values]
    low, middle, high = band_names("income", (20.0, 50.0))
    assert labels == [low, middle, middle, high, high, None, None]
    with pytest.raises(TableError, match="'income' holds 'much'. A label with cuts must hold numbers"):
        name_entry(Entry(0, ("f",), "much", 1), reading)


def test_pooled_groups_of_counted_records():
    """As in memory: who has no group is left out, or of a group of their own, which may be pooled like any other."""
    values = [("f", "1"), ("m", "1"), ("f", None), (None, None)]

    def groups(**how: Any) -> list[Any]:
        reading = Reading(sensitive=("sex", "race"), **how)
        return [name_entry(Entry(0, value, None, 1), reading).groups for value in values]

    assert groups() == groups(unknown_groups=True) == values
    assert groups(kept_groups=("f × 1",)) == [("f × 1",), (POOLED,), (None,), (None,)]
    assert groups(kept_groups=("f × 1",), unknown_groups=True) == [("f × 1",), *[(POOLED,)] * 3]
    kept = ("f × 1", UNKNOWN)
    assert groups(kept_groups=kept, unknown_groups=True) == [("f × 1",), (POOLED,), (UNKNOWN,), (UNKNOWN,)]


def test_labels_that_are_missing_are_left_out_whatever_becomes_of_groups() -> None:
    entries = [
        Entry(0, ("f",), "1", 5),
        Entry(0, (None,), "1", 4),
        Entry(0, (None,), None, 3),
        Entry(0, ("m",), None, 2),
    ]
    unknown = lay_out(entries, 1, labelled=True, missing="unknown", drop_unlabelled=True)
    assert unknown.group_sizes == {"f": 5, "m": 0, UNKNOWN: 4}
    assert unknown.exclusions == (Exclusion(LABEL_MISSING, 5),)
    dropped = lay_out(entries, 1, labelled=True, missing="drop", drop_unlabelled=True)
    assert dropped == lay_out(entries, 1, labelled=True, missing="drop")
    assert dropped.exclusions == (Exclusion(GROUP_MISSING, 7), Exclusion(LABEL_MISSING, 2))
    with pytest.raises(TableError, match="5 records lack a label"):
        lay_out(entries, 1, labelled=True, missing="unknown")


def test_groups_that_would_have_one_name_are_refused():
    """Added up, they would hide what tells them apart."""
    entries = [Entry(0, ("a × b", "c"), None, 5), Entry(1, ("a", "b × c"), None, 5)]
    with pytest.raises(GroupError, match="Two groups would be called 'a × b × c'"):
        lay_out(entries, 2, labelled=False)
