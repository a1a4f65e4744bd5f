"""Tables written batch after batch, to a CSV or Parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certifare.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


@contextmanager
def open_writer(path: Path, suffix: str, spreadsheet_safe: bool) -> Iterator[Callable[[pa.Table], None]]:
    """Write tables of one schema, one after the other, to a CSV or Parquet file."""
    import pyarrow as pa
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    writer: Any = None

    def write(table: pa.Table) -> None:
        nonlocal writer
        try:
            columns = [_flat(column) for column in table.columns]
            names = table.column_names
            if spreadsheet_safe:
                columns = [_harmless(column) if pa.types.is_string(column.type) else column for column in columns]
                names = _harmless(pa.array(names)).to_pylist()
            table = pa.Table.from_arrays(columns, names=names)
            if writer is None:
                kind = pacsv.CSVWriter if suffix == ".csv" else pq.ParquetWriter
                writer = kind(path, table.schema)
            writer.write_table(table)
        except pa.ArrowException as error:
            types = {name: str(c.type) for name, c in zip(table.column_names, table.columns, strict=True)}
            raise TableError(
                f"A column cannot be written to a {suffix} file ({error}). The columns are {types}: leave those out "
                "that hold lists or the like."
            ) from error

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _flat(column: Any) -> Any:
    """Return a column without a dictionary, and text as plain text."""
    import pyarrow as pa

    from certifare.tables.frames import is_text

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if is_text(column.type) else column


def _harmless(text: Any) -> Any:
    """Put ' before text that begins like a formula; what reads as a number stays as it is."""
    import pyarrow.compute as pc

    formula = pc.match_substring_regex(text, r"^[\t\r\n]|^\s*[=+\-@＝＋－＠]")
    number = pc.match_substring_regex(text, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")
    return pc.if_else(pc.and_not(formula, number), pc.binary_join_element_wise("'", text, ""), text)
