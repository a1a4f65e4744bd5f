"""Progress of a command, on a terminal and without one."""

import io
import re

import numba
from rich.console import Console

from certifare.bundle import produce
from certifare.cli import progress_bars
from certifare.foundation import compiler
from certifare.foundation.progress import counter, listening
from certifare.frontier import Grid

QUICK = ["--kind", "tree", "--max-cells", "4"]


def test_a_line_for_each_phase_where_there_is_no_terminal(cli, make_people, tmp_path):
    make_people(3_000, 4).to_csv(tmp_path / "people.csv", index=False)
    arguments = ["fit", tmp_path / "people.csv", "--label", "approved", "--sensitive", "sex", *QUICK]
    result = cli(*arguments, "-o", tmp_path / "bundle")
    assert result.status == 0
    lines = [line for line in result.stderr.splitlines() if re.match(r" *[\d.]+ s  ", line)]
    told = [line.split(" s  ")[1] for line in lines]
    assert told[0] == "reading people.csv"
    assert told[-2:] == ["writing the report", "done"]
    assert "growing tree encoders" in told
    assert len(told) == len(set(told))  # one each
    assert cli(*arguments, "-o", tmp_path / "second", "--json").stderr == ""


def test_a_long_phase_is_reported_every_minute(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(progress_bars, "err", Console(file=text, width=100))
    times = iter([0.0, 1.0, 30.0, 71.0, 72.0, 100.0])
    lines = progress_bars.StageLines(clock=lambda: next(times))
    for done in range(4):
        lines.tell("growing trees", 10 * done, 100)
    lines.end()
    assert [line.strip() for line in text.getvalue().splitlines()] == [
        "1.0 s  growing trees",
        "71.0 s  growing trees: 20 of 100, about 280 s left",
        "100.0 s  done",
    ]


def test_a_terminal_has_a_bar_with_the_time_left(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(progress_bars, "err", Console(file=text, width=100, force_terminal=True))
    with progress_bars.stages() as tell:
        tell("fitting scores", 1, 4)
        tell("growing trees", 0, 4)
    assert "fitting scores" in text.getvalue()
    assert "left" in text.getvalue()


def test_compiling_is_told_once(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(progress_bars, "err", Console(file=text, width=200))
    monkeypatch.setattr(compiler.TELLING, "told", False)
    with progress_bars.stages():
        numba.njit(lambda x: x + 1)(1)
        numba.njit(lambda x: x + 2)(1)
    assert text.getvalue().count(compiler.COMPILING) == 1


def test_the_bar_moves_while_scores_are_fitted(make_people):
    heard = []
    grid = Grid(kinds=["boosted"], gammas=[0.5], min_cell_sizes=[100], cells=[2, 4])
    produce(
        make_people(2_000, 4), label="approved", sensitive="sex", grid=grid, ledger=False, n_jobs=1,
        progress=lambda *told: heard.append(told),
    )  # fmt: skip
    fitted = [(done, total) for stage, done, total in heard if stage == "fitting scores"]
    total = fitted[0][1]
    assert total >= 4
    assert fitted == [(i, total) for i in range(total + 1)]


def test_only_a_listener_hears_of_progress():
    counter(3)()
    heard = []
    with listening(lambda *told: heard.append(told)):
        counter(2)()
    counter(2)()
    assert heard == [(0, 2), (1, 2)]


def test_an_unreadable_table_is_reported_in_one_line(cli, tmp_path):
    (tmp_path / "people.csv").write_text("x,s\n1,f\n2,m\n")
    result = cli("fit", tmp_path / "people.csv", "--label", "y", "--sensitive", "s")
    assert result.status == 2
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
