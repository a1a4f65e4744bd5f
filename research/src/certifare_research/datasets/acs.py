"""The American Community Survey's person records: income and employment, as folktables defines the tasks.

Data files are looked for first; what is not there is downloaded from the Census Bureau, one state and year at a time,
filtered as folktables filters, and kept in the cache as Parquet.

What the published code does otherwise, and why not here:

- It merges years and compares years by the position of a category in each year's own list, so that one category more
  in one year
  renames all later ones. Here categories keep their census codes.
- In its data set with several groups, a missing column index overwrites every feature of every asian record by the
  number 2.
- It ignores survey weights; so do these loaders: statements are about the records as drawn.
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from certifare_research.datasets import sources
from certifare_research.datasets.dataset import Dataset
from certifare_research.errors import DataFileError

CENSUS = "https://www2.census.gov/programs-surveys/acs/data/pums"
STATES = {
    "AL": 1, "AK": 2, "AZ": 4, "AR": 5, "CA": 6, "CO": 8, "CT": 9, "DE": 10, "FL": 12, "GA": 13, "HI": 15,
    "ID": 16, "IL": 17, "IN": 18, "IA": 19, "KS": 20, "KY": 21, "LA": 22, "ME": 23, "MD": 24, "MA": 25, "MI": 26,
    "MN": 27, "MS": 28, "MO": 29, "MT": 30, "NE": 31, "NV": 32, "NH": 33, "NJ": 34, "NM": 35, "NY": 36, "NC": 37,
    "ND": 38, "OH": 39, "OK": 40, "OR": 41, "PA": 42, "RI": 44, "SC": 45, "SD": 46, "TN": 47, "TX": 48, "UT": 49,
    "VT": 50, "VA": 51, "WA": 53, "WV": 54, "WI": 55, "WY": 56, "PR": 72,
}  # fmt: skip
INCOME_FEATURES = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P")
INCOME_CATEGORICAL = ("COW", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P")
EMPLOYMENT_FEATURES = (
    "AGEP", "SCHL", "MAR", "RELP", "DIS", "ESP", "CIT", "MIG", "MIL", "ANC", "NATIVITY", "DEAR", "DEYE", "DREM",
    "SEX", "RAC1P",
)  # fmt: skip
EMPLOYMENT_CATEGORICAL = tuple(name for name in EMPLOYMENT_FEATURES if name not in ("AGEP", "SCHL"))
#: RELP became RELSHIPP in 2019.
RENAMED = {"RELSHIPP": "RELP"}


def load_acs_income(
    states: Sequence[str] | str | None = None,
    year: int = 2018,
    *,
    sensitive: str = "SEX",
    data: str | os.PathLike[str] | None = None,
) -> Dataset:
    """ACSIncome: whether a working adult earns more than 50,000 dollars a year.

    Parameters
    ----------
    states : sequence of str, optional
        Two-letter codes such as "CA"; all states unless given.
    year : int
    sensitive : {"SEX", "RAC1P"}
        Groups: female and male, or white and all others.
    data : path, optional
        Folder with ``acs_income_<year>.parquet`` (columns of the task, ``ST``, and ``PINCP_GT50K`` or ``PINCP``);
        the folder that
        ``CERTIFARE_DATA`` names unless given.
    """
    chosen = _states(states)
    file = f"acs_income_{year}.parquet"
    path = sources.find(file, data)
    if path is not None:
        table = pq.read_table(path)
        if len(chosen) < len(STATES):
            table = table.filter(pc.is_in(table["ST"], pa.array([STATES[s] for s in chosen], table["ST"].type)))
    else:
        table = pa.concat_tables(
            [_downloaded("income", state, year, sources.missing(file, data), data) for state in chosen]
        )
    if not table.num_rows:
        raise DataFileError(f"{path} holds no records of {', '.join(chosen)}.")
    y = table["PINCP_GT50K"].to_numpy() if "PINCP_GT50K" in table.column_names else table["PINCP"].to_numpy() > 50_000
    where = "US" if len(chosen) == len(STATES) else "-".join(chosen)
    return _dataset(
        f"ACSIncome-{where}-{year}", table, INCOME_FEATURES, INCOME_CATEGORICAL, y, sensitive, "income > 50k"
    )


def load_acs_income_classes(
    states: Sequence[str] | str | None = None, *, data: str | os.PathLike[str] | None = None
) -> Dataset:
    """ACS 2018 with four classes of income (20k, 50k, 100k) and three groups of race (white, asian, other).

    From ``acs_income_dollars_2018.parquet``, which has no hours worked and no relationship, and income of at least
    one dollar.
    """
    path = sources.require(
        "acs_income_dollars_2018.parquet", "It holds ACS 2018 person records with income in dollars.", data
    )
    table = pq.read_table(path)
    chosen = _states(states)
    if len(chosen) < len(STATES):
        suffixes = np.array([str(name).rsplit("/", 1)[-1] for name in table["State"].to_pylist()])
        table = table.filter(pa.array(np.isin(suffixes, chosen)))
    income = table["Income"].to_numpy()
    race = np.array(table["Race"].to_pylist(), dtype=object)
    s = np.where(race == "White alone", 1, np.where(race == "Asian alone", 2, 0)).astype(np.int64)
    X = table.drop_columns(["State", "Income", "Race"])
    where = "US" if len(chosen) == len(STATES) else "-".join(chosen)
    return Dataset(
        name=f"ACSIncomeClasses-{where}-2018",
        X=X.combine_chunks(),
        y=np.digitize(income, [20_000.5, 50_000.5, 100_000.5]).astype(np.int64),
        s=s,
        label_names=("<=20k", "<=50k", "<=100k", ">100k"),
        group_names=("other", "white", "asian"),
        categorical=tuple(name for name in X.column_names if name not in ("Age", "Travel time to work")),
    )


def load_acs_employment(
    state: str = "MA",
    years: Sequence[int] = (2015, 2016, 2017, 2018),
    *,
    sensitive: str = "SEX",
    data: str | os.PathLike[str] | None = None,
) -> Dataset:
    """ACSEmployment: is a person employed? Several years of one state, for studies of shift.

    From ``acs_employment_<state>_2015_2018.parquet`` (columns of the task, ``employed``, ``year``), or downloaded.
    """
    file = f"acs_employment_{state.lower()}_2015_2018.parquet"
    path = sources.find(file, data)
    if path is not None:
        table = pq.read_table(path)
        table = table.filter(pc.is_in(table["year"], pa.array(list(years), table["year"].type)))
    else:
        (state,) = _states(state)
        table = pa.concat_tables(
            [_downloaded("employment", state, year, sources.missing(file, data), data) for year in years]
        )
    if not table.num_rows:
        raise DataFileError(f"{path} holds no records of the years {', '.join(map(str, years))}.")
    name = f"ACSEmployment-{state.upper()}-{'-'.join(map(str, years))}"
    y = table["employed"].to_numpy()
    return _dataset(name, table, EMPLOYMENT_FEATURES, EMPLOYMENT_CATEGORICAL, y, sensitive, "employed")


def _dataset(
    name: str,
    table: pa.Table,
    features: Sequence[str],
    categorical: Sequence[str],
    y: NDArray[np.generic],
    sensitive: str,
    positive: str,
) -> Dataset:
    if sensitive not in ("SEX", "RAC1P"):
        raise DataFileError(f"sensitive={sensitive!r}: choose SEX or RAC1P.")
    column = table[sensitive].to_numpy()
    groups = ("female", "male") if sensitive == "SEX" else ("other", "white")
    return Dataset(
        name=name,
        X=table.select([f for f in features if f != sensitive]).combine_chunks(),
        y=np.asarray(y).astype(np.int64),
        s=(column == 1).astype(np.int64),
        label_names=("no", positive),
        group_names=groups,
        categorical=tuple(c for c in categorical if c != sensitive),
    )


def _states(states: Sequence[str] | str | None) -> list[str]:
    if states is None:
        return list(STATES)
    chosen = [state.upper() for state in ([states] if isinstance(states, str) else states)]
    for state in chosen:
        if state not in STATES:
            raise DataFileError(f"There is no state {state!r}: give two-letter codes such as CA.")
    return chosen


def _folktables(state: str, year: int, data: str | os.PathLike[str] | None) -> Path | None:
    """Return folktables' own file of a state and year (``2014/1-Year/ss14pca.csv``, from 2017 ``psam_p06.csv``)."""
    short = f"{year % 100:02d}"
    name = f"psam_p{STATES[state]:02d}.csv" if year >= 2017 else f"ss{short}p{state.lower()}.csv"
    return sources.find(f"{year}/1-Year/{name}", data)


