"""``certifare reproduce``: the paper's tables and figures."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from certifare.cli.options import Json, Seed
from certifare.cli.progress_bars import stages
from certifare.cli.terminal import emit, out


def reproduce(
    name: Annotated[str | None, typer.Argument(help="The experiment; see --list.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every experiment, then the audit.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the experiments and data files.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with data files; CERTIFARE_DATA unless given.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for pages, tables and charts.")] = Path(
        "certifare-results"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Small samples and grids: a trial run.")] = False,
    baselines: Annotated[
        Path | None,
        typer.Option(help="Results of the published methods (CSV); those that come with the package unless given."),
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="Results of other methods (CSV), shown beside those; may be given several times."),
    ] = None,
    extensions: Annotated[
        list[Path] | None,
        typer.Option("--with", help="Python file that registers methods or data sets; may be given several times."),
    ] = None,
    year: Annotated[int, typer.Option(help="Year of the American Community Survey.", min=2014)] = 2018,
    states: Annotated[
        list[str] | None,
        typer.Option(
            help="State for the data set ca, such as TX; may be given several times. California unless given."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes side by side.", min=1)] = 2,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Reproduce a table or figure of the paper: writes a page, a CSV file and a chart.

    A run that was interrupted goes on where it stopped.
    """
    from certifare_research.datasets.sources import FILES, whereabouts
    from certifare_research.errors import ExperimentError
    from certifare_research.experiments.framework import Run
    from certifare_research.experiments.registry import EXPERIMENTS
    from certifare_research.experiments.registry import reproduce as run_experiment
    from certifare_research.extensions import read

    if show_list:
        listing = {known: experiment.words for known, experiment in EXPERIMENTS.items()}
        width = max(map(len, listing))

        def show() -> None:
            for known, words in listing.items():
                out.print(f"{known:<{width}}  {words}", soft_wrap=True)
            out.print("\nData files:")
            for file in FILES:
                out.print(f"{file}: {whereabouts(file, data)}", soft_wrap=True)

        emit(listing, as_json, show)
        return
    if everything == (name is not None):
        raise ExperimentError("Name one experiment, or pass --all; --list shows them.")
    for path in extensions or ():
        read(path)
    written = {}
    for chosen in EXPERIMENTS if name is None else [name]:
        run = Run(
            name=chosen,
            out=output,
            data=data,
            quick=quick,
            seed=seed,
            jobs=jobs,
            baselines=baselines,
            also=tuple(also or ()),
            extensions=tuple(extensions or ()),
            year=year,
            states=tuple(state.upper() for state in states or ()),
        )
        with stages(quiet=as_json) as tell:
            tell(f"{chosen}: reading", 0, 1)
            told = replace(run, tell=partial(tell, f"{chosen}: parts"))
            written[chosen] = [str(path) for path in run_experiment(told)]
        if not as_json:
            out.print(f"{chosen}: {', '.join(written[chosen])}", soft_wrap=True)
    if as_json:
        emit(written, True, lambda: None)
