"""Encoders over scores as SQL: queries within each other, from columns to codes, to scores, to the cell.

A database adds up the same whole numbers as ``apply``: leaves are multiples of one unit (:data:`forest.UNIT`), in which
scores, edges and thresholds are written here. So there is nothing to round, and cells are equal bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from certifare.encoders.boosted import BoostedEncoder
from certifare.encoders.calibrated_cells import TIE_DIGITS, CalibratedEncoder
from certifare.encoders.forest import UNIT, Forest
from certifare.encoders.sql import SqlColumn, bytes_of, is_among, number_literal
from certifare.errors import EncoderError, TableError
from certifare.growth import CategoricalBins

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from certifare.encoders.base import RestrictedEncoder
    from certifare.encoders.scores import Scores

#: How a query ends that the database is to compute once, instead of at each of the thousands of places that name it.
#:
#: Only databases of which this is known, and tested, are written for.
ENDS = {"duckdb": "", "postgres": " OFFSET 0", "sqlite": " LIMIT -1 OFFSET 0"}
#: The MD5 hash of a text in UTF-8, as hexadecimal digits. SQLite has it where :class:`~.warehouse.SQLite` gave it.
HASHES = {"duckdb": "MD5({})", "postgres": "MD5(CONVERT_TO({}, 'UTF8'))", "sqlite": "MD5({})"}
#: Whole numbers up to here are doubles, so that ``apply`` and a database add up the same.
LARGEST_SUM = 2**53
#: So many trees are added up in one pair of parentheses: databases limit how deep an expression is.
TERMS = 32

NO_SQL = (
    "{what} cannot be written as SQL. Encode where Python is (certifare encode BUNDLE DATA cells.parquet --as cells "
    "--keep ID) and load the cells into the database; or fit a tree, which can (certifare fit --kind tree)."
)


def write_scored(
    encoder: RestrictedEncoder, columns: Mapping[str, SqlColumn], dialect: str, groups: Sequence[Any]
) -> str:
    """Write the query for one record whose single value is the cell: an expression like any other."""
    if dialect not in ENDS:
        raise EncoderError(
            f"Encoders over scores are written for {', '.join(ENDS)}, not for {dialect}. Fit a tree (certifare fit "
            "--kind tree), or encode where Python is (certifare encode)."
        )
    if isinstance(encoder, CalibratedEncoder):
        return _calibrated(encoder, columns, dialect, groups)
    if not isinstance(encoder, BoostedEncoder):
        raise EncoderError(NO_SQL.format(what=f"A {type(encoder).__name__}"))
    return _boosted(encoder, columns, dialect)


def _boosted(encoder: BoostedEncoder, columns: Mapping[str, SqlColumn], dialect: str) -> str:
    """Write a boosted encoder: regions of a map of two scores."""
    score_map = encoder.score_map_
    _check([axis.weights for axis in score_map.axes], retains=score_map.clusters is not None)
    axes = [(f"s{int(axis.side == 'group')}", _whole(axis.edges)) for axis in score_map.axes]
    return _Stages.of(score_map.scores, columns, dialect, ()).select(_region(axes, encoder.cell_map_))


def _calibrated(
    encoder: CalibratedEncoder, columns: Mapping[str, SqlColumn], dialect: str, groups: Sequence[Any]
) -> str:
    """Write a calibrated encoder: thresholds of each group, at which the hash of the tie column decides."""
    directions, thresholds = encoder.directions_, encoder.thresholds_
    if encoder.tie_column is None:
        raise EncoderError(
            "A record's row decides about its cell where its score equals a threshold, and rows of a database have no "
            "numbers. Fit with a column that identifies records: certifare fit --tie-column ID."
        )
    tie = _tie(encoder, columns[encoder.tie_column], dialect)
    if directions.scores is None:
        own = columns[str(encoder.score_column)]
        stages = _Stages(dialect).then([f"{_known(own, dialect)} AS s0", _group(groups, dialect), tie])
        if not np.isfinite(thresholds.at).all():
            raise EncoderError("A threshold is that of records without a score. Fit on records that have one.")
    else:
        _check([c.weights for c in directions.columns], retains=directions.coordinates is not None)
        stages = _Stages.of(directions.scores, columns, dialect, groups, [tie])

    def condition(group: int, split: int) -> str:
        at = float(thresholds.at[split, group])
        if directions.scores is None:
            value = number_literal(at, dialect).sql(dialect=dialect)
            below = f"s0 < {value}"
        else:
            below = f"s0 < {int(np.ceil(at / UNIT))}"
            value = str(int(at / UNIT)) if (at / UNIT).is_integer() else "NULL"
        digits = f"{int(float(thresholds.ties[split, group]) * 16.0**TIE_DIGITS):0{TIE_DIGITS}x}"
        hashed, last = bytes_of(exp.column("t"), dialect), exp.Literal.string(digits)
        first = exp.LTE(this=hashed, expression=last if isinstance(hashed, exp.Collate) else bytes_of(last, dialect))
        return f"{below} OR (s0 = {value} AND {first.sql(dialect=dialect)})"

    whens = " ".join(
        f"WHEN g = {group} THEN {_walk(thresholds.children, partial(condition, group))}" for group in range(len(groups))
    )
    return stages.select(f"CASE WHEN t IS NULL THEN NULL {whens} END")


def _walk(children: NDArray[np.int32], condition: Callable[[int], str]) -> str:
    """Write a tree of splits; children come after their parents."""
    if not len(children):
        return "0"
    written: dict[int, str] = {}
    for j in reversed(range(len(children))):
        left, right = (str(-1 - child) if child < 0 else written.pop(child) for child in children[j].tolist())
        written[j] = f"CASE WHEN {condition(j)} THEN {left} ELSE {right} END"
    return written[0]


def _check(weights: Sequence[Any], *, retains: bool) -> None:
    """Refuse an encoder that looks at more than scores of two values each."""
    if retains:
        raise EncoderError(NO_SQL.format(what="An encoder with retain"))
    if any(own is not None for own in weights):
        raise EncoderError(NO_SQL.format(what="A score of several labels, or of a label or groups of three and more"))


@dataclass(frozen=True)
class _Stages:
    """Queries within each other, for one record: each names what the one around it looks at.

    Columns are called n (numbers), c (codes) and s (scores), with a position; g is the group and t what breaks ties.
    """

    dialect: str
    query: str = ""

    @classmethod
    def of(
        cls,
        scores: Scores,
        columns: Mapping[str, SqlColumn],
        dialect: str,
        groups: Sequence[Any],
        others: Sequence[str] = (),
    ) -> _Stages:
        """Write all up to the scores; ``others`` is what else is to be known of a record, read from its columns."""
        features, look_up = scores.features, scores.look_up
        used = set(look_up.used)
        means = features.means_of(scores.means)
        numbers = [
            f"{_known(columns[bins.name], dialect, bins)} AS n{i}"
            for i, bins in enumerate(features.bins)
            if i in used or any(n in used for n, of, _ in means if of == i)
        ]
        known = [_group(groups, dialect), *others] if groups else list(others)
        codes = []
        for n in sorted(used):
            cuts = look_up.bins[n]
            if n < len(features.bins) and not isinstance(features.bins[n], CategoricalBins):
                bounds = [number_literal(float(cut), dialect).sql(dialect=dialect) for cut in cuts.edges]
                code = _search(f"n{n}", bounds, [str(i) for i in range(len(bounds) + 1)])
                codes.append(f"CASE WHEN n{n} IS NULL THEN NULL ELSE {code} END AS c{n}")
                continue
            mean = next(((of, table) for m, of, table in means if m == n), None)
            name = f"n{n}" if n < len(features.bins) else "g" if mean is None else f"n{mean[0]}"
            size = features.n_groups if name == "g" else features.bins[int(name[1:])].n_codes - 1
            # Means are of missing values, too.
            table = np.append(np.arange(float(size)), np.nan) if mean is None else mean[1]
            found = [str(code) for code in cuts.encode(table).tolist()]
            missing = "NULL" if mean is None else found[-1]
            code = _search(name, [str(i) for i in range(size - 1)], found[:-1])
            codes.append(f"CASE WHEN {name} IS NULL THEN {missing} ELSE {code} END AS c{n}")
        carried = [text.rpartition(" AS ")[2] for text in known]
        sums = [f"{_sum(model, [b.edges for b in look_up.bins])} AS s{i}" for i, model in enumerate(scores.models)]
        nothing = [] if known or codes else ["0 AS nothing"]
        return (
            cls(dialect).then([*numbers, *known, *nothing]).then([*codes, *carried, *nothing]).then([*sums, *carried])
        )

    def then(self, selected: Sequence[str]) -> _Stages:
        """Look at what was selected so far, and select something else."""
        return _Stages(self.dialect, f"{self._selecting(', '.join(selected))}{ENDS[self.dialect]}")

    def select(self, cell: str) -> str:
        """Write the query for the cell."""
        return f"({self._selecting(cell)})"

    def _selecting(self, selected: str) -> str:
        return f"SELECT {selected} FROM ({self.query}) AS r" if self.query else f"SELECT {selected}"  # noqa: S608


def _known(column: SqlColumn, dialect: str, bins: Any = None) -> str:
    """Write a number, or the position of a category; NULL if it is missing."""
    case = exp.Case().when(column.missing.copy(), exp.Null())
    if not isinstance(bins, CategoricalBins):
        return str(case.else_(column.number.copy()).sql(dialect=dialect))
    for position, category in enumerate(bins.categories):
        if column.kind == "text":
            same = is_among(column.raw, [str(category)], column.name, dialect)
        else:
            same = exp.EQ(this=column.number.copy(), expression=number_literal(float(category), dialect))
        case = case.when(same, exp.Literal.number(position))
    return str(case.else_(exp.Literal.number(bins.infrequent_code)).sql(dialect=dialect))


def _group(groups: Sequence[Any], dialect: str) -> str:
    """Write the position of a record's group; NULL if it is of none."""
    case = exp.Case()
    for position, condition in enumerate(groups):
        case = case.when(condition.copy(), exp.Literal.number(position))
    return f"{case.sql(dialect=dialect)} AS g"


