import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from certifare.certificates import CellCounts, Exclusion
from certifare.errors import MissingColumnError, RoleError, TableError
from certifare.tables.table import Table, read_table, refuse_quantity

PEOPLE = {
    "age": [25, 61, 70, 33],
    "sex": ["f", "m", "f", "m"],
    "race": ["w", "b", "b", "w"],
    "income": [10_000.0, 60_000.0, 55_000.0, 20_000.0],
    "zip": [1010, 1020, 1010, 1030],
    "w": [1.0, 2.0, 0.0, 1.5],
    "home": ["x", "x", "y", "z"],
}


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def frame(request):
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[request.param](PEOPLE)


def test_each_role_becomes_its_part_of_the_table(frame):
    table = Table.from_frame(frame, label="income>50000", sensitive=["sex", "age>=60"], weight="w", cluster="home")
    assert table.features.column_names == ["race", "zip"]
    assert table.labels[0].names == ("income <= 50000", "income > 50000")
    assert table.labels[0].codes.tolist() == [0, 1, 1, 0]
    assert table.positive == "income > 50000"
    assert table.groups.names == ("f × age < 60", "f × age >= 60", "m × age < 60", "m × age >= 60")
    assert table.groups.codes.tolist() == [0, 3, 1, 2]
    assert table.sensitive.column_names == ["sex × age>=60"]
    assert table.sensitive.column(0).to_pylist() == ["f × age < 60", "m × age >= 60", "f × age >= 60", "m × age < 60"]
    assert table.weights.tolist() == [1.0, 2.0, 0.0, 1.5]
    assert table.clusters.tolist() == [0, 0, 1, 2]
    assert (len(table), table.n_rows, table.exclusions) == (4, 4, ())


def test_groups_are_named_as_counts_name_them(frame):
    table = Table.from_frame(frame, label="zip", sensitive=["sex", "race"])
    cells = np.array([0, 1, 1, 0])
    by_hand = CellCounts.from_cells(cells, {"s": PEOPLE["sex"], "r": PEOPLE["race"]}, PEOPLE["zip"], 2)
    assert table.count(cells, 2, labels=True) == by_hand
    assert table.count(cells, 2) == by_hand.without_labels()


def test_labels_stay_what_they_are(frame):
    table = Table.from_frame(frame, label="zip", sensitive="sex")
    assert table.y.to_pylist() == PEOPLE["zip"]
    assert table.labels[0].names == ("1010", "1020", "1030")
    several = Table.from_frame(frame, label=["zip", "race"], sensitive="sex")
    assert [label.name for label in several.labels] == ["zip", "race"]
    assert [label.to_arrow().to_pylist() for label in several.labels] == [PEOPLE["zip"], PEOPLE["race"]]
    assert several.labels[1].codes.tolist() == [1, 0, 0, 1]
    none = Table.from_frame(frame)
    assert none.y is None
    assert none.sensitive is None
    assert none.features.num_columns == 7


def test_taken_rows_keep_their_roles(frame):
    table = Table.from_frame(frame, label="race", sensitive="sex", weight="w", cluster="home").take(np.array([3, 1]))
    assert table.features["age"].to_pylist() == [33, 61]
    assert table.labels[0].codes.tolist() == [1, 0]
    assert table.groups.codes.tolist() == [1, 1]
    assert table.groups.names == ("f", "m")
    assert table.sensitive.to_pydict() == {"sex": ["m", "m"]}
    assert table.weights.tolist() == [1.5, 2.0]
    assert table.clusters.tolist() == [2, 0]


def test_rows_of_a_table_are_copied_only_while_they_are_read():
    n = 50_000
    people = pd.DataFrame({"x": np.arange(n) / 2, "s": np.arange(n) % 2, "w": 1.0})
    table = Table.from_frame(people, sensitive="s", weight="w")
    rows, held = np.arange(n)[::-2], pa.total_allocated_bytes()
    part = table.take(rows).take(np.arange(1_000, 20_000)).changed(weights=None).pooled(["0"])
    assert (len(part), part.weights) == (19_000, None)
    assert pa.total_allocated_bytes() - held < 1_000
    found = part.features
    assert np.array_equal(found.column("x").to_numpy(), (np.arange(n) / 2)[rows][1_000:20_000])
    assert part.select(["s", "x"]).column("s").to_pylist()[:2] == [1, 1]
    assert pa.total_allocated_bytes() - held >= 19_000 * 8
    del found
    assert pa.total_allocated_bytes() - held < 1_000


