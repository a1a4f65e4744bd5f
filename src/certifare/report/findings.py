"""What a report shows beside the certificate: the target, and what was measured. Stored in a bundle as findings.json.

A report can then be written again, as another form or after signing, without the records. Nothing in the file is signed
or claimed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from certifare.certificates import Interval
from certifare.document.envelopes import MAX_BYTES, parse
from certifare.errors import CertifareError, FileError
from certifare.foundation.storage import read_regular

_Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Text = Annotated[str, msgspec.Meta(max_length=10_000)]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the file; unknown fields are refused."""


class _Performance(_Strict, frozen=True):
    records: _Count
    accuracy: Interval
    auc: Interval | None
    explained: Interval
    baseline: _Share
    distance: Interval
    worthless: bool = False
    little: bool = False


class _ColumnImportance(_Strict, frozen=True):
    column: _Text
    explained: float
    distance: float


class _Importances(_Strict, frozen=True):
    explained: float
    distance: float
    columns: tuple[_ColumnImportance, ...]
    records: _Count


class _ColumnRetained(_Strict, frozen=True):
    column: _Text
    share: float


class _Retained(_Strict, frozen=True):
    records: _Count
    mean: float
    columns: tuple[_ColumnRetained, ...]


class _CellScore(_Strict, frozen=True):
    cell: _Count
    score: float
    records: _Count
    share: float | None


class _Calibration(_Strict, frozen=True):
    label: _Text
    value: _Text
    error: float
    cells: tuple[_CellScore, ...]


class _Evaluation(_Strict, frozen=True):
    importances: _Importances
    retained: _Retained
    calibration: tuple[_Calibration, ...] | None


class Findings(_Strict, frozen=True):
    """What a report shows beside the certificate; the arguments of :func:`certifare.report.report_data` by name."""

    format: Literal["certifare/findings"] = "certifare/findings"
    version: Literal[1] = 1
    target: _Share | None = None
    measured: _Performance | None = None
    boosting: _Performance | None = None
    evaluation: _Evaluation | None = None

    @classmethod
    def of(cls, **findings: Any) -> Findings:
        """Take findings as plain data."""
        return msgspec.convert(findings, cls)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Findings:
        """Read a file, and validate types, ranges and names."""
        content = read_regular(path, MAX_BYTES + 1)
        try:
            return msgspec.convert(parse(content), cls)
        except (msgspec.ValidationError, CertifareError) as error:
            raise FileError(f"{os.fspath(path)!r} does not hold the findings of a bundle: {error}") from error

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return (json.dumps(msgspec.to_builtins(self), ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()

    def shown(self) -> Mapping[str, Any]:
        """Return the arguments of :func:`certifare.report.report_data`, as plain data."""
        plain = msgspec.to_builtins(self)
        return {name: plain[name] for name in ("target", "measured", "boosting", "evaluation")}
