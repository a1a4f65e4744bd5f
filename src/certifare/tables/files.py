"""Read tables from CSV, Parquet and Arrow files, as a whole or in batches.

The format is detected from the first bytes, never from the name. A CSV file is scanned once before it is read, for its
encoding, delimiter and header, so that problems are found early and explained.

Files may be hostile: the content of an Arrow or Parquet file is validated before it is used, and the size of
decompressed data is limited. pyarrow's threads never read through a Python object: a thread that outlives the
interpreter and calls it would end the process with SIGABRT.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import errno
import functools
import glob
import io
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from certifare.errors import FileError, TableError
from certifare.foundation.formatting import amount, shortened
from certifare.foundation.storage import FilePath, open_regular, writable
from certifare.tables.stores import Store, store_address

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

#: Default texts that mean a missing value in a CSV file.
MISSING = (
    "", "?", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "None",
)  # fmt: skip
#: Words, in lower case, and numbers that often mean a missing value too: a note points them out.
MARKER_WORDS = frozenset(
    {"-", "--", ".", "..", "n.a.", "n.k.", "missing", "unknown", "unk", "not available", "not known", "no data",
     "(null)", "\\n", "#value!", "#div/0!", "not applicable"}
)  # fmt: skip
MARKER_NUMBERS = frozenset({-1, -7, -8, -9, -77, -88, -99, -777, -888, -999, -9999, -99999})
#: Only this many distinct values of a column are searched for them.
MOST_MARKED = 10_000
#: Delimiters that are detected.
DELIMITERS = (",", ";", "\t", "|")
#: Number of bytes of a CSV file from which the delimiter is detected.
SAMPLE = 1 << 18
#: A CSV file is read in blocks of this many bytes; a record must fit into one.
BLOCK = 1 << 23
#: Rows of one batch of a Parquet or Arrow file.
BATCH_ROWS = 1 << 17
#: Bytes of a decompressed CSV file, or rows of a Parquet or Arrow file, that are always accepted …
UNPACKED = 1 << 30
#: … and the factor by which they may exceed the file's size beyond that.
UNPACKED_RATIO = 200

#: Patterns of values that are not text; the first that fits a whole column is its type.
_WRITTEN = {
    pa.int64(): r"^(0|-?[1-9]\d{0,17})$",
    pa.float64(): r"^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$",
    pa.bool_(): r"^(true|false|True|False)$",
    pa.date32(): r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])$",
}
#: A value that is short enough to be a word for missing, not a whole record.
_WORD = re.compile(r"[^,;|\t\n\r]{0,24}")
#: Text that may be a database URL; a single letter before the colon is a drive.
_ADDRESS = re.compile(r"[A-Za-z][\w+]+:(/|.*[?=@])")
#: Text that is not a column name, so the first line is probably a record.
_NUMBER = re.compile(r"[-+]?\d+\.?\d*")
#: Numbers that show which decimal sign a file uses.
_DECIMAL_COMMA, _DECIMAL_POINT = re.compile(r"-?\d+,(\d{1,2}|\d{4,})"), re.compile(r"-?\d+\.\d+")

#: Format of a file; a folder or pattern is of Parquet files.
Kind = Literal["csv", "parquet", "arrow", "arrow stream", "folder"]

TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class CsvDialect:
    """How to read a CSV file.

    - ``delimiter``, ``encoding``: None: they are detected.
    - ``missing``: text that means a missing value.
    - ``header``: whether the first line names the columns. If not, they are ``column_1``, ``column_2`` …
    - ``names``: names of the columns of a file without a header; a column with an empty name is left out.
    - ``decimal``: the decimal sign. None: it is detected.
    """

    delimiter: str | None = None
    encoding: str | None = None
    missing: Sequence[str] = MISSING
    header: bool = True
    names: Sequence[str] = ()
    decimal: str | None = None

    def __post_init__(self) -> None:
        delimiter = {"\\t": "\t", "tab": "\t"}.get(self.delimiter or "", self.delimiter)
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii()):
            raise FileError(f"delimiter={delimiter!r}: give one character, such as ',' or ';', or 'tab'.")
        if self.decimal is not None and (self.decimal not in (".", ",") or self.decimal == delimiter):
            raise FileError(f"decimal={self.decimal!r}: give '.' or ',', but not the delimiter.")
        object.__setattr__(self, "delimiter", delimiter)

    @classmethod
    def extract(cls, keywords: dict[str, Any]) -> dict[str, Any]:
        """Remove the CSV options from keywords, and return them."""
        return {field.name: keywords.pop(field.name) for field in fields(cls) if field.name in keywords}


@dataclass(frozen=True)
class Csv:
    """The detected layout of a CSV file."""

    delimiter: str
    encoding: str
    header: tuple[str, ...]  # the header as written in the file, or the names of the columns if there is none
    odd_quotes: bool  # whether the file has an odd number of quotation marks
    notes: tuple[str, ...] = ()  # assumptions and warnings for the user
    headed: bool = True  # whether the first line is the header
    decimal: str = "."  # the decimal sign

    @cached_property
    def columns(self) -> dict[str, str]:
        """Names of the columns that have one, without surrounding white space, and as written in the header."""
        return {name.strip(): name for name in self.header if name.strip()}


class Batches:
    """A file read batch by batch, in constant memory."""

    def __init__(self, names: Sequence[str], size: int, read: Callable[[Batches], Iterator[pa.RecordBatch]]) -> None:
        self.names = tuple(names)  # columns of the file
        self.size = size  # bytes (CSV, Arrow) or rows (Parquet) in all, for a progress bar
        self.position = 0  # how much of it has been read
        self._read = read

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._read(self)


# -- reading ------------------------------------------------------------------------------------------------------


def is_pattern(path: str) -> bool:
    """Whether a path names files by a pattern. The address of a database may hold a "?", but is none."""
    return glob.has_magic(path) and (store_address(path) is not None or not _ADDRESS.match(path))


class DataFile(os.PathLike[str]):
    """A path, or an address in an object store, whose file is opened only once, even to detect its format first."""

    def __init__(self, path: FilePath) -> None:
        self.path = Path(path)
        address = store_address(path)
        self.store = None if address is None else Store(address)  # None: it is on this machine
        self._open: Any = None
        self._content: bytes | None = None

    @classmethod
    def of(cls, path: FilePath) -> DataFile:
        """Return the file at a path; a DataFile is returned unchanged."""
        return path if isinstance(path, cls) else cls(path)

    def __fspath__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return str(self.path if self.store is None else self.store)

    def exists(self) -> bool:
        """Return whether there is a file or a folder."""
        return self.path.exists() if self.store is None else self.store.exists

    @cached_property
    def is_folder(self) -> bool:
        """Whether it is a folder, or a pattern that may match several files."""
        if self.store is None:
            return self.path.is_dir() or (is_pattern(str(self.path)) and not self.path.exists())
        return glob.has_magic(str(self)) or self.store.is_folder

    def start(self) -> Any:
        """Return the open file, at its start. Only one reader may use it at a time, and without threads."""
        if self._open is None:
            self._open = _native(self.path) if self.store is None else self.store.reader()
        self._open.seek(0)
        return self._open

    def take(self) -> Any:
        """Return the open file, at its start, to a reader that owns it; the next call opens it again."""
        file = self.start()
        self.release()
        return file

    def release(self) -> None:
        """Drop the reference to the open file; it closes when its last reader is done."""
        self._open = None

    def text(self) -> tuple[Any, Any]:
        """Return the decompressed bytes of a text file as a stream, and the file that they are read from."""
        file = self.start()
        magic = file.read(4)
        file.seek(0)
        packed = "gzip" if magic[:2] == b"\x1f\x8b" else "zstd" if magic == b"\x28\xb5\x2f\xfd" else None
        if packed is None:
            return file, file
        self.release()  # the decompressor closes the file at the end
        return pa.CompressedInputStream(file, packed), file

    def content(self, most: int) -> bytes:
        """Return the first ``most`` bytes of the file, which are read only once."""
        if self._content is None:
            file = self.take()
            # read() allocates as much memory as it is asked for.
            self._content = bytes(file.read(min(most, file.size() + 1)))
        return self._content

    @cached_property
    def head(self) -> bytes:
        """The first bytes, which show the format. Raises OSError if they cannot be read."""
        return bytes(self.start().read(8))

    @cached_property
    def kind(self) -> Kind:
        """The format of the file, by its first bytes."""
        path = str(self)
        if self.is_folder:
            return "folder"
        if not self.exists():
            if self.store is None and _ADDRESS.match(path):
                # Do not repeat the text: a database URL may hold a password or a token.
                raise FileError(
                    "There is no such file. Give a database's address with --sql, and its table with --table."
                )
            raise FileError(f"There is no file {path!r}{'.' if self.store else _similar_file(self.path)}")
        with readable(self):
            head = self.head
        if not head:
            raise FileError(f"{path!r} is empty.")
        refused = {b"PK\x03\x04": "is a zip archive or an Excel workbook", b"FEA1": "has the old Feather 1 format"}
        if head[:4] in refused:
            raise FileError(f"{path!r} {refused[head[:4]]}. Save the table as CSV or Parquet.")
        known: dict[bytes, Kind] = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow stream"}
        return next((kind for magic, kind in known.items() if head.startswith(magic)), "csv")

    @cached_property
    def metadata(self) -> FileMetaData:
        """The metadata of a Parquet file. Raises pyarrow's errors if the file is damaged."""
        import pyarrow.parquet as pq

        return pq.read_metadata(self.start())