def _tie(encoder: CalibratedEncoder, column: SqlColumn, dialect: str) -> str:
    """Write the hash of the column that breaks ties, as :func:`~certifare.encoders.calibrated_cells.hash_ties`."""
    if column.kind not in ("integer", "text"):
        raise TableError(
            f"Column {column.name!r} (tie_column) holds neither whole numbers nor text, whose hash would be the same "
            "in every database; cast it in a view."
        )
    text = (exp.cast(column.raw.copy(), "TEXT") if column.kind == "integer" else column.raw).sql(dialect=dialect)
    hashed = HASHES[dialect].format(f"'{encoder._tie_key}:' || {text}")
    return f"SUBSTR({hashed}, 1, {TIE_DIGITS}) AS t"


def _search(name: str, bounds: Sequence[str], values: Sequence[str]) -> str:
    """Write which value belongs to a number: the first up to the first bound, and so on; equal neighbours are one."""
    last = [i for i in range(len(bounds)) if values[i] != values[i + 1]]
    kept = [*(values[i] for i in last), values[-1]]

    def between(first: int, stop: int) -> str:
        if stop - first == 1:
            return kept[first]
        middle = (first + stop) // 2
        left, right = between(first, middle), between(middle, stop)
        return f"CASE WHEN {name} <= {bounds[last[middle - 1]]} THEN {left} ELSE {right} END"

    return between(0, len(kept))


