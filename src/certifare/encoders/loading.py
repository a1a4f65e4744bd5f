"""Read encoders from documents: everything that a document claims is checked."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.description import (
    Description,
    Statistics,
    describe,
    map_rules,
    path_rules,
)
from certifare.encoders.forest import UNIT, Forest, right_children
from certifare.encoders.format import (
    MAX_BYTES,
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
    Tree,
    TreeDocument,
    read_encoder_document,
)
from certifare.encoders.plans import GapPlan, Thresholds, threshold_rules
from certifare.encoders.proxies import LARGEST, MOST, Clusters, Coordinates
from certifare.encoders.representatives import Representatives
from certifare.encoders.scoremap import MOST_SQUARES, Axis, ScoreMap
from certifare.encoders.scores import FeatureMap, Scores
from certifare.encoders.space import Space
from certifare.encoders.training import ColumnSchema
from certifare.errors import FileError
from certifare.foundation.levels import name_of
from certifare.growth import Bins, CategoricalBins, ContinuousBins, Growth, Split

# Estimators are imported where one is made: describing a document needs no scikit-learn, which is slow to import.
if TYPE_CHECKING:
    from certifare.encoders.base import RestrictedEncoder
    from certifare.encoders.boosted import BoostedEncoder
    from certifare.encoders.calibrated_cells import CalibratedEncoder
    from certifare.encoders.grown import GrownEncoder
    from certifare.encoders.training import GroupValue
    from certifare.encoders.tree import FairTreeEncoder


def load_encoder(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> "RestrictedEncoder":
    """Read an encoder that ``encoder.save`` wrote.

    Nothing in the file is executed. It finds the same cells as the encoder that was saved, bit by bit; it does not
    know its training records (``training_overlap`` gives None).

    Parameters
    ----------
    path : path
    max_bytes : int
        Larger files are refused unread.

    Returns
    -------
    FairTreeEncoder, BoostedEncoder or CalibratedEncoder

    Raises
    ------
    FileError
        If the file is not an encoder, is damaged, comes from a newer version, or asks for more memory or work than
        :mod:`certifare.encoders.limits` allows.

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
    document = read_encoder_document(path, max_bytes)
    with _named(path):
        return build_encoder(document)


def build_encoder(document: AnyDocument) -> "RestrictedEncoder":
    """Make the encoder that a document describes."""
    if isinstance(document, TreeDocument):
        return build_tree(document)
    if isinstance(document, BoostedDocument):
        return _build_boosted(document)
    return _build_calibrated(document)


@contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except FileError as error:
        raise FileError(f"{os.fspath(path)}: {error}") from error
    except OverflowError as error:
        # JSON has whole numbers of any size; nothing in an encoder needs more than 64 bits.
        problem = f"this is a damaged encoder: a number is out of range ({error})"
        raise FileError(f"{os.fspath(path)}: {problem}.") from error


def describe_document(document: AnyDocument, path: str | os.PathLike[str] = "The encoder") -> Description:
    """Describe the cells of a document, as the encoder that it holds does (``encoder.describe()``)."""
    with _named(path):
        return _describe(document)


def _describe(document: AnyDocument) -> Description:
    columns, bins = _restore_columns(document)
    names = [name_of(group) for group in _groups(document)]
    if isinstance(document, TreeDocument):
        growth = _restore_growth(_restore_splits(document, bins), document.nodes)
        places = [document.nodes[leaf] for leaf in growth.leaves()]
        rules = path_rules(growth, bins, columns, document.n_cells)
    elif isinstance(document, CalibratedDocument):
        places = document.cells
        thresholds = _restore_thresholds(document)[1]
        first = document.directions[0] if document.directions else None
        log_odds = bool(document.models) and first is not None and first.weights is None and first.coordinate is None
        rules = threshold_rules(thresholds, [direction.name for direction in document.directions], names, log_odds)
    else:
        growth = _restore_growth(_restore_squares(document), document.nodes)
        places = [document.nodes[leaf] for leaf in growth.leaves()]
        axes = [(axis.name, axis.coordinates) for axis in document.axes]
        rules = map_rules(axes, map_of(document), document.clusters is not None)
    labels = [(label.name, [str(value) for value in label.values]) for label in document.labels]
    return describe(rules, _restore_statistics(document, places, "cells"), (document.group_column, names), labels)