def kind_of(path: FilePath) -> Kind:
    """Return the format of a file, by its first bytes."""
    return DataFile.of(path).kind


def inspect_csv(path: FilePath, **reading: Any) -> Csv:
    """Detect the encoding, delimiter, header and decimal sign of a CSV file, unless they are given (CsvDialect)."""
    path, options = DataFile.of(path), CsvDialect(**reading)
    names, decimal, encoding = options.names, options.decimal, options.encoding
    headed = options.header and not names
    with readable(path):
        stream, _ = path.text()
        head = bytes(stream.read(SAMPLE))
        if not (b"\n" in head or b"\r" in head):
            head += bytes(stream.read(BLOCK))  # a header with ten thousand columns may be longer
    if b"\x00" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and encoding is None:
        raise FileError(f"{str(path)!r} holds binary data. Give a CSV, Parquet or Arrow file.")
    with readable(path):
        encoding, odd_quotes, notes = _encoding(path, head, encoding)
    text = codecs.getincrementaldecoder(encoding)().decode(head).removeprefix("\ufeff")
    if not text.strip():
        raise FileError(f"{str(path)!r} is empty.")
    chosen = options.delimiter or _sniff(text)
    try:
        first = next((row for row in _rows(text, chosen) if row), [])
    except csv.Error as error:
        raise FileError(
            f"{str(path)!r}: cannot read the header ({error}). A quotation mark may not be closed."
        ) from error
    if names and len(names) != len(first):
        raise FileError(
            f"{str(path)!r} has {len(first):,} columns in its first line, but {len(names):,} names were given. Name "
            "each column, in order."
        )
    found = first if headed else list(names) or [f"column_{i}" for i in range(1, len(first) + 1)]
    called = [name.strip() for name in found]
    _check_names(path, [name for name in called if name])
    if not any(called):
        line = shortened(text.lstrip("\r\n").splitlines()[0])
        raise FileError(f"{str(path)!r}: the first line must name the columns; it is {line!r}.")
    if len(first) == 1:
        guess = _sniff(text)
        if guess != chosen and guess in first[0]:
            raise FileError(
                f"With the delimiter {chosen!r}, {str(path)!r} has only one column. The delimiter seems to be "
                f"{guess!r}: pass that, or leave the option out."
            )
    unnamed = [str(i) for i, name in enumerate(called, 1) if not name]
    if unnamed:
        notes.append(f"left out column {', '.join(unnamed[:5])}: it has no name")
    numbers = [name for name in called if headed and _NUMBER.fullmatch(name)]
    if numbers:
        notes.append(
            f"the header has a column named {numbers[0]!r}; if the first line is a record, name the columns with "
            "--names"
        )
    if decimal is None and chosen != "," and _decimal_commas(_rows(text, chosen)):
        decimal = ","
        notes.append("numbers are read with decimal commas (pass --decimal . if they have points)")
    return Csv(chosen, encoding, tuple(found), odd_quotes, tuple(notes), headed, decimal or ".")


