"""Tables that are hard to read in pieces."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st


def make_people(n: int, seed: int = 0) -> pd.DataFrame:
    """People with every kind of column: small and large numbers, text, categories, truth values; some missing."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["female", "male"], n)
    age = rng.integers(18, 80, n).astype(float)
    job = np.where(rng.random(n) < 0.3 + 0.3 * (sex == "male"), rng.choice(["driver", "smith"], n), "nurse").astype(
        object
    )
    job[rng.random(n) < 0.02] = "lighthouse keeper"
    wage = rng.lognormal(3, 1, n)
    score = 0.05 * (age - 45) + np.log(wage) - 3 + (job == "smith") + rng.normal(size=n)
    age[rng.random(n) < 0.1] = np.nan
    job[rng.random(n) < 0.1] = None
    wage[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "wage": wage,
            "miles": rng.integers(0, 3000, n),
            "job": pd.Series(job, dtype="str"),
            "town": pd.Categorical([f"town {i}" for i in np.minimum(rng.geometric(0.2, n), 12)]),
            "code": rng.choice([-7, 3, 10**7], n),
            "member": rng.random(n) < 0.5,
            "sex": sex,
            "race": rng.integers(1, 4, n),
            "paid": (score > 0).astype(int),
        }
    )


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Tables of any columns, with values that few records have or lack, and two or three labels and groups."""
    n = draw(st.integers(6, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns: dict[str, Any] = {}
    for i in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["count", "number", "code", "text", "category", "truth"]))
        most = draw(st.integers(1, 30))
        common = np.minimum(rng.geometric(draw(st.sampled_from([0.1, 0.5, 0.9])), n), most)
        values = {
            "count": common.astype(float),
            "number": np.round(rng.normal(size=n), draw(st.integers(0, 6))),
            "code": common * 1_000_003.0 - 2_000_006.0,
            "truth": common > most // 2,
        }.get(kind, np.array([f"value {rank}" for rank in common], dtype=object))
        lacks = rng.random(n) < (0.0 if kind == "truth" else draw(st.sampled_from([0.0, 0.0, 0.1, 0.7, 1.0])))
        if lacks.any():
            values[lacks] = None if values.dtype == object else np.nan
        if kind in ("text", "category"):
            values = pd.Series(values, dtype="str").astype("category" if kind == "category" else "str")
        columns[f"{kind} {i}"] = values
    for name, names in (("paid", [0, 1, 2]), ("sex", ["a", "b", "c"])):
        known = names[: draw(st.integers(2, 3))]
        columns[name] = [*known, *rng.choice(known, n - len(known)).tolist()]
    return pd.DataFrame(columns)


@pytest.fixture(autouse=True, scope="module")
def quick_bounds(few_draws: None) -> None:
    """What is delivered is tested here, and not how large its bound is."""


@pytest.fixture(scope="session")
def many_people() -> pd.DataFrame:
    """6,000 people."""
    return make_people(6000)


def assert_same_encoder(one: Any, other: Any) -> None:
    """Two encoders are equal in splits, counts, representatives, and all that they know of their columns."""
    assert one.n_cells_ == other.n_cells_
    for a, b in zip(one.growth_.splits, other.growth_.splits, strict=True):
        assert (a.node, a.column, a.threshold, a.gain) == (b.node, b.column, b.threshold, b.gain)
        assert (a.left_count, a.right_count) == (b.left_count, b.right_count)
        np.testing.assert_array_equal(a.goes_left, b.goes_left)
    np.testing.assert_array_equal(one.growth_.node_counts, other.growth_.node_counts)
    for a, b in zip(one.bins_, other.bins_, strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(*(getattr(bins, "edges", None) for bins in (a, b)))
        assert getattr(a, "categories", None) == getattr(b, "categories", None)
    for column, a, b in zip(one.columns_, *(e._node_representatives.values for e in (one, other)), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=column.name)
    for name in ("columns_", "groups_", "labels_", "group_column_"):
        assert getattr(one, name) == getattr(other, name)
    assert list(one.feature_names_in_) == list(other.feature_names_in_)
    assert str(one.describe()) == str(other.describe())
