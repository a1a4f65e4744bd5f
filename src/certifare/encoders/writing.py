"""Write encoders as documents."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.description import DIGITS, Statistics, published
from certifare.encoders.documents import (
    AnyDocument,
    AxisDocument,
    BoostedDocument,
    CalibratedDocument,
    Centres,
    ColumnDocument,
    DirectionDocument,
    LabelDocument,
    Model,
    Place,
    Rule,
    Threshold,
    Tree,
    TreeDocument,
)
from certifare.encoders.forest import UNIT, Forest
from certifare.encoders.format import FORMAT, VERSION
from certifare.encoders.proxies import Clusters
from certifare.encoders.representatives import Representatives
from certifare.encoders.scores import Scores
from certifare.foundation.version import __version__
from certifare.growth import Bins, CategoricalBins, ContinuousBins, Split

if TYPE_CHECKING:
    from certifare.encoders.base import RestrictedEncoder
    from certifare.encoders.boosted import BoostedEncoder
    from certifare.encoders.calibrated_cells import CalibratedEncoder
    from certifare.encoders.grown import GrownEncoder
    from certifare.encoders.tree import FairTreeEncoder


def document_of(encoder: "RestrictedEncoder", statistics: bool) -> AnyDocument:
    """Describe an encoder completely."""
    from certifare.encoders.boosted import BoostedEncoder
    from certifare.encoders.calibrated_cells import CalibratedEncoder
    from certifare.encoders.tree import FairTreeEncoder

    if isinstance(encoder, FairTreeEncoder):
        return _tree_document(encoder, statistics)
    if isinstance(encoder, BoostedEncoder):
        return _boosted_document(encoder, statistics)
    assert isinstance(encoder, CalibratedEncoder)  # noqa: S101  (there are three kinds)
    return _calibrated_document(encoder, statistics)


def _tree_document(encoder: "FairTreeEncoder", statistics: bool) -> TreeDocument:
    splits = encoder.growth_.splits[: encoder.n_cells_ - 1]
    return TreeDocument(
        **_common(encoder, _columns(encoder, encoder.bins_, splits), 1),
        splits=[_rule(split, encoder.bins_[split.column]) for split in splits],
        nodes=_nodes(encoder, statistics),
    )


def _boosted_document(encoder: "BoostedEncoder", statistics: bool) -> BoostedDocument:
    score_map = encoder.score_map_
    leaves = encoder.growth_.leaves(encoder.n_cells_)
    return BoostedDocument(
        **_common(encoder, _columns(encoder, score_map.scores.features.bins), VERSION),
        **_models(score_map.scores),
        axes=[
            AxisDocument(a.name, a.side, a.edges.tolist(), a.coordinates.tolist(), _listed(a.weights))
            for a in score_map.axes
        ],
        clusters=None if score_map.clusters is None else _centres_document(score_map.clusters),
        parents=[split.node for split in encoder.growth_.splits[: encoder.n_cells_ - 1]],
        squares=leaves[encoder.cell_map_.ravel()].tolist(),
        nodes=_nodes(encoder, statistics),
    )


def _calibrated_document(encoder: "CalibratedEncoder", statistics: bool) -> CalibratedDocument:
    directions, thresholds = encoder.directions_, encoder.thresholds_
    # Coordinates are looked up by the codes of all bins.
    used = _columns if directions.coordinates is None else _all_columns
    columns = used(encoder, directions.bins)
    return CalibratedDocument(
        **_common(encoder, columns, VERSION),
        **({"means": {}, "models": []} if directions.scores is None else _models(directions.scores)),
        directions=[
            DirectionDocument(column.name, _listed(column.weights), column.coordinate) for column in directions.columns
        ],
        coordinates=[]
        if directions.coordinates is None
        else [table.tolist() for table in directions.coordinates.tables],
        calibrated=encoder.calibrated_,
        tie_key=encoder._tie_key,
        gaps=encoder.plan_.totals.tolist(),
        splits=[
            Threshold(node, direction, at, ties, gaps)
            for node, direction, at, ties, gaps in zip(
                thresholds.parents.tolist(),
                thresholds.directions.tolist(),
                thresholds.at.tolist(),
                thresholds.ties.tolist(),
                encoder.plan_.left.tolist(),
                strict=True,
            )
        ],
        cells=_places(encoder._representatives, encoder._statistics if statistics else None),
    )


def _common(encoder: "RestrictedEncoder", columns: list[ColumnDocument], version: int) -> dict[str, Any]:
    parameters = encoder.get_params(deep=False)
    parameters.pop("n_jobs")
    for name in ("each", "other_group"):
        if not parameters.get(name):
            parameters.pop(name, None)  # the file is the same as before there was this parameter
    named = hasattr(encoder, "feature_names_in_")
    parameters["categorical_features"] = [
        c.name if named else i for i, c in enumerate(encoder.columns_) if c.categorical
    ]
    return {
        "format": FORMAT,
        "version": version,
        "certifare": __version__,
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "named": named,
        "columns": columns,
        "group_column": encoder.group_column_,
        "groups": [list(group) if isinstance(group, tuple) else group for group in encoder.groups_],
        "labels": [LabelDocument(name, list(values)) for name, values in encoder.labels_],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(entry) for entry in value]
    return value


def _all_columns(encoder: "RestrictedEncoder", bins: Sequence[Bins]) -> list[ColumnDocument]:
    return [
        ColumnDocument(schema.name, schema.type, schema.missing, categories=list(own.categories))
        if isinstance(own, CategoricalBins)
        else ColumnDocument(schema.name, schema.type, schema.missing, edges=own.edges.tolist())
        for schema, own in zip(encoder.columns_, bins, strict=True)
    ]


def _columns(encoder: "RestrictedEncoder", bins: Sequence[Bins], splits: Sequence[Split] = ()) -> list[ColumnDocument]:
    """Leave out the edges that no split uses: they would only reveal training data."""
    used: list[Bins] = []
    for i, own in enumerate(bins):
        if not isinstance(own, CategoricalBins):
            thresholds = {split.threshold for split in splits if split.column == i and split.threshold is not None}
            own = ContinuousBins(own.name, own.edges[sorted(t for t in thresholds if t < len(own.edges))])
        used.append(own)
    return _all_columns(encoder, used)


def _side(left: Any) -> Literal["left", "right"]:
    return "left" if left else "right"


def _rule(split: Split, bins: Bins) -> Rule:
    rule = Rule(split.node, bins.name, missing=_side(split.goes_left[bins.missing_code]))
    if isinstance(bins, CategoricalBins):
        rule.categories = [c for c, left in zip(bins.categories, split.goes_left, strict=False) if left]
        rule.unseen = _side(split.goes_left[bins.infrequent_code])
    elif split.threshold is not None and split.threshold < len(bins.edges):
        rule.at_most = float(bins.edges[split.threshold])
    # Otherwise every number goes left and only the missing right: there is no edge above all numbers.
    return rule


def _nodes(encoder: "GrownEncoder", statistics: bool) -> list[Place]:
    kept = np.arange(2 * encoder.n_cells_ - 1)
    known = encoder._node_statistics if statistics else None
    return _places(encoder._node_representatives.take(kept), None if known is None else known.take(kept))


def _places(representatives: Representatives, statistics: Statistics | None) -> list[Place]:
    places = []
    labels = [] if statistics is None else [published(shares).tolist() for shares in statistics.labels]
    for i in range(len(representatives.values[0])):
        place = Place(
            {
                column.name: _representative(values[i])
                for column, values in zip(representatives.columns, representatives.values, strict=True)
            }
        )
        if statistics is not None:
            place.records = int(statistics.records[i])
            place.groups = [round(share, DIGITS) for share in statistics.groups[i].tolist()]
            place.labels = [shares[i] for shares in labels]
        places.append(place)
    return places


def _representative(value: Any) -> bool | int | float | str | None:
    if value is None or isinstance(value, str):
        return value
    return None if math.isnan(value) else _short(float(value))


def _short(number: float) -> int | float:
    """Write a whole number without a point."""
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def _models(scores: Scores) -> dict[str, Any]:
    """Return the documents of score models, and the means of categories that they use."""
    names = [scores.features.bins[i].name for i in scores.features.averaged]
    return {
        "means": {name: table.tolist() for name, table in zip(names, scores.means, strict=True)},
        "models": [_model_document(model) for model in scores.models],
    }


_WRITTEN: WeakKeyDictionary[Forest, Model] = WeakKeyDictionary()
"""Documents of score models: a job writes many encoders of the same ones."""


def _model_document(forest: Forest) -> Model:
    if forest not in _WRITTEN:
        _WRITTEN[forest] = _write_model(forest)
    return _WRITTEN[forest]


def _write_model(forest: Forest) -> Model:
    numbers = [*map(_short, np.where(forest.feature >= 0, forest.threshold, forest.value / UNIT).tolist())]
    trees = []
    for start, stop in zip(forest.starts[:-1], forest.starts[1:], strict=True):
        missing_left = np.flatnonzero(forest.missing_left[start:stop]).tolist()
        trees.append(Tree(forest.feature[start:stop].tolist(), numbers[start:stop], missing_left))
    return Model((forest.baseline / UNIT).tolist(), trees)


def _centres_document(clusters: Clusters) -> Centres:
    return Centres(clusters.space.means.tolist(), clusters.space.scales.tolist(), clusters.centres.tolist())


def _listed(values: NDArray[np.float64] | None) -> list[float] | None:
    return None if values is None else values.tolist()
