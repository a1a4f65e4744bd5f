"""What an encoder learns from: the features, labels and groups of the training records, read and checked once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.fingerprint import Fingerprint
from certifare.errors import EncoderError, GroupError, MissingColumnError, TableError
from certifare.foundation.formatting import listing
from certifare.foundation.levels import Levels, intersect, plain
from certifare.growth import (
    Bins,
    Codes,
    Dictionary,
    Growth,
    HistogramSource,
    MemorySource,
    Targets,
    encode,
    fit_bins,
)
from certifare.tables.frames import (
    ColumnType,
    Field,
    Frame,
    Value,
    check_lengths,
    read_values,
)

if TYPE_CHECKING:
    from certifare.encoders.representatives import Representatives

MOST_LABELS = 256
"""A label column with more distinct values is refused: it is a quantity, not a class."""

GroupValue: TypeAlias = Value | tuple[Value, ...]
"""A group is a value of the sensitive column, or a tuple of values of several."""


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """The name and type of a feature."""

    name: str
    type: ColumnType
    categorical: bool  # whether its values are categories rather than quantities
    missing: bool  # whether training records lacked it


class Training(Protocol):
    """Training records, ready to grow from. Made by ``encoder.prepare``, taken by ``encoder.fit_from``.

    In memory: :class:`MemoryTraining`; with an engine: :class:`~certifare.engines.preparing.EngineTraining`.

    - ``settings``: the encoder's parameters that shaped this; an encoder with others does not take it.
    - ``derived``: what one kind of encoder computed in addition, such as scores.
    - ``bare``: whether to leave out representatives. Encoders that are only compared need none; the chosen one grows
      again, with them.
    - ``source``: counts these records, of these classes, for a grower.
    - ``growing``: what to call with the number of cells grown so far, of ``max_cells``.
    - ``representatives``: those of ranges of a growth's cells; ``codes`` are what it decides on, if not the bins.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    # fmt: off
    @property
    def columns(self) -> tuple[ColumnSchema, ...]: ...  # noqa: D102
    @property
    def named(self) -> bool: ...  # noqa: D102
    @property
    def labels(self) -> tuple[Levels, ...]: ...  # noqa: D102
    @property
    def groups(self) -> Levels | None: ...  # noqa: D102
    @property
    def bins(self) -> tuple[Bins, ...]: ...  # noqa: D102
    @property
    def fingerprint(self) -> Fingerprint: ...  # noqa: D102
    @property
    def settings(self) -> dict[str, Any]: ...  # noqa: D102
    @property
    def derived(self) -> Any: ...  # noqa: D102
    @property
    def bare(self) -> bool: ...  # noqa: D102
    def __len__(self) -> int: ...
    def source(self, targets: Targets, n_threads: int) -> HistogramSource: ...  # noqa: D102
    def growing(self, max_cells: int) -> Callable[[int], Any] | None: ...  # noqa: D102
    def representatives(  # noqa: D102
        self, growth: Growth, ranges: NDArray[np.int64], n_threads: int, codes: Codes | None = None
    ) -> "Representatives": ...
    # fmt: on


@dataclass(frozen=True, eq=False)
class MemoryTraining:
    """Training records in memory (:class:`Training`).

    - ``fields``: the values of the features.
    - ``codes``: the features as codes under the bins.
    - ``units``: which records belong together (one person's, or copies of one): no model may see one of them and be
      tried on another. None where each stands for itself.
    """

    columns: tuple[ColumnSchema, ...]
    fields: tuple[Field, ...]
    named: bool
    labels: tuple[Levels, ...]
    groups: Levels | None
    bins: tuple[Bins, ...]
    codes: Codes
    fingerprint: Fingerprint
    settings: dict[str, Any]
    units: NDArray[np.int64] | None = None
    derived: Any = None
    bare: bool = False

    def __len__(self) -> int:
        return len(self.fields[0])

    def source(self, targets: Targets, n_threads: int) -> HistogramSource:
        """Count these records, of these classes, for a grower."""
        return MemorySource(self.codes, targets, n_threads)

    def growing(self, max_cells: int) -> Callable[[int], Any] | None:
        """Return None: growth in memory is too quick to report progress."""
        return None

    def representatives(
        self, growth: Growth, ranges: NDArray[np.int64], n_threads: int, codes: Codes | None = None
    ) -> "Representatives":
        """Find the representatives of ranges of a growth's cells; ``codes`` are what it decides on, if not the bins."""
        from certifare.encoders.representatives import find_representatives

        cells = growth.apply(self.codes if codes is None else codes, n_threads=n_threads)
        return find_representatives(self.columns, self.fields, self.bins, self.codes, cells, ranges)


def in_memory(training: Training) -> MemoryTraining:
    """Refuse records that an engine holds, where an encoder needs their values."""
    if not isinstance(training, MemoryTraining):
        raise EncoderError("This encoder needs the whole table in memory: fit it on a sample of the records.")
    return training


