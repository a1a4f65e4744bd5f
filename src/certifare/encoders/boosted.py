"""BoostedEncoder: cells are regions of the map that gradient boosting draws of labels and groups."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from certifare.encoders.description import map_rules
from certifare.encoders.grown import GrownEncoder
from certifare.encoders.proxies import Clusters, check_retain
from certifare.encoders.scoremap import ScoreMap, SquareSource, fit_axes, over_squares
from certifare.encoders.scores import fit_scores
from certifare.encoders.training import MemoryTraining, Training, in_memory
from certifare.errors import EncoderError
from certifare.growth import Codes, Targets, grow
from certifare.tables.frames import Field, Frame


@dataclass(frozen=True, eq=False)
class Mapped:
    """Training records on the score map."""

    score_map: ScoreMap
    codes: Codes
    _columns: dict[int, Any] = attribute(default_factory=dict)

    def counts(self, targets: Targets) -> NDArray[np.int64]:
        """Count the records of each class in each square."""
        n_squares, n_classes = self.score_map.n_squares, targets.n_classes
        flat = self.codes.columns[0].astype(np.int64) * n_classes + targets.classes
        return np.bincount(flat, minlength=n_squares * n_classes).reshape(n_squares, n_classes)

    def columns(self, n_classes: int) -> Any:
        """Return the map's columns of squares, which all growths of these records share."""
        if n_classes not in self._columns:
            self._columns[n_classes] = self.score_map.columns(n_classes)
        return self._columns[n_classes]


@dataclass(eq=False, repr=False, kw_only=True)
class BoostedEncoder(GrownEncoder):
    """Cells are regions of a map whose axes are scores: how likely the label is, and how likely the group.

    Gradient boosting estimates P(y|x) and P(s|x), out of fold. Each score is cut at its quantiles, and the fair tree
    grows over the squares of that grid: every split is a line. It keeps far more of the label than a tree over the
    columns at the same distance between groups. Models that were fitted on all training records score later ones.

    Parameters
    ----------
    gamma : float
        From 0 (only the label matters) to 1 (only the groups do).
    max_cells : int
        The growth stops there, or earlier if nothing is gained.
    min_cell_size : int
        No cell has fewer training records.
    metric : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        What the criterion looks at.
    folds : int
        Training records are scored by models that saw the other folds.
    grid : int, optional
        Bins of each score; chosen from the number of records unless given (8 to 32).
    max_bins, categorical_features, sensitive, charge, each, label_weights, positive_label, output, n_jobs
        As in :class:`FairTreeEncoder`, and so is ``allow_sensitive_feature``.
    retain : float
        From 0 to 1: weight of a label that stands for the table itself, the record's k-means cluster. The clusters
        also become a third coordinate of the map.
    random_state : int
        Deals the folds and seeds the models and clusters; the same records give the same cells.

    Attributes
    ----------
    n_cells_ : int
        How many cells there are.
    cell_map_ : ndarray of int
        The cell of each square: label axes, then group axes, then clusters if ``retain`` asked for them.
    representatives_ : ndarray
        One row per cell.
    columns_, groups_, labels_, fingerprint_, n_features_in_, feature_names_in_
        As in :class:`~certifare.encoders.base.RestrictedEncoder`.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare import BoostedEncoder
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> group = (X[:, 0] + rng.normal(size=2000) > 0).astype(int)
    >>> label = (X[:, 0] + X[:, 1] > 0).astype(int)
    >>> encoder = BoostedEncoder(gamma=0.5, max_cells=4).fit(X, label, sensitive_features=group)
    >>> encoder.n_cells_
    4
    >>> encoder.cell_map_.shape
    (8, 8)
    """

    folds: int = 3
    grid: int | None = None

    settings = (
        *GrownEncoder.settings,
        "retain",
        "label_weights",
        "folds",
        "grid",
        "each",
    )

    score_map_: ScoreMap = attribute(init=False)

    @property
    def cell_map_(self) -> NDArray[np.int32]:
        """Cell of each square of the map."""
        check_is_fitted(self)
        n = self.score_map_.n_squares
        squares = Codes((np.arange(n, dtype=np.uint16),), (n,))
        return self.growth_.apply(squares, self.n_cells_).reshape(self.score_map_.shape)

    def forecasts(self, X: Any) -> list[NDArray[np.float64]]:
        """Forecast each label by the score models on the columns themselves, not by the cell.

        The difference to these is what a consumer loses by seeing only the cell.

        Returns
        -------
        list of ndarray, (records, values)
            For each label, the probability of each of its values.
        """
        check_is_fitted(self)
        fields = self.read_fields(Frame(X))
        return self.score_map_.scores.probabilities(fields, self.n_threads)[: len(self.labels_)]

    def _derive(self, training: MemoryTraining) -> MemoryTraining:
        check_retain(self.retain)
        if self.grid is not None and (not isinstance(self.grid, int | np.integer) or self.grid < 2):
            raise EncoderError(f"grid is {self.grid!r}; give a whole number from 2, or None.")
        assert training.groups is not None  # noqa: S101  (checked when the records were prepared)
        targets = (*training.labels, training.groups)
        scores, out_of_fold = fit_scores(training, targets, self.folds, self.seed, self.n_threads)
        weights = [1.0] * len(training.labels) if self.label_weights is None else list(self.label_weights)
        grid = None if self.grid is None else int(self.grid)
        clusters = Clusters.fit(training, self.seed) if self.retain else None
        n_clusters = 1 if clusters is None else len(clusters.centres)
        attributes = self._attributes(training.groups)
        axes = fit_axes(out_of_fold, training.labels, training.groups, grid, n_clusters, weights, attributes)
        score_map = ScoreMap(scores, len(training.labels), axes, clusters)
        return replace(training, derived=Mapped(score_map, score_map.locate(out_of_fold, training.fields)))

    def _grow(self, training: Training) -> None:
        self._check_size(training)
        mapped: Mapped = training.derived
        score_map = mapped.score_map
        clusters = None if score_map.clusters is None else score_map.clusters.levels(in_memory(training).fields)
        targets, criterion = self.make_criterion(training, clusters)
        counts = mapped.counts(targets)
        bins, codes = mapped.columns(counts.shape[1])
        growth = grow(
            SquareSource(counts, codes, [b.n_codes for b in bins]),
            bins,
            criterion,
            max_cells=self.max_cells,
            min_cell_size=self.min_cell_size,
            orderings="directional",
        )
        self.score_map_ = score_map
        self._keep(over_squares(growth, codes, score_map.n_squares), training, mapped.codes)

    def codes_of(self, fields: Sequence[Field]) -> Codes:
        """Find the codes of records that were read, on which the growth decides."""
        return self.score_map_.squares(fields, self.n_threads)

    def _rules(self) -> list[tuple[str, ...]]:
        axes = [(axis.name, axis.coordinates) for axis in self.score_map_.axes]
        return map_rules(axes, self.cell_map_, self.score_map_.clusters is not None)

    def to_onnx(self) -> Any:
        """Write the encoder as an ONNX model: an input for each column, outputs ``cell`` and the scores.

        Numbers are doubles (NaN: missing), truth values 0 and 1, text is text (empty: missing), each of the shape
        (records, 1). It needs the package onnx (``pip install 'certifare[onnx]'``); ``onnxruntime`` runs the model.

        Returns
        -------
        onnx.ModelProto
        """
        from certifare.encoders.onnx import write_onnx

        return write_onnx(self)
