"""Options of commands: how they are declared, and each of those that several commands have.

A command with ``@with_options`` has an option for each field of the classes of options that it takes.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, dataclass_transform, get_type_hints

import typer

from certifare.cli.arguments import bands_of, check_terms, listed, single_label
from certifare.cli.honoured import of_file
from certifare.errors import ArgumentError

if TYPE_CHECKING:
    from certifare.document import Terms
    from certifare.tables.reading import Reading

#: Panels that the help of a command is laid out in.
COLUMNS, SEARCH, CLAIM, READING = "Columns", "What to try", "The claim", "Reading and writing"
METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max")
KINDS, UTILITIES = ("boosted", "tree"), ("information", "explained", "accuracy")
POPULATIONS = ("clusters", "records")


class Address(str):
    """Where a database is. Like the path of a file, it is not published."""


def declare(
    panel: str | None,
    help: str,
    *names: str,
    choices: tuple[str, ...] = (),
    rare: bool = False,
    needs: str = "",
    **more: Any,
) -> Any:
    """Declare an option, in a panel of the help; only ``--help-all`` shows those that are ``rare``.

    - ``choices``: listed by the help and the shell's completion.
    - ``needs``: conditions (:mod:`certifare.cli.honoured`), one of which must hold for the option to matter.
    """
    if choices:
        more |= {"metavar": "|".join(choices), "autocompletion": lambda: list(choices)}
    declared = typer.Option(*names, help=help, rich_help_panel=panel, hidden=rare, **more)
    declared.needs = frozenset(needs.split())
    return declared


def option(panel: str | None, help: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Declare a field of a class of options, as :func:`declare` does."""
    return dataclasses.field(default=default, metadata={"option": declare(panel, help, *names, **more)})


@dataclass_transform(kw_only_default=True)
class Options:
    """Base of the classes whose fields are options; they are dataclasses."""

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)


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
        types = get_type_hints(kinds[name])
        for field in dataclasses.fields(kinds[name]):
            declared: Any = Annotated[types[field.name], field.metadata["option"]]
            unfolded.append(
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=declared
                )
            )
    run.__signature__ = signature.replace(parameters=unfolded)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in unfolded}
    return run


# -- alone ----------------------------------------------------------------------------------------------------------

EncoderPath = Annotated[Path, typer.Argument(help="encoder.json, or the bundle it is in.")]
TablePath = Annotated[Path, typer.Argument(help="Table: CSV, Parquet, Arrow or Feather.")]
Json = Annotated[bool, declare(None, "Print one JSON document instead of text.", "--json")]
Seed = Annotated[int, declare(None, "Random seed.", min=0, rare=True)]
Replace = Annotated[bool, declare(None, "Replace an output that exists.", "--replace")]
LABEL = 'Label column, or a comparison such as "income>50000".'
SENSITIVE = 'Sensitive column, or a comparison such as "age>=60". Repeat to intersect several.'
Label = Annotated[list[str] | None, declare(COLUMNS, LABEL, metavar="COLUMN")]
Sensitive = Annotated[list[str] | None, declare(COLUMNS, SENSITIVE, metavar="COLUMN")]
RequiredLabel = Annotated[list[str], declare(None, f"{LABEL} Repeat for several.", "--label", metavar="COLUMN")]
RequiredSensitive = Annotated[list[str], declare(None, SENSITIVE, "--sensitive", metavar="COLUMN")]
METRIC, CONFIDENCE = "Distance between groups that is bounded", "1 − ε, the confidence of the bound."
POSITIVE = "The positive label, for equal_opportunity."
#: Of calibrated cells: which metrics they bound, and what breaks ties.
CALIBRATED: dict[str, Any] = {
    "help": "Distance that is bounded; equal_opportunity needs --label.",
    "choices": ("demographic_parity", "equal_opportunity"),
}
TIES = (
    "column that identifies records. Its hash decides about records on a threshold, so that a person always gets the "
    "same cell."
)
Verbose = Annotated[
    bool,
    declare(READING, "Also print how the result was found, and a chart.", "--verbose", "-v", needs="printed"),
]
PublicKey = Annotated[Path | None, declare(None, "Public key that the signature must match.", "--key")]


# -- in classes -----------------------------------------------------------------------------------------------------


class CsvFile(Options):
    """How a CSV file is written, which differs from file to file: a certificate does not know it."""

    delimiter: str | None = option(READING, "Delimiter of a CSV file; recognised unless given.", rare=True, needs="csv")
    encoding: str | None = option(READING, "Encoding of a CSV file; recognised unless given.", rare=True, needs="csv")
    names: str | None = option(
        READING,
        "Column names of a CSV file without a header: age,job,,sex. An empty name leaves a column out.",
        rare=True,
        needs="csv",
    )

    def reading(self) -> dict[str, Any]:
        """Return the keywords of :func:`certifare.tables.files.read_file`."""
        names = () if self.names is None else tuple(name.strip() for name in self.names.split(","))
        return {"delimiter": self.delimiter, "encoding": self.encoding, "header": self.names is None, "names": names}


