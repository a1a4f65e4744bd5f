"""``certifare verify``: the auditor's command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from certifare.cli.arguments import check_distance, listed
from certifare.cli.honoured import refuse_ignored
from certifare.cli.options import METRICS, Json, Options, PublicKey, declare, option, with_options
from certifare.cli.running import INCONCLUSIVE, REFUSED
from certifare.cli.terminal import emit
from certifare.cli.verdicts import print_verdict
from certifare.errors import FileError, MissingColumnError, TableError

STATUS = {"PASS": 0, "FAIL": REFUSED, "INCONCLUSIVE": INCONCLUSIVE}
REQUIRED = "What is required"


class RequiredOptions(Options):
    """What is required of a certificate."""

    max_bound: float | None = option(REQUIRED, "The largest bound T* to accept.", "--max")
    confidence: float = option(REQUIRED, "The least joint confidence to accept; 0 accepts any.", default=0.95)
    metric: list[str] | None = option(
        REQUIRED, "The metric it must be about. Repeat to accept several.", choices=METRICS
    )
    max_looks: int | None = option(REQUIRED, "The most times that its records were looked at.", min=1)


@with_options
def verify(
    context: typer.Context,
    certificate: Annotated[Path, typer.Argument(help="A certificate file, or a bundle's folder.")],
    key: PublicKey = None,
    encoder: Annotated[Path | None, declare(None, "The encoder's file, which must be the certified one.")] = None,
    data: Annotated[
        Path | None,
        declare(None, "Records of your own, on which the encoder is certified anew; read as the certificate says."),
    ] = None,
    certified_on: Annotated[
        Path | None,
        declare(
            None, "The certification records themselves, for cells that read the group: are the thresholds theirs?"
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        declare(None, "A table with columns cell and prediction: the classifier whose own distance you ask for."),
    ] = None,
    *,
    required: RequiredOptions,
    as_json: Json = False,
) -> None:
    """Check a certificate: format, signature, encoder, and every figure, recomputed from its counts.

    Exit status: 0 PASS, every required check holds; 1 FAIL, one does not; 2 a file cannot be read; 3 INCONCLUSIVE,
    your own records neither contradict the claim nor suffice to confirm it. To require a signature, give --key; to
    require the encoder, give --encoder.
    """
    from certifare.document import Policy, verify_document

    refuse_ignored(context)
    check_distance("--max", required.max_bound)
    if not certificate.exists():
        raise FileError(f"There is no certificate or bundle {str(certificate)!r}.")
    policy = Policy(
        min_confidence=required.confidence,
        max_bound=required.max_bound,
        metrics=listed(required.metric),
        max_looks=required.max_looks,
    )
    decided = None if predictions is None else read_predictions(predictions)
    given = {"key": key, "encoder": encoder, "data": data, "certified_on": certified_on}
    verdict = verify_document(certificate, policy, **given, predictions=decided)
    status = STATUS[verdict.outcome]
    emit(verdict.to_dict(), as_json, lambda: print_verdict(verdict), outcome=verdict.outcome, status=status)


def read_predictions(path: Path) -> list[Any]:
    """Read one prediction for each cell, in the order of the cells."""
    from certifare.tables.files import read_file

    table, _ = read_file(path)
    for name in ("cell", "prediction"):
        if name not in table.column_names:
            raise MissingColumnError(
                f"{str(path)!r} has no column {name!r}: it needs the columns cell and prediction, a row for each cell."
            )
    by_cell = dict(zip(table["cell"].to_pylist(), table["prediction"].to_pylist(), strict=True))
    if len(by_cell) != table.num_rows or set(by_cell) != set(range(len(by_cell))):
        raise TableError(f"{str(path)!r}: the column cell must name each cell 0, 1, 2 … once.")
    if any(value is None for value in by_cell.values()):
        raise TableError(f"{str(path)!r}: a cell has no prediction.")
    return [by_cell[cell] for cell in range(len(by_cell))]
