"""``certifare sql``: the encoder as SQL, to run where the data is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.arguments import encoder_file
from certifare.cli.options import Json, option
from certifare.cli.terminal import emit, print_exactly


def sql(
    encoder: Annotated[Path, typer.Argument(help="encoder.json, or the bundle it is in.")],
    dialect: Annotated[str, option(None, "duckdb, postgres, sqlite, spark, bigquery, snowflake, mysql, …")] = "duckdb",
    table: Annotated[
        str | None, option(None, "A table: the result is then a query that adds the cell to every row.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print an encoder as SQL: an expression, or with --table a whole query."""
    from certifare.encoders import load_encoder

    fitted = load_encoder(encoder_file(encoder))
    text = fitted.to_sql(dialect, table=table)
    emit({"dialect": dialect, "sql": text}, as_json, lambda: print_exactly(text))
