"""``certifare sql``: the encoder as SQL, to run where the data is."""

from __future__ import annotations

from typing import Annotated

from certifare.cli.arguments import encoder_file
from certifare.cli.options import EncoderPath, Json, declare
from certifare.cli.terminal import emit, print_exactly


def sql(
    encoder: EncoderPath,
    dialect: Annotated[str, declare(None, "duckdb, postgres, sqlite, spark, bigquery, snowflake, mysql, …")] = "duckdb",
    table: Annotated[
        str | None, declare(None, "A table: the result is then a query that adds the cell to every row.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print an encoder as SQL: an expression, or with --table a whole query."""
    from certifare.encoders import load_encoder

    fitted = load_encoder(encoder_file(encoder))
    text = fitted.to_sql(dialect, table=table)
    emit({"dialect": dialect, "sql": text}, as_json, lambda: print_exactly(text))
