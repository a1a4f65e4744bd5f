"""Turn the text of options and arguments into values; refuse what no command could use."""

from __future__ import annotations

import os
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from certifare.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner

    from certifare.document import Terms

#: What the encoder's file of a bundle is called.
ENCODER = "encoder.json"


def cuts_of(text: str | None, option: str = "--label-cuts") -> tuple[float, ...] | None:
    """Where the label, or another column, is cut, from the option; None if it is not."""
    if text is None:
        return None
    try:
        return tuple(float(cut) for cut in text.split(","))
    except ValueError:
        raise ArgumentError(f"{option} {text}: give numbers in ascending order, such as 0.3,0.6.") from None


def bands_of(text: str | None) -> dict[str, Any]:
    """Say where the label is cut: keywords of ``produce`` and ``sweep``."""
    name, equals, number = (text or "").partition("=")
    if not equals:
        return {"label_cuts": cuts_of(text)}
    if name != "quantiles" or not number.isascii() or not number.isdigit() or int(number) < 2:
        raise ArgumentError(f"--label-cuts {text}: give numbers (20000,50000), or how many quantiles (quantiles=4).")
    return {"label_quantiles": int(number)}


def check_distance(option: str, value: float | None) -> None:
    """Refuse a number that is no distance between groups, before any work is done."""
    if value is not None and not 0.0 <= value <= 1.0:
        meant = f" Did you mean {value / 100:g}?" if 1.0 < value <= 100.0 else ""
        raise ArgumentError(f"{option} {value:g}: a distance between groups lies in [0, 1].{meant}")


def encoder_file(path: Path) -> Path:
    """Return the encoder's file, given itself or the bundle it is in."""
    found = path / ENCODER if path.is_dir() else path
    if not found.exists():
        raise FileError(f"There is no encoder at {str(path)!r}: give an encoder.json, or the bundle it is in.")
    return found


def signing_key(path: Path | None) -> CryptoSigner | None:
    """Load the private key to sign with, if one was named.

    Its passphrase is asked for, if it has one and a person is there.
    """
    if path is None:
        return None
    from certifare.document import load_private_key
    from certifare.document.keys import PASSPHRASE_VARIABLE, locked

    if locked(path) and PASSPHRASE_VARIABLE not in os.environ and sys.stdin.isatty():
        return load_private_key(path, typer.prompt(f"Passphrase of {path}", hide_input=True, err=True))
    return load_private_key(path)


def listed(values: list[str] | None) -> tuple[str, ...]:
    """Return the values of an option that may be repeated."""
    return tuple(values or ())


def single_label(values: list[str] | None) -> str | None:
    """Return the label, if one was named; refuse several."""
    if values is not None and len(values) > 1:
        raise ArgumentError("Certificates condition on one label column: pass --label once.")
    return values[0] if values else None


def check_terms(producer: str | None, purpose: str | None, valid_until: str | None) -> Terms:
    """Return what a producer states; refuse what a certificate cannot hold."""
    from certifare.document import Terms
    from certifare.document.statement import MAX_NAME, MAX_PURPOSE

    for name, text, most in (("producer", producer, MAX_NAME), ("purpose", purpose, MAX_PURPOSE)):
        if text is not None and not 1 <= len(text) <= most:
            raise ArgumentError(f"--{name}: give a text of 1 to {most} characters, not of {len(text):,}.")
    if valid_until is not None:
        try:
            last = date.fromisoformat(valid_until)
        except ValueError:
            raise ArgumentError(f"--valid-until {valid_until}: give a day, such as 2030-12-31.") from None
        if last.isoformat() != valid_until:
            raise ArgumentError(f"--valid-until {valid_until}: write the day as {last}.")
        if last < datetime.now(UTC).date():
            raise ArgumentError(f"--valid-until {last}: this day has passed.")
    try:
        return Terms(producer=producer, purpose=purpose, valid_until=valid_until)
    except ValueError as error:
        raise ArgumentError(f"--{error}") from error