def map_of(document: BoostedDocument) -> NDArray[np.int64]:
    """Find the cell of each square of a map, by axis; where there are clusters, by cluster last."""
    leaves = _restore_growth(_restore_squares(document), document.nodes).leaves()
    cells = np.zeros(len(document.nodes), dtype=np.int64)
    cells[leaves] = np.arange(len(leaves))
    return cells[document.squares].reshape(_shape(document))


def build_tree(document: TreeDocument) -> "FairTreeEncoder":
    """Make the encoder."""
    from certifare.encoders.tree import FairTreeEncoder

    encoder = FairTreeEncoder()
    columns, bins = _restore_common(encoder, document)
    encoder.bins_ = bins
    _restore_nodes(encoder, _restore_splits(document, bins), document, columns)
    return encoder


def _build_boosted(document: BoostedDocument) -> "BoostedEncoder":
    """Make the encoder."""
    from certifare.encoders.boosted import BoostedEncoder

    encoder = BoostedEncoder()
    columns, bins = _restore_common(encoder, document)
    _require(len(document.labels) > 0 and len(document.groups) > 1, "a boosted encoder has labels and groups")
    n_classes = (*(len(label.values) for label in document.labels), len(document.groups))
    scores = _restore_models(document, FeatureMap(bins), n_classes)
    clusters = None
    if document.clusters is not None:
        clusters = Clusters(*_restore_centres(document.clusters, bins, "clusters"))
    axes = tuple(_restore_axis(axis, n_classes, f"axes[{i}]") for i, axis in enumerate(document.axes))
    score_map = ScoreMap(scores, len(document.labels), axes, clusters)
    encoder.score_map_ = score_map
    _restore_nodes(encoder, _restore_squares(document), document, columns)
    return encoder


def _build_calibrated(document: CalibratedDocument) -> "CalibratedEncoder":
    """Make the encoder."""
    from certifare.encoders.calibrated_cells import CalibratedEncoder, Direction, Directions

    encoder = CalibratedEncoder()
    columns, bins = _restore_common(encoder, document)
    _require(len(document.groups) > 1, "a calibrated encoder has groups")
    n_classes = tuple(len(label.values) for label in document.labels)
    scores = None
    if document.models:
        _require(len(n_classes) > 0, "a calibrated encoder with score models has labels")
        scores = _restore_models(document, FeatureMap(bins, len(document.groups)), n_classes)
    else:
        _require(
            sum(column.name == encoder.score_column and column.type != "text" for column in columns) == 1,
            "without score models a column of numbers is the score",
        )
        _require(len(document.directions) == 1, "without score models there is one direction")
    other = encoder.other_group
    _require(other is None or other in map(name_of, encoder.groups_), "other_group: there is no such group")
    tied = encoder.tie_column is None or encoder.tie_column in [column.name for column in columns]
    _require(tied, "tie_column: there is no such column")
    coordinates = _restore_coordinates(document, bins)
    n_coordinates = 0 if coordinates is None else coordinates.n_coordinates
    found = []
    for i, direction in enumerate(document.directions):
        where = f"directions[{i}]"
        if direction.coordinate is not None:
            _require(direction.coordinate < n_coordinates, f"{where}: there is no such coordinate")
        elif scores is not None and list(n_classes) != [2]:
            _require(len(direction.weights or ()) == sum(n_classes), f"{where}: not one weight per class")
        else:
            _require(direction.weights is None, f"{where}: a single score needs no weights")
        weights = None if direction.weights is None else np.array(direction.weights, dtype=np.float64)
        found.append(Direction(direction.name, weights, direction.coordinate))
    place = None if scores else [column.name for column in columns].index(encoder.score_column or "")
    encoder.directions_ = Directions(tuple(found), scores, coordinates, bins, place)
    encoder.plan_, encoder.thresholds_ = _restore_thresholds(document)
    encoder.n_cells_ = document.n_cells
    encoder.calibrated_ = document.calibrated
    encoder._tie_key, encoder._training = document.tie_key, None
    _require(len(document.cells) == encoder.n_cells_, f"cells: {len(document.cells)} instead of {encoder.n_cells_}")
    encoder._representatives, encoder._statistics = _restore_places(document, document.cells, columns, "cells")
    return encoder