def read_file(
    path: FilePath, *, types: Mapping[str, pa.DataType] | None = None, **reading: Any
) -> tuple[pa.Table, tuple[str, ...]]:
    """Read a whole table; return it with notes on what was assumed.

    Columns of a CSV file that only hold numbers (or ``true`` and ``false``) become numbers (booleans); others become
    text, without surrounding white space; values that mean missing become null. ``types`` of columns may be given
    instead; ``reading`` is of :class:`CsvDialect`.
    """
    path = DataFile.of(path)
    kind = path.kind
    if kind == "csv":
        options = CsvDialect(**reading)
        layout = inspect_csv(path, **reading)
        table = _read_csv(path, layout, options.missing, types or {})
        notes = (*layout.notes, *suspected_markers(table))
    elif kind == "folder":
        table, notes = _files_in(path).read(), ()
    else:
        table, notes = _read_binary(path, kind), ()
    if table.num_rows == 0:
        raise _no_records(path, table.column_names)
    return table, notes


def open_batches(path: FilePath, types: Mapping[str, pa.DataType | None] | None = None, **reading: Any) -> Batches:
    """Open a file to read it in batches; ``reading`` is of :class:`CsvDialect`.

    ``types`` are the columns to read, by default all, with their types in a CSV file: :data:`TEXT` is stripped of white
    space and of values that mean missing, None keeps text unchanged. Columns that the file does not have are ignored.
    """
    path = DataFile.of(path)
    kind = path.kind
    if kind == "folder":
        batches: Batches = _files_in(path).batches(None if types is None else list(types))
        return batches
    if kind != "csv":
        return _binary_batches(path, kind, types)
    options, layout = CsvDialect(**reading), inspect_csv(path, **reading)
    wanted = dict.fromkeys(layout.columns) if types is None else {n: t for n, t in types.items() if n in layout.columns}

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        return _csv_batches(path, layout, wanted, options.missing, batches)

    return Batches(list(layout.columns), path.start().size(), read)


