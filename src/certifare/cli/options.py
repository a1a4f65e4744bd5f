"""Options of several commands, each declared once, alone or in a class; :func:`option` declares the others.

A command with ``@with_options`` that takes a class of options has an option for each of its fields.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from certifare.cli.arguments import bands_of, check_terms, data_name, listed, second_file, shares_of, single_label
from certifare.errors import ArgumentError

if TYPE_CHECKING:
    from certifare.document import Terms
    from certifare.tables.reading import Reading

#: Panels that the help of a command is laid out in.
COLUMNS, SEARCH, CLAIM, READING, REQUIRED = (
    "Columns", "What to try", "The claim", "Reading and writing", "What is required",
)  # fmt: skip
METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max")
KINDS, UTILITIES = ("boosted", "tree", "kmeans"), ("information", "explained", "accuracy")


class Address(str):
    """Where a database is. Like the path of a file, it is not published."""


def option(
    panel: str | None, help: str, *names: str, choices: tuple[str, ...] = (), rare: bool = False, **more: Any
) -> Any:
    """Declare an option, in a panel of the help; only ``--help-all`` shows those that are ``rare``.

    The help and the shell's completion list ``choices``, if there are any.
    """
    if choices:
        more |= {"metavar": "|".join(choices), "autocompletion": lambda: list(choices)}
    return typer.Option(*names, help=help, rich_help_panel=panel, hidden=rare, **more)


def output_option(help: str, **more: Any) -> Any:
    """Declare the option that names what a command writes."""
    return option(None, help, "--output", "-o", **more)


EncoderPath = Annotated[Path, typer.Argument(help="encoder.json, or the bundle it is in.")]
TablePath = Annotated[Path, typer.Argument(help="Table: CSV, Parquet, Arrow or Feather.")]
Json = Annotated[bool, option(None, "Print one JSON document instead of text.", "--json")]
Seed = Annotated[int, option(None, "Random seed.", min=0, rare=True)]
Replace = Annotated[bool, option(None, "Replace an output that exists.", "--replace")]

_LABEL = 'Label column, or a comparison such as "income>50000".'
_SENSITIVE = 'Sensitive column, or a comparison such as "age>=60". Repeat to intersect several.'
Label = Annotated[list[str] | None, option(COLUMNS, _LABEL, metavar="COLUMN")]
Sensitive = Annotated[list[str] | None, option(COLUMNS, _SENSITIVE, metavar="COLUMN")]
RequiredLabel = Annotated[list[str], option(None, f"{_LABEL} Repeat for several.", "--label", metavar="COLUMN")]
RequiredSensitive = Annotated[list[str], option(None, _SENSITIVE, "--sensitive", metavar="COLUMN")]
_EACH = "With several --sensitive: bound the distance for each of them, instead of for their intersection."
Each = Annotated[bool, option(CLAIM, _EACH, "--each")]
_GIVEN = "Compare groups within each value of this column (a product, a region), which is then no feature."
Given = Annotated[str | None, option(CLAIM, _GIVEN, metavar="COLUMN", rare=True)]
_SECOND = "Second file, with sensitive columns; --on names the key."
SensitiveFile = Annotated[Path | None, option(COLUMNS, _SECOND, rare=True)]
_ON = "With --sensitive-file: the column of both files that joins them."
JoinKey = Annotated[str | None, option(COLUMNS, _ON, "--on", rare=True)]
Weight = Annotated[str | None, option(COLUMNS, "Column of survey weights.", metavar="COLUMN")]
_CLUSTER = "Column that marks dependent records (household, patient)."
Cluster = Annotated[str | None, option(COLUMNS, _CLUSTER, metavar="COLUMN")]
_CUTS = "Cut a label that is a quantity into bands at these numbers: 20000,50000."
LabelCuts = Annotated[str | None, option(COLUMNS, _CUTS, metavar="NUMBERS", rare=True)]
_UNKNOWN = "Count records without a group as a group of their own, instead of leaving them out."
UnknownGroups = Annotated[bool, option(COLUMNS, _UNKNOWN, "--unknown-groups", rare=True)]
Confidence = Annotated[float, option(CLAIM, "1 − ε, the confidence of the bound.")]
_METRIC = "Distance between groups that is bounded"
MetricName = Annotated[str, option(CLAIM, f"{_METRIC}.", "--metric", choices=METRICS)]
_OWN = f"{_METRIC}; that of the bundle's certificate unless given."
OwnMetric = Annotated[str | None, option(CLAIM, _OWN, "--metric", choices=METRICS)]
PositiveLabel = Annotated[str | None, option(CLAIM, "The positive label, for equal_opportunity.", "--positive")]
_POPULATION = "With --cluster: the claim is about random clusters or random records."
_POPULATIONS = ("clusters", "records")
Population = Annotated[str, option(CLAIM, _POPULATION, choices=_POPULATIONS, rare=True)]
OwnPopulation = Annotated[str | None, option(CLAIM, _POPULATION, "--population", choices=_POPULATIONS, rare=True)]
_LEDGER = "Count looks at the certification records (digests only, in your state folder)."
KeepLedger = Annotated[bool, option(CLAIM, _LEDGER, "--ledger/--no-ledger", rare=True)]
_LOOKS = "Number of planned looks at the certification records, which share ε."
Looks = Annotated[int | None, option(CLAIM, _LOOKS, min=1, rare=True)]
_SMALL = "Refuse groups with fewer certification records."
MinGroupSize = Annotated[int, option(CLAIM, _SMALL, "--min-group-size", min=1, rare=True)]
_VERBOSE = "Also print how the result was found, and a chart."
Verbose = Annotated[bool, option(READING, _VERBOSE, "--verbose", "-v")]
Key = Annotated[Path | None, option(READING, "Private key to sign with (certifare key new).")]
PublicKey = Annotated[Path | None, option(None, "Public key that the signature must match.", "--key")]
_SUPPRESS = "Pool cells with fewer records of a group in the certificate; T* stays."
Suppress = Annotated[int | None, option(READING, _SUPPRESS, min=2, rare=True)]
_DATASET = "Name of the data in certificate and report."
Dataset = Annotated[str | None, option(READING, _DATASET, callback=data_name, rare=True)]


class Options:
    """Base of the classes whose fields are options."""


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of the :class:`Options` that it takes, in their place."""
    signature = inspect.signature(command, eval_str=True)
    kinds: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type) and issubclass(parameter.annotation, Options)
    }

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in dataclasses.fields(kind)})
            for name, kind in kinds.items()
        }
        command(**given, **made)

    unfolded: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name not in kinds:
            unfolded.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        types = get_type_hints(kinds[name], include_extras=True)
        unfolded += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
            for f in dataclasses.fields(kinds[name])
        ]
    run.__signature__ = signature.replace(parameters=unfolded)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in unfolded}
    return run


