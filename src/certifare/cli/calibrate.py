"""``certifare calibrate``: a score goes in; thresholds for each group come out, with their certificate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from certifare.cli.arguments import check_distance, listed, signing_key
from certifare.cli.honoured import of_file, refuse_ignored
from certifare.cli.options import (
    CALIBRATED,
    CLAIM,
    COLUMNS,
    POPULATIONS,
    SEARCH,
    TIES,
    ClaimOptions,
    CsvFormat,
    DrawOptions,
    Json,
    Label,
    PublishOptions,
    Replace,
    RequiredSensitive,
    TablePath,
    declare,
    option,
    up_to,
    with_options,
)
from certifare.cli.printing import VERDICTS, show_bundle, show_plans, what_next
from certifare.cli.progress_bars import stages
from certifare.cli.published import command_line
from certifare.cli.running import REFUSED
from certifare.cli.terminal import emit, out, printable, show_left_out, show_notes
from certifare.errors import ArgumentError

if TYPE_CHECKING:
    from certifare.frontier.scored import Scored

#: With a label: shares of the records that choose how large the cells are, and that set the thresholds.
PARTS = {"train": 0.2, "certify": 0.8}


class ScoreOptions(ClaimOptions, DrawOptions):
    """Which score there is, and what is made of it."""

    select: float | None = option(
        SEARCH,
        "Make a decision rule: two cells, the upper one with this share of every group.",
        metavar="SHARE",
        needs="unlabelled",
    )
    max_cells: int | None = option(SEARCH, "The most cells; as many as the target allows unless given.", min=2)
    tie_column: str | None = option(COLUMNS, f"A {TIES}", metavar="COLUMN")
    metric: str = option(CLAIM, default="demographic_parity", **CALIBRATED)

    def job(self) -> dict[str, Any]:
        """Say what is claimed, and how it is done: keywords of ``produce``."""
        names = ("metric", "confidence", "looks", "min_group_size", "tie_column", "seed")
        return {"population": self.population or POPULATIONS[0], **{name: getattr(self, name) for name in names}}

    def roles(self) -> dict[str, Any]:
        """Say what the columns are, but for score, label and groups."""
        names = ("weight", "cluster", "each")
        missing = "unknown" if self.unknown_groups else "drop"
        return {"missing_groups": missing, **{name: getattr(self, name) for name in names}}


@with_options
def calibrate(
    context: typer.Context,
    data: TablePath,
    score: Annotated[str, declare(None, "Column that is the score: a number.", metavar="COLUMN")],
    sensitive: RequiredSensitive,
    target: Annotated[float, declare(None, "The largest T* to accept.")],
    *,
    label: Label = None,
    own: ScoreOptions,
    output: Annotated[Path, declare(None, "Folder for the bundle.", "--output", "-o")] = Path("certifare-bundle"),
    replace: Replace = False,
    published: PublishOptions,
    csv: CsvFormat,
    as_json: Json = False,
) -> None:
    """Set thresholds of each group on an existing score, so that T* is at most a target.

    No model is fitted. Without --label every record sets thresholds, and cells hold equal shares of every group. With
    --label, a fifth of the records choose how large the cells are, so that they predict the label, and the rest
    set the thresholds. Exit status 1 means that the records are too few for the target: nothing is written then.
    """
    from certifare.bundle import check_output, produce
    from certifare.frontier.scored import calibrate_score
    from certifare.tables.files import open_batches
    from certifare.tables.roles import absent
    from certifare.tables.table import read_table

    holds = {"unlabelled": not label, "equal_opportunity": own.metric == "equal_opportunity"}
    always = ("undrawn", "unread", "group_aware", "output", "random")
    refuse_ignored(context, *of_file(data), *always, *(name for name, true in holds.items() if true))
    check_distance("--target", target)
    if own.metric == "equal_opportunity" and not label:
        raise ArgumentError("--metric equal_opportunity is about records of one label: name its column with --label.")
    if own.select is not None and not 0.0 < own.select < 1.0:
        raise ArgumentError(f"--select {own.select:g}: give a share between 0 and 1.")
    check_output(output, replace=replace)
    names = open_batches(data, {}, **csv.reading()).names
    for name, role in ((score, "--score"), (own.tie_column, "--tie-column")):
        if name is not None and name not in names:
            raise absent(name, names, role)
    features = (score,) if own.tie_column is None else (score, own.tie_column)
    columns = {"sensitive": listed(sensitive), "feature": features, **own.roles(), **csv.reading()}
    named: dict[str, Any] = {"terms": published.terms(), "command": command_line(context)}
    signer = signing_key(published.key)
    if label:
        with stages(quiet=as_json) as progress:
            bundle = produce(
                data, target=target, label=tuple(label), positive=own.positive, score_column=score, group_aware=True,
                parts=PARTS, grid=up_to(own.max_cells), progress=progress, **own.job(), **columns,
            )  # fmt: skip
        solved = bundle.certificate is not None
        if solved:
            bundle.save(output, key=signer, replace=replace, **named)
        found, folder = bundle.to_dict(), output if solved else None
        show = partial(show_bundle, bundle, folder, signed=signer is not None)
    else:
        table = read_table(data, label=(), **columns)
        shares = None if own.select is None else (1.0 - own.select, own.select)
        scored = calibrate_score(table, score, target, shares=shares, max_cells=own.max_cells or 200, **own.job())
        solved = scored.certificate is not None
        if solved:
            _save(scored, output, signer, replace=replace, **named)
        found = scored.to_dict()
        show = partial(_show, scored, output, own.confidence, signed=signer is not None)
    emit(
        {**found, "bundle": str(output) if solved else None, "signed": solved and signer is not None},
        as_json,
        show,
        outcome="PASS" if solved else "NO SOLUTION",
        status=0 if solved else REFUSED,
    )


def _save(scored: Scored, folder: Path, signer: Any, *, replace: bool, **named: Any) -> None:
    """Write encoder, certificate and report: a folder that appears as a whole or not at all."""
    from certifare.bundle import is_bundle, write_private_folder
    from certifare.cli.gathering import gather
    from certifare.document import write_document
    from certifare.encoders.format import EncoderFile
    from certifare.foundation.storage import atomic_folder
    from certifare.report import render_html

    assert scored.encoder is not None and scored.certificate is not None  # noqa: S101, PT018  (asked for before)
    with atomic_folder(folder, replace=is_bundle if replace else None) as temporary:
        encoder = EncoderFile.write(temporary / "encoder.json", scored.encoder.to_document())
        write_document(
            temporary / "certificate.json", scored.certificate, signer, encoder=encoder,
            data_digest=scored.digest, reading=scored.reading, **named,
        )  # fmt: skip
        data, _ = gather(temporary, None if signer is None else signer.public_key)
        (temporary / "report.html").write_text(render_html(data), encoding="utf-8")
        log = {**scored.to_dict(), "command": named["command"]}
        write_private_folder(temporary / "private", scored.encoder.fingerprint_, log)


def _show(scored: Scored, folder: Path, confidence: float, *, signed: bool) -> None:
    """Print the claim, the cells and what to do next; or which plans there are instead."""
    from certifare.certificates.wording import plain_claim

    verdict = "PASS" if scored.certificate is not None else "NO SOLUTION"
    if scored.certificate is None or scored.encoder is None:
        found = f"No cells have T* ≤ {scored.target:g} with so few records."
        out.print(Text.assemble((verdict, VERDICTS[verdict]), f"  {found}"), soft_wrap=True)
        show_plans(scored.sizes, scored.plans, scored.target, confidence)
    else:
        claim = plain_claim(scored.certificate)
        out.print(Text.assemble((verdict, VERDICTS[verdict]), f"  {printable(claim)}"), soft_wrap=True)
        sizes = " + ".join(f"{n:,} ({group})" for group, n in scored.certificate.counts.group_sizes.items())
        out.print(
            printable(f"cells   {scored.encoder.n_cells_}, with thresholds set by {sizes} records"), soft_wrap=True
        )
        for line in what_next(folder, f" --max {scored.target:g}", signed=signed):
            out.print(line, soft_wrap=True)
        show_left_out(scored.certificate.exclusions)
    show_notes(scored.notes)
