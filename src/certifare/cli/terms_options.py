"""Options by which a producer states who answers for a certificate, what it is for, and until when it is valid."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from certifare.cli.option_classes import Options
from certifare.cli.options import READING
from certifare.errors import ArgumentError

if TYPE_CHECKING:
    from certifare.document import Terms


@dataclass(frozen=True, kw_only=True)
class TermsOptions(Options):
    """What the producer states for the reader; it is signed with the certificate."""

    producer: Annotated[
        str | None,
        typer.Option(
            "--producer",
            help="Organisation or person that answers for the certificate.",
            rich_help_panel=READING,
            hidden=True,
        ),
    ] = None
    purpose: Annotated[
        str | None,
        typer.Option("--purpose", help="What the encoded data are for.", rich_help_panel=READING, hidden=True),
    ] = None
    valid_until: Annotated[
        str | None,
        typer.Option(
            "--valid-until",
            help="Last day on which the certificate is valid; verify refuses it afterwards.",
            metavar="YYYY-MM-DD",
            rich_help_panel=READING,
            hidden=True,
        ),
    ] = None

    def terms(self) -> "Terms":
        """Return the terms; refuse what a certificate cannot hold, before any work is done."""
        from datetime import UTC, date, datetime

        from certifare.document import Terms
        from certifare.document.statement import MAX_NAME, MAX_PURPOSE

        for name, text, most in (("producer", self.producer, MAX_NAME), ("purpose", self.purpose, MAX_PURPOSE)):
            if text is not None and not 1 <= len(text) <= most:
                raise ArgumentError(f"--{name}: give a text of 1 to {most} characters, not of {len(text):,}.")
        if self.valid_until is not None:
            try:
                last = date.fromisoformat(self.valid_until)
            except ValueError:
                raise ArgumentError(f"--valid-until {self.valid_until}: give a day, such as 2030-12-31.") from None
            if last.isoformat() != self.valid_until:
                raise ArgumentError(f"--valid-until {self.valid_until}: write the day as {last}.")
            if last < datetime.now(UTC).date():
                raise ArgumentError(f"--valid-until {last}: this day has passed.")
        try:
            return Terms(producer=self.producer, purpose=self.purpose, valid_until=self.valid_until)
        except ValueError as error:
            raise ArgumentError(f"--{error}") from error
