"""Files with tables in them: CSV, Parquet and Arrow, as a whole or in batches; and files written all or not at all.

A file's kind is read from its first bytes, never from its name. A CSV file is scanned once before it is read, for its
encoding, its delimiter and its header, so that everything that can be wrong with it is known early and said in words.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import errno
import io
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from certifare.errors import (
    ColumnTypeError,
    DuplicateColumnError,
    EmptyFileError,
    EncodingError,
    FileError,
    FileFormatError,
    OutputError,
    RaggedFileError,
)

#: Text that stands for a missing value in a CSV file, unless others are named.
MISSING = (
    "", "?", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "None",
)  # fmt: skip
#: Delimiters that are recognised.
DELIMITERS = (",", ";", "\t", "|")
#: How much of a CSV file the delimiter is guessed from.
SAMPLE = 1 << 18
#: A CSV file is read in blocks of this many bytes; a record must fit into one.
BLOCK = 1 << 23
#: Rows of one batch of a Parquet or Arrow file.
BATCH_ROWS = 1 << 17

Kind = Literal["csv", "parquet", "arrow", "arrow stream"]
TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class Csv:
    """How a CSV file is to be read.

    Attributes
    ----------
    delimiter, encoding : str
    header : tuple of str
        The header as it stands in the file.
    odd_quotes : bool
        Whether the file has an odd number of quotation marks.
    notes : tuple of str
        What was assumed and a reader should know.
    """

    delimiter: str
    encoding: str
    header: tuple[str, ...]
    odd_quotes: bool
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, str]:
        """Names of the columns that have one, without white space around them, and as they stand in the header."""
        return {name.strip(): name for name in self.header if name.strip()}


class Batches:
    """A file read batch by batch, in constant memory.

    Attributes
    ----------
    names : tuple of str
        Columns of the file.
    size : int
        Bytes (CSV) or rows (Parquet, Arrow) in all, for a progress bar; 0 if unknown.
    position : int
        How much of ``size`` has been read.
    """

    def __init__(self, names: Sequence[str], size: int, read: Callable[[Batches], Iterator[pa.RecordBatch]]) -> None:
        self.names = tuple(names)
        self.size = size
        self.position = 0
        self._read = read

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._read(self)


# -- reading ------------------------------------------------------------------------------------------------------


def kind_of(path: str | os.PathLike[str]) -> Kind:
    """Tell what kind of table a file holds, by its first bytes."""
    path = Path(path)
    if not path.exists():
        raise FileError(f"There is no file {str(path)!r}{_similar_file(path)}.")
    if path.is_dir():
        raise FileError(f"{str(path)!r} is a folder; name a CSV, Parquet or Arrow file.")
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error
    if not head:
        raise EmptyFileError(f"{str(path)!r} is empty.")
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:6] == b"ARROW1":
        return "arrow"
    if head[:4] == b"\xff\xff\xff\xff":
        return "arrow stream"
    if head[:4] == b"PK\x03\x04":
        raise FileFormatError(f"{str(path)!r} is a zip archive or an Excel workbook: save the table as CSV or Parquet.")
    if head[:4] == b"FEA1":
        raise FileFormatError(f"{str(path)!r} is in the first Feather format: write it again as Feather 2 or Parquet.")
    return "csv"


def inspect_csv(path: str | os.PathLike[str], *, delimiter: str | None = None, encoding: str | None = None) -> Csv:
    """Find out how a CSV file is to be read: its encoding, delimiter and header."""
    path = Path(path)
    if delimiter is not None:
        delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
            raise FileFormatError(f"delimiter={delimiter!r}: give one character, such as ',' or ';', or 'tab'.")
    with _readable(path):
        head = _head(path)
    if b"\x00" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and encoding is None:
        raise FileFormatError(f"{str(path)!r} holds binary data; a CSV, Parquet or Arrow file is needed.")
    with _readable(path):
        encoding, odd_quotes, notes = _encoding(path, head, encoding)
    text = head.decode(encoding, "replace").removeprefix("\ufeff")
    if not text.strip():
        raise EmptyFileError(f"{str(path)!r} is empty.")
    chosen = delimiter or _sniff(text)
    header = next(row for row in csv.reader(io.StringIO(text), delimiter=chosen) if row)
    names = [name.strip() for name in header]
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise DuplicateColumnError(
            f"{str(path)!r} has several columns called {', '.join(map(repr, twice[:5]))}: rename them in the header."
        )
    if not any(names):
        raise FileFormatError(f"{str(path)!r}: the first line must name the columns; it is {text.splitlines()[0]!r}.")
    if len(names) == 1:
        guess = _sniff(text)
        if guess != chosen and guess in header[0]:
            raise FileFormatError(
                f"With the delimiter {chosen!r} {str(path)!r} has one column, {_short(header[0])!r}; "
                f"{guess!r} seems to be the delimiter: pass that, or leave the option out."
            )
    unnamed = [i for i, name in enumerate(names, 1) if not name]
    if unnamed:
        notes = (*notes, f"column {', '.join(map(str, unnamed[:5]))} has no name in the header; it was left out")
    return Csv(chosen, encoding, tuple(header), odd_quotes, notes)


def read_file(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    missing: Sequence[str] = MISSING,
    types: Mapping[str, pa.DataType] | None = None,
) -> tuple[pa.Table, tuple[str, ...]]:
    """Read a whole table, and what had to be assumed in doing so.

    Columns of a CSV file that hold numbers throughout (or ``true`` and ``false``) become numbers (booleans); others
    become text, without white space around it and without the missing markers.

    Parameters
    ----------
    path : path
        CSV (also compressed with gzip or zstd), Parquet, Arrow or Feather.
    delimiter, encoding : str, optional
        Of a CSV file; recognised unless given.
    missing : sequence of str
        Text that stands for a missing value in a CSV file.
    types : mapping of column to type, optional
        What these columns of a CSV file are to be read as, instead of what they look like.

    Returns
    -------
    table : pyarrow.Table
    notes : tuple of str
    """
    path = Path(path)
    kind = kind_of(path)
    if kind == "csv":
        layout = inspect_csv(path, delimiter=delimiter, encoding=encoding)
        table = _read_csv(path, layout, missing, types or {})
        notes = layout.notes
    else:
        table, notes = _read_binary(path, kind), ()
    if table.num_rows == 0:
        raise EmptyFileError(f"{str(path)!r} has columns ({_short(', '.join(table.column_names))}) but no records.")
    return table, notes


def open_batches(
    path: str | os.PathLike[str],
    types: Mapping[str, pa.DataType | None] | None = None,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    missing: Sequence[str] = MISSING,
) -> Batches:
    """Open a file to be read batch by batch.

    Parameters
    ----------
    path : path
    types : mapping of column to type, optional
        Columns to read, with the type that a CSV file's text is to be read as; :data:`TEXT` is cleaned of white space
        and missing markers, None leaves text as it is. All columns, as they are, unless given. Columns that the file
        lacks are left to the caller (``names``).
    delimiter, encoding, missing
        As in :func:`read_file`.
    """
    path = Path(path)
    kind = kind_of(path)
    if kind != "csv":
        return _binary_batches(path, kind, types)
    layout = inspect_csv(path, delimiter=delimiter, encoding=encoding)
    wanted = dict.fromkeys(layout.columns) if types is None else {n: t for n, t in types.items() if n in layout.columns}

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        return _csv_batches(path, layout, wanted, missing, batches)

    return Batches(list(layout.columns), path.stat().st_size, read)


def clean_text(column: Any, missing: Sequence[str]) -> pa.ChunkedArray:
    """Text without white space around it, missing where it is one of the markers, as a dictionary."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    markers = pa.array([marker.strip() for marker in missing], pa.string())
    chunks = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        values = pc.utf8_trim_whitespace(chunk.dictionary.cast(pa.string()))
        values = pc.if_else(pc.is_in(values, value_set=markers), pa.scalar(None, pa.string()), values)
        merged = values.dictionary_encode()
        chunks.append(pa.DictionaryArray.from_arrays(merged.indices.take(chunk.indices), merged.dictionary))
    return pa.chunked_array(chunks, TEXT)