def test_kinds_of_columns_can_be_overridden(frame):
    table = Table.from_frame(frame, label="race", sensitive="sex", categorical="zip", drop=["home", "w"])
    kinds = {row["column"]: row["kind"] for row in table.summary()}
    assert kinds == {
        "race": "2 values",
        "sex": "2 groups",
        "age": "continuous",
        "income": "continuous",
        "zip": "categorical",
    }
    assert table.features["zip"].to_pylist() == PEOPLE["zip"]


def test_features_that_an_encoder_wants(frame):
    table = Table.from_frame(frame, sensitive="sex", features=["zip", "sex"])
    assert table.features.column_names == ["zip", "sex"]
    assert table.groups.names == ("f", "m")
    dated = pa.table({"x": [1, 2], "s": ["f", "m"], "born": pa.array([0, 1], pa.date32())})
    assert Table.from_frame(dated, sensitive="s", features="x").features.column_names == ["x"]
    with pytest.raises(MissingColumnError, match="--feature.. Did you mean 'zip'"):
        Table.from_frame(frame, sensitive="sex", features=["zipp"])


def test_records_without_group_or_weight_are_left_out_and_counted_and_those_without_label_stay():
    columns = pa.table({
        "x": [1, 2, 3, 4, 5, 6, 7],
        "s": ["f", None, "m", "f", "m", None, "m"],
        "y": [0.0, 1.0, float("nan"), 1.0, 0.0, float("nan"), 1.0],
        "w": [1.0, 1.0, 1.0, None, 1.0, 1.0, 2.0],
    })  # fmt: skip
    table = Table.from_frame(columns, label="y", sensitive="s", weight="w")
    assert table.features["x"].to_pylist() == [1, 3, 5, 7]
    assert table.exclusions == (Exclusion("group missing", 2), Exclusion("weight missing", 1))
    assert table.labels[0].names == ("0", "1")
    assert table.labels[0].codes.tolist() == [0, -1, 0, 1]
    assert table.labelled.tolist() == [True, False, True, True]
    of_labelled = table.of_labelled()
    assert of_labelled.features["x"].to_pylist() == [1, 5, 7]
    assert of_labelled.exclusions == (*table.exclusions, Exclusion("label missing", 1))
    assert of_labelled.of_labelled() is of_labelled
    everyone, with_label = table.count(np.zeros(4, dtype=int), 1), table.count(np.zeros(4, dtype=int), 1, labels=True)
    assert everyone.table.tolist() == [[1, 3]]
    assert everyone.exclusions == ()
    assert with_label.table.tolist() == [[[1, 0], [1, 1]]]
    assert with_label.exclusions == (Exclusion("label missing", 1),)
    assert [row["missing"] for row in table.summary() if row["role"] == "label"] == [1]


@pytest.mark.parametrize("as_categories", [False, True])
def test_each_label_has_missing_values_of_its_own(as_categories):
    columns = pa.table({"x": [1, 2, 3, 4, 5], "y": ["a", None, "b", "a", "b"], "z": ["u", "v", None, "v", "u"]})
    if as_categories:
        columns = columns.set_column(1, "y", columns["y"].dictionary_encode())
    table = Table.from_frame(columns, label=["y", "z"])
    # Claims condition on the first label; encoders learn from records with all of them.
    assert [values.codes.tolist() for values in table.labels] == [[0, -1, 1, 0, 1], [0, 1, -1, 1, 0]]
    assert table.labelled.tolist() == [True, False, True, True, True]
    assert table.trainable.tolist() == [True, False, False, True, True]


def test_records_without_a_group_can_be_a_group():
    columns = pa.table({"x": [1, 2, 3], "s": ["f", None, "m"], "t": [1, 2, None]})
    table = Table.from_frame(columns, sensitive="s", missing_groups="unknown")
    assert table.groups.names == ("f", "m", "unknown")
    assert table.groups.codes.tolist() == [0, 2, 1]
    both = Table.from_frame(columns, sensitive=["s", "t"], missing_groups="unknown")
    assert both.groups.names == ("f × 1", "unknown")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"label": "incme"}, MissingColumnError, r"\(--label\). Did you mean 'income'"),
        ({"label": "income, race"}, MissingColumnError, "Name 'income' and 'race' separately: repeat the option"),
        ({"label": "race", "sensitive": "Sex"}, MissingColumnError, r"\(--sensitive\). Did you mean 'sex'"),
        ({"drop": "agee"}, MissingColumnError, "Did you mean 'age'"),
        ({"categorical": "zipp"}, MissingColumnError, "Did you mean 'zip'"),
        ({"label": "sex", "sensitive": "sex"}, RoleError, "as both label and sensitive"),
        ({"label": "age>30", "sensitive": "age>=60"}, RoleError, "as both label and sensitive"),
        ({"label": "sex", "categorical": "sex"}, RoleError, "is the label"),
        ({"weight": "sex"}, TableError, "Weights must be numbers"),
        ({"weight": "age>3"}, RoleError, "must be a column"),
        ({"drop": list(PEOPLE)}, TableError, "No feature is left"),
        ({"missing_groups": "keep"}, RoleError, "missing_groups"),
    ],
)
def test_impossible_roles_are_refused(frame, options, error, message):
    with pytest.raises(error, match=message):
        Table.from_frame(frame, **options)


