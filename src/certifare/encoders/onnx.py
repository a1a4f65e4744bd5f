"""Boosted and calibrated encoders as ONNX: the same cells and scores in any runtime that reads the format.

The graph is written from what an encoder's JSON holds: categories become codes, codes become means, trees add up to
scores, scores fall into squares of the map (which has a cell) or between thresholds. All numbers are doubles, as they
are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from certifare.encoders.boosted import BoostedEncoder
from certifare.encoders.cellscores import score_names
from certifare.encoders.forest import Forest
from certifare.errors import EncoderError, MissingPackageError
from certifare.foundation.levels import name_of
from certifare.foundation.version import __version__
from certifare.growth import CategoricalBins

if TYPE_CHECKING:
    from certifare.encoders.base import RestrictedEncoder
    from certifare.encoders.calibrated_cells import CalibratedEncoder
    from certifare.encoders.scoremap import Axis
    from certifare.encoders.scores import Scores

OPSET, ML_OPSET, IR_VERSION = 18, 5, 10
#: What stands for a missing value in a column of text: ONNX has no other.
MISSING_TEXT = ""


def write_onnx(encoder: BoostedEncoder | CalibratedEncoder) -> Any:
    """Write an encoder as an ONNX model (``encoder.to_onnx``)."""
    try:
        import onnx
    except ImportError:
        raise MissingPackageError("Writing ONNX needs the package onnx: pip install 'certifare[onnx]'.") from None
    check_is_fitted(encoder)
    boosted = isinstance(encoder, BoostedEncoder)
    if (encoder.score_map_.clusters if boosted else encoder.directions_.coordinates) is not None:
        raise EncoderError("An encoder with retain has no ONNX form: encode with certifare, or fit without retain.")
    graph = _Graph(onnx)
    if isinstance(encoder, BoostedEncoder):
        _cells(graph, encoder, encoder.score_map_.scores)
    else:
        _calibrated_cells(graph, encoder)
    _cell_scores(graph, encoder)
    return graph.model(encoder)


class _Graph:
    """Nodes, constants and inputs of a model that is being written."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self._n = 0

    def name(self, hint: str) -> str:
        self._n += 1
        return f"{hint}_{self._n}"

    def constant(self, value: Any, hint: str = "constant") -> str:
        name = self.name(hint)
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", output: str | None = None, **attributes: Any) -> str:
        name = output or self.name(operator)
        node = self._onnx.helper.make_node(operator, list(inputs), [name], name=name, domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def tensor(self, value: Any, hint: str) -> Any:
        array = np.asarray(value)
        if array.dtype.kind in "OU":
            return self._onnx.helper.make_tensor(
                hint, self._onnx.TensorProto.STRING, array.shape, [str(text).encode("utf-8") for text in array.tolist()]
            )
        return self._onnx.numpy_helper.from_array(array, hint)

    def input(self, name: str, text: bool) -> str:
        kind = self._onnx.TensorProto.STRING if text else self._onnx.TensorProto.DOUBLE
        self.inputs.append(self._onnx.helper.make_tensor_value_info(name, kind, ["records", 1]))
        return name

    def output(self, name: str, kind: Any) -> None:
        self.outputs.append(self._onnx.helper.make_tensor_value_info(name, kind, ["records"]))

    def model(self, encoder: RestrictedEncoder) -> Any:

        onnx = self._onnx
        graph = onnx.helper.make_graph(self.nodes, "certifare", self.inputs, self.outputs, self.constants)
        model = onnx.helper.make_model(
            graph,
            producer_name="certifare",
            producer_version=__version__,
            opset_imports=[onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
            ir_version=IR_VERSION,
        )
        model.doc_string = f"{encoder.n_cells_} cells; encoder {encoder.digest()}"
        onnx.checker.check_model(model)
        return model


def _cells(graph: _Graph, encoder: BoostedEncoder, fitted: Scores) -> None:
    """Write everything, from the columns to the cells."""
    scores = _scores(graph, encoder, fitted, None)
    n_labels = len(encoder.labels_)
    label = (
        scores[0]
        if n_labels == 1
        else graph.add("Concat", *(_pair(graph, encoder, s, i) for i, s in enumerate(scores[:n_labels])), axis=1)
    )
    sides = {"label": label, "group": scores[n_labels]}
    places = [(_bins(graph, axis, sides[axis.side]), len(axis.coordinates)) for axis in encoder.score_map_.axes]
    table = encoder.cell_map_.ravel()
    square, _ = places[0]
    for place, n in places[1:]:
        square = graph.add("Add", graph.add("Mul", square, graph.constant(np.int64(n))), place)
    graph.add("Gather", graph.constant(table.astype(np.int64), "cell_of_square"), square, output="cell")


def _calibrated_cells(graph: _Graph, encoder: CalibratedEncoder) -> None:
    """Write the cells between thresholds: the cell is the number of its group's thresholds that a record is beyond."""
    if encoder.directions_.columns[0].weights is not None:
        # Their score is a sum that runtimes round differently, so that a record on a threshold might be beyond it.
        raise EncoderError(
            "Calibrated cells of several labels, or of a label with more than two values, have no ONNX form: encode "
            "with certifare."
        )
    if encoder.tie_column is None:
        raise EncoderError(
            "A record's row decides about its cell where its score equals a threshold, and a model sees no rows. Fit "
            "with a column that identifies records: tie_column (certifare fit --tie-column)."
        )
    at, ties = encoder.thresholds_.along()
    group = _group(graph, encoder)
    n_groups = graph.constant(np.int64(len(encoder.groups_)))
    if encoder.directions_.scores is None:
        tie, score = (graph.input(str(name), text=False) for name in (encoder.tie_column, encoder.score_column))
    else:
        (score,), tie = _scores(graph, encoder, encoder.directions_.scores, group), encoder.tie_column
    # One row more, for groups that are not known.
    own, of_ties = (
        graph.add("Gather", graph.constant(np.vstack([table.T, np.zeros(len(table))])), group) for table in (at, ties)
    )
    equal = graph.add("And", graph.add("Equal", score, own), graph.add("LessOrEqual", tie, of_ties))
    beyond = graph.add("Not", graph.add("Or", graph.add("Less", score, own), equal))
    axes = graph.constant(np.array([1], dtype=np.int64))
    place = graph.add("ReduceSum", graph.add("Cast", beyond, to=7), axes, keepdims=0)
    known = graph.add("Less", group, n_groups)
    graph.add("Where", known, place, graph.constant(np.int64(-1)), output="cell")


def _cell_scores(graph: _Graph, encoder: BoostedEncoder | CalibratedEncoder) -> None:
    """Write the outputs: the cell, and the scores of its training records."""
    from onnx import TensorProto

    graph.output("cell", TensorProto.INT64)
    if encoder.cell_statistics() is not None:
        of_cells = encoder.cell_scores()
        for name, i, j in score_names(encoder.labels_):
            # The last one is for the cell −1, of a group that is not known.
            graph.add("Gather", graph.constant(np.append(of_cells[i][:, j], np.nan)), "cell", output=name)
            graph.output(name, TensorProto.DOUBLE)


def _scores(graph: _Graph, encoder: RestrictedEncoder, fitted: Scores, group: str | None) -> list[str]:
    """Write the scores for each target, by models that see the group in an encoder that reads it."""
    features, codes = _features(graph, encoder, fitted)
    if group is not None:
        n_groups = graph.constant(np.int64(len(encoder.groups_)))
        number = graph.add("Cast", group, to=11)
        seen = graph.add("Where", graph.add("Less", group, n_groups), number, graph.constant(np.float64(np.nan)))
        features = [*features, graph.add("Unsqueeze", seen, graph.constant(np.array([1], dtype=np.int64)))]
    matrix = _rows(graph, features, codes, fitted)
    return [_forest(graph, model, matrix) for model in fitted.models]


def _group(graph: _Graph, encoder: RestrictedEncoder) -> str:
    """Read the group, by its name: its position among those of the encoder, behind the last if it is none of them.

    A group that pools all others takes every other name but the empty one.
    """
    names, other = [name_of(group) for group in encoder.groups_], encoder.other_group
    places, default = list(range(len(names))), len(names)
    if other is not None:
        names, places, default = [*names, ""], [*places, len(names)], names.index(other)
    code = graph.add(
        "LabelEncoder",
        graph.input(encoder.group_column_, text=True),
        domain="ai.onnx.ml",
        keys_tensor=graph.tensor(np.array(names, dtype=object), "groups"),
        values_tensor=graph.tensor(np.array(places, dtype=np.int64), "places"),
        default_tensor=graph.tensor(np.array([default], dtype=np.int64), "unknown"),
    )
    return graph.add("Reshape", code, graph.constant(np.array([-1], dtype=np.int64)))


def _features(graph: _Graph, encoder: RestrictedEncoder, scores: Scores) -> tuple[list[str], dict[int, str]]:
    """Read the columns: numbers as they are, categories as codes (NaN: missing); and the codes of the latter."""
    features, codes = [], {}
    for i, (column, bins) in enumerate(zip(encoder.columns_, scores.features.bins, strict=True)):
        hashed = column.name == encoder.identifier  # a number that no tree compares
        text = column.type == "text" and not hashed
        read = graph.input(column.name, text)
        if hashed or not isinstance(bins, CategoricalBins):
            features.append(read)
            continue
        if MISSING_TEXT in bins.categories:
            raise EncoderError(
                f"Column {column.name!r} has the category '' (empty text), which stands for a missing value in ONNX."
            )
        keys: Any = [str(c) for c in bins.categories] if text else [float(c) for c in bins.categories]
        values = np.arange(len(bins.categories), dtype=np.float64)
        if text:
            keys, values = [*keys, MISSING_TEXT], np.append(values, float(bins.missing_code))
        if not keys:
            keys, values = [0.0], np.array([float(bins.infrequent_code)])
        code = graph.add(
            "LabelEncoder",
            read,
            domain="ai.onnx.ml",
            keys_tensor=graph.tensor(np.array(keys, dtype=object if text else np.float64), "keys"),
            values_tensor=graph.tensor(values, "values"),
            default_tensor=graph.tensor(np.array([float(bins.infrequent_code)]), "default"),
        )
        missing = graph.constant(np.float64(bins.missing_code))
        if not text:
            code = graph.add("Where", graph.add("IsNaN", read), missing, code)
        codes[i] = graph.add("Reshape", graph.add("Cast", code, to=7), graph.constant(np.array([-1], dtype=np.int64)))
        features.append(graph.add("Where", graph.add("Equal", code, missing), graph.constant(np.float64(np.nan)), code))
    return features, codes


def _rows(graph: _Graph, features: Sequence[str], codes: dict[int, str], scores: Scores) -> str:
    """Write the rows that the models see: the features, then the means of categories."""
    tables = zip(scores.features.averaged, scores.means, strict=True)
    means = [graph.add("Gather", graph.constant(table), codes[i]) for i, table in tables]
    return graph.add("Concat", *features, *means, axis=1)


def _forest(graph: _Graph, forest: Forest, matrix: str) -> str:
    """Write the trees of a model, and what becomes of their sums."""
    n_outputs, roots = len(forest.baseline), forest.starts[:-1]
    leaf, first = forest.feature < 0, np.repeat(roots, np.diff(forest.starts))
    # A tree that is a single leaf becomes a question whose answers agree: a leaf's children are itself.
    leaves, inner = np.flatnonzero(leaf), np.concatenate([np.flatnonzero(~leaf), roots[leaf[roots]]])
    place, ids = np.full(len(leaf), -1), np.full(len(leaf), -1)
    place[inner] = ids[inner] = np.arange(len(inner))
    ids[leaves] = np.arange(len(leaves))
    left, right = ((first + children)[inner] for children in (forest.left, forest.right))
    tree_of = np.repeat(np.arange(len(roots)), np.diff(forest.starts))
    total = graph.add(
        "TreeEnsemble",
        matrix,
        domain="ai.onnx.ml",
        aggregate_function=1,
        n_targets=n_outputs,
        post_transform=0,
        tree_roots=place[roots].tolist(),
        nodes_featureids=np.maximum(forest.feature, 0)[inner].tolist(),
        nodes_modes=graph.tensor(np.zeros(len(inner), dtype=np.uint8), "modes"),
        nodes_splits=graph.tensor(np.where(leaf, 0.0, forest.threshold)[inner], "splits"),
        nodes_missing_value_tracks_true=(forest.missing_left & ~leaf)[inner].astype(int).tolist(),
        nodes_truenodeids=ids[left].tolist(),
        nodes_falsenodeids=ids[right].tolist(),
        nodes_trueleafs=leaf[left].astype(int).tolist(),
        nodes_falseleafs=leaf[right].astype(int).tolist(),
        leaf_targetids=(tree_of[leaves] % n_outputs).tolist(),
        leaf_weights=graph.tensor(forest.value[leaves], "weights"),
    )
    raw = graph.add("Add", total, graph.constant(forest.baseline[None, :]))
    return raw if forest.n_classes == 2 else graph.add("Softmax", raw, axis=1)


def _pair(graph: _Graph, encoder: BoostedEncoder, score: str, label: int) -> str:
    """Write probabilities of a label's values; log-odds become a pair."""
    if len(encoder.labels_[label][1]) > 2:
        return score
    second = graph.add("Sigmoid", score)
    return graph.add("Concat", graph.add("Sub", graph.constant(np.float64(1.0)), second), second, axis=1)


def _bins(graph: _Graph, axis: Axis, scores: str) -> str:
    """Write how many edges of an axis lie below the score."""
    along = scores
    if axis.weights is not None:
        along = graph.add("MatMul", scores, graph.constant(axis.weights[:, None]))
    above = graph.add("Cast", graph.add("Greater", along, graph.constant(axis.edges[None, :])), to=7)
    return graph.add("ReduceSum", above, graph.constant(np.array([1], dtype=np.int64)), keepdims=0)