def _head(path: Path) -> bytes:
    with _decompressed(path) as stream:
        return bytes(stream.read(SAMPLE))


def _decompressed(path: Path, file: Any = None) -> Any:
    """Open the bytes of a text file, unpacked where they are compressed."""
    source = path.open("rb") if file is None else file
    magic = source.read(4)
    source.seek(0)
    packed = "gzip" if magic[:2] == b"\x1f\x8b" else "zstd" if magic == b"\x28\xb5\x2f\xfd" else None
    # The lower stream closes the file; without compression the file itself is handed on.
    return pa.CompressedInputStream(pa.PythonFile(source, mode="r"), packed) if packed else source


def _encoding(path: Path, head: bytes, given: str | None) -> tuple[str, bool, tuple[str, ...]]:
    """Find the encoding of a file by reading it to its end, and whether its quotation marks are odd in number."""
    if given is not None:
        try:
            name = codecs.lookup(given).name
        except LookupError as error:
            raise EncodingError(f"encoding={given!r} is unknown; try utf-8, cp1252, latin-1 or utf-16.") from error
        candidates = ["utf-8-sig" if name == "utf-8" else name]
    elif head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        candidates = ["utf-16"]
    else:
        candidates = ["utf-8-sig", "cp1252", "iso8859-1"]
    misfit: int | None = None
    for candidate in candidates:
        try:
            odd = _decodes(path, candidate)
        except UnicodeDecodeError as error:
            misfit = error.object[error.start] if misfit is None else misfit
            continue
        notes: tuple[str, ...] = ()
        if misfit is not None:
            notes = (
                f"the file is not UTF-8 (byte {misfit:#04x}); it was read as {candidate} "
                "(pass the encoding if that is wrong)",
            )
        return ("utf-8" if candidate == "utf-8-sig" else candidate), odd, notes
    raise EncodingError(
        f"{str(path)!r} is not {candidates[0]}: byte {misfit or 0:#04x} does not fit. "
        "Leave the encoding out to have it recognised, or name another."
    )


