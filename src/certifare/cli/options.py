"""Options of several commands, each declared once. ``hidden`` options are shown by ``--help-all``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.help import choose
from certifare.errors import ArgumentError

#: Panels that the help of a command is laid out in.
COLUMNS, SEARCH, CLAIM, READING = "Columns", "What to try", "The claim", "Reading and writing"

METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max")


class Address(str):
    """Where a database is. Like the path of a file, it is not published."""


def _data_name(name: str | None) -> str | None:
    """Refuse a name that a certificate cannot hold before any work is done."""
    if name is None:
        return None
    from certifare.document.statement import MAX_NAME

    if not 1 <= len(name) <= MAX_NAME:
        raise ArgumentError(f"--dataset: give a name of 1 to {MAX_NAME} characters, not of {len(name):,}.")
    return name


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Seed = Annotated[int, typer.Option(help="Random seed.", min=0, hidden=True)]
Replace = Annotated[bool, typer.Option("--replace", help="Replace an output that exists.")]

_LABEL = 'Label column, or a comparison such as "income>50000".'
_SENSITIVE = 'Sensitive column, or a comparison such as "age>=60". Repeat to intersect several.'
Label = Annotated[list[str] | None, typer.Option(help=_LABEL, metavar="COLUMN", rich_help_panel=COLUMNS)]
Sensitive = Annotated[list[str] | None, typer.Option(help=_SENSITIVE, metavar="COLUMN", rich_help_panel=COLUMNS)]
RequiredLabel = Annotated[list[str], typer.Option("--label", help=f"{_LABEL} Repeat for several.", metavar="COLUMN")]
RequiredSensitive = Annotated[list[str], typer.Option("--sensitive", help=_SENSITIVE, metavar="COLUMN")]
Each = Annotated[
    bool,
    typer.Option(
        "--each",
        help="With several --sensitive: bound the distance for each of them, instead of for their intersection.",
        rich_help_panel=CLAIM,
    ),
]
Given = Annotated[
    str | None,
    typer.Option(
        "--given",
        help="Compare groups within each value of this column (a product, a region), which is then no feature.",
        hidden=True,
        metavar="COLUMN",
        rich_help_panel=CLAIM,
    ),
]
SensitiveFile = Annotated[
    Path | None,
    typer.Option(help="Second file, with sensitive columns; --on names the key.", rich_help_panel=COLUMNS, hidden=True),
]
JoinKey = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="With --sensitive-file: the column of both files that joins them.",
        rich_help_panel=COLUMNS,
        hidden=True,
    ),
]
Weight = Annotated[
    str | None, typer.Option(help="Column of survey weights.", metavar="COLUMN", rich_help_panel=COLUMNS)
]
Cap = Annotated[
    float | None,
    typer.Option(
        help="With weights: thin to weights capped here, and bound what lies above (inf: no cap). The cap of the "
        "bundle's own certificate unless given.",
        rich_help_panel=COLUMNS,
        hidden=True,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Column that marks dependent records (household, patient).", metavar="COLUMN", rich_help_panel=COLUMNS
    ),
]
LabelCuts = Annotated[
    str | None,
    typer.Option(
        help="Cut a label that is a quantity into bands at these numbers: 20000,50000.",
        metavar="NUMBERS",
        rich_help_panel=COLUMNS,
        hidden=True,
    ),
]
UnknownGroups = Annotated[
    bool,
    typer.Option(
        "--unknown-groups",
        help="Count records without a group as a group of their own, instead of leaving them out.",
        rich_help_panel=COLUMNS,
        hidden=True,
    ),
]
Sql = Annotated[
    Address | None,
    typer.Option(
        "--sql",
        parser=Address,
        metavar="ADDRESS",
        help="Count in this database: duckdb:///file, sqlite:///file, postgresql://user@host/db, spark://host:port.",
    ),
]
TableName = Annotated[str | None, typer.Option("--table", help="With --sql: the table, or schema.table.")]
Confidence = Annotated[float, typer.Option(help="1 − ε, the confidence of the bound.", rich_help_panel=CLAIM)]
MetricName = Annotated[
    str, choose("Distance between groups that is bounded.", *METRICS, name="--metric", rich_help_panel=CLAIM)
]
OwnMetric = Annotated[
    str | None,
    choose(
        "Distance between groups that is bounded; that of the bundle's certificate unless given.",
        *METRICS,
        name="--metric",
        rich_help_panel=CLAIM,
    ),
]
PositiveLabel = Annotated[
    str | None,
    typer.Option("--positive", help="The positive label, for equal_opportunity.", rich_help_panel=CLAIM),
]
_POPULATION = "With --cluster: the claim is about random clusters or random records."
Population = Annotated[str, choose(_POPULATION, "clusters", "records", rich_help_panel=CLAIM, hidden=True)]
OwnPopulation = Annotated[
    str | None, choose(_POPULATION, "clusters", "records", name="--population", rich_help_panel=CLAIM, hidden=True)
]
KeepLedger = Annotated[
    bool,
    typer.Option(
        "--ledger/--no-ledger",
        help="Count looks at the certification records (digests only, in your state folder).",
        rich_help_panel=CLAIM,
        hidden=True,
    ),
]
Looks = Annotated[
    int | None,
    typer.Option(
        help="Number of planned looks at the certification records, which share ε.",
        min=1,
        rich_help_panel=CLAIM,
        hidden=True,
    ),
]
MinGroupSize = Annotated[
    int,
    typer.Option(
        "--min-group-size",
        help="Refuse groups with fewer certification records.",
        min=1,
        rich_help_panel=CLAIM,
        hidden=True,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also print how the result was found, and a chart.", rich_help_panel=READING),
]
Key = Annotated[
    Path | None, typer.Option(help="Private key to sign with (certifare key new).", rich_help_panel=READING)
]
PublicKey = Annotated[Path | None, typer.Option("--key", help="Public key that the signature must match.")]
Suppress = Annotated[
    int | None,
    typer.Option(
        help="Pool cells with fewer records of a group in the certificate; T* stays.",
        min=2,
        rich_help_panel=READING,
        hidden=True,
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        help="Name of the data in certificate and report.", callback=_data_name, rich_help_panel=READING, hidden=True
    ),
]
