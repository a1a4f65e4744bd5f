"""Options of a search for encoders: what is tried, what is claimed, and what the columns are."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from certifare.cli.arguments import cuts_of, listed, second_file
from certifare.cli.help import choose
from certifare.cli.option_classes import Options
from certifare.cli.options import (
    COLUMNS,
    SEARCH,
    Cluster,
    Confidence,
    Each,
    Given,
    JoinKey,
    KeepLedger,
    Looks,
    MetricName,
    MinGroupSize,
    Population,
    PositiveLabel,
    Seed,
    SensitiveFile,
    UnknownGroups,
    Weight,
)
from certifare.errors import ArgumentError

SPLIT = "0.5,0.1,0.4"
KINDS = ("boosted", "tree", "kmeans")
UTILITIES = ("information", "explained", "accuracy")


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """What a search for encoders tries, what it claims, and what the columns of its table are."""

    kind: Annotated[
        list[str] | None,
        choose(
            "Kind of encoder. Repeat for several. Both boosted and tree unless given.",
            *KINDS,
            name="--kind",
            rich_help_panel=SEARCH,
        ),
    ] = None
    max_cells: Annotated[
        int | None,
        typer.Option(help="The most cells to try; 200 unless given.", min=2, rich_help_panel=SEARCH, hidden=True),
    ] = None
    gamma: Annotated[
        list[float] | None,
        typer.Option(
            "--gamma",
            help="0: only the label matters; 1: only the groups. Repeat for several.",
            metavar="NUMBER",
            rich_help_panel=SEARCH,
            hidden=True,
        ),
    ] = None
    min_cell_size: Annotated[
        list[int] | None,
        typer.Option(
            "--min-cell-size",
            help="Fewest training records of a cell. Repeat for several.",
            metavar="NUMBER",
            rich_help_panel=SEARCH,
            hidden=True,
        ),
    ] = None
    utility: Annotated[
        str,
        choose(
            "What encoders are compared by: share of the label's entropy, share of its variance, or accuracy.",
            *UTILITIES,
            rich_help_panel=SEARCH,
            hidden=True,
        ),
    ] = "information"
    group_aware: Annotated[
        bool,
        typer.Option(
            "--group-aware",
            help="Let encoders read the group: thresholds for each group, far more at the same T*. Encoding then "
            "needs it.",
            rich_help_panel=SEARCH,
        ),
    ] = False
    tie_column: Annotated[
        str | None,
        typer.Option(
            help="With --group-aware: a column that identifies records. Its hash decides about records on a "
            "threshold, so that a person always gets the same cell.",
            metavar="COLUMN",
            rich_help_panel=SEARCH,
            hidden=True,
        ),
    ] = None
    score_column: Annotated[
        str | None,
        typer.Option(
            help="With --group-aware: a column that is a score already. No model is fitted; the thresholds of each "
            "group are set on this score.",
            metavar="COLUMN",
            rich_help_panel=SEARCH,
            hidden=True,
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
        list[str] | None,
        typer.Option(
            help="Read this column as categories. Repeat for several.", metavar="COLUMN", rich_help_panel=COLUMNS
        ),
    ] = None
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave this column out. A pattern (income_*), commas and repeats name several.",
            metavar="COLUMN",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    feature: Annotated[
        list[str] | None,
        typer.Option(
            "--feature",
            help="Let encoders see this column and no others. A pattern (income_*), commas and repeats name several.",
            metavar="COLUMN",
            rich_help_panel=COLUMNS,
        ),
    ] = None
    label_cuts: Annotated[
        str | None,
        typer.Option(
            help="Cut a label that is a quantity into bands: at these numbers (20000,50000), or into equal numbers of "
            "training and select records (quantiles=4).",
            metavar="NUMBERS",
            rich_help_panel=COLUMNS,
            hidden=True,
        ),
    ] = None
    sensitive_file: SensitiveFile = None
    on: JoinKey = None
    unknown_groups: UnknownGroups = False
    pool_groups: Annotated[
        int | None,
        typer.Option(
            help="Pool groups that are likely to have fewer certification records (of the labels that the metric looks "
            "at), by the numbers of the others.",
            min=1,
            rich_help_panel=COLUMNS,
            hidden=True,
        ),
    ] = None
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            help=f"Shares of the train, select and certify parts ({SPLIT}); with --group-aware, of train and certify.",
            metavar="T,S,C",
            rich_help_panel=SEARCH,
            hidden=True,
        ),
    ] = None
    seed: Seed = 0

    def table(self) -> dict[str, Any]:
        """Say what the columns are, but for labels and groups, as ``read_table`` takes it."""
        several = {name: listed(getattr(self, name)) for name in ("categorical", "drop", "feature")}
        return {
            **several,
            "weight": self.weight,
            "cluster": self.cluster,
            "each": self.each,
            "given": self.given,
            "missing_groups": "unknown" if self.unknown_groups else "drop",
            **_bands(self.label_cuts),
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


def _bands(text: str | None) -> dict[str, Any]:
    """Say where the label is cut: keywords of ``produce`` and ``sweep``."""
    name, equals, number = (text or "").partition("=")
    if not equals:
        return {"label_cuts": cuts_of(text)}
    if name != "quantiles" or not number.isascii() or not number.isdigit() or int(number) < 2:
        raise ArgumentError(f"--label-cuts {text}: give numbers (20000,50000), or how many quantiles (quantiles=4).")
    return {"label_quantiles": int(number)}