def _restore_thresholds(document: CalibratedDocument) -> tuple[GapPlan, Thresholds]:
    """Restore plan and thresholds; refuse a tree that is none, or a plan that gives a cell no gap."""
    n_groups, n_directions = len(document.groups), len(document.directions)
    _require(len(document.gaps) == n_groups, "gaps: not one for each group")
    leaves: dict[int, list[int]] = {0: document.gaps}
    for j, split in enumerate(document.splits):
        where = f"splits[{j}]"
        _require(split.node in leaves, f"{where}: there is no leaf {split.node}")
        _require(split.direction < n_directions, f"{where}: there is no such direction")
        _require(len(split.at) == len(split.ties) == len(split.gaps) == n_groups, f"{where}: not one for each group")
        rest = [m - r for m, r in zip(leaves.pop(split.node), split.gaps, strict=True)]
        _require(min(rest) >= 1, f"{where}: no gap is left for a side")
        leaves[2 * j + 1], leaves[2 * j + 2] = split.gaps, rest
    shape = (len(document.splits), n_groups)
    parents = np.array([split.node for split in document.splits], dtype=np.int64)
    directions = np.array([split.direction for split in document.splits], dtype=np.int64)
    left = np.array([split.gaps for split in document.splits], dtype=np.int64).reshape(shape)
    at = np.array([split.at for split in document.splits], dtype=np.float64).reshape(shape)
    ties = np.array([split.ties for split in document.splits], dtype=np.float64).reshape(shape)
    return GapPlan(parents, directions, left, np.array(document.gaps)), Thresholds(parents, directions, at, ties)


def _restore_coordinates(document: CalibratedDocument, bins: Sequence[Bins]) -> Coordinates | None:
    """Restore what each code of a column adds to the coordinates."""
    if not document.coordinates:
        return None
    _require(len(document.coordinates) == len(bins), "coordinates: not one table for each column")
    width = {len(row) for table in document.coordinates for row in table}
    _require(len(width) == 1 and min(width) >= 1, "coordinates: rows of different lengths")
    for i, (table, b) in enumerate(zip(document.coordinates, bins, strict=True)):
        _require(len(table) == b.n_codes, f"coordinates[{i}]: not one row for each code")
        _require(all(abs(number) <= MOST * LARGEST for row in table for number in row), f"coordinates[{i}]: too large")
    return Coordinates(tuple(np.array(table, dtype=np.int32) for table in document.coordinates), 1.0)


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise FileError(f"this is not an encoder, or a damaged one: {problem}.")


def _restore_common(
    encoder: "RestrictedEncoder", document: EncoderDocument
) -> tuple[tuple[ColumnSchema, ...], tuple[Bins, ...]]:
    # How many threads run here is not for a file to say.
    known = set(encoder.get_params(deep=False)) - {"n_jobs", "score_model"}
    unknown = sorted(set(document.parameters) - known)
    _require(not unknown, f"parameters: {unknown[:3]} are unknown")
    sensitive = document.parameters.get("sensitive")
    named = sensitive if isinstance(sensitive, list) else [] if sensitive is None else [sensitive]
    # Columns of an array are named by their positions.
    known_by = [isinstance(name, str | int) and not isinstance(name, bool) for name in named]
    _require(all(known_by), "parameters: sensitive does not name columns")
    encoder.set_params(**document.parameters)
    columns, bins = _restore_columns(document)
    encoder.columns_ = columns
    encoder.n_features_in_ = len(columns)
    if document.named:
        encoder.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
    encoder.group_column_ = document.group_column
    encoder.groups_ = _groups(document)
    encoder.labels_ = tuple((label.name, tuple(label.values)) for label in document.labels)
    encoder.fingerprint_ = None
    return columns, bins