class CsvFormat(CsvFile):
    """How a CSV file is read, whatever the certificate of a bundle does not say."""

    missing: list[str] | None = option(
        READING,
        "Text that stands for a missing value, besides the usual (?, NA, null …). Repeat for several.",
        metavar="TEXT",
        rare=True,
        needs="unread_csv",
    )
    decimal: str | None = option(
        READING,
        "Decimal sign of a CSV file; recognised unless given.",
        choices=(".", ","),
        rare=True,
        needs="unread_csv",
    )

    def reading(self) -> dict[str, Any]:
        """Return the keywords of :func:`certifare.tables.files.read_file`."""
        from certifare.tables.files import MISSING

        return {**super().reading(), "missing": (*MISSING, *listed(self.missing)), "decimal": self.decimal}


class TermsOptions(Options):
    """What a producer states for the reader: who answers, what for, until when. It is signed with the certificate."""

    producer: str | None = option(
        READING, "Organisation or person that answers for the certificate.", rare=True, needs="output"
    )
    purpose: str | None = option(READING, "What the encoded data are for.", rare=True, needs="output")
    valid_until: str | None = option(
        READING,
        "Last day on which the certificate is valid; verify refuses it afterwards.",
        metavar="YYYY-MM-DD",
        rare=True,
        needs="output",
    )

    def terms(self) -> Terms:
        """Return the terms; refuse what a certificate cannot hold, before any work is done."""
        return check_terms(self.producer, self.purpose, self.valid_until)


class PublishOptions(TermsOptions):
    """What a new certificate is published with."""

    key: Path | None = option(READING, "Private key to sign with (certifare key new).", needs="output")


class SuppressOptions(PublishOptions):
    """What a new certificate is published with, and how small its counts may be."""

    suppress: int | None = option(
        READING,
        "Pool cells with fewer records of a group in the certificate; T* stays.",
        min=2,
        rare=True,
        needs="output",
    )


class DatabaseOptions(Options):
    """A table in a database, whose records are counted there."""

    sql: Address | None = option(
        None,
        "Count in this database: duckdb:///file, sqlite:///file, postgresql://user@host/db, spark://host:port.",
        parser=Address,
        metavar="ADDRESS",
    )
    table: str | None = option(None, "With --sql: the table, or schema.table.", needs="sql")

    @property
    def place(self) -> tuple[str, str]:
        """The address of the database, and the table's name."""
        return str(self.sql), str(self.table)

    def check(self, data: Any) -> None:
        """Refuse records in two places or in none, and a database without a table."""
        if self.sql is None and not data:
            raise ArgumentError(
                "Which records? After the encoder, name a file, counts files, or a database with --sql and --table."
            )
        if self.sql is not None and data:
            raise ArgumentError("Give either a file or --sql, not both.")
        if self.sql is not None and self.table is None:
            raise ArgumentError("--sql needs --table: the name of the table to count.")


class DrawOptions(Options):
    """How records are drawn."""

    weight: str | None = option(COLUMNS, "Column of survey weights.", metavar="COLUMN", needs="undrawn")
    cluster: str | None = option(
        COLUMNS, "Column that marks dependent records (household, patient).", metavar="COLUMN", needs="undrawn"
    )
    unknown_groups: bool = option(
        COLUMNS,
        "Count records without a group as a group of their own, instead of leaving them out.",
        "--unknown-groups",
        default=False,
        rare=True,
        needs="unread",
    )
    population: str | None = option(
        CLAIM,
        "With --cluster: the claim is about random clusters or random records.",
        choices=POPULATIONS,
        rare=True,
        needs="cluster",
    )
    seed: int = option(None, "Random seed.", default=0, min=0, rare=True, needs="random")


GIVEN = option(
    CLAIM,
    "Compare groups within each value of this column (a product, a region), which is then no feature.",
    metavar="COLUMN",
    rare=True,
)
SENSITIVE_FILE = "Second file, with sensitive columns; the one column that both files have joins them."


class ClaimOptions(Options):
    """What is claimed of the groups, and how looks at the certification records are counted."""

    each: bool = option(
        CLAIM,
        "With several --sensitive: bound the distance for each of them, instead of for their intersection.",
        "--each",
        default=False,
    )
    positive: str | None = option(CLAIM, POSITIVE, needs="equal_opportunity")
    confidence: float = option(CLAIM, CONFIDENCE, default=0.95)
    looks: int | None = option(
        CLAIM, "Number of planned looks at the certification records, which share ε.", min=1, rare=True
    )
    min_group_size: int = option(CLAIM, "Refuse groups with fewer certification records.", default=30, min=1, rare=True)