def _downloaded(task: str, state: str, year: int, missing: str, data: str | os.PathLike[str] | None = None) -> pa.Table:
    """Person records of one state and year, filtered for a task.

    From folktables' file in the data folder, from the cache, or from the Census Bureau. ``missing`` says which file
    would have been taken instead, for the case that neither is there.
    """
    if (own := _folktables(state, year, data)) is not None:
        return read_person_records(own, task)
    kept = sources.cache_folder() / f"acs_{task}_{state.lower()}_{year}.parquet"
    if kept.is_file():
        return pq.read_table(kept)
    try:
        archive = sources.download(
            f"{CENSUS}/{year}/1-Year/csv_p{state.lower()}.zip", f"csv_p{state.lower()}_{year}.zip"
        )
    except DataFileError as error:
        raise DataFileError(f"{missing} A download was tried: {error}") from error
    table = read_person_records(archive, task)
    temporary = kept.with_name(f".{kept.name}.{os.getpid()}")
    try:
        pq.write_table(table, temporary)
        os.replace(temporary, kept)
    finally:
        temporary.unlink(missing_ok=True)
    return table


def read_person_records(archive: Path, task: str) -> pa.Table:
    """Read the Census Bureau's ZIP of person records, or a CSV file out of one: columns and records of a task.

    Income: older than 16, income above 100 dollars, at least one hour of work a week. Employment: all records. A
    feature that does not apply to a person is blank there, and is 0 here.
    """
    features = INCOME_FEATURES if task == "income" else EMPLOYMENT_FEATURES
    wanted = [*features, *(("PINCP",) if task == "income" else ("ESR",)), "PWGTP"]
    columns: dict[str, list[float]] = {name: [] for name in wanted}
    try:
        if archive.suffix == ".csv":
            with archive.open(encoding="utf-8-sig", newline="") as lines:
                _collect(lines, columns, task, archive)
            return _person_table(columns, features, task)
        with zipfile.ZipFile(archive) as content:
            if (broken := content.testzip()) is not None:
                raise DataFileError(f"{archive} is damaged: {broken} does not match its checksum.")
            for member in content.namelist():
                if member.lower().endswith(".csv"):
                    with content.open(member) as raw:
                        _collect(io.TextIOWrapper(raw, "utf-8-sig"), columns, task, archive)
    except zipfile.BadZipFile as error:
        raise DataFileError(f"{archive} is not a ZIP archive: delete it and try again.") from error
    return _person_table(columns, features, task)


def _person_table(columns: dict[str, list[float]], features: Sequence[str], task: str) -> pa.Table:
    arrays = {name: pa.array(np.array(columns[name], dtype=np.int32)) for name in features}
    if task == "income":
        arrays["PINCP_GT50K"] = pa.array((np.array(columns["PINCP"]) > 50_000).astype(np.int8))
    else:
        arrays["employed"] = pa.array((np.array(columns["ESR"]) == 1).astype(np.int8))
    return pa.table(arrays)


def _collect(lines: Iterable[str], columns: dict[str, list[float]], task: str, archive: Path) -> None:
    reader = csv.reader(lines)
    header = [RENAMED.get(name.strip().upper(), name.strip().upper()) for name in next(reader)]
    if lacking := [name for name in columns if name not in header]:
        raise DataFileError(f"{archive} has no column {lacking[0]}.")
    positions = {name: header.index(name) for name in columns}
    for row in reader:
        record = {name: float(row[i] or 0) for name, i in positions.items()}
        works = record["AGEP"] > 16 and record.get("PINCP", 0) > 100 and record.get("WKHP", 0) > 0
        if record["PWGTP"] >= 1 and (task != "income" or works):
            for name, value in record.items():
                columns[name].append(value)
