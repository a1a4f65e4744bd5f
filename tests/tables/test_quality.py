import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from certifare.tables.table import Table


def test_identifiers_are_noted():
    n = 2000
    names = pa.array([f"p{i}" for i in range(n)])
    # Text of a CSV file is read as a dictionary.
    columns = {"id": np.arange(n), "name": names, "read": names.dictionary_encode(), "x": np.arange(n) % 7}
    table = Table.from_frame(pa.table(columns))
    assert [(finding.severity, finding.column) for finding in table.findings] == [
        ("warning", "id"),
        ("warning", "name"),
        ("warning", "read"),
    ]
    assert table.notes[0] == (
        "'id': every record has a different value; drop such a column if it identifies records (--drop id)"
    )


def test_dates_in_text_form_are_noted():
    days = [f"{1 + i % 28}.{1 + i % 12}.2024" for i in range(300)]
    (finding,) = Table.from_frame(pa.table({"day": days, "x": np.arange(300) % 7})).findings
    assert (finding.column, finding.remedy) == ("day", "convert them to numbers, or leave them out (--drop day)")


def test_columns_that_seem_to_say_of_whom_a_record_is_are_noted():
    """Visits of a person are not independent, and nobody said whose they are; the column may be dropped as well."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(200), 10)
    frame = pd.DataFrame(
        {
            "person": [f"P{i}" for i in rng.permutation(200)[person]],
            "job": rng.integers(0, 150, 2000),
            "age": rng.normal(40, 9, 2000),
            "sex": np.where(rng.random(200) < 0.4, "f", "m")[person],
            "paid": rng.integers(0, 2, 2000),
        }
    ).sample(frac=1, random_state=1)
    for keywords in ({}, {"drop": "person"}):
        (note,) = Table.from_frame(frame, label="paid", sensitive="sex", **keywords).notes
        assert note.startswith("'person' has 200 values in 2,000 records, and no value has records of two groups")
        assert "--cluster" in note
    assert Table.from_frame(frame, label="paid", sensitive="sex", cluster="person").notes == ()
    # One person of both groups, and it is no person.
    frame.loc[frame.index[0], "sex"] = "f" if frame["sex"].iloc[0] == "m" else "m"
    assert Table.from_frame(frame, label="paid", sensitive="sex").notes == ()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([f"{i},{i % 10}" for i in range(200)], "'x': values are numbers, but it is read as text"),
        ([*(f"{i}.5" for i in range(195)), *["<5"] * 5], "because of '<5'"),
        ([f"{i:05d}" for i in range(200)], None),
        ([f"c{i}" for i in range(200)], None),
    ],
    ids=["decimal commas", "a few words", "codes", "names"],
)
def test_numbers_that_are_read_as_text_are_noted(values, words):
    frame = pd.DataFrame({"x": values, "sex": ["f", "m"] * 100, "paid": [0, 1, 1, 0] * 50})
    notes = Table.from_frame(frame, label="paid", sensitive="sex").notes
    assert (words is None and notes == ()) or words in notes[0]
    assert Table.from_frame(frame, label="paid", sensitive="sex", categorical="x").notes == ()