def test_quantities_are_no_labels_or_groups():
    numbers = list(map(str, range(200)))
    refuse_quantity("income", numbers[:100], "label")
    with pytest.raises(RoleError, match='200 different values.*"income>=100"'):
        refuse_quantity("income", numbers, "label")
    with pytest.raises(RoleError, match="sensitive column 'town'.*Merge categories"):
        refuse_quantity("town", [*numbers, "elsewhere"], "sensitive column")


def test_columns_that_no_encoder_reads_are_named_together():
    columns = pa.table({"x": [1], "born": pa.array([0], pa.date32()), "tags": [["a"]], "raw": [b"x"]})
    with pytest.raises(TableError, match=r"'born' \(date32\[day\]\), 'tags' \(list.*'raw' \(binary\)"):
        Table.from_frame(columns)
    assert Table.from_frame(columns, drop=["born", "tags", "raw"]).features.column_names == ["x"]
    with pytest.raises(TableError, match="The label must be"):
        Table.from_frame(columns, drop=["tags", "raw"], label="born")


def test_negative_weights_no_records_left_and_bad_frames():
    with pytest.raises(RoleError, match="has the weight -1. Weights must be"):
        Table.from_frame(pa.table({"x": [1, 2], "w": [1.0, -1.0]}), weight="w")
    with pytest.raises(TableError, match="each one has no cluster"):
        Table.from_frame(pa.table({"x": [1, 2], "c": pa.array([None, None], pa.string())}), cluster="c")
    with pytest.raises(TableError, match="no names"):
        Table.from_frame(np.ones((2, 2)))
    with pytest.raises(TableError):
        Table.from_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(TableError, match="'a'"):
        Table.from_frame(pd.DataFrame({"a": [1, "x"]}, dtype=object))


def test_a_pandas_index_is_no_feature():
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index([7, 8], name="id"))
    assert Table.from_frame(frame).features.column_names == ["a"]


def test_reading_a_file_is_reading_a_frame(tmp_path):
    frame = pd.DataFrame(PEOPLE)
    frame.to_csv(tmp_path / "people.csv", index=False, sep=";")
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "people.parquet")
    options = {"label": "income>50000", "sensitive": "sex", "cluster": "home", "weight": "w"}
    expected = Table.from_frame(frame, **options)
    for name in ("people.csv", "people.parquet"):
        table = read_table(tmp_path / name, **options)
        assert table.source == tmp_path / name
        assert table.features.to_pylist() == expected.features.to_pylist()
        assert np.array_equal(table.groups.codes, expected.groups.codes)
        assert np.array_equal(table.labels[0].codes, expected.labels[0].codes)


def test_digests_tell_tables_apart(frame):
    options = {"label": "race", "sensitive": "sex"}
    table = Table.from_frame(frame, **options)
    assert table.digest == Table.from_frame(frame, **options).digest
    assert table.digest != table.take(np.array([1, 0, 2, 3])).digest
    assert table.digest == Table.from_frame(frame, label="race", sensitive="age>=60").digest


def test_streams_know_the_records_whatever_their_roles(frame):
    """Roles, dropped columns and cuts of the label must not change which records are split or drawn together."""
    one = Table.from_frame(frame, label="race", sensitive="sex")
    other = Table.from_frame(frame, label="sex", sensitive="age>=60", drop="race")
    assert one.records == other.records
    taken = [one.take(np.array(rows)).records for rows in ([1, 0], [0, 1], [1, 0])]
    assert taken[0] == taken[2] != taken[1] != one.records  # other records, or in another order
    assert one.records != Table.from_frame(frame[::-1], label="race", sensitive="sex").records
