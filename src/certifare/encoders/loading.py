"""Build encoders from documents, which have checked themselves (:mod:`.documents`)."""

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.description import Description, Statistics, describe, map_rules, path_rules
from certifare.encoders.documents import (
    AnyDocument,
    AxisDocument,
    BoostedDocument,
    CalibratedDocument,
    Centres,
    ColumnDocument,
    EncoderDocument,
    Model,
    Place,
    Rule,
    TreeDocument,
    require,
    require_rows,
)
from certifare.encoders.forest import UNIT, Forest, right_children
from certifare.encoders.format import EncoderFile
from certifare.encoders.plans import GapPlan, Thresholds, threshold_rules
from certifare.encoders.proxies import Clusters, Coordinates, Space
from certifare.encoders.representatives import Representatives
from certifare.encoders.scoremap import Axis, ScoreMap
from certifare.encoders.scores import FeatureMap, Scores
from certifare.encoders.training import ColumnSchema
from certifare.errors import FileError
from certifare.foundation.levels import name_of
from certifare.growth import Bins, CategoricalBins, ContinuousBins, Growth, Split

# Estimators are imported where one is made: describing a document needs no scikit-learn, which is slow to import.
if TYPE_CHECKING:
    from certifare.encoders.base import RestrictedEncoder
    from certifare.encoders.boosted import BoostedEncoder
    from certifare.encoders.calibrated_cells import CalibratedEncoder
    from certifare.encoders.training import GroupValue
    from certifare.encoders.tree import FairTreeEncoder


def load_encoder(path: str | os.PathLike[str]) -> "RestrictedEncoder":
    """Read an encoder that ``encoder.save`` wrote.

    Nothing in the file is executed. It finds the same cells as the encoder that was saved, bit by bit; it does not
    know its training records (``training_overlap`` gives None).

    Parameters
    ----------
    path : path

    Returns
    -------
    FairTreeEncoder, BoostedEncoder or CalibratedEncoder

    Raises
    ------
    FileError
        If the file is not an encoder, is damaged, comes from a newer version, or asks for more memory or work than
        the limits of :mod:`certifare.encoders.documents`.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from certifare import FairTreeEncoder, load_encoder
    >>> X = np.array([[0.0], [0.0], [5.0], [5.0]])
    >>> path = os.path.join(tempfile.mkdtemp(), "encoder.json")
    >>> encoder = FairTreeEncoder(gamma=0, min_cell_size=1)
    >>> encoder.fit(X, ["no", "no", "yes", "yes"], sensitive_features=[0, 1, 0, 1]).save(path)
    >>> load_encoder(path).apply(X)
    array([0, 0, 1, 1], dtype=int32)
    """
    document = EncoderFile.of(path).document
    try:
        return build_encoder(document)
    except FileError as error:
        raise FileError(f"{os.fspath(path)}: this is not an encoder, or a damaged one ({error}).") from error


def build_encoder(document: AnyDocument) -> "RestrictedEncoder":
    """Make the encoder that a document describes."""
    if isinstance(document, TreeDocument):
        return build_tree(document)
    return _build_boosted(document) if isinstance(document, BoostedDocument) else _build_calibrated(document)


def describe_document(document: AnyDocument) -> Description:
    """Describe the cells of a document, as the encoder that it holds does (``encoder.describe()``)."""
    columns, bins = _restore_columns(document)
    names = [name_of(group) for group in _groups(document)]
    if isinstance(document, CalibratedDocument):
        places, first = document.cells, document.directions[0] if document.directions else None
        log_odds = bool(document.models) and first is not None and first.weights is None and first.coordinate is None
        directions = [direction.name for direction in document.directions]
        rules = threshold_rules(_restore_thresholds(document), directions, names, log_odds)
    elif isinstance(document, TreeDocument):
        growth = _restore_growth(_restore_splits(document, bins))
        places = [document.nodes[leaf] for leaf in growth.leaves()]
        rules = path_rules(growth, bins, columns, document.n_cells)
    else:
        places = [document.nodes[leaf] for leaf in _restore_growth(_restore_squares(document)).leaves()]
        axes = [(axis.name, axis.coordinates) for axis in document.axes]
        rules = map_rules(axes, map_of(document), document.clusters is not None)
    labels = [(label.name, [str(value) for value in label.values]) for label in document.labels]
    return describe(rules, _restore_statistics(document, places), (document.group_column, names), labels)


