"""FairTreeEncoder: cells are the leaves of a fair tree."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import Any, Self

from certifare.encoders.description import path_rules
from certifare.encoders.grown import GrownEncoder
from certifare.encoders.proxies import Coordinates, check_retain
from certifare.encoders.training import MemoryTraining, Training
from certifare.growth import Bins, Codes, Orderings, encode, grow
from certifare.tables.elsewhere import engine_called
from certifare.tables.frames import Field


@dataclass(eq=False, repr=False, kw_only=True)
class FairTreeEncoder(GrownEncoder):
    """Cells are the leaves of a tree that keeps what predicts the label and mixes the groups.

    The leaf whose split lowers ``(1-γ)·Gini_y + γ·(max Gini_s - Gini_s)`` most is split next, until ``max_cells``.

    Parameters
    ----------
    gamma : float
        From 0 (only the label matters) to 1 (only the groups do).
    max_cells : int
        The tree stops there, or earlier if nothing is gained.
    min_cell_size : int
        No cell has fewer training records. If no split leaves that many on both sides, there is one cell.
    metric : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        What Gini_s looks at: all records, those with the positive label, or each label's in turn.
    orderings : {"both", "paper", "directional"}
        In which orders categories are cut.
    max_bins : int
        A numeric column with more distinct values is cut into this many quantile bins.
    categorical_features : "from_dtype", or names, positions or a mask
        Which columns are categorical. By dtype: text, categorical and enum columns.
    sensitive : str, int or list, optional
        Sensitive columns of X, by name or position. They are never features, and may be absent when records are
        encoded. Otherwise pass ``sensitive_features`` to ``fit``.
    retain : float
        From 0 to 1: weight of the table itself beside the label, so that the cells stay useful for tasks that are not
        known yet: of what a split explains of the columns (of their leading principal components).
    charge : {"every", "crossing"}
        Which splits pay for telling the groups apart: all, as in the paper, or only those whose children lie on
        different sides of the groups' overall shares. The others leave the distance as it is, so cells become
        finer at the same bound: of use with ``retain``.
    each : bool
        With several sensitive columns: pay for what separates the groups of each column, not their intersections.
    label_weights : sequence of float, optional
        Weights of several label columns; equal unless given.
    positive_label : optional
        The label that equal opportunity is about; the second of two unless given.
    allow_sensitive_feature : bool
        Accept a feature that repeats the sensitive column.
    output : {"representatives", "cells", "onehot", "score"}
        What ``transform`` gives.
    random_state : int
        Chooses the sample for quantile bins and the clusters of ``retain``; the same records give the same cells.
    n_jobs : int
        How many threads to use; -1: one per processor.

    Attributes
    ----------
    n_cells_ : int
        How many cells there are.
    representatives_ : ndarray
        One row per cell.
    columns_, groups_, labels_, fingerprint_, n_features_in_, feature_names_in_
        As in :class:`~certifare.encoders.base.RestrictedEncoder`.

    Examples
    --------
    >>> import pandas as pd
    >>> from certifare import FairTreeEncoder
    >>> X = pd.DataFrame({"hours": [20, 25, 40, 45] * 50, "sex": ["f", "m", "m", "f"] * 50})
    >>> encoder = FairTreeEncoder(gamma=0.5, min_cell_size=10, sensitive="sex").fit(X, X["hours"] > 30)
    >>> print(encoder.describe())
    cell 0: hours ≤ 25 · 100 records · sex: f 50%, m 50% · hours: False 100%, True 0%
    cell 1: hours > 25 · 100 records · sex: f 50%, m 50% · hours: False 0%, True 100%
    >>> encoder.apply(X.head(4))
    array([0, 0, 1, 1], dtype=int32)
    """

    orderings: Orderings = "both"

    settings = (*GrownEncoder.settings, "retain")

    bins_: tuple[Bins, ...] = attribute(init=False)

    def fit_parquet(self, paths: Any, *, label: Any, sensitive: Any = None, **options: Any) -> Self:
        """Make cells from Parquet files of any size, in constant memory: the same cells that ``fit`` makes.

        Parameters
        ----------
        paths : path, pattern, or sequence of paths
            One file, a folder, or a pattern such as ``"people/*.parquet"``.
        label, sensitive : str or sequence of str
            Columns, or comparisons such as ``"age>=60"``. The columns they are made from are no features.
        **options
            ``drop``, ``missing``, ``folder`` and ``progress`` of
            :func:`~certifare.engines.parquet.growing.prepare_parquet`.

        Returns
        -------
        self
        """
        prepare = engine_called("parquet").prepare
        assert prepare is not None  # noqa: S101  (trees grow on Parquet files)
        return self.fit_from(prepare(self, paths, label=label, sensitive=sensitive, **options))

    @property
    def is_column(self) -> bool:
        """Whether the cells are values or bins of one existing column: such a tree has neither labels nor groups."""
        return not self.labels_ and not self.groups_

    def _derive(self, training: MemoryTraining) -> MemoryTraining:
        check_retain(self.retain)
        return replace(training, derived=Coordinates.of_training(training, self.seed) if self.retain else None)

    def _grow(self, training: Training) -> None:
        self._check_size(training)
        targets, criterion = self.make_criterion(training, coordinates=training.derived)
        growth = grow(
            training.source(targets, self.n_threads),
            training.bins,
            criterion,
            max_cells=self.max_cells,
            min_cell_size=self.min_cell_size,
            orderings=self.orderings,
            progress=training.growing(self.max_cells),
        )
        self.bins_ = training.bins
        self._keep(growth, training)

    def codes_of(self, fields: Sequence[Field]) -> Codes:
        """Find the codes of records that were read, on which the growth decides."""
        return encode(self.bins_, [field.column for field in fields], n_threads=self.n_threads)

    def _rules(self) -> list[tuple[str, ...]]:
        return path_rules(self.growth_, self.bins_, self.columns_, self.n_cells_)