class RoleOptions(DrawOptions):
    """Roles of the columns of records, and how records are drawn."""

    given: str | None = GIVEN
    sensitive: list[str] | None = option(COLUMNS, SENSITIVE, metavar="COLUMN")
    label: list[str] | None = option(COLUMNS, LABEL, metavar="COLUMN")
    cap: float | None = option(
        COLUMNS,
        "With weights: thin to weights capped here, and bound what lies above (inf: no cap). The cap of the bundle's "
        "own certificate unless given.",
        rare=True,
        needs="capped",
    )

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

    def draw_conditions(self, known: Reading, files: Any) -> Iterator[str]:
        """Yield the conditions of a draw from files, whether options or the bundle ask for weights or clusters."""
        weight, cluster = self.weight or known.weight, self.cluster or known.cluster
        if files and not known.drawn:
            yield "undrawn"
        if weight is not None or cluster is not None:
            yield "random"
        if (self.population or known.population) == "records" if cluster is not None else weight is not None:
            yield "thinned"
        if weight is not None and cluster is None:
            yield "capped"


class SearchOptions(ClaimOptions, DrawOptions):
    """What a search for encoders tries, what it claims, and what the columns of its table are."""

    given: str | None = GIVEN
    sensitive_file: Path | None = option(COLUMNS, SENSITIVE_FILE, rare=True, needs="memory")
    metric: str = option(CLAIM, f"{METRIC}.", default=METRICS[0], choices=METRICS)
    kind: list[str] | None = option(
        SEARCH, "Kind of encoder. Repeat for several. Both boosted and tree unless given.", choices=KINDS
    )
    max_cells: int | None = option(SEARCH, "The most cells to try; 200 unless given.", min=2, rare=True)
    utility: str = option(
        SEARCH,
        "What encoders are compared by: share of the label's entropy, share of its variance, or accuracy.",
        default=UTILITIES[0],
        choices=UTILITIES,
        rare=True,
    )
    group_aware: bool = option(
        SEARCH,
        "Let encoders read the group: thresholds for each group, far more at the same T*. Encoding then needs it.",
        "--group-aware",
        default=False,
    )
    tie_column: str | None = option(
        SEARCH, f"With --group-aware: a {TIES}", metavar="COLUMN", rare=True, needs="group_aware"
    )
    categorical: list[str] | None = option(
        COLUMNS, "Read this column as categories. Repeat for several.", metavar="COLUMN"
    )
    drop: list[str] | None = option(
        COLUMNS, "Leave this column out. A pattern (income_*), commas and repeats name several.", metavar="COLUMN"
    )
    feature: list[str] | None = option(
        COLUMNS,
        "Let encoders see this column and no others. A pattern (income_*), commas and repeats name several.",
        metavar="COLUMN",
    )
    label_cuts: str | None = option(
        COLUMNS,
        "Cut a label that is a quantity into bands: at these numbers (20000,50000), or into equal numbers of training "
        "and select records (quantiles=4).",
        metavar="NUMBERS",
        rare=True,
    )
    pool_groups: int | None = option(
        COLUMNS,
        "Pool groups that are likely to have fewer certification records (of the labels that the metric looks at), by "
        "the numbers of the others.",
        min=1,
        rare=True,
    )

    def keywords(self, csv: CsvFormat) -> dict[str, Any]:
        """Return the keywords of ``produce``, ``sweep`` and ``check_table``, but for data, labels and groups."""
        as_they_are = (
            *("weight", "cluster", "each", "given", "sensitive_file"),
            *("metric", "confidence", "positive", "min_group_size", "looks"),
            *("utility", "group_aware", "tie_column", "seed", "pool_groups"),
        )
        return {
            **{name: getattr(self, name) for name in as_they_are},
            **{name: listed(getattr(self, name)) for name in ("categorical", "drop", "feature")},
            "missing_groups": "unknown" if self.unknown_groups else "drop",
            "population": self.population or POPULATIONS[0],
            "grid": up_to(self.max_cells, kinds=listed(self.kind) or KINDS),
            **bands_of(self.label_cuts),
            **csv.reading(),
        }

    def conditions(self, data: Path, *, large: bool = False) -> tuple[str, ...]:
        """Return what holds of a search in a table: where the table is, and what is claimed."""
        holds = {
            "large": large,
            **dict.fromkeys(("memory", "undrawn", "unread"), not large),
            "equal_opportunity": self.metric == "equal_opportunity",
            "output": True,
            "random": True,
        }
        return (*of_file(data), *(name for name, true in holds.items() if true))


def up_to(max_cells: int | None, **settings: Any) -> Any:
    """Return what is tried, with at most so many cells."""
    from certifare.frontier import Grid
    from certifare.frontier.settings import CELLS

    most = max_cells or CELLS[-1]
    return Grid(cells=(*(k for k in CELLS if k < most), most), **settings)