def map_of(document: BoostedDocument) -> NDArray[np.int64]:
    """Find the cell of each square of a map, by axis; where there are clusters, by cluster last."""
    leaves = _restore_growth(_restore_squares(document)).leaves()
    cells = np.zeros(len(document.nodes), dtype=np.int64)
    cells[leaves] = np.arange(len(leaves))
    return cells[document.squares].reshape(document.shape)


def build_tree(document: TreeDocument) -> "FairTreeEncoder":
    """Make the tree encoder that a document describes."""
    from certifare.encoders.tree import FairTreeEncoder

    encoder = FairTreeEncoder()
    encoder.bins_ = _restore_common(encoder, document)
    _restore_nodes(encoder, _restore_splits(document, encoder.bins_), document)
    return encoder


def _build_boosted(document: BoostedDocument) -> "BoostedEncoder":
    from certifare.encoders.boosted import BoostedEncoder

    encoder = BoostedEncoder()
    bins = _restore_common(encoder, document)
    n_classes = (*(len(label.values) for label in document.labels), len(document.groups))
    encoder.score_map_ = ScoreMap(
        _restore_models(document, FeatureMap(bins), n_classes),
        len(document.labels),
        tuple(_restore_axis(axis, n_classes, f"axes[{i}]") for i, axis in enumerate(document.axes)),
        None if document.clusters is None else _restore_clusters(document.clusters, bins),
    )
    _restore_nodes(encoder, _restore_squares(document), document)
    return encoder


def _build_calibrated(document: CalibratedDocument) -> "CalibratedEncoder":
    from certifare.encoders.calibrated_cells import CalibratedEncoder, Direction, Directions

    encoder = CalibratedEncoder()
    bins = _restore_common(encoder, document)
    names = [column.name for column in document.columns]
    scores, place = None, None
    if document.models:
        n_classes = tuple(len(label.values) for label in document.labels)
        scores = _restore_models(document, FeatureMap(bins, len(document.groups)), n_classes)
    else:
        numbers = [column.name for column in document.columns if column.type != "text"]
        require(encoder.score_column in numbers, "without score models a column of numbers is the score")
        place = names.index(str(encoder.score_column))
    other = encoder.other_group
    require(other is None or other in map(name_of, encoder.groups_), "other_group: there is no such group")
    require(encoder.tie_column is None or encoder.tie_column in names, "tie_column: there is no such column")
    directions = tuple(Direction(d.name, _numbers(d.weights), d.coordinate) for d in document.directions)
    encoder.directions_ = Directions(directions, scores, _restore_coordinates(document, bins), bins, place)
    encoder.plan_, encoder.thresholds_ = plan_of(document), _restore_thresholds(document)
    encoder.n_cells_ = document.n_cells
    encoder.calibrated_ = document.calibrated
    encoder._tie_key, encoder._training = document.tie_key, None
    encoder._representatives = _restore_representatives(document.cells, encoder.columns_)
    encoder._statistics = _restore_statistics(document, document.cells)
    return encoder


def plan_of(document: CalibratedDocument) -> GapPlan:
    """Return the plan by which records set the thresholds of an encoder."""
    parents = np.array(document.parents, dtype=np.int64)
    directions = np.array([split.direction for split in document.splits], dtype=np.int64)
    left = np.array([split.gaps for split in document.splits], dtype=np.int64)
    return GapPlan(parents, directions, left.reshape(len(parents), len(document.groups)), np.array(document.gaps))


def _restore_thresholds(document: CalibratedDocument) -> Thresholds:
    plan = plan_of(document)
    at, ties = (
        np.array([getattr(split, name) for split in document.splits], dtype=np.float64).reshape(plan.left.shape)
        for name in ("at", "ties")
    )
    return Thresholds(plan.parents, plan.directions, at, ties)


def _restore_coordinates(document: CalibratedDocument, bins: Sequence[Bins]) -> Coordinates | None:
    """Restore what each code of a column adds to the coordinates."""
    if not document.coordinates:
        return None
    for i, (table, b) in enumerate(zip(document.coordinates, bins, strict=True)):
        require(len(table) == b.n_codes, f"coordinates[{i}]: not one row for each code")
    return Coordinates(tuple(np.array(table, dtype=np.int32) for table in document.coordinates), 1.0)