def _restore_columns(document: EncoderDocument) -> tuple[tuple[ColumnSchema, ...], tuple[Bins, ...]]:
    names = [column.name for column in document.columns]
    _require(len(set(names)) == len(names), "columns: a name occurs twice")
    bins = tuple(_restore_bins(column, f"columns[{i}]") for i, column in enumerate(document.columns))
    columns = tuple(
        ColumnSchema(column.name, column.type, column.categories is not None, column.missing)
        for column in document.columns
    )
    return columns, bins


def _groups(document: EncoderDocument) -> "tuple[GroupValue, ...]":
    return tuple(tuple(group) if isinstance(group, list) else group for group in document.groups)


def _restore_bins(column: ColumnDocument, where: str) -> Bins:
    _require((column.edges is None) != (column.categories is None), f"{where} has either edges or categories")
    if column.categories is not None:
        text = [isinstance(category, str) for category in column.categories]
        _require(all(text) if column.type == "text" else not any(text), f"{where}: categories are not of its type")
        ascending = all(a < b for a, b in zip(column.categories, column.categories[1:], strict=False))  # type: ignore[operator]
        _require(
            ascending and len(column.categories) < (1 << 16) - 1, f"{where}: categories are not sorted, or too many"
        )
        return CategoricalBins(column.name, tuple(column.categories))  # type: ignore[arg-type]
    _require(column.type != "text", f"{where}: text has categories, not edges")
    edges = np.array(column.edges, dtype=np.float64)
    _require(
        bool((np.diff(edges) > 0).all()) and len(edges) < (1 << 16) - 1, f"{where}: edges are not sorted, or too many"
    )
    return ContinuousBins(column.name, edges)


def _restore_splits(document: TreeDocument, bins: Sequence[Bins]) -> list[Split]:
    position = {b.name: i for i, b in enumerate(bins)}
    places: dict[int, dict[Any, int]] = {}
    splits = []
    for j, rule in enumerate(document.splits):
        where = f"splits[{j}]"
        _require(rule.column in position, f"{where}: there is no column {rule.column!r}")
        i = position[rule.column]
        if i not in places:
            places[i] = {category: code for code, category in enumerate(getattr(bins[i], "categories", ()))}
        splits.append(_restore_split(rule, i, bins[i], places[i], where))
    return splits


def _restore_split(rule: Rule, column: int, bins: Bins, position: Mapping[Any, int], where: str) -> Split:
    goes_left = np.zeros(bins.n_codes, dtype=bool)
    threshold: int | None = None
    if isinstance(bins, CategoricalBins):
        _require(
            rule.categories is not None and rule.unseen is not None and rule.at_most is None,
            f"{where} lists categories",
        )
        for category in rule.categories or ():
            _require(category in position, f"{where}: {category!r} is not a category of {bins.name!r}")
            goes_left[position[category]] = True
        goes_left[bins.infrequent_code] = rule.unseen == "left"
    else:
        _require(rule.categories is None and rule.unseen is None, f"{where}: {bins.name!r} has no categories")
        threshold = len(bins.edges)
        if rule.at_most is not None:
            threshold = int(np.searchsorted(bins.edges, rule.at_most))
            found = threshold < len(bins.edges) and bins.edges[threshold] == rule.at_most
            _require(found, f"{where}: {rule.at_most} is not an edge of {bins.name!r}")
        goes_left[: threshold + 1] = True
    goes_left[bins.missing_code] = rule.missing == "left"
    return Split(rule.node, column, goes_left, threshold, 0.0, 0, 0)


def _shape(document: BoostedDocument) -> tuple[int, ...]:
    clusters = () if document.clusters is None else (len(document.clusters.centres),)
    return (*(len(axis.coordinates) for axis in document.axes), *clusters)