@dataclass(frozen=True, kw_only=True)
class CsvFile(Options):
    """How a CSV file is written, which differs from file to file: a certificate does not know it."""

    delimiter: Annotated[
        str | None, option(READING, "Delimiter of a CSV file; recognised unless given.", rare=True)
    ] = None
    encoding: Annotated[str | None, option(READING, "Encoding of a CSV file; recognised unless given.", rare=True)] = (
        None
    )
    names: Annotated[
        str | None,
        option(
            READING,
            "Column names of a CSV file without a header: age,job,,sex. An empty name leaves a column out.",
            "--names",
            rare=True,
        ),
    ] = None

    def reading(self) -> dict[str, Any]:
        """Return the keywords of :func:`certifare.tables.files.read_file`."""
        names = () if self.names is None else tuple(name.strip() for name in self.names.split(","))
        return {"delimiter": self.delimiter, "encoding": self.encoding, "header": self.names is None, "names": names}


@dataclass(frozen=True, kw_only=True)
class CsvFormat(CsvFile):
    """How a CSV file is read, whatever the certificate of a bundle does not say."""

    missing: Annotated[
        list[str] | None,
        option(
            READING,
            "Text that stands for a missing value, besides the usual (?, NA, null …). Repeat for several.",
            metavar="TEXT",
            rare=True,
        ),
    ] = None
    decimal: Annotated[
        str | None,
        option(READING, "Decimal sign of a CSV file; recognised unless given.", choices=(".", ","), rare=True),
    ] = None

    def reading(self) -> dict[str, Any]:
        """Return the keywords of :func:`certifare.tables.files.read_file`."""
        from certifare.tables.files import MISSING

        return {**super().reading(), "missing": (*MISSING, *listed(self.missing)), "decimal": self.decimal}


@dataclass(frozen=True, kw_only=True)
class TermsOptions(Options):
    """What a producer states for the reader: who answers, what for, until when. It is signed with the certificate."""

    producer: Annotated[
        str | None, option(READING, "Organisation or person that answers for the certificate.", rare=True)
    ] = None
    purpose: Annotated[str | None, option(READING, "What the encoded data are for.", rare=True)] = None
    valid_until: Annotated[
        str | None,
        option(
            READING,
            "Last day on which the certificate is valid; verify refuses it afterwards.",
            metavar="YYYY-MM-DD",
            rare=True,
        ),
    ] = None

    def terms(self) -> Terms:
        """Return the terms; refuse what a certificate cannot hold, before any work is done."""
        return check_terms(self.producer, self.purpose, self.valid_until)


