"""Parquet files that form one table: a file, a folder, a pattern, here or in an object store.

The row groups of all files are the pieces of the table. In a folder such as ``people/year=2024/part.parquet``, ``year``
is a column.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from certifare.errors import ArgumentError, FileError, MissingColumnError, TableError
from certifare.tables.files import BATCH_ROWS, Batches, DataFile, is_pattern, readable, validated
from certifare.tables.stores import Store, store_address

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_PARTITION = re.compile(r"([^/=]+)=([^/]*)")
#: What writers call the partition of records without a value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files that form one table."""

    paths: tuple[str, ...]  # paths, or addresses in an object store
    metadata: tuple[FileMetaData, ...]
    schema: pa.Schema  # columns of the first file, which the others have, too; then those that the folders' names hold
    partitions: tuple[dict[str, Any], ...]  # for each file, the columns that its folder's name holds, and their values

    @classmethod
    def find(cls, paths: Paths) -> ParquetFiles:
        """Find files by path, folder, pattern or address."""
        root, expanded = _expand(paths)
        files = [DataFile.of(path) for path in expanded]
        found = [str(file) for file in files]
        metadata = []
        for file in files:
            if file.kind != "parquet":
                raise FileError(f"{str(file)!r} is not a Parquet file; tables larger than memory must be Parquet.")
            with readable(file):
                metadata.append(file.metadata)
            if len(files) > 1:
                file.release()
        schemas = [m.schema.to_arrow_schema() for m in metadata]
        for path, schema in zip(found, schemas, strict=True):
            there = set(schema.names)
            lost = [name for name in schemas[0].names if name not in there]
            if lost:
                raise MissingColumnError(f"{path!r} has no column {lost[0]!r}, which {found[0]!r} has.")
        partitions = _partitions(root, found)
        schema = schemas[0].remove_metadata()
        for name in partitions[0]:
            if name in schema.names:
                raise TableError(f"Column {name!r} is in the files and in the names of their folders. Rename one.")
            numbers = all(isinstance(own[name], int | None) for own in partitions)
            schema = schema.append(pa.field(name, pa.int64() if numbers else pa.string()))
        return cls(tuple(found), tuple(metadata), schema, partitions)

    @property
    def n_records(self) -> int:
        """Number of records."""
        return sum(m.num_rows for m in self.metadata)

    def row_groups(self) -> list[RowGroup]:
        """Return the row groups of all files that hold records."""
        found = []
        for path, metadata, own in zip(self.paths, self.metadata, self.partitions, strict=True):
            constants = pa.table({name: pa.array([v], self.schema.field(name).type) for name, v in own.items()})
            groups = (i for i in range(metadata.num_row_groups) if metadata.row_group(i).num_rows)
            found += [RowGroup(path, group, constants, metadata) for group in groups]
        return found

    def batches(self, names: Sequence[str] | None = None) -> Batches:
        """Open the files to read some columns, by default all, in batches."""
        wanted = [name for name in self.schema.names if names is None or name in names]

        def read(progress: Batches) -> Iterator[pa.RecordBatch]:
            for group in self.row_groups():
                for table in group.tables(wanted):
                    progress.position += len(table)
                    yield from table.to_batches()

        return Batches(self.schema.names, self.n_records, read)

    def read(self) -> pa.Table:
        """Read the whole table."""
        tables = [table for group in self.row_groups() for table in group.tables(self.schema.names)]
        if not tables:
            return self.schema.empty_table()
        return pa.concat_tables(tables, promote_options="permissive")


@dataclass(frozen=True, eq=False)
class RowGroup:
    """A row group of a Parquet file."""

    path: str
    group: int  # its position in the file
    constants: pa.Table  # columns that the folder's name holds: one row
    metadata: Any = None  # of the file (``FileMetaData``), if they were read

    def tables(self, columns: Sequence[str], text: Sequence[str] = ()) -> Iterator[pa.Table]:
        """Read some columns in batches; those in ``text`` as dictionaries."""
        import pyarrow.parquet as pq

        stored = [name for name in columns if name not in self.constants.column_names]
        address = store_address(self.path)
        source = self.path if address is None else Store(address).reader()
        read_dictionary = [name for name in text if name in stored]
        with (
            readable(self.path),
            pq.ParquetFile(
                source, metadata=self.metadata, read_dictionary=read_dictionary, pre_buffer=address is not None
            ) as file,
        ):
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[self.group], columns=stored, use_threads=False):
                table = pa.Table.from_batches([validated(batch)])
                for name in self.constants.column_names:
                    if name in columns:
                        table = table.append_column(name, pa.repeat(self.constants[name][0], len(batch)))
                yield table


def _partitions(root: str | None, paths: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """Read the columns in the names of folders below ``root``, as Hive and Spark write them."""
    if root is None:
        return ({},) * len(paths)
    texts: list[dict[str, Any]] = [dict(_PARTITION.findall(path[len(root) :].rpartition("/")[0])) for path in paths]
    for path, own in zip(paths, texts, strict=True):
        if own.keys() != texts[0].keys():
            raise TableError(f"{path!r} is in other folders ({', '.join(own) or 'no name=value'}) than {paths[0]!r}.")
    for name in [*texts[0]]:
        values = [None if own[name] == _NO_VALUE else own[name] for own in texts]
        numbers = all(value is None or re.fullmatch(r"-?\d{1,18}", value) for value in values)
        for own, value in zip(texts, values, strict=True):
            own[name] = None if value is None else int(value) if numbers else unquote(value)
    return tuple(texts)


def _expand(paths: Paths) -> tuple[str | None, Sequence[str | os.PathLike[str]]]:
    """Find the files of a path, folder, pattern or address; also return the folder, if there is one."""
    if not isinstance(paths, str | os.PathLike):
        if not paths:
            raise ArgumentError("No file was given.")
        return None, paths
    text = os.fspath(paths)
    address = store_address(text)
    pattern = is_pattern(text)
    if address is not None:
        store = Store(address)
        if not pattern and not store.is_folder:
            return None, [paths]
        found = [str(file) for file in (store.matching() if pattern else store.files())]
        text = address
    elif Path(text).is_dir():
        found = sorted(str(path) for path in Path(text).rglob("*") if path.is_file())
    elif Path(text).exists() or not pattern:
        return None, [paths]
    else:
        found = sorted(glob.glob(text, recursive=True))
    if not found and pattern:
        raise TableError(f"No file matches {text!r}.")
    if pattern:
        return None, found
    # Writers leave marks such as _SUCCESS, and files whose names begin with a dot.
    found = [path for path in found if path.endswith((".parquet", ".parq"))]
    if not found:
        raise FileError(f"{text!r} is a folder, and has no file whose name ends in .parquet.")
    return text, found
