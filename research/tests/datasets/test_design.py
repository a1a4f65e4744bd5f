import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from certifare.errors import TableError
from certifare_research.datasets import Design

TABLE = pd.DataFrame(
    {
        "age": [20.0, 40.0, 60.0, np.nan],
        "hours": [1, 2, 3, 6],
        "job": ["nurse", "cook", "cook", None],
        "code": [7, 7, 9, 9],
    }
)


def test_numbers_are_scaled_and_categories_become_bits():
    design = Design(["code"], {"hours": "standard"}, min_frequency=2).fit(TABLE)
    assert design.column_names() == ["age", "hours", "job=cook", "job=other", "code=7", "code=9", "code=other"]
    matrix = design.transform(TABLE)
    np.testing.assert_allclose(matrix[:, 0], [0, 0.5, 1, 0.5])  # the missing one is the mean
    np.testing.assert_allclose(matrix[:, 1].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(matrix[:, 1].std(), 1, atol=1e-6)
    np.testing.assert_array_equal(matrix[:, 2:4], [[0, 1], [1, 0], [1, 0], [0, 1]])  # rare and missing share a bit


def test_only_training_records_are_looked_at():
    design = Design(min_frequency=1).fit(TABLE.iloc[:2])
    later = design.transform(TABLE.iloc[2:])
    assert later[0, 0] == 2.0  # outside the training range
    assert design.column_names()[2:] == ["job=cook", "job=nurse", "job=other", "code"]


def test_same_matrix_from_arrow():
    design = Design(min_frequency=1).fit(TABLE)
    np.testing.assert_array_equal(design.transform(pa.Table.from_pandas(TABLE)), design.transform(TABLE))


def test_no_scaling():
    design = Design(scaling={"hours": "none"}).fit(TABLE[["hours"]])
    np.testing.assert_array_equal(design.transform(TABLE[["hours"]])[:, 0], [1, 2, 3, 6])


def test_text_where_numbers_were():
    design = Design(["code"], min_frequency=1).fit(TABLE[["code"]])
    with pytest.raises(TableError, match="code"):
        design.transform(pd.DataFrame({"code": ["7", "9"]}))
