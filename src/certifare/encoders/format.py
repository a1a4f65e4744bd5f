"""Encoders as JSON: versioned, readable, checked on every side when read back.

A document holds what is needed to find cells and representatives, and no code. What cannot be an encoder (broken,
endless, of the wrong type, newer than this version) is refused with an :class:`~certifare.errors.FileError`.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from certifare.errors import EncoderError, FileError
from certifare.foundation.storage import distinct_keys, open_regular

FORMAT = "certifare/encoder"
VERSION = 3
"""Trees are still written as version 1, which older versions read; other kinds as 3."""
MAX_BYTES = 64 << 20
MOST_LISTS = 1 << 21
"""Lists and objects of a document: an empty one takes three bytes in the file, and fifty or more in memory."""

Scalar = bool | int | float | str | None
Count = Annotated[int, Meta(ge=0)]
Proportion = Annotated[float, Meta(ge=0.0, le=1.0)]


class DocumentHeader(Struct):
    """What every version of the format begins with."""

    format: str
    version: int
    kind: str = ""


class ColumnDocument(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A feature: its type, and the edges or the categories that matter for cells."""

    name: str
    type: Literal["number", "boolean", "text"]
    missing: bool = False
    edges: list[float] | None = None
    categories: list[str | int | float] | None = None


class LabelDocument(Struct, forbid_unknown_fields=True):
    """A label column."""

    name: str
    values: list[bool | int | float | str]


