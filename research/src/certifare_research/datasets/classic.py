"""Small data sets that fairness papers use: Adult, COMPAS, German credit, law school."""

from __future__ import annotations

import os
from importlib import resources
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from certifare_research.datasets import sources
from certifare_research.datasets.dataset import Dataset

Folder = str | os.PathLike[str] | None


def load_adult(*, data: Folder = None) -> Dataset:
    """UCI Adult (Becker and Kohavi 1996, CC BY 4.0), which ships with certifare: whether a person earns more than 50k.

    ``fnlwgt`` (a survey weight) and ``education`` (the text of ``education_num``) are no features.

    Examples
    --------
    >>> from certifare_research.datasets import load_adult
    >>> load_adult()
    Dataset('Adult', 48,842 records, 11 features, labels ('<=50K', '>50K'), groups ('Female', 'Male'))
    """
    path = sources.find("adult.parquet", data)
    if path is None:
        with resources.as_file(resources.files("certifare.data") / "adult.parquet") as shipped:
            table = pq.read_table(shipped)
    else:
        table = pq.read_table(path)
    return _dataset(
        "Adult",
        table.drop_columns(["income", "fnlwgt", "education", "split", "sex"]),
        y=_equal(table["income"], ">50K"),
        s=_equal(table["sex"], "Male"),
        label_names=("<=50K", ">50K"),
        group_names=("Female", "Male"),
    )


def load_compas(*, data: Folder = None) -> Dataset:
    """COMPAS (ProPublica 2016): whether a person was charged again within two years. Groups by race.

    Records as ProPublica kept them (screened within 30 days of arrest, no ordinary traffic offence). The risk scores
    themselves, and what follows from the label, are no features; ``age_cat`` is ``age`` again.
    """
    origin = "It is ProPublica's compas-scores-two-years with the columns of that analysis."
    table = pq.read_table(sources.require("compas.parquet", origin, data))
    days = pc.fill_null(table["days_b_screening_arrest"], float("nan")).to_numpy()
    keep = (np.abs(days) <= 30) & (table["is_recid"].to_numpy() != -1) & ~_equal(table["c_charge_degree"], "O")
    table = table.filter(pa.array(keep))
    left_out = ["two_year_recid", "is_recid", "score_text", "decile_score", "days_b_screening_arrest", "age_cat"]
    return _dataset(
        "COMPAS",
        table.drop_columns([*left_out, "race"]),
        y=table["two_year_recid"].to_numpy(),
        s=_equal(table["race"], "African-American"),
        label_names=("no", "charged again"),
        group_names=("other", "African-American"),
    )


def load_german_credit(*, data: Folder = None) -> Dataset:
    """German credit (UCI Statlog): is a person a good credit risk? Groups by sex.

    Sex is part of the code A9 (personal status), which is therefore no feature.
    """
    origin = "It is UCI Statlog (German credit data) with the raw codes in columns A1 to A20 and y (1 good, 2 bad)."
    table = pq.read_table(sources.require("german_credit.parquet", origin, data))
    return _dataset(
        "German credit",
        table.drop_columns(["y", "A9"]),
        y=table["y"].to_numpy() == 1,
        s=_equal(table["A9"], "A91", "A93", "A94"),
        label_names=("bad", "good"),
        group_names=("female", "male"),
    )


def load_law_school(*, data: Folder = None) -> Dataset:
    """Law school (LSAC 1998): did a student pass the bar? Groups by race (white or not)."""
    origin = "It is the LSAC national longitudinal bar passage study with pass_bar, race and male."
    table = pq.read_table(sources.require("law_school.parquet", origin, data))
    return _dataset(
        "Law school",
        table.drop_columns(["pass_bar", "race"]),
        y=table["pass_bar"].to_numpy(),
        s=_equal(table["race"], "White"),
        label_names=("no", "passed"),
        group_names=("other", "white"),
    )


def _dataset(name: str, X: pa.Table, *, y: Any, s: Any, label_names: Any, group_names: Any) -> Dataset:
    return Dataset(
        name=name,
        X=X.combine_chunks(),
        y=np.asarray(y).astype(np.int64),
        s=np.asarray(s).astype(np.int64),
        label_names=label_names,
        group_names=group_names,
        categorical=tuple(field.name for field in X.schema if pa.types.is_dictionary(field.type)),
    )


def _equal(column: pa.ChunkedArray, *values: str) -> Any:
    return np.isin(np.array(column.to_pylist(), dtype=np.str_), values)