def read_training(
    X: Any, y: Any, sensitive_features: Any, settings: dict[str, Any], seed: int, n_threads: int
) -> MemoryTraining:
    """Read and check training records."""
    frame = Frame(X)
    if len(frame) == 0:
        raise TableError(
            f"There are no records: 0 sample(s) (shape=(0, {len(frame.names)})) while a minimum of 1 is required."
        )
    group_fields, taken = read_groups(frame, sensitive_features, settings["sensitive"])
    positions = [i for i in range(len(frame.names)) if i not in taken]
    if not positions:
        raise TableError("There is no feature apart from the sensitive columns (0 feature(s)).")
    fields = tuple(frame.read(i) for i in positions)
    labels = () if y is None else tuple(_label(field) for field in read_values(y, "label"))
    check_lengths(
        {"X": len(frame)}
        | {f"label {label.name!r}": len(label.codes) for label in labels}
        | {f"sensitive {field.name!r}": len(field) for field in group_fields}
    )
    parts = [field.levels().complete("group") for field in group_fields]
    groups = intersect(parts) if parts else None
    if groups is not None and not settings["allow_sensitive_feature"]:
        for part in [*parts, groups] if len(parts) > 1 else parts:
            _refuse_copy(part, fields)
    marked = mark_categorical(frame, positions, fields, settings["categorical_features"])
    names = [field.name for field in fields]
    bins = fit_bins([field.column for field in fields], names, marked, max_bins=int(settings["max_bins"]), seed=seed)
    return MemoryTraining(
        columns=tuple(
            ColumnSchema(field.name, field.type, mark, bool(field.missing().any()))
            for field, mark in zip(fields, marked, strict=True)
        ),
        fields=fields,
        named=frame.named,
        labels=labels,
        groups=groups,
        bins=bins,
        codes=encode(bins, [field.column for field in fields], n_threads=n_threads),
        fingerprint=Fingerprint.of(fields),
        settings=settings,
    )


def as_list(sensitive: Any) -> list[Any]:
    """Return the columns that the parameter ``sensitive`` names: none, one or several."""
    if sensitive is None:
        return []
    return [sensitive] if isinstance(sensitive, str | int | np.integer) else list(sensitive)


def sensitive_positions(frame: Frame, sensitive: Any) -> list[int]:
    """Return the positions of the sensitive columns that an encoder's parameter names."""
    try:
        positions = [frame.position(name) for name in as_list(sensitive)]
    except MissingColumnError as error:
        raise GroupError(
            f"sensitive={sensitive!r}: {error} Name a column of X, or pass sensitive_features=."
        ) from error
    if len(set(positions)) < len(positions):
        raise GroupError(f"sensitive={sensitive!r} names a column twice.")
    return positions


def read_groups(frame: Frame, sensitive_features: Any, sensitive: Any) -> tuple[list[Field], list[int]]:
    """Read the sensitive columns; also say which columns of the table they take."""
    if sensitive is None:
        return ([] if sensitive_features is None else read_values(sensitive_features, "sensitive")), []
    if sensitive_features is not None:
        raise GroupError(
            f"The groups were given twice: sensitive={sensitive!r} names columns of X, and sensitive_features= was "
            "passed too. Give one of them."
        )
    positions = sensitive_positions(frame, sensitive)
    return [frame.read(i) for i in positions], positions


def _label(field: Field) -> Levels:
    label = field.levels().complete("label")
    if len(label.values) > MOST_LABELS:
        raise EncoderError(
            f"Unknown label type: label {label.name!r} has {len(label.values):,} distinct values, such as "
            f"{listing(label.values, 3)}. Labels are classes: cut a quantity into at most {MOST_LABELS} of them."
        )
    return label


def _refuse_copy(groups: Levels, fields: Sequence[Field]) -> None:
    """Refuse features that say the group outright: the same column, or one that renames its values."""
    n_groups = len(groups.values)
    first = np.zeros(n_groups, dtype=np.int64)
    first[groups.codes[::-1]] = np.arange(len(groups.codes))[::-1]
    head = slice(0, 1000)
    for field in fields:
        values = field.column.indices if isinstance(field.column, Dictionary) else field.column
        meaning = values[first]
        if n_groups < 2 or len(np.unique(meaning)) < n_groups:
            continue
        if np.array_equal(values[head], meaning[groups.codes[head]]) and np.array_equal(values, meaning[groups.codes]):
            raise GroupError(
                f"Column {field.name!r} says which group a record is in: it repeats the sensitive column "
                f"{groups.name!r}. Drop it from X, or name it with sensitive={field.name!r}; if it shall be a "
                "feature nevertheless, set allow_sensitive_feature=True."
            )


def mark_categorical(frame: Frame, positions: Sequence[int], fields: Sequence[Field], asked: Any) -> list[bool]:
    """Mark the categorical features: by dtype, or by names, positions or a mask over the columns of the table."""
    if isinstance(asked, str) and asked == "from_dtype":
        return [field.categorical for field in fields]
    if asked is None:
        chosen: set[int] = set()
    else:
        items = list([asked] if isinstance(asked, str) else asked)
        if items and all(isinstance(item, bool | np.bool_) for item in items):
            if len(items) not in (len(frame.names), len(fields)):
                raise EncoderError(
                    f"categorical_features is a mask of {len(items)} values; the table has {len(frame.names)} columns."
                )
            over = range(len(frame.names)) if len(items) == len(frame.names) else positions
            chosen = {position for position, item in zip(over, items, strict=True) if item}
        else:
            chosen = {frame.position(plain(item)) for item in items}
    return [position in chosen for position in positions]
