"""Small data sets that fairness papers use: Adult, COMPAS, German credit, law school."""

from __future__ import annotations

import os
from importlib import resources

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from certifare_research.datasets import sources
from certifare_research.datasets.dataset import Dataset
from certifare_research.errors import DataFileError


def load_adult(*, sensitive: str = "sex", data: str | os.PathLike[str] | None = None) -> Dataset:
    """UCI Adult (Becker and Kohavi 1996, CC BY 4.0), which ships with certifare: whether a person earns more than 50k.

    ``fnlwgt`` (a survey weight) and ``education`` (the text of ``education_num``) are no features.

    Examples
    --------
    >>> from certifare_research.datasets import load_adult
    >>> load_adult()
    Dataset('Adult', 48,842 records, 11 features, labels ('<=50K', '>50K'), groups ('Female', 'Male'))
    """
    if sensitive not in ("sex", "race"):
        raise DataFileError(f"sensitive={sensitive!r}: choose sex or race.")
    path = sources.find("adult.parquet", data)
    if path is None:
        with resources.as_file(resources.files("certifare.data") / "adult.parquet") as shipped:
            table = pq.read_table(shipped)
    else:
        table = pq.read_table(path)
    y = _codes(table["income"])
    s = _codes(table[sensitive])
    groups = _names(table[sensitive])
    if sensitive == "race":
        s, groups = (s == groups.index("White")).astype(np.int64), ("other", "White")
    X = table.drop_columns(["income", "fnlwgt", "education", "split", sensitive])
    return Dataset(
        name="Adult",
        X=X.combine_chunks(),
        y=y,
        s=s,
        label_names=_names(table["income"]),
        group_names=groups,
        categorical=tuple(n for n in X.column_names if pa.types.is_dictionary(X.schema.field(n).type)),
        description="UCI Adult (Becker and Kohavi 1996), CC BY 4.0.",
    )


def load_compas(*, sensitive: str = "race", data: str | os.PathLike[str] | None = None) -> Dataset:
    """COMPAS (ProPublica 2016): whether a person was charged again within two years.

    Records as ProPublica kept them (screened within 30 days of arrest, no ordinary traffic offence). The risk scores
    themselves, and what follows from the label, are no features; ``age_cat`` is ``age`` again.
    """
    if sensitive not in ("race", "sex"):
        raise DataFileError(f"sensitive={sensitive!r}: choose race or sex.")
    origin = "It is ProPublica's compas-scores-two-years with the columns of that analysis."
    table = pq.read_table(sources.require("compas.parquet", origin, data))
    days = pc.fill_null(table["days_b_screening_arrest"], float("nan")).to_numpy()
    degree = np.array(table["c_charge_degree"].to_pylist(), dtype=object)
    keep = (np.abs(days) <= 30) & (table["is_recid"].to_numpy() != -1) & (degree != "O")
    table = table.filter(pa.array(keep))
    column = np.array(table[sensitive].to_pylist(), dtype=object)
    one = "African-American" if sensitive == "race" else "Male"
    left_out = ["two_year_recid", "is_recid", "score_text", "decile_score", "days_b_screening_arrest", "age_cat"]
    X = table.drop_columns([*left_out, sensitive])
    return Dataset(
        name="COMPAS",
        X=X.combine_chunks(),
        y=table["two_year_recid"].to_numpy().astype(np.int64),
        s=(column == one).astype(np.int64),
        label_names=("no", "charged again"),
        group_names=("other", one),
        categorical=tuple(n for n in X.column_names if pa.types.is_dictionary(X.schema.field(n).type)),
        description="ProPublica's COMPAS records, two years.",
    )


def load_german_credit(*, sensitive: str = "sex", data: str | os.PathLike[str] | None = None) -> Dataset:
    """German credit (UCI Statlog): is a person a good credit risk? Groups by sex, or by age above 25.

    Sex is part of the code A9 (personal status), which is therefore no feature.
    """
    if sensitive not in ("sex", "age"):
        raise DataFileError(f"sensitive={sensitive!r}: choose sex or age.")
    origin = "It is UCI Statlog (German credit data) with the raw codes in columns A1 to A20 and y (1 good, 2 bad)."
    table = pq.read_table(sources.require("german_credit.parquet", origin, data))
    if sensitive == "sex":
        s = np.isin(np.array(table["A9"].to_pylist()), ["A91", "A93", "A94"])
        groups = ("female", "male")
    else:
        s, groups = table["A13"].to_numpy() > 25, ("25 and below", "above 25")
    X = table.drop_columns(["y", "A9" if sensitive == "sex" else "A13"])
    return Dataset(
        name="German credit",
        X=X.combine_chunks(),
        y=(table["y"].to_numpy() == 1).astype(np.int64),
        s=s.astype(np.int64),
        label_names=("bad", "good"),
        group_names=groups,
        categorical=tuple(n for n in X.column_names if pa.types.is_dictionary(X.schema.field(n).type)),
        description="UCI Statlog, German credit.",
    )


def load_law_school(*, sensitive: str = "race", data: str | os.PathLike[str] | None = None) -> Dataset:
    """Law school (LSAC 1998): did a student pass the bar? Groups by race (white or not), or by sex."""
    if sensitive not in ("race", "male"):
        raise DataFileError(f"sensitive={sensitive!r}: choose race or male.")
    origin = "It is the LSAC national longitudinal bar passage study with pass_bar, race and male."
    table = pq.read_table(sources.require("law_school.parquet", origin, data))
    if sensitive == "race":
        s, groups = np.array(table["race"].to_pylist()) == "White", ("other", "white")
    else:
        s, groups = table["male"].to_numpy() == 1, ("female", "male")
    X = table.drop_columns(["pass_bar", sensitive])
    return Dataset(
        name="Law school",
        X=X.combine_chunks(),
        y=table["pass_bar"].to_numpy().astype(np.int64),
        s=s.astype(np.int64),
        label_names=("no", "passed"),
        group_names=groups,
        categorical=("race",) if "race" in X.column_names else (),
        description="LSAC national longitudinal bar passage study.",
    )


def _dictionary(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    combined = column.combine_chunks()
    combined = combined if pa.types.is_dictionary(combined.type) else combined.dictionary_encode()
    values = [str(v) for v in combined.dictionary.to_pylist()]
    order = np.argsort(values)
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    return rank[combined.indices.to_numpy(zero_copy_only=False)], tuple(values[i] for i in order)


def _codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return _dictionary(column)[0]


def _names(column: pa.ChunkedArray) -> tuple[str, ...]:
    return _dictionary(column)[1]