def _decodes(path: Path, encoding: str) -> bool:
    """Decode a whole file to see that it can be; return whether its quotation marks are odd in number."""
    decoder = codecs.getincrementaldecoder(encoding)()
    quotes = 0
    with _decompressed(path) as stream:
        while chunk := bytes(stream.read(1 << 20)):
            quotes += decoder.decode(chunk).count('"')
        decoder.decode(b"", final=True)
    return quotes % 2 == 1


def _sniff(text: str) -> str:
    """Find the delimiter that cuts the first lines into the same number of columns, and into most of them."""
    lines = text.splitlines()
    text = "\n".join(lines[: max(1, min(200, len(lines) - 1))])
    best, best_score = ",", (0.0, 0)
    for delimiter in DELIMITERS:
        try:
            rows = [len(row) for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
        except csv.Error:
            continue
        if not rows or rows[0] < 2:
            continue
        score = (sum(n == rows[0] for n in rows) / len(rows), rows[0])
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _csv_options(
    layout: Csv, missing: Sequence[str], types: Mapping[str, pa.DataType | None] | None, handler: Any, threads: bool
) -> dict[str, Any]:
    # Numbers may stand beside white space; text is cleaned afterwards, so that columns to keep stay as they are.
    nulls = [*missing, *(f" {marker}" for marker in missing)]
    convert: dict[str, Any] = {"null_values": nulls, "strings_can_be_null": False}
    if types is None:
        convert |= {"include_columns": list(layout.columns.values())}
        convert |= {"auto_dict_encode": True, "auto_dict_max_cardinality": 4096}
    else:
        read_as = {layout.columns[name]: type_ or pa.string() for name, type_ in types.items()}
        convert |= {"include_columns": list(read_as), "column_types": read_as}
    return {
        "read_options": pacsv.ReadOptions(block_size=BLOCK, encoding=layout.encoding, use_threads=threads),
        "parse_options": pacsv.ParseOptions(
            delimiter=layout.delimiter, newlines_in_values=True, invalid_row_handler=handler
        ),
        "convert_options": pacsv.ConvertOptions(**convert),
    }


def _read_csv(path: Path, layout: Csv, missing: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    bad = _BadRows()
    options = _csv_options(layout, missing, None, bad, True)
    options["convert_options"].column_types = {
        layout.columns[name]: type_ for name, type_ in types.items() if name in layout.columns
    }
    with _readable(path, layout, bad), path.open("rb") as file, _decompressed(path, file) as stream:
        table = pacsv.read_csv(stream, **options)
    if bad.count:
        # Reading in parallel does not number the rows; reading again in order does.
        bad = _BadRows()
        with _readable(path, layout, bad), path.open("rb") as file, _decompressed(path, file) as stream:
            pacsv.read_csv(stream, **_csv_options(layout, missing, None, bad, False))
        raise bad.error(path, layout)
    _check_quotes(path, layout, table)
    columns = [
        clean_text(column, missing)
        if pa.types.is_dictionary(column.type) or pa.types.is_string(column.type)
        else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=list(layout.columns))


def _csv_batches(
    path: Path, layout: Csv, types: Mapping[str, pa.DataType | None], missing: Sequence[str], progress: Batches
) -> Iterator[pa.RecordBatch]:
    bad = _BadRows()
    last = None
    with _readable(path, layout, bad), path.open("rb") as file, _decompressed(path, file) as stream:
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
        raise EmptyFileError(f"{str(path)!r} has columns ({_short(', '.join(layout.columns))}) but no records.")
    _check_quotes(path, layout, pa.Table.from_batches([last]))


class _BadRows:
    """Rows that a CSV reader could not cut into columns."""

    def __init__(self) -> None:
        self.count = 0
        self.first: Any = None

    def __call__(self, row: Any) -> str:
        self.count += 1
        self.first = self.first or row
        return "skip"

    def error(self, path: Path, layout: Csv) -> RaggedFileError:
        where = "" if self.first.number is None else f" (record {self.first.number:,})"
        return RaggedFileError(
            f"{self.count:,} rows of {str(path)!r} do not have {self.first.expected_columns} columns as the header "
            f"has; the first{where} has {self.first.actual_columns}: {_short(self.first.text)!r}. "
            f"Mend the file, or pass another delimiter than {layout.delimiter!r}."
        )


def _check_quotes(path: Path, layout: Csv, table: pa.Table) -> None:
    """Refuse a file whose last quotation mark is never closed: it swallows the records after it."""
    if not layout.odd_quotes:
        return
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    for name, value in last.items():
        if isinstance(value, str) and "\n" in value:
            raise RaggedFileError(
                f"{str(path)!r}: a quotation mark in column {name!r} is never closed, so that the rest of the file "
                f"reads as one value, {_short(value)!r}."
            )


def _read_binary(path: Path, kind: Kind) -> pa.Table:
    with _readable(path):
        if kind == "parquet":
            import pyarrow.parquet as pq

            # A file, not a path: a path such as "year=2018/people.parquet" would grow a column "year".
            with path.open("rb") as file:
                table = pq.read_table(file, use_threads=True)
        else:
            with _binary_reader(path, kind) as (schema, _, batches):
                table = pa.Table.from_batches(batches(schema.names), schema)
    _check_names(path, table.schema.names)
    return table


def _binary_batches(path: Path, kind: Kind, types: Mapping[str, pa.DataType | None] | None) -> Batches:
    with _readable(path), _binary_reader(path, kind) as (schema, size, _):
        pass
    _check_names(path, schema.names)
    if size == 0 and kind != "arrow stream":
        raise EmptyFileError(f"{str(path)!r} has columns ({_short(', '.join(schema.names))}) but no records.")
    names = [name for name in schema.names if types is None or name in types]

    def read(progress: Batches) -> Iterator[pa.RecordBatch]:
        with _readable(path), _binary_reader(path, kind) as (_, _, batches):
            for batch in batches(names):
                if batch.num_rows:
                    progress.position += batch.num_rows
                    yield batch

    return Batches(schema.names, size, read)


@contextlib.contextmanager
def _binary_reader(
    path: Path, kind: Kind
) -> Iterator[tuple[pa.Schema, int, Callable[[list[str]], Iterator[pa.RecordBatch]]]]:
    """Open a file: schema, number of rows (0 if unknown), and a function that reads some columns in batches."""
    if kind == "parquet":
        import pyarrow.parquet as pq

        with path.open("rb") as file:
            reader = pq.ParquetFile(file)
            yield (
                reader.schema_arrow,
                reader.metadata.num_rows,
                lambda names: reader.iter_batches(BATCH_ROWS, columns=names, use_threads=False),
            )
        return
    with pa.memory_map(str(path)) as source:
        if kind == "arrow":
            opened = pa.ipc.open_file(source)
            numbers = range(opened.num_record_batches)
            size = sum(opened.get_batch(i).num_rows for i in numbers)
            yield opened.schema, size, lambda names: (opened.get_batch(i).select(names) for i in numbers)
        else:
            stream = pa.ipc.open_stream(source)
            yield stream.schema, 0, lambda names: (batch.select(names) for batch in stream)


def _check_names(path: Path, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DuplicateColumnError(
            f"{str(path)!r} has several columns called {', '.join(map(repr, twice[:5]))}: rename them."
        )


@contextlib.contextmanager
def _readable(path: Path, layout: Csv | None = None, bad: _BadRows | None = None) -> Iterator[None]:
    """Turn what readers raise into errors that name the file and say what to do."""
    try:
        yield
    except pa.ArrowInvalid as error:
        if bad is not None and bad.count and layout is not None:
            raise bad.error(path, layout) from error
        raise _explained(path, layout, str(error)) from error
    except (pa.ArrowException, EOFError) as error:
        raise FileFormatError(f"{str(path)!r} is damaged: {_short(str(error))}.") from error
    except OSError as error:
        # pyarrow reports broken content as OSError without an error number.
        if error.errno is None:
            raise FileFormatError(f"{str(path)!r} is damaged: {_short(str(error))}.") from error
        raise FileError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error


def _explained(path: Path, layout: Csv | None, message: str) -> Exception:
    # The row is named only where the file is read in order.
    pattern = r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to ([^:]+): invalid value '(.*)'"
    found = re.search(pattern, message, re.S)
    if found and layout is not None:
        name = layout.header[int(found[1])].strip()
        wanted = {"bool": "true or false"}.get(found[2], "numbers")
        return ColumnTypeError(
            f"Column {name!r} of {str(path)!r} holds {_short(found[3])!r} where {wanted} are expected. "
            "Mend the value, or name it as a missing marker."
        )
    if "straddling" in message:
        return FileFormatError(
            f"{str(path)!r}: a record is longer than {BLOCK >> 20} MB; a quotation mark may not be closed."
        )
    return FileFormatError(f"{str(path)!r} cannot be read as a table: {_short(message)}.")


def _similar_file(path: Path) -> str:
    from difflib import get_close_matches

    try:
        near = get_close_matches(path.name, [p.name for p in path.parent.iterdir()], 1, 0.7)
    except OSError:
        return ""
    return f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""


def _short(text: str, most: int = 120) -> str:
    text = text.strip()
    return text if len(text) <= most else text[: most - 1] + "…"


# -- writing ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary name beside ``path`` to write to; it becomes ``path`` at the end, or vanishes if anything fails.

    Examples
    --------
    >>> from certifare.files import atomic_file
    >>> with atomic_file("numbers.txt") as name:  # doctest: +SKIP
    ...     _ = name.write_text("1 2 3")
    """
    path = Path(path)
    with _writable(path):
        if path.is_dir():
            raise OutputError(f"{str(path)!r} is a folder; name a file to write.")
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
    temporary = Path(name)
    try:
        with _writable(path):
            yield temporary
            # mkstemp makes files that only their owner may read; results follow the usual rules.
            temporary.chmod(0o666 & ~_umask())
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str], *, replace: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """Give a temporary folder beside ``path`` to fill; it becomes ``path`` at the end, or vanishes if anything fails.

    Parameters
    ----------
    path : path
        Must not exist, be an empty folder, or be one that ``replace`` allows to be replaced.
    replace : callable, optional
        Told the existing folder; says whether it may be replaced.
    """
    path = Path(path)
    check_folder(path, replace=replace)
    with _writable(path):
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        with _writable(path):
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            if path.exists():
                old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
                os.replace(path, old)
                try:
                    os.replace(temporary, path)
                except BaseException:
                    os.replace(old, path)
                    raise
                shutil.rmtree(old)
            else:
                os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_folder(path: str | os.PathLike[str], *, replace: Callable[[Path], bool] | None = None) -> None:
    """Refuse a folder that could not be written, before any work is done."""
    path = Path(path)
    if not path.name:
        raise OutputError(f"{str(path)!r} cannot be replaced; name a folder to make.")
    if path.exists():
        if not path.is_dir():
            raise OutputError(f"{str(path)!r} is a file; name a folder to write.")
        if any(path.iterdir()) and not (replace and replace(path)):
            raise OutputError(f"{str(path)!r} exists and holds other files; name another folder.")
    if not path.parent.is_dir():
        raise OutputError(f"There is no folder {str(path.parent)!r} to write {path.name!r} into.")
    check_writable(path.parent)


def check_writable(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder in which no file can be made."""
    folder = Path(folder)
    with _writable(folder), tempfile.TemporaryFile(dir=folder):
        pass


@contextlib.contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = {
            errno.EROFS: "the file system is read-only",
            errno.EACCES: "no permission to write there",
            errno.EPERM: "no permission to write there",
            errno.ENOSPC: "the disk is full",
            errno.ENOENT: "its folder does not exist",
        }.get(error.errno or 0, error.strerror or str(error))
        raise OutputError(f"{str(path)!r} cannot be written: {reason}.") from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
