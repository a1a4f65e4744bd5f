"""Data sets prepared for the published methods, with the split that all experiments share."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from certifare_research.baselines.arrays import Arrays
from certifare_research.baselines.discrete import Discretiser
from certifare_research.datasets import Dataset, load_acs_income, load_adult, load_health

#: Published methods train on everything but the test records; restricted encoders fit, choose and certify on parts
# of the same.
SHARES = {"train": 0.42, "select": 0.08, "certify": 0.30, "test": 0.20}
#: Columns that the discrete flow leaves out.
DROPPED = ("POBP", "native_country", "education")


def load(
    name: str, data: str | os.PathLike[str] | None = None, year: int = 2018, states: Sequence[str] = ()
) -> Dataset:
    """Return the data set that experiments call ``ca``, ``us``, ``adult``, ``health`` or ``transfer``.

    ``ca`` has the states given, California unless any are.
    """
    if name == "ca":
        return load_acs_income(states or "CA", year, data=data)
    if name == "us":
        return load_acs_income(year=year, data=data)
    if name.startswith("us-"):
        return load_acs_income(name.split("-")[1:], year, data=data)
    if name == "adult":
        return load_adult(data=data)
    return load_health(transfer=name == "transfer", data=data)


def prepared(name: str, data: str | os.PathLike[str] | None = None, seed: int = 0) -> Arrays:
    """Return a named data set as arrays for training."""
    dataset = load(name, data)
    return arrays_of(dataset, "acs" if name in ("ca", "us", "adult") else name, dataset.parts(SHARES, seed)["test"])


def arrays_of(dataset: Dataset, family: str, test: NDArray[np.int64]) -> Arrays:
    """Arrays of a data set whose ``test`` records are kept from everything that is fitted."""
    train = np.ones(len(dataset), dtype=bool)
    train[test] = False
    known = dataset.take(np.flatnonzero(train)).X
    design = dataset.design().fit(known)
    columns = design.codes(dataset.X)
    n = len(dataset)
    numbers = np.stack([columns[name] for name in design.numbers_], axis=1) if design.numbers_ else np.zeros((n, 0))
    codes = [columns[name] for name in design.categories_]
    discrete: NDArray[np.int16] | None = None
    sizes: tuple[int, ...] = ()
    if family == "acs":
        discretiser = Discretiser(dataset.categorical, drop=DROPPED).fit(known)
        discrete, sizes = discretiser.transform(dataset.X), discretiser.sizes_
    return Arrays(
        name=dataset.name,
        family=family,
        numbers=numbers.astype(np.float32),
        codes=np.stack(codes, axis=1).astype(np.int16) if codes else np.zeros((n, 0), dtype=np.int16),
        sizes=tuple(len(values) + 1 for values in design.categories_.values()),
        y=dataset.y.astype(np.int8),
        s=dataset.s.astype(np.int8),
        train=train,
        discrete=discrete,
        discrete_sizes=sizes,
        tasks=np.stack(list(dataset.tasks.values()), axis=1).astype(np.int8)
        if dataset.tasks
        else np.zeros((0, 0), dtype=np.int8),
        task_names=tuple(dataset.tasks),
    )