def _restore_squares(document: BoostedDocument) -> list[Split]:
    """Restore splits over squares, from the leaf of each square."""
    sides = {axis.side for axis in document.axes}
    _require(sides == {"label", "group"}, "axes: labels and groups need one each")
    parents, squares, n_squares = document.parents, document.squares, math.prod(_shape(document))
    _require(n_squares <= MOST_SQUARES, f"axes: more than {MOST_SQUARES} squares")
    _require(len(squares) == n_squares, f"squares: {len(squares)} instead of {n_squares}")
    _check_parents(parents)
    n_nodes = 2 * len(parents) + 1
    leaf = np.array(squares, dtype=np.int64)
    _require(bool((leaf < n_nodes).all()), "squares: a node is out of range")
    _require(not np.isin(leaf, parents).any(), "squares: a node that was split is no cell")
    _require(len(np.unique(leaf)) == len(parents) + 1, "squares: a cell has none")
    inside = leaf[None, :] == np.arange(n_nodes)[:, None]
    splits = []
    for j in reversed(range(len(parents))):
        inside[parents[j]] = inside[2 * j + 1] | inside[2 * j + 2]
        splits.append(Split(parents[j], 0, inside[2 * j + 1].copy(), None, 0.0, 0, 0))
    return splits[::-1]


def _check_parents(parents: Sequence[int]) -> None:
    """Require that each split divides a node that exists by then and was not split before: so there is no cycle."""
    split = set()
    for j, node in enumerate(parents):
        _require(node <= 2 * j and node not in split, f"split {j} parts node {node}, which is not a leaf then")
        split.add(node)


def _restore_growth(splits: Sequence[Split], nodes: Sequence[Place]) -> Growth:
    _check_parents([split.node for split in splits])
    _require(len(nodes) == 2 * len(splits) + 1, f"nodes: {len(nodes)} instead of {2 * len(splits) + 1}")
    # Training counts of classes are not published, so the growth has none.
    return Growth(tuple(splits), np.zeros((len(nodes), 0), dtype=np.int64))


def _restore_nodes(
    encoder: "GrownEncoder",
    splits: Sequence[Split],
    document: TreeDocument | BoostedDocument,
    columns: tuple[ColumnSchema, ...],
) -> None:
    encoder.growth_ = _restore_growth(splits, document.nodes)
    encoder.n_cells_ = len(splits) + 1
    places = _restore_places(document, document.nodes, columns, "nodes")
    encoder._node_representatives, encoder._node_statistics = places


def _restore_places(
    document: EncoderDocument, places: Sequence[Place], columns: tuple[ColumnSchema, ...], where: str
) -> tuple[Representatives, Statistics | None]:
    return _restore_representatives(places, columns, where), _restore_statistics(document, places, where)


def _restore_representatives(places: Sequence[Place], columns: tuple[ColumnSchema, ...], where: str) -> Representatives:
    names = {column.name for column in columns}
    for i, place in enumerate(places):
        _require(set(place.representative) == names, f"{where}[{i}]: the representative has other columns")
    values: list[NDArray[Any]] = []
    for column in columns:
        entries = [place.representative[column.name] for place in places]
        if column.type == "text":
            _require(all(v is None or isinstance(v, str) for v in entries), f"{where}: {column.name!r} is text")
            values.append(np.array(entries, dtype=object))
        else:
            _require(not any(isinstance(v, str) for v in entries), f"{where}: {column.name!r} is a number")
            values.append(np.array([math.nan if v is None else float(v) for v in entries]))
    return Representatives(columns, tuple(values))


def _restore_statistics(document: EncoderDocument, places: Sequence[Place], where: str) -> Statistics | None:
    if all(place.records is None and place.groups is None and place.labels is None for place in places):
        return None
    sizes = [len(label.values) for label in document.labels]
    for i, place in enumerate(places):
        complete = place.records is not None and place.groups is not None and place.labels is not None
        _require(complete, f"{where}[{i}]: statistics are incomplete")
        _require(len(place.groups or ()) == len(document.groups), f"{where}[{i}]: not one share per group")
        _require([len(shares) for shares in place.labels or ()] == sizes, f"{where}[{i}]: not one share per label")
    return Statistics(
        records=np.array([place.records for place in places], dtype=np.int64),
        groups=np.array([place.groups for place in places], dtype=np.float64),
        labels=tuple(
            np.array([(place.labels or [])[i] for place in places], dtype=np.float64) for i in range(len(sizes))
        ),
    )