def _region(axes: Sequence[tuple[str, Sequence[int]]], cells: NDArray[Any]) -> str:
    """Write the cell of a place on the map."""
    if not axes:
        return str(int(cells))
    (name, edges), *others = axes
    return _search(name, [str(edge) for edge in edges], [_region(others, part) for part in cells])


def _sum(forest: Forest, cuts: Sequence[NDArray[np.float64]]) -> str:
    """Write the sum of a forest's trees, in units."""
    numbers = np.append(forest.value, forest.baseline) / UNIT
    largest = [np.abs(forest.value[a:b]).max() for a, b in zip(forest.starts[:-1], forest.starts[1:], strict=True)]
    if (numbers != np.rint(numbers)).any() or (sum(largest) + abs(forest.baseline[0])) / UNIT > LARGEST_SUM:
        raise EncoderError(NO_SQL.format(what="A score model whose leaves are not whole, or too large,"))
    terms = [_tree(forest, tree, cuts) for tree in range(len(forest.starts) - 1)]
    sums = [f"(CAST(0 AS BIGINT) + {' + '.join(terms[i : i + TERMS])})" for i in range(0, len(terms), TERMS)]
    return " + ".join([str(int(forest.baseline[0] / UNIT)), *sums])


def _tree(forest: Forest, tree: int, cuts: Sequence[NDArray[np.float64]]) -> str:
    """Write what a tree adds.

    The smaller side of a node is an alternative, the larger one follows behind it: an expression is then hardly nested,
    however deep the tree is. SQLite parses few levels.
    """
    written: list[tuple[int, list[str], str]] = []  # leaves, alternatives, and what is left
    for i in reversed(range(int(forest.starts[tree]), int(forest.starts[tree + 1]))):
        number = int(forest.feature[i])
        if number < 0:
            written.append((1, [], str(int(forest.value[i] / UNIT))))
            continue
        left, right = written.pop(), written.pop()
        small, (n_leaves, others, rest) = (left, right) if left[0] <= right[0] else (right, left)
        cut = int(np.searchsorted(cuts[number], forest.threshold[i]))
        test = f"c{number} {'<=' if small is left else '>'} {cut}"
        if bool(forest.missing_left[i]) == (small is left):
            test += f" OR c{number} IS NULL"
        written.append((small[0] + n_leaves, [f"WHEN {test} THEN {_case(*small[1:])}", *others], rest))
    return _case(*written[0][1:])


def _case(alternatives: Sequence[str], rest: str) -> str:
    return f"CASE {' '.join(alternatives)} ELSE {rest} END" if alternatives else rest


def _whole(edges: NDArray[np.float64]) -> list[int]:
    """Give edges in units; a whole number is at most the edge if it is at most the next whole one below."""
    return [int(edge) for edge in np.floor(edges / UNIT)]
