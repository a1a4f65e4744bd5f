"""Options that say where records are and how they are read, unless a certificate says so."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certifare.cli.arguments import listed, single_label
from certifare.cli.option_classes import Options
from certifare.cli.options import (
    Cap,
    Cluster,
    Given,
    Label,
    OwnPopulation,
    Seed,
    Sensitive,
    Sql,
    TableName,
    UnknownGroups,
    Weight,
)
from certifare.errors import ArgumentError

if TYPE_CHECKING:
    from certifare.tables.reading import Reading


@dataclass(frozen=True, kw_only=True)
class DatabaseOptions(Options):
    """A table in a database, whose records are counted there."""

    sql: Sql = None
    table: TableName = None

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
    cap: Cap = None
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

    def reading(self, known: "Reading", label: str | None, **given: Any) -> "Reading":
        """Return how records are read: as the bundle says, but for what was given on the command line.

        Other sensitive columns make other groups, which are not pooled as the bundle's are; another label has other
        values.
        """
        import msgspec

        roles = {
            name: getattr(self, name) for name in ("weight", "cap", "cluster", "population", "unknown_groups", "given")
        }
        changes = {name: value for name, value in {**roles, **given}.items() if value not in (None, False)}
        if self.groups and self.groups != known.sensitive:
            changes = {"sensitive": self.groups, "kept_groups": None, "unknown_groups": False, **changes}
        if label is not None and label != known.label:
            changes = {"label_cuts": (), "positive": None, **changes, "label": label}
        if changes.get("cap") == float("inf"):
            changes["cap"] = None
        return msgspec.structs.replace(known, **changes)

    def draw_conditions(self, known: "Reading", files: Any) -> tuple[str, ...]:
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