def _restore_models(
    document: BoostedDocument | CalibratedDocument,
    features: FeatureMap,
    n_classes: tuple[int, ...],
) -> Scores:
    names = [features.bins[i].name for i in features.averaged]
    _require(set(document.means) == set(names), "means are not those of the columns with many categories")
    means = []
    for i, name in zip(features.averaged, names, strict=True):
        table = _matrix(document.means[name], f"means[{name!r}]")
        _require(len(table) == features.bins[i].n_codes, f"means[{name!r}]: not one row per category")
        means.append(table)
    n_numbers = features.n_numbers + sum(table.shape[1] for table in means)
    _require(
        len(document.models) == len(n_classes), "models: not one per label, and for the groups if they are not seen"
    )
    models = tuple(
        _restore_forest(model, n, n_numbers, f"models[{i}]")
        for i, (model, n) in enumerate(zip(document.models, n_classes, strict=True))
    )
    return Scores(features, tuple(means), models, n_classes)


def _restore_forest(document: Model, n_classes: int, n_numbers: int, where: str) -> Forest:
    _require(len(document.baseline) == (1 if n_classes == 2 else n_classes), f"{where}: not one baseline per output")
    _require(len(document.trees) % len(document.baseline) == 0, f"{where}: trees do not belong to outputs in turn")
    for t, tree in enumerate(document.trees):
        _check_tree(tree, n_numbers, f"{where}.trees[{t}]")
    starts = np.concatenate([[0], np.cumsum([len(tree.features) for tree in document.trees])]).astype(np.int64)
    feature = np.array([i for tree in document.trees for i in tree.features], dtype=np.int32)
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


def _check_tree(tree: Tree, n_numbers: int, where: str) -> None:
    """Require that the nodes make one tree: there is always a place for the next, and none after the last."""
    n = len(tree.features)
    _require(n == len(tree.numbers), f"{where}: lists of different lengths")
    free = 1
    for feature in tree.features:
        _require(feature < n_numbers, f"{where}: there is no feature {feature}")
        _require(free > 0, f"{where}: a node cannot be reached")
        free += 1 if feature >= 0 else -1
    _require(free == 0, f"{where}: a node has no child")
    inner = all(node < n and tree.features[node] >= 0 for node in tree.missing_left)
    _require(inner, f"{where}: missing_left lists what is no node")


def _restore_axis(document: AxisDocument, n_classes: Sequence[int], where: str) -> Axis:
    edges = np.array(document.edges, dtype=np.float64)
    _require(bool((np.diff(edges) > 0).all()), f"{where}: edges are not sorted")
    _require(len(document.coordinates) == len(edges) + 1, f"{where}: not one coordinate per bin")
    classes = n_classes[-1:] if document.side == "group" else n_classes[:-1]
    single = len(classes) == 1 and classes[0] == 2
    if single:
        _require(document.weights is None, f"{where}: two classes need no weights")
    else:
        _require(len(document.weights or ()) == sum(classes), f"{where}: not one weight per class")
    return Axis(
        name=document.name,
        side=document.side,
        weights=None if document.weights is None else np.array(document.weights, dtype=np.float64),
        edges=edges,
        coordinates=np.array(document.coordinates, dtype=np.float64),
    )


def _restore_centres(document: Centres, bins: tuple[Bins, ...], where: str) -> tuple[Space, NDArray[np.float64]]:
    _require(len(document.means) == len(bins) == len(document.scales), f"{where}: not one mean and scale per column")
    space = Space(bins, np.array(document.means, dtype=np.float64), np.array(document.scales, dtype=np.float64))
    centres = _matrix(document.centres, f"{where}.centres")
    _require(centres.shape[1] == space.offsets[-1] and len(centres) > 0, f"{where}: centres have other coordinates")
    return space, centres


def _matrix(rows: Sequence[Sequence[float]], where: str) -> NDArray[np.float64]:
    _require(len({len(row) for row in rows}) == 1 and len(rows[0]) > 0, f"{where}: rows of different lengths, or none")
    return np.array(rows, dtype=np.float64)
