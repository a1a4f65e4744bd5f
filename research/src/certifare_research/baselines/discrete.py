"""Categories for the discrete flow: few enough that all their combinations can be listed.

As the published configuration does it: numbers are cut at the training median, columns with more than 100 categories
are bucketed by position (50 to a bucket), and named columns (place of birth) are dropped. So this method sees much
less than the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare_research.datasets.design import Design

MANY = 100
BUCKET = 50


class Discretiser:
    """Turns a table into category numbers, fitted on training records.

    Examples
    --------
    >>> import pandas as pd
    >>> from certifare_research.baselines.discrete import Discretiser
    >>> table = pd.DataFrame({"age": [20, 30, 40, 50], "job": ["nurse", "cook", "cook", "nurse"]})
    >>> discretiser = Discretiser(min_frequency=1).fit(table)
    >>> discretiser.transform(table).tolist(), discretiser.sizes_
    ([[0, 1], [0, 0], [1, 0], [1, 1]], (2, 3))
    """

    def __init__(self, categorical: Sequence[str] = (), drop: Sequence[str] = (), min_frequency: int = 5) -> None:
        self.categorical = tuple(categorical)
        self.drop = tuple(drop)
        self.min_frequency = min_frequency

    def fit(self, X: Any) -> Discretiser:
        """Learn categories and medians."""
        self.design_ = Design(self.categorical, min_frequency=self.min_frequency).fit(X)
        columns = self.design_.codes(X)
        self.medians_ = {name: float(np.median(columns[name])) for name in self.design_.numbers_}
        sizes = []
        for name in self._names():
            if name in self.medians_:
                sizes.append(2)
            else:
                known = len(self.design_.categories_[name])
                sizes.append(known // BUCKET + 1 if known > MANY else known + 1)
        self.sizes_ = tuple(sizes)
        return self

    def transform(self, X: Any) -> NDArray[np.int16]:
        """Return one category number per record and column."""
        columns = self.design_.codes(X)
        parts = []
        for name in self._names():
            values = columns[name]
            if name in self.medians_:
                values = values > self.medians_[name]
            elif len(self.design_.categories_[name]) > MANY:
                values = values // BUCKET
            parts.append(np.asarray(values).astype(np.int16))
        return np.stack(parts, axis=1)

    def _names(self) -> list[str]:
        return [name for name in self.design_.names_ if name not in self.drop]
