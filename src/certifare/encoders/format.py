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
from typing import Any

import msgspec
from msgspec import Struct

from certifare.encoders.documents import AnyDocument, EncoderDocument
from certifare.errors import EncoderError, FileError
from certifare.foundation.storage import distinct_keys, open_regular

FORMAT = "certifare/encoder"
#: Trees are still written as version 1, which older versions read; other kinds as 3.
VERSION = 3
MAX_BYTES = 64 << 20
#: Lists and objects of a document: an empty one takes three bytes in the file, and fifty or more in memory.
MOST_LISTS = 1 << 21


class DocumentHeader(Struct):
    """What every version of the format begins with."""

    format: str
    version: int
    kind: str = ""


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


class EncoderFile(os.PathLike[str]):
    """An encoder's file, a path like any other, that is opened once: what was checked is what is used."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)

    def __fspath__(self) -> str:
        return self._path

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> "EncoderFile":
        """Return the file at a path; one that is an encoder's file already stays as it is."""
        return path if isinstance(path, cls) else cls(path)

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
            raise FileError(f"{self._path}: more than {MAX_BYTES:,} bytes, too large for an encoder.")
        return parse_document(self._path, content)

    @cached_property
    def _read(self) -> tuple[bytes | None, str]:
        """The content, None if it is too long, and its digest."""
        with open_regular(self._path) as file:
            # Room is taken for as much as is asked for, so no more is asked for than there is.
            content = file.read(min(MAX_BYTES, os.fstat(file.fileno()).st_size) + 1)
            state = hashlib.sha256(content)
            if len(content) <= MAX_BYTES:
                return content, state.hexdigest()
            while block := file.read(1 << 20):
                state.update(block)
        return None, state.hexdigest()

    @classmethod
    def write(cls, path: str | os.PathLike[str], document: AnyDocument) -> "EncoderFile":
        """Write a document as JSON that a person can read; one that would be refused when read is not written."""
        try:
            document.check_limits()
        except FileError as error:
            raise EncoderError(f"The encoder cannot be saved: {error}") from error
        content = (format_json(msgspec.to_builtins(document)) + "\n").encode("utf-8")
        Path(path).write_bytes(content)
        written = cls(path)
        written.document, written._read = document, (content, hashlib.sha256(content).hexdigest())
        return written


def parse_document(path: str, content: bytes) -> AnyDocument:
    """Read the content of an encoder's file, and check its form; ``path`` is what messages call it by."""
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
        document.check_limits()
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