@dataclass(frozen=True, kw_only=True)
class DatabaseOptions(Options):
    """A table in a database, whose records are counted there."""

    sql: Annotated[
        Address | None,
        option(
            None,
            "Count in this database: duckdb:///file, sqlite:///file, postgresql://user@host/db, spark://host:port.",
            "--sql",
            parser=Address,
            metavar="ADDRESS",
        ),
    ] = None
    table: Annotated[str | None, option(None, "With --sql: the table, or schema.table.", "--table")] = None

    @property
    def place(self) -> tuple[str, str]:
        """The address of the database, and the table's name."""
        return str(self.sql), str(self.table)

    def check(self, data: Any) -> None:
        """Refuse records in two places or in none, and a database without a table."""
        if self.sql is None and not data:
            raise ArgumentError("Which records? Name a file, counts files, or a database with --sql and --table.")
        if self.sql is not None and data:
            raise ArgumentError("Give either a file or --sql, not both.")
        if self.sql is not None and self.table is None:
            raise ArgumentError("--sql needs --table: the name of the table to count.")


@dataclass(frozen=True, kw_only=True)
class RoleOptions(Options):
    """Roles of the columns of records, and how records are drawn."""

    sensitive: Sensitive = None
    label: Label = None
    given: Given = None
    weight: Weight = None
    cap: Annotated[
        float | None,
        option(
            COLUMNS,
            "With weights: thin to weights capped here, and bound what lies above (inf: no cap). The cap of the "
            "bundle's own certificate unless given.",
            rare=True,
        ),
    ] = None
    cluster: Cluster = None
    population: OwnPopulation = None
    unknown_groups: UnknownGroups = False
    seed: Seed = 0

    @property
    def groups(self) -> tuple[str, ...]:
        """The sensitive columns that were named."""
        return listed(self.sensitive)

    @property
    def named_label(self) -> str | None:
        """The label that was named."""
        return single_label(self.label)

    def reading(self, known: Reading, label: str | None, csv: CsvFormat, **given: Any) -> Reading:
        """Return how records are read: as the bundle says, but for what was given on the command line.

        Other sensitive columns make other groups, which are not pooled as the bundle's are; another label has other
        values.
        """
        import msgspec

        names = ("weight", "cap", "cluster", "population", "unknown_groups", "given")
        stated = {name: getattr(self, name) for name in names}
        stated |= {"missing_words": (*known.missing_words, *listed(csv.missing)) or None, "decimal": csv.decimal}
        changes = {name: value for name, value in {**stated, **given}.items() if value not in (None, False)}
        if self.groups and self.groups != known.sensitive:
            changes = {"sensitive": self.groups, "kept_groups": None, "unknown_groups": False, **changes}
        if label is not None and label != known.label:
            changes = {"label_cuts": (), "positive": None, **changes, "label": label}
        if changes.get("cap") == float("inf"):
            changes["cap"] = None
        return msgspec.structs.replace(known, **changes)

    def draw_conditions(self, known: Reading, files: Any) -> tuple[str, ...]:
        """Conditions of a draw from files by weights or clusters, whether options or the bundle ask for it."""
        weight, cluster = self.weight or known.weight, self.cluster or known.cluster
        population = self.population or known.population
        holds = {
            "undrawn": bool(files) and not known.drawn,
            "drawn": weight is not None or cluster is not None,
            "clustered": self.cluster is not None,
            "thinned": population == "records" if cluster is not None else weight is not None,
            "capped": weight is not None and cluster is None,
        }
        return tuple(name for name, true in holds.items() if true)


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """What a search for encoders tries, what it claims, and what the columns of its table are."""

    kind: Annotated[
        list[str] | None,
        option(
            SEARCH,
            "Kind of encoder. Repeat for several. Both boosted and tree unless given.",
            choices=KINDS,
        ),
    ] = None
    max_cells: Annotated[int | None, option(SEARCH, "The most cells to try; 200 unless given.", min=2, rare=True)] = (
        None
    )
    gamma: Annotated[
        list[float] | None,
        option(
            SEARCH,
            "0: only the label matters; 1: only the groups. Repeat for several.",
            metavar="NUMBER",
            rare=True,
        ),
    ] = None
    min_cell_size: Annotated[
        list[int] | None,
        option(SEARCH, "Fewest training records of a cell. Repeat for several.", metavar="NUMBER", rare=True),
    ] = None
    utility: Annotated[
        str,
        option(
            SEARCH,
            "What encoders are compared by: share of the label's entropy, share of its variance, or accuracy.",
            choices=UTILITIES,
            rare=True,
        ),
    ] = "information"
    group_aware: Annotated[
        bool,
        option(
            SEARCH,
            "Let encoders read the group: thresholds for each group, far more at the same T*. Encoding then needs it.",
            "--group-aware",
        ),
    ] = False
    tie_column: Annotated[
        str | None,
        option(
            SEARCH,
            "With --group-aware: a column that identifies records. Its hash decides about records on a threshold, so "
            "that a person always gets the same cell.",
            metavar="COLUMN",
            rare=True,
        ),
    ] = None
    score_column: Annotated[
        str | None,
        option(
            SEARCH,
            "With --group-aware: a column that is a score already. No model is fitted; the thresholds of each group "
            "are set on this score.",
            metavar="COLUMN",
            rare=True,
        ),
    ] = None
    metric: MetricName = "demographic_parity"
    each: Each = False
    given: Given = None
    positive: PositiveLabel = None
    confidence: Confidence = 0.95
    looks: Looks = None
    ledger: KeepLedger = True
    min_group_size: MinGroupSize = 30
    population: Population = "clusters"
    weight: Weight = None
    cluster: Cluster = None
    categorical: Annotated[
        list[str] | None, option(COLUMNS, "Read this column as categories. Repeat for several.", metavar="COLUMN")
    ] = None
    drop: Annotated[
        list[str] | None,
        option(
            COLUMNS,
            "Leave this column out. A pattern (income_*), commas and repeats name several.",
            metavar="COLUMN",
        ),
    ] = None
    feature: Annotated[
        list[str] | None,
        option(
            COLUMNS,
            "Let encoders see this column and no others. A pattern (income_*), commas and repeats name several.",
            metavar="COLUMN",
        ),
    ] = None
    label_cuts: Annotated[
        str | None,
        option(
            COLUMNS,
            "Cut a label that is a quantity into bands: at these numbers (20000,50000), or into equal numbers of "
            "training and select records (quantiles=4).",
            metavar="NUMBERS",
            rare=True,
        ),
    ] = None
    sensitive_file: SensitiveFile = None
    on: JoinKey = None
    unknown_groups: UnknownGroups = False
    pool_groups: Annotated[
        int | None,
        option(
            COLUMNS,
            "Pool groups that are likely to have fewer certification records (of the labels that the metric looks "
            "at), by the numbers of the others.",
            min=1,
            rare=True,
        ),
    ] = None
    split: Annotated[
        str | None,
        option(
            SEARCH,
            "Shares of the train, select and certify parts (0.5,0.1,0.4); with --group-aware, of train and certify.",
            metavar="T,S,C",
            rare=True,
        ),
    ] = None
    seed: Seed = 0

    def table(self) -> dict[str, Any]:
        """Say what the columns are, but for labels and groups, as ``read_table`` takes it."""
        several = {name: listed(getattr(self, name)) for name in ("categorical", "drop", "feature")}
        return {
            **several,
            **{name: getattr(self, name) for name in ("weight", "cluster", "each", "given")},
            "missing_groups": "unknown" if self.unknown_groups else "drop",
            **bands_of(self.label_cuts),
            **second_file(self.sensitive_file, self.on),
        }

    def claim(self) -> dict[str, Any]:
        """Say what is claimed: keywords of ``Claim``."""
        names = ("metric", "confidence", "positive", "min_group_size", "population", "looks")
        return {name: getattr(self, name) for name in names}

    def how(self) -> dict[str, Any]:
        """Say how encoders are searched for: keywords of ``produce`` and ``sweep``."""
        names = ("utility", "group_aware", "tie_column", "score_column", "seed", "pool_groups", "ledger")
        return {"parts": self.parts(), "grid": self.grid(), **{name: getattr(self, name) for name in names}}

    def grid(self) -> Any:
        """Return what is tried."""
        from certifare.frontier import Grid
        from certifare.frontier.settings import CELLS

        most = self.max_cells or CELLS[-1]
        return Grid(
            kinds=listed(self.kind) or ("boosted", "tree"),
            gammas=tuple(self.gamma) if self.gamma else None,
            min_cell_sizes=tuple(self.min_cell_size) if self.min_cell_size else None,
            cells=(*(k for k in CELLS if k < most), most),
        )

    def parts(self) -> dict[str, float] | None:
        """Return the shares of the parts; None for the usual ones."""
        return None if self.split is None else shares_of(self.split, self.group_aware)