def _restore_common(encoder: "RestrictedEncoder", document: EncoderDocument) -> tuple[Bins, ...]:
    """Restore what all encoders have; return the bins of the columns."""
    # How many threads run here is not for a file to say.
    known = set(encoder.get_params(deep=False)) - {"n_jobs"}
    unknown = sorted(set(document.parameters) - known)
    require(not unknown, f"parameters: {unknown[:3]} are unknown")
    sensitive = document.parameters.get("sensitive")
    named = sensitive if isinstance(sensitive, list) else [] if sensitive is None else [sensitive]
    # Columns of an array are named by their positions.
    known_by = [isinstance(name, str | int) and not isinstance(name, bool) for name in named]
    require(all(known_by), "parameters: sensitive does not name columns")
    encoder.set_params(**document.parameters)
    encoder.columns_, bins = _restore_columns(document)
    encoder.n_features_in_ = len(encoder.columns_)
    if document.named:
        encoder.feature_names_in_ = np.array([column.name for column in encoder.columns_], dtype=object)
    encoder.group_column_ = document.group_column
    encoder.groups_ = _groups(document)
    encoder.labels_ = tuple((label.name, tuple(label.values)) for label in document.labels)
    encoder.fingerprint_ = None
    return bins


def _restore_columns(document: EncoderDocument) -> tuple[tuple[ColumnSchema, ...], tuple[Bins, ...]]:
    schemas = (ColumnSchema(c.name, c.type, c.categories is not None, c.missing) for c in document.columns)
    return tuple(schemas), tuple(map(_restore_bins, document.columns))


def _restore_bins(column: ColumnDocument) -> Bins:
    if column.categories is not None:
        return CategoricalBins(column.name, tuple(column.categories))  # type: ignore[arg-type]
    return ContinuousBins(column.name, np.array(column.edges, dtype=np.float64))


def _groups(document: EncoderDocument) -> "tuple[GroupValue, ...]":
    return tuple(tuple(group) if isinstance(group, list) else group for group in document.groups)


def _restore_splits(document: TreeDocument, bins: Sequence[Bins]) -> list[Split]:
    position = {b.name: i for i, b in enumerate(bins)}
    codes = [{category: code for code, category in enumerate(getattr(b, "categories", ()))} for b in bins]
    columns = [position[rule.column] for rule in document.splits]
    return [_restore_split(rule, i, bins[i], codes[i]) for rule, i in zip(document.splits, columns, strict=True)]


def _restore_split(rule: Rule, column: int, bins: Bins, code_of: dict[Any, int]) -> Split:
    goes_left = np.zeros(bins.n_codes, dtype=bool)
    threshold: int | None = None
    if isinstance(bins, CategoricalBins):
        goes_left[[code_of[category] for category in rule.categories or ()]] = True
        goes_left[bins.infrequent_code] = rule.unseen == "left"
    else:
        threshold = len(bins.edges) if rule.at_most is None else int(np.searchsorted(bins.edges, rule.at_most))
        goes_left[: threshold + 1] = True
    goes_left[bins.missing_code] = rule.missing == "left"
    return Split(rule.node, column, goes_left, threshold, 0.0, 0, 0)


def _restore_squares(document: BoostedDocument) -> list[Split]:
    """Restore splits over squares, from the leaf of each square."""
    parents, splits = document.parents, []
    inside = np.array(document.squares)[None, :] == np.arange(len(document.nodes))[:, None]
    for j in reversed(range(len(parents))):
        inside[parents[j]] = inside[2 * j + 1] | inside[2 * j + 2]
        splits.append(Split(parents[j], 0, inside[2 * j + 1].copy(), None, 0.0, 0, 0))
    return splits[::-1]


def _restore_growth(splits: Sequence[Split]) -> Growth:
    # Training counts of classes are not published, so the growth has none.
    return Growth(tuple(splits), np.zeros((2 * len(splits) + 1, 0), dtype=np.int64))


def _restore_nodes(
    encoder: "FairTreeEncoder | BoostedEncoder", splits: Sequence[Split], document: TreeDocument | BoostedDocument
) -> None:
    encoder.growth_ = _restore_growth(splits)
    encoder.n_cells_ = document.n_cells
    encoder._node_representatives = _restore_representatives(document.nodes, encoder.columns_)
    encoder._node_statistics = _restore_statistics(document, document.nodes)