class Place(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A cell, or a node of a tree: its representative, and training statistics if they are published."""

    representative: dict[str, Scalar]
    records: Count | None = None
    groups: list[Proportion] | None = None
    labels: list[list[Proportion]] | None = None


class Rule(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A split of a node into the next two nodes: numbers up to ``at_most`` (all without it) go left, or categories."""

    node: Count
    column: str
    missing: Literal["left", "right"]
    at_most: float | None = None
    categories: list[str | int | float] | None = None
    unseen: Literal["left", "right"] | None = None


class Tree(Struct, forbid_unknown_fields=True):
    """One tree of a score model: its nodes, each followed by all that lies to its left, then by all to its right.

    At a node, ``numbers`` is the threshold, at a leaf (feature -1) what it adds, in units of 2⁻²⁰. ``missing_left``
    lists the nodes at which a missing number goes left.
    """

    features: Annotated[list[Annotated[int, Meta(ge=-1)]], Meta(min_length=1)]
    numbers: list[int | float]
    missing_left: list[Count]


class Model(Struct, forbid_unknown_fields=True):
    """A score model: trees that add to the outputs in turn; the baseline is in units of 2⁻²⁰, too."""

    baseline: list[float]
    trees: list[Tree]


class AxisDocument(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An axis of the score map."""

    name: str
    side: Literal["label", "group"]
    edges: list[float]
    coordinates: list[float]
    weights: list[float] | None = None


class Centres(Struct, forbid_unknown_fields=True):
    """Centres among standardised numbers and one-hot categories."""

    means: list[float]
    scales: list[Annotated[float, Meta(gt=0.0)]]
    centres: list[list[float]]


class EncoderDocument(Struct, forbid_unknown_fields=True, tag_field="kind", kw_only=True):
    """What documents of all kinds have."""

    format: str
    version: int
    certifare: str
    parameters: dict[str, Scalar | list[Scalar]]
    named: bool
    columns: Annotated[list[ColumnDocument], Meta(min_length=1)]
    group_column: str
    groups: list[bool | int | float | str | list[bool | int | float | str]]
    labels: list[LabelDocument]

    @property
    def reads_groups(self) -> bool:
        """Whether a record's cell depends on its group."""
        return False


class TreeDocument(EncoderDocument, tag="tree", kw_only=True):
    """A :class:`FairTreeEncoder`: split j parts ``node`` into nodes 2j+1 (left) and 2j+2 (right)."""

    splits: list[Rule]
    nodes: list[Place]

    @property
    def n_cells(self) -> int:
        """The number of cells: each split makes one more."""
        return len(self.splits) + 1


class BoostedDocument(EncoderDocument, tag="boosted", kw_only=True):
    """A :class:`BoostedEncoder`: score models, axes, and the leaf (a node) that each square belongs to.

    ``means`` are those of the targets in each category, which the models look at.
    ``parents[j]`` is the node that split j parts into nodes 2j+1 and 2j+2; ``squares`` runs over the bins of the
    axes, then over the clusters.
    """

    means: dict[str, list[list[float]]]
    models: list[Model]
    axes: list[AxisDocument]
    clusters: Centres | None
    parents: list[Count]
    squares: list[Count]
    nodes: list[Place]

    @property
    def n_cells(self) -> int:
        """The number of cells: each split makes one more."""
        return len(self.parents) + 1


class DirectionDocument(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A direction of calibrated cells: a score of the labels (log-odds, if there are no weights), or a coordinate."""

    name: str
    weights: list[float] | None = None
    coordinate: Count | None = None


class Threshold(Struct, forbid_unknown_fields=True):
    """A split of a node: the threshold of each group, how equal values are parted, and the planned gaps.

    A record goes left if its direction is below its group's ``at``, or equal and its tie-breaking number at most
    ``ties``; ``gaps`` are the gaps of each group that go left.
    """

    node: Count
    direction: Count
    at: list[float]
    ties: list[float]
    gaps: list[Annotated[int, Meta(ge=1)]]


class CalibratedDocument(EncoderDocument, tag="calibrated", kw_only=True):
    """A :class:`CalibratedEncoder`: score models that see the group, and thresholds that records have set.

    Without ``models`` the column ``score_column`` is the score. ``gaps`` has the gaps of each group at the root: one
    more than its certification records. ``tie_key`` keys the hash that breaks ties.
    """

    means: dict[str, list[list[float]]]
    models: list[Model]
    directions: list[DirectionDocument]
    coordinates: list[list[list[int]]]
    calibrated: bool
    tie_key: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    gaps: list[Annotated[int, Meta(ge=1)]]
    splits: list[Threshold]
    cells: list[Place]

    @property
    def reads_groups(self) -> bool:
        """Whether a record's cell depends on its group: it does."""
        return True

    @property
    def n_cells(self) -> int:
        """The number of cells: each split makes one more."""
        return len(self.splits) + 1


def digest_of(document: EncoderDocument) -> str:
    """SHA-256 digest of what a document says about cells, in canonical JSON.

    Training statistics are left out, so that an encoder has one digest whether or not they are published.
    """
    plain = msgspec.to_builtins(document)
    for place in plain.get("nodes", plain.get("cells")):
        for statistic in ("records", "groups", "labels"):
            place.pop(statistic, None)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


AnyDocument: TypeAlias = TreeDocument | BoostedDocument | CalibratedDocument


class EncoderFile(os.PathLike[str]):
    """An encoder's file, a path like any other, that is opened once: what was checked is what is used.

    - ``max_bytes``: a larger file has a digest, but no document.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> None:
        self._path = os.fspath(path)
        self._max_bytes = max_bytes

    def __fspath__(self) -> str:
        return self._path

    @classmethod
    def of(cls, path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> "EncoderFile":
        """Return the file at a path; one that is an encoder's file already stays as it is."""
        return path if isinstance(path, cls) else cls(path, max_bytes)

    @property
    def digest(self) -> str:
        """SHA-256 digest of the file, in hexadecimal digits. Raises OSError if it cannot be read."""
        return self._read[1]

    @cached_property
    def document(self) -> AnyDocument:
        """What the file holds: its form is checked, and what it asks for."""
        try:
            content = self._read[0]
        except OSError as error:
            raise FileError(f"{self._path}: the file cannot be read ({error.strerror}).") from error
        if content is None:
            raise FileError(
                f"{self._path}: more than {self._max_bytes:,} bytes; if you trust the file, raise max_bytes."
            )
        return parse_document(self._path, content)

    @cached_property
    def _read(self) -> tuple[bytes | None, str]:
        """The content, None if it is too long, and its digest."""
        with open_regular(self._path) as file:
            # Room is taken for as much as is asked for, so no more is asked for than there is.
            content = file.read(min(self._max_bytes, os.fstat(file.fileno()).st_size) + 1)
            state = hashlib.sha256(content)
            if len(content) <= self._max_bytes:
                return content, state.hexdigest()
            while block := file.read(1 << 20):
                state.update(block)
        return None, state.hexdigest()

    @classmethod
    def write(cls, path: str | os.PathLike[str], document: AnyDocument) -> "EncoderFile":
        """Write a document as JSON that a person can read; one that would be refused when read is not written."""
        from certifare.encoders.limits import check_limits

        try:
            check_limits(document)
        except FileError as error:
            raise EncoderError(f"The encoder cannot be saved: {error}") from error
        content = (format_json(msgspec.to_builtins(document)) + "\n").encode("utf-8")
        Path(path).write_bytes(content)
        written = cls(path)
        written.document, written._read = document, (content, hashlib.sha256(content).hexdigest())
        return written


def read_encoder_document(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> AnyDocument:
    """Read and check the form of a document, and what it asks for; its meaning is checked when the encoder is built."""
    return EncoderFile.of(path, max_bytes).document


def parse_document(path: str, content: bytes) -> AnyDocument:
    """Read the content of an encoder's file, and check its form; ``path`` is what messages call it by."""
    from certifare.encoders.limits import check_limits

    if (found := content.count(b"[") + content.count(b"{")) > MOST_LISTS:
        raise FileError(f"{path}: {found:,} lists, where {MOST_LISTS:,} are the most that are accepted.")
    try:
        header = msgspec.json.decode(content, type=DocumentHeader)
        if header.format != FORMAT:
            raise FileError(f"{path}: this is not an encoder (its format is {header.format[:60]!r}).")
        if header.version > VERSION:
            raise FileError(
                f"{path}: version {header.version} of the format is newer than this certifare knows ({VERSION}). "
                "Update certifare."
            )
        if header.version < 1:
            raise FileError(f"{path}: there is no version {header.version} of the format.")
        if header.version < VERSION and (header.version == 2 or header.kind.startswith(("boosted", "calibrated"))):
            raise FileError(
                f"{path}: this encoder was saved by an older version of certifare (version {header.version} of "
                f"the format, {VERSION} is needed). Fit it again."
            )
        if header.kind in ("boosted tree", "kmeans"):
            raise FileError(
                f"{path}: certifare has no encoders of the kind {header.kind!r} any more. Fit it again, as another."
            )
        document: AnyDocument = msgspec.json.decode(content, type=AnyDocument)
        json.loads(content, object_pairs_hook=distinct_keys)
        check_limits(document)
        return document
    except FileError:
        raise
    except RecursionError:
        raise FileError(f"{path}: this is not an encoder (nested too deeply).") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise FileError(f"{path}: this is not an encoder, or a damaged one ({error}).") from error


def format_json(value: Any, indent: int = 0, width: int = 116) -> str:
    """Lay JSON out for readers: an entry per line, but lists of plain values, and whatever is short, in lines."""
    if isinstance(value, dict):
        opening, closing = "{", "}"
        items = [f"{_dump(key)}: {format_json(entry, indent + 1, width)}" for key, entry in value.items()]
        plain = False
    elif isinstance(value, list):
        opening, closing = "[", "]"
        plain = not any(isinstance(entry, dict | list) for entry in value)
        items = [_dump(entry) if plain else format_json(entry, indent + 1, width) for entry in value]
    else:
        return _dump(value)
    short = sum(len(item) + 2 for item in items) + indent <= width
    if short and not any("\n" in item for item in items):
        return opening + ", ".join(items) + closing
    lines = _fill(items, width - indent) if plain else [item + "," for item in items[:-1]] + items[-1:]
    pad = " " * (indent + 1)
    return opening + "\n" + "\n".join(pad + line for line in lines) + "\n" + " " * indent + closing


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _dump(value: Any) -> str:
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)  # as JSON has it
    return _encode(value)


def _fill(items: Sequence[str], width: int) -> Iterator[str]:
    """Break a list into lines."""
    line: list[str] = []
    length = 0
    for i, item in enumerate(items):
        item = item + "," if i < len(items) - 1 else item
        if line and length + len(item) + 1 > width:
            yield " ".join(line)
            line, length = [], 0
        line.append(item)
        length += len(item) + 1
    yield " ".join(line)
