"""Options that say how a CSV file is read."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from certifare.cli.arguments import listed
from certifare.cli.help import choose
from certifare.cli.option_classes import Options
from certifare.cli.options import READING


@dataclass(frozen=True, kw_only=True)
class CsvFile(Options):
    """What differs from file to file: a certificate does not know it."""

    delimiter: Annotated[
        str | None,
        typer.Option(help="Delimiter of a CSV file; recognised unless given.", rich_help_panel=READING, hidden=True),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of a CSV file; recognised unless given.", rich_help_panel=READING, hidden=True),
    ] = None
    names: Annotated[
        str | None,
        typer.Option(
            "--names",
            help="Column names of a CSV file without a header: age,job,,sex. An empty name leaves a column out.",
            rich_help_panel=READING,
            hidden=True,
        ),
    ] = None

    def reading(self) -> dict[str, Any]:
        """Return the keywords of :func:`certifare.tables.files.read_file`."""
        return {
            "delimiter": self.delimiter,
            "encoding": self.encoding,
            "header": self.names is None,
            "names": () if self.names is None else tuple(name.strip() for name in self.names.split(",")),
        }


@dataclass(frozen=True, kw_only=True)
class CsvFormat(CsvFile):
    """How a CSV file is read, whatever the certificate of a bundle does not say."""

    missing: Annotated[
        list[str] | None,
        typer.Option(
            "--missing",
            help="Text that stands for a missing value, besides the usual (?, NA, null …). Repeat for several.",
            metavar="TEXT",
            rich_help_panel=READING,
            hidden=True,
        ),
    ] = None
    decimal: Annotated[
        str | None,
        choose("Decimal sign of a CSV file; recognised unless given.", ".", ",", rich_help_panel=READING, hidden=True),
    ] = None

    def reading(self) -> dict[str, Any]:
        """Return the keywords of :func:`certifare.tables.files.read_file`."""
        from certifare.tables.files import MISSING

        return {**super().reading(), "missing": (*MISSING, *listed(self.missing)), "decimal": self.decimal}