def _restore_representatives(places: Sequence[Place], columns: tuple[ColumnSchema, ...]) -> Representatives:
    values: list[NDArray[Any]] = []
    for column in columns:
        entries: list[Any] = [place.representative[column.name] for place in places]
        if column.type == "text":
            values.append(np.array(entries, dtype=object))
        else:
            values.append(np.array([math.nan if v is None else float(v) for v in entries]))
    return Representatives(columns, tuple(values))


def _restore_statistics(document: EncoderDocument, places: Sequence[Place]) -> Statistics | None:
    if places[0].records is None:
        return None
    labels = range(len(document.labels))
    return Statistics(
        records=np.array([place.records for place in places], dtype=np.int64),
        groups=np.array([place.groups for place in places], dtype=np.float64),
        labels=tuple(np.array([(place.labels or [])[i] for place in places], dtype=np.float64) for i in labels),
    )


def _restore_models(
    document: BoostedDocument | CalibratedDocument, features: FeatureMap, n_classes: tuple[int, ...]
) -> Scores:
    names = [features.bins[i].name for i in features.averaged]
    require(set(document.means) == set(names), "means are not those of the columns with many categories")
    for i, name in zip(features.averaged, names, strict=True):
        require_rows(document.means[name], f"means[{name!r}]")
        require(len(document.means[name]) == features.bins[i].n_codes, f"means[{name!r}]: not one row per category")
    means = tuple(np.array(document.means[name], dtype=np.float64) for name in names)
    n_numbers = features.n_numbers + sum(table.shape[1] for table in means)
    few = "models: not one per label, and for the groups if they are not seen"
    require(len(document.models) == len(n_classes), few)
    models = tuple(
        _restore_forest(model, n, n_numbers, f"models[{i}]")
        for i, (model, n) in enumerate(zip(document.models, n_classes, strict=True))
    )
    return Scores(features, means, models, n_classes)


def _restore_forest(document: Model, n_classes: int, n_numbers: int, where: str) -> Forest:
    require(len(document.baseline) == (1 if n_classes == 2 else n_classes), f"{where}: not one baseline per output")
    require(len(document.trees) % len(document.baseline) == 0, f"{where}: trees do not belong to outputs in turn")
    features = [i for tree in document.trees for i in tree.features]
    most = max(features, default=-1)
    require(most < n_numbers, f"{where}: there is no feature {most}")
    starts = np.concatenate([[0], np.cumsum([len(tree.features) for tree in document.trees])]).astype(np.int64)
    feature = np.array(features, dtype=np.int32)
    numbers = np.array([number for tree in document.trees for number in tree.numbers], dtype=np.float64)
    missing_left = np.zeros(len(feature), dtype=bool)
    for start, tree in zip(starts.tolist(), document.trees, strict=False):
        missing_left[[start + node for node in tree.missing_left]] = True
    return Forest(
        n_classes=n_classes,
        baseline=np.array(document.baseline, dtype=np.float64) * UNIT,
        starts=starts,
        feature=feature,
        threshold=np.where(feature >= 0, numbers, 0.0),
        missing_left=missing_left,
        right=right_children(feature, starts),
        value=np.where(feature >= 0, 0.0, numbers * UNIT),
    )


def _restore_axis(document: AxisDocument, n_classes: Sequence[int], where: str) -> Axis:
    classes = n_classes[-1:] if document.side == "group" else n_classes[:-1]
    if len(classes) == 1 and classes[0] == 2:
        require(document.weights is None, f"{where}: two classes need no weights")
    else:
        require(len(document.weights or ()) == sum(classes), f"{where}: not one weight per class")
    edges, coordinates = (np.array(values, dtype=np.float64) for values in (document.edges, document.coordinates))
    return Axis(document.name, document.side, _numbers(document.weights), edges, coordinates)


def _restore_clusters(document: Centres, bins: tuple[Bins, ...]) -> Clusters:
    means, scales = (np.array(values, dtype=np.float64) for values in (document.means, document.scales))
    require(len(means) == len(bins), "clusters: not one mean and scale per column")
    space, centres = Space(bins, means, scales), np.array(document.centres, dtype=np.float64)
    require(centres.shape[1] == space.offsets[-1], "clusters: centres have other coordinates")
    return Clusters(space, centres)


def _numbers(values: Sequence[float] | None) -> NDArray[np.float64] | None:
    return None if values is None else np.array(values, dtype=np.float64)