def _files_in(folder: DataFile) -> Any:
    """Return the Parquet files of a folder or pattern, which form one table."""
    from certifare.tables.parquet import ParquetFiles

    files = ParquetFiles.find(str(folder))
    _check_memory(folder, files.schema, files.n_records)
    return files


def suspected_markers(table: pa.Table) -> tuple[str, ...]:
    """Return a note on values that may mean missing: text among numbers, words such as "unknown", and −9 or −999."""
    found = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type) or pa.types.is_integer(column.type):
            counted = pc.value_counts(_plain(column).drop_null())
            counts = {entry["values"]: entry["counts"] for entry in counted[:MOST_MARKED].to_pylist()}
            found += [
                f"{shortened(str(value), 40)!r} in {shortened(name, 60)!r} ({amount(counts[value], 'record')})"
                for value in _suspects(counts)
            ]
    if not found:
        return ()
    more = f" and {len(found) - 10:,} more" if len(found) > 10 else ""
    return (
        f"these values may mean missing: {', '.join(found[:10])}{more}. If they do, name them with --missing, "
        "here and wherever these columns are read",
    )


def _plain(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _suspects(counts: Mapping[Any, int]) -> list[Any]:
    """Return the values of a column (with their numbers of records) that may mean missing."""
    if not all(isinstance(value, str) for value in counts):
        low = sorted(counts)[:2]
        return low[:1] if len(low) == 2 and low[0] in MARKER_NUMBERS and low[1] >= 0 else []
    texts = [value for value in counts if not _NUMBER.fullmatch(value)]
    numbers = sum(counts.values()) - sum(counts[text] for text in texts)
    if len(texts) <= 3 and numbers >= 0.9 * sum(counts.values()) and len(counts) - len(texts) > 2:
        return texts
    return [text for text in texts if text.lower() in MARKER_WORDS]


def clean_text(column: Any, missing: Sequence[str]) -> pa.ChunkedArray:
    """Return text as a dictionary, without surrounding white space, null if it means missing."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        values = _unmarked(chunk.dictionary.cast(pa.string()), missing)
        merged = values.dictionary_encode()
        chunks.append(pa.DictionaryArray.from_arrays(merged.indices.take(chunk.indices), merged.dictionary))
    return pa.chunked_array(chunks, TEXT)


def text_types(path: str | os.PathLike[str], columns: Sequence[str], **reading: Any) -> dict[str, pa.DataType]:
    """Find types (integers, numbers, booleans, dates) for columns of a CSV file that can be written back unchanged.

    A code such as ``007`` stays text.
    """
    left = {name: dict(_WRITTEN) for name in columns}
    for batch in open_batches(path, dict.fromkeys(columns), **reading):
        for name, forms in left.items():
            values = pc.unique(_unmarked(batch.column(name), reading.get("missing", MISSING)).drop_null())
            for type_, form in list(forms.items()):
                if not pc.all(pc.match_substring_regex(values, form), min_count=0).as_py():
                    del forms[type_]
    return {name: next(iter(forms), pa.string()) for name, forms in left.items()}


def as_written(column: Any, type_: pa.DataType, missing: Sequence[str] = MISSING) -> Any:
    """Convert text of a CSV file to the type that :func:`text_types` found; what stays text is unchanged."""
    return column if type_ == pa.string() else _unmarked(column, missing).cast(type_)


def _unmarked(column: Any, missing: Sequence[str]) -> Any:
    """Return text without surrounding white space, null if it means missing."""
    column = pc.utf8_trim_whitespace(column)
    markers = pa.array([marker.strip() for marker in missing], pa.string())
    return pc.if_else(pc.is_in(column, value_set=markers), pa.scalar(None, pa.string()), column)


def _native(path: Path) -> Any:
    """Open a regular file for pyarrow. It closes when its last reader is done."""
    with open_regular(path) as checked:
        file = pa.OSFile(os.fsencode(path))
        if not os.path.sameopenfile(checked.fileno(), file.fileno()):
            raise OSError(errno.EINVAL, "it was replaced while it was opened; try again", str(path))
    return file


def _decoded(path: DataFile, encoding: str) -> Iterator[str]:
    """Decode a file, decompressed, in chunks of text."""
    decoder = codecs.getincrementaldecoder(encoding)()
    stream, file = path.text()
    size, most = 0, max(UNPACKED, UNPACKED_RATIO * file.size())
    while chunk := bytes(stream.read(1 << 20)):
        size += len(chunk)
        if stream is not file and size > most:
            raise FileError(
                f"{str(path)!r} decompresses to more than {most >> 20:,} MB, {UNPACKED_RATIO} times its size. "
                "Decompress it yourself if you trust it."
            )
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


@contextlib.contextmanager
def _utf8(path: DataFile, layout: Csv) -> Iterator[tuple[Any, Any]]:
    """Open a CSV file as UTF-8; also return the underlying file, whose position shows the progress."""
    if layout.encoding == "utf-8":
        opened = path.text()
        path.release()  # pyarrow's threads may read it for longer
        yield opened
        return
    # Otherwise pyarrow would call Python from its own threads to decode.
    with tempfile.TemporaryDirectory(prefix="certifare-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "utf-8.csv"
        with writable(copy), copy.open("wb") as sink:
            for text in _decoded(path, layout.encoding):
                sink.write(text.encode())
        file = _native(copy)
        yield file, file


def _encoding(path: DataFile, head: bytes, given: str | None) -> tuple[str, bool, list[str]]:
    """Detect the encoding by reading the whole file; also return whether the number of quotation marks is odd."""
    if given is not None:
        name = _text_encoding(given)
        candidates = ["utf-8-sig" if name == "utf-8" else name]
    elif head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        candidates = ["utf-16"]
    else:
        candidates = ["utf-8-sig", "cp1252", "iso8859-1"]
    misfit = ""
    for candidate in candidates:
        try:
            odd = _scan(path, candidate)
        except UnicodeError as error:
            if isinstance(error, UnicodeDecodeError):
                misfit = misfit or f"byte {error.object[error.start]:#04x} does not fit"
            else:
                misfit = misfit or shortened(str(error))
            continue
        note = f"the file is not UTF-8 ({misfit}); it was read as {candidate} (pass --encoding if that is wrong)"
        return ("utf-8" if candidate == "utf-8-sig" else candidate), odd, [note] if misfit else []
    raise FileError(
        f"{str(path)!r} is not {candidates[0].removesuffix('-sig')}: {misfit}. Leave the encoding out to detect it, "
        "or name another."
    )


def _text_encoding(given: str) -> str:
    """Return Python's name of a text encoding; raise for other codecs."""
    try:
        name = codecs.lookup(given).name
        "a".encode(name)  # raises for hex, rot13, zlib …
        codecs.getincrementaldecoder(name)
    except (LookupError, ValueError):
        name = ""
    if name in ("", "idna", "punycode", "unicode-escape", "raw-unicode-escape"):
        raise FileError(
            f"encoding={shortened(given)!r} is not a known text encoding. Try utf-8, cp1252, latin-1 or utf-16."
        )
    return name


def _scan(path: DataFile, encoding: str) -> bool:
    """Decode a whole file to check it; return whether the number of quotation marks is odd."""
    quotes = line = 0
    for text in _decoded(path, encoding):
        if encoding != "utf-8-sig":
            text.encode()  # a codec may produce lone surrogates
        quotes += text.count('"')
        end = max(text.rfind("\n"), text.rfind("\r"))
        line = line + len(text) if end < 0 else len(text) - end - 1
        if line > BLOCK:
            raise _too_long(path)
    return quotes % 2 == 1


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """Parse text into rows, with any kind of line end."""
    return csv.reader(io.StringIO(text, newline=None), delimiter=delimiter)


def _sniff(text: str) -> str:
    """Find the delimiter that splits the first lines most evenly, and into the most columns."""
    lines = io.StringIO(text[:SAMPLE], newline=None).read().split("\n", 201)
    text = "\n".join(lines[: max(1, min(200, len(lines) - 1))])
    best, best_score = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        try:
            rows = [len(row) for row in _rows(text, delimiter) if row]
        except csv.Error:
            continue
        if not rows or rows[0] < 2:
            continue
        score = (sum(n == rows[0] for n in rows) / len(rows), rows[0])
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _decimal_commas(rows: Iterable[Sequence[str]]) -> bool:
    """Return whether numbers have decimal commas; three digits after a comma may be thousands."""
    commas = points = False
    with contextlib.suppress(csv.Error):
        for row in rows:
            commas = commas or any(_DECIMAL_COMMA.fullmatch(value.strip()) for value in row)
            points = points or any(_DECIMAL_POINT.fullmatch(value.strip()) for value in row)
    return commas and not points


def _csv_options(
    layout: Csv, missing: Sequence[str], types: Mapping[str, pa.DataType | None] | None, handler: Any, threads: bool
) -> dict[str, Any]:
    # Numbers may have a space before them; text is stripped later, so that columns to keep stay unchanged.
    nulls = [*missing, *(f" {marker}" for marker in missing)]
    convert: dict[str, Any] = {"null_values": nulls, "strings_can_be_null": False, "decimal_point": layout.decimal}
    if types is None:
        convert |= {"include_columns": list(layout.columns.values())}
        convert |= {"auto_dict_encode": True, "auto_dict_max_cardinality": 4096}
    else:
        read_as = {layout.columns[name]: type_ or pa.string() for name, type_ in types.items()}
        convert |= {"include_columns": list(read_as), "column_types": read_as}
    return {
        "read_options": pacsv.ReadOptions(
            block_size=BLOCK, use_threads=threads, column_names=None if layout.headed else _distinct(layout.header)
        ),
        "parse_options": pacsv.ParseOptions(
            delimiter=layout.delimiter, newlines_in_values=True, invalid_row_handler=handler
        ),
        "convert_options": pacsv.ConvertOptions(**convert),
    }


def _distinct(names: Sequence[str]) -> list[str]:
    """Give each column without a name a unique one: pyarrow refuses repeated names."""
    return [name if name.strip() else f"{name}\0{i}" for i, name in enumerate(names)]


def _read_csv(path: DataFile, layout: Csv, missing: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    bad = _BadRows()
    options = _csv_options(layout, missing, None, bad, True)
    options["convert_options"].column_types = {
        layout.columns[name]: type_ for name, type_ in types.items() if name in layout.columns
    }
    with readable(path, layout, bad), _utf8(path, layout) as (stream, _):
        table = pacsv.read_csv(stream, **options)
    if bad.count:
        raise bad.error(path, layout)
    _check_quotes(path, layout, table)
    columns = [clean_text(c, missing) if c.type in (pa.string(), TEXT) else c for c in table.columns]
    return pa.Table.from_arrays(columns, names=list(layout.columns))


def _csv_batches(
    path: DataFile, layout: Csv, types: Mapping[str, pa.DataType | None], missing: Sequence[str], progress: Batches
) -> Iterator[pa.RecordBatch]:
    bad = _BadRows()
    last = None
    with readable(path, layout, bad), _utf8(path, layout) as (stream, file):
        progress.size = file.size()
        for batch in pacsv.open_csv(stream, **_csv_options(layout, missing, types, bad, True)):
            if bad.count:
                raise bad.error(path, layout)
            if batch.num_rows == 0:
                continue
            last = batch
            progress.position = file.tell()
            columns = [
                clean_text(column, missing).chunk(0) if type_ == TEXT else column
                for type_, column in zip(types.values(), batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, names=list(types))
    if bad.count:
        raise bad.error(path, layout)
    if last is None:
        raise _no_records(path, list(layout.columns))
    _check_quotes(path, layout, pa.Table.from_batches([last]))


class _BadRows:
    """Rows with the wrong number of columns. Errors never show their content: it is about people."""

    def __init__(self) -> None:
        self.count = 0
        self.first: Any = None

    def __call__(self, row: Any) -> str:
        self.count += 1
        self.first = self.first or row
        return "skip"

    def error(self, path: DataFile, layout: Csv) -> FileError:
        first = self.first if self.first.number is not None else _first_bad_row(path, layout) or self.first
        where = "" if first.number is None else f" (row {first.number:,} of the file)"
        return FileError(
            f"{amount(self.count, 'row')} of {str(path)!r} {'does' if self.count == 1 else 'do'} not have "
            f"{first.expected_columns} columns as the first row has: one{where} has {first.actual_columns}. Correct "
            f"the file, or pass a delimiter other than {layout.delimiter!r}."
        )


def _first_bad_row(path: DataFile, layout: Csv) -> Any:
    """Find the first row with the wrong number of columns. Only reading in order numbers the rows."""
    bad = _BadRows()
    one = dict.fromkeys([next(iter(layout.columns))])
    with contextlib.suppress(pa.ArrowInvalid), _utf8(path, layout) as (stream, _):
        for _ in pacsv.open_csv(stream, **_csv_options(layout, (), one, bad, False)):
            if bad.count:
                break
    return bad.first


def _check_quotes(path: Path | DataFile, layout: Csv, table: pa.Table) -> None:
    """Raise if the last quotation mark is never closed, so that it swallows the records after it."""
    if not layout.odd_quotes:
        return
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    for name, value in last.items():
        if isinstance(value, str) and "\n" in value:
            raise FileError(
                f"{str(path)!r}: a quotation mark in column {name!r} is never closed, so the rest of the file "
                "is read as one value."
            )


def _read_binary(path: DataFile, kind: Kind) -> pa.Table:
    with readable(path), _binary_reader(file := path.take(), kind) as (schema, size, batches):
        _check_names(path, schema.names)
        if kind == "parquet":
            import pyarrow.parquet as pq

            _check_memory(path, schema, size)
            # A file, not a path: from a path such as "year=2018/people.parquet" pyarrow would add a column "year".
            return validated(pq.read_table(file, use_threads=True))
        found: list[pa.RecordBatch] = []
        rows = 0
        for batch in _checked(path, file, batches(schema.names)):
            rows += batch.num_rows
            _check_memory(path, schema, rows)
            found.append(batch)
        return pa.Table.from_batches(found, schema)


def _binary_batches(path: DataFile, kind: Kind, types: Mapping[str, pa.DataType | None] | None) -> Batches:
    with readable(path), _binary_reader(path.start(), kind) as (schema, size, _):
        _check_names(path, schema.names)
    names = [name for name in schema.names if types is None or name in types]

    def read(progress: Batches) -> Iterator[pa.RecordBatch]:
        file, rows = path.take(), 0
        with readable(path), _binary_reader(file, kind) as (_, _, batches):
            for batch in _checked(path, file, batches(names)):
                rows += batch.num_rows
                progress.position = rows if kind == "parquet" else file.tell()
                yield batch
        if not rows:
            raise _no_records(path, schema.names)

    return Batches(schema.names, size, read)


@contextlib.contextmanager
def _binary_reader(file: Any, kind: Kind) -> Iterator[tuple[pa.Schema, int, Callable[[list[str]], Any]]]:
    """Open a Parquet or Arrow file: its columns, its size (rows or bytes), and what reads some columns in batches."""
    if kind == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(file) as table:
            read = functools.partial(table.iter_batches, BATCH_ROWS, None)
            yield table.schema_arrow, table.metadata.num_rows, lambda names: read(names, use_threads=False)
        return
    # Read, not memory-mapped: validated data must not change afterwards.
    with pa.ipc.open_file(file) if kind == "arrow" else pa.ipc.open_stream(file) as reader:
        every = map(reader.get_batch, range(reader.num_record_batches)) if kind == "arrow" else reader
        yield reader.schema, file.size(), lambda names: (batch.select(names) for batch in every)


def _checked(path: DataFile, file: Any, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Validate batches, and cut them into small ones that are not empty; raise if there are too many rows."""
    rows, most = 0, max(UNPACKED, UNPACKED_RATIO * file.size())
    for batch in batches:
        rows += batch.num_rows
        if rows > most:
            raise FileError(f"{str(path)!r} claims to hold more than {most:,} rows, too many for its size.")
        validated(batch)
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def validated(table: Any) -> Any:
    """Return an Arrow table or batch, after checking every offset, index and byte of text in it.

    pyarrow trusts the file: a wrong offset would read other memory of this process, or crash it.
    """
    table.validate(full=True)
    return table


def _check_memory(path: Path | DataFile, schema: pa.Schema, rows: int) -> None:
    """Raise if a table claims to be larger than this machine's memory, before it is read as a whole."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    needed = rows * sum(_width(type_) for type_ in schema.types)
    if needed > memory:
        raise FileError(
            f"{str(path)!r} has {rows:,} rows and {len(schema):,} columns, about {needed >> 30:,} GB, but this machine "
            f"has {memory >> 30:,} GB of memory. Select fewer columns or records."
        )


def _width(type_: pa.DataType) -> int:
    """Return the fewest bytes that a value of this type takes in memory."""
    try:
        return max(1, int(type_.bit_width) // 8)
    except ValueError:
        return 4 if pa.types.is_dictionary(type_) or not pa.types.is_null(type_) else 8


def _no_records(path: Path | DataFile, names: Sequence[str]) -> FileError:
    return FileError(f"{str(path)!r} has columns ({shortened(', '.join(names))}) but no records.")


def _check_names(path: Path | DataFile, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(f"{str(path)!r} has several columns called {_listing(twice)}. Rename them.")


@contextlib.contextmanager
def readable(path: str | os.PathLike[str], layout: Csv | None = None, bad: _BadRows | None = None) -> Iterator[None]:
    """Convert readers' exceptions into errors that name the file and say what to do."""
    path = DataFile.of(path)
    try:
        yield
    except pa.ArrowInvalid as error:
        if bad is not None and bad.count and layout is not None:
            raise bad.error(path, layout) from error
        raise _explained(path, layout, str(error)) from error
    except (pa.ArrowException, EOFError, UnicodeDecodeError) as error:
        raise FileError(f"{str(path)!r} is damaged: {shortened(str(error))}.") from error
    except OSError as error:
        # pyarrow reports broken content as OSError without an error number.
        if error.errno is None:
            raise FileError(f"{str(path)!r} is damaged: {shortened(str(error))}.") from error
        raise FileError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error


def _explained(path: Path | DataFile, layout: Csv | None, message: str) -> Exception:
    # pyarrow names the row only if the file is read in order.
    pattern = r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to ([^:]+): invalid value '(.*)'"
    found = re.search(pattern, message, re.S)
    if found and layout is not None:
        name = layout.header[int(found[1])].strip()
        wanted = {"bool": "true or false"}.get(found[2], "numbers")
        # Show a single word, which may mean missing, but nothing longer, which may be a whole record.
        value = repr(found[3]) if _WORD.fullmatch(found[3]) else "something else"
        return TableError(
            f"Column {name!r} of {str(path)!r} holds {value} where {wanted} are expected. "
            "Correct the value, or name it with --missing if it means a missing value."
        )
    if "straddling" in message:
        return _too_long(path)
    if "Empty CSV file" in message and layout is not None:
        return _no_records(path, list(layout.columns))
    if layout is not None:
        # pyarrow's message repeats the row that it cannot read.
        message = re.split("['\"\n]", re.sub(r"(, got \d+):.*", r"\1", message, flags=re.S))[0]
    wrong = "is damaged" if layout is None else "cannot be read as a table"
    return FileError(f"{str(path)!r} {wrong}: {shortened(message).rstrip(':. ')}.")


def _too_long(path: Path | DataFile) -> FileError:
    return FileError(f"{str(path)!r}: a record is longer than {BLOCK >> 20} MB. A quotation mark may not be closed.")


def _similar_file(path: Path) -> str:
    names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    near = get_close_matches(path.name, names, 1, 0.7)
    return f". Did you mean {str(path.with_name(near[0]))!r}?" if near else "."


def _listing(names: Sequence[str]) -> str:
    return ", ".join(repr(shortened(name, 60)) for name in names[:5])
