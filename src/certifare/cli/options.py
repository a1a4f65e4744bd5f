"""Options that several commands have: classes whose fields are the options, each declared once."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from certifare.cli.common import (
    CLAIM,
    COLUMNS,
    READING,
    SEARCH,
    Cluster,
    Confidence,
    JoinKey,
    KeepLedger,
    LabelCuts,
    Looks,
    MetricName,
    Population,
    PositiveLabel,
    Seed,
    SensitiveFile,
    Weight,
    cuts_of,
    listed,
    second_file,
    suggest,
)

SPLIT = "0.5,0.1,0.4"


class Options:
    """Base of the classes below. A command that takes one has an option for each of its fields."""


@dataclass(frozen=True, kw_only=True)
class CsvOptions(Options):
    """How a CSV file is read."""

    delimiter: Annotated[
        str | None, typer.Option(help="Delimiter of a CSV file; recognised unless given.", rich_help_panel=READING)
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of a CSV file; recognised unless given.", rich_help_panel=READING)
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option(
            "--missing",
            help="Text that stands for a missing value, besides the usual (?, NA, null …). Repeat for several.",
            rich_help_panel=READING,
        ),
    ] = None
    header: Annotated[
        str,
        typer.Option(
            help="first: the first line of a CSV file names its columns. none: it is a record.",
            rich_help_panel=READING,
            autocompletion=suggest("first", "none"),
        ),
    ] = "first"
    names: Annotated[
        str | None,
        typer.Option(
            "--names",
            help="Names of the columns of a CSV file without a header, with commas; nothing between two leaves one "
            "out.",
            rich_help_panel=READING,
        ),
    ] = None
    decimal: Annotated[
        str | None,
        typer.Option(
            help="What stands before decimals in a CSV file, . or ,; recognised unless given.",
            rich_help_panel=READING,
            autocompletion=suggest(".", ","),
        ),
    ] = None

    def reading(self) -> dict[str, Any]:
        """Say how a file is to be read, as :func:`certifare.tables.files.read_file` takes it."""
        from certifare.errors import ArgumentError
        from certifare.tables.files import MISSING

        if self.header not in ("first", "none"):
            raise ArgumentError(f"--header {self.header}: choose first (the first line names the columns) or none.")
        return {
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "missing": (*MISSING, *listed(self.missing)),
            "header": self.header == "first" and self.names is None,
            "names": () if self.names is None else tuple(name.strip() for name in self.names.split(",")),
            "decimal": self.decimal,
        }


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """What a search for encoders tries, what it claims, and what the columns of its table are."""

    min_cells: Annotated[int, typer.Option(help="The fewest cells to accept.", min=2, rich_help_panel=SEARCH)] = 2
    max_cells: Annotated[
        int | None, typer.Option(help="The most cells to try; 200 unless given.", min=2, rich_help_panel=SEARCH)
    ] = None
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="boosted, tree or kmeans. Repeat for several. Both boosted and tree unless given.",
            rich_help_panel=SEARCH,
            autocompletion=suggest("boosted", "tree", "kmeans"),
        ),
    ] = None
    gamma: Annotated[
        list[float] | None,
        typer.Option(
            "--gamma", help="0: only the label matters; 1: only the groups. Repeat for several.", rich_help_panel=SEARCH
        ),
    ] = None
    min_cell_size: Annotated[
        list[int] | None,
        typer.Option(
            "--min-cell-size", help="Fewest training records of a cell. Repeat for several.", rich_help_panel=SEARCH
        ),
    ] = None
    utility: Annotated[
        str,
        typer.Option(
            help="What encoders are compared by: information (share of the label's entropy), explained (of its "
            "spread) or accuracy.",
            rich_help_panel=SEARCH,
            autocompletion=suggest("information", "explained", "accuracy"),
        ),
    ] = "information"
    retain: Annotated[
        float,
        typer.Option(
            help="From 0 to 1: how much weight keeping the table itself has beside the label.", rich_help_panel=SEARCH
        ),
    ] = 0.0
    group_aware: Annotated[
        bool,
        typer.Option(
            "--group-aware",
            help="Let encoders read the group: thresholds for each group, far more at the same T*. Encoding then "
            "needs it.",
            rich_help_panel=SEARCH,
        ),
    ] = False
    metric: MetricName = "demographic_parity"
    positive: PositiveLabel = None
    confidence: Confidence = 0.95
    looks: Looks = None
    ledger: KeepLedger = True
    label_cuts: LabelCuts = None
    label_quantiles: Annotated[
        int | None,
        typer.Option(
            help="Cut a label that is a quantity into so many bands of equal numbers of training and select records.",
            min=2,
            rich_help_panel=COLUMNS,
        ),
    ] = None
    sensitive_file: SensitiveFile = None
    on: JoinKey = None
    weight: Weight = None
    cluster: Cluster = None
    population: Population = "clusters"
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="Read this column as categories. Repeat for several.", rich_help_panel=COLUMNS),
    ] = None
    continuous: Annotated[
        list[str] | None,
        typer.Option(help="Read this column as a quantity. Repeat for several.", rich_help_panel=COLUMNS),
    ] = None
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave this column out. A pattern (income_*), commas and repeats name several.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            help="Let encoders see this column and no others. A pattern (income_*), commas and repeats name several.",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    unknown_groups: Annotated[
        bool,
        typer.Option(
            help="Count records without a group as a group of their own, instead of leaving them out.",
            rich_help_panel=COLUMNS,
        ),
    ] = False
    pool_groups: Annotated[
        int | None,
        typer.Option(
            help="Pool groups that are likely to have fewer certification records (of the labels that the metric looks "
            "at), by the numbers of the others.",
            min=1,
            rich_help_panel=COLUMNS,
        ),
    ] = None
    min_group_size: Annotated[
        int, typer.Option(help="Refuse groups with fewer certification records.", min=1, rich_help_panel=CLAIM)
    ] = 30
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            help=f"Shares of the train, select and certify parts ({SPLIT}); with --group-aware, of train and certify.",
            metavar="T,S,C",
            rich_help_panel=SEARCH,
        ),
    ] = None
    seed: Seed = 0
    jobs: Annotated[int, typer.Option(help="How many encoders are grown at a time.", min=1, rich_help_panel=SEARCH)] = 2

    def table(self) -> dict[str, Any]:
        """Say what the columns are, but for labels and groups, as ``read_table`` takes it."""
        several = {name: listed(getattr(self, name)) for name in ("categorical", "continuous", "drop", "feature")}
        return {
            **several,
            "weight": self.weight,
            "cluster": self.cluster,
            "missing_groups": "unknown" if self.unknown_groups else "drop",
            "label_cuts": cuts_of(self.label_cuts, self.label_quantiles),
            **second_file(self.sensitive_file, self.on),
        }

    def claim(self) -> dict[str, Any]:
        """Say what is claimed: keywords of ``Claim``."""
        names = ("metric", "confidence", "positive", "min_group_size", "population", "looks")
        return {name: getattr(self, name) for name in names}

    def how(self) -> dict[str, Any]:
        """Say how encoders are searched for: keywords of ``produce`` and ``sweep``."""
        names = ("utility", "retain", "group_aware", "seed", "pool_groups")
        return {"parts": self.parts(), **{name: getattr(self, name) for name in names}}

    def grid(self) -> Any:
        """Return what is tried."""
        from certifare.errors import ArgumentError
        from certifare.frontier import Grid
        from certifare.frontier.settings import CELLS

        if self.max_cells is not None and self.max_cells < self.min_cells:
            raise ArgumentError(f"--max-cells {self.max_cells} is less than --min-cells {self.min_cells}.")
        most = self.max_cells or max(CELLS[-1], self.min_cells)
        return Grid(
            kinds=listed(self.kind) or ("boosted", "tree"),
            gammas=tuple(self.gamma) if self.gamma else None,
            min_cell_sizes=tuple(self.min_cell_size) if self.min_cell_size else None,
            cells=(*(k for k in CELLS if k < most), most),
        )

    def parts(self) -> dict[str, float] | None:
        """Return the shares of the parts; None for the usual ones."""
        from certifare.errors import ArgumentError
        from certifare.frontier.sweeping import default_parts

        if self.split is None:
            return None
        usual = default_parts(self.group_aware)
        try:
            shares = [float(share) for share in self.split.split(",")]
        except ValueError:
            shares = []
        if len(shares) != len(usual):
            example = ",".join(f"{share:g}" for share in usual.values())
            raise ArgumentError(
                f"--split {self.split}: give {len(usual)} shares, of the records to {', '.join(usual)} on, such as "
                f"{example}. (There is no test part: figures are measured on the certification records.)"
            )
        return dict(zip(usual, shares, strict=True))


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of the :class:`Options` that it takes."""
    signature = inspect.signature(command, eval_str=True)
    kinds = {name: p.annotation for name, p in signature.parameters.items() if isinstance(p.annotation, type)}
    taken = {name: (_fields(kind), kind) for name, kind in kinds.items() if issubclass(kind, Options)}
    return unfold(command, signature, taken)


def _fields(kind: Any) -> list[inspect.Parameter]:
    return [option(field.name, field.default, field.type) for field in dataclasses.fields(kind)]


def option(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    """Describe an option of a command."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def unfold(
    command: Callable[..., None],
    signature: inspect.Signature,
    values: Mapping[str, tuple[Sequence[inspect.Parameter], Callable[..., Any]]],
) -> Callable[..., None]:
    """Give a command options, from which some of the values that it takes are made.

    Parameters
    ----------
    command : callable
    signature : Signature
        Of the command, its annotations evaluated.
    values : mapping
        By the name of the command's parameter: the options, which stand in its place, and what makes the value of them.
    """

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: make(**{option.name: given.pop(option.name) for option in options})
            for name, (options, make) in values.items()
        }
        command(**given, **made)

    unfolded: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name in values:
            unfolded += values[parameter.name][0]
        else:
            unfolded.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    run.__signature__ = signature.replace(parameters=unfolded)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in unfolded}
    return run
