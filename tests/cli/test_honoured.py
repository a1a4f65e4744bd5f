"""Options that a path ignores: each is honoured there, as declared, or refused."""

import json
import shutil
import sys

import duckdb
import pytest
import typer

import certifare.frontier.large
from certifare.cli import app
from certifare.cli.honoured import CONDITIONS, needs_of, refuse_ignored
from certifare.errors import ArgumentError

#: The paper's experiments are a command of their own package.
ELSEWHERE = {"reproduce"}


def commands(group, prefix=""):
    """All commands of the application, by name, as its argument parser knows them."""
    found = {}
    for name, command in group.commands.items():
        if name not in ELSEWHERE:
            found |= commands(command, f"{name} ") if hasattr(command, "commands") else {prefix + name: command}
    return found


ROOT = typer.main.get_command(app)
COMMANDS = commands(ROOT)


def options_of(command):
    return {p.name: p for p in COMMANDS[command].params if p.param_type_name == "option" and p.name != "help"}


#: Ways to call each command: arguments, where {…} stands for a file below, and the conditions that hold then.
SEARCH = ["{csv}", "--label", "approved", "--sensitive", "sex"]
POSITIVES = ["--metric", "equal_opportunity"]
FOUND, SQL = ["--sensitive", "sex"], ["--sql", "{sql}", "--table", "people"]
IN_MEMORY = {"memory", "undrawn", "unread", "output", "random"}
CSV, BINARY = {"records", "csv", "unread_csv"}, {"records", "binary"}
SCORE = ["--score", "age", *FOUND, "--target", "0.2"]
CALIBRATED = {"undrawn", "unread", "group_aware", "output", "random"}
TO_COUNT = {"memory", "unread", "undrawn"}
COUNTED = [*FOUND, "--output", "{out}/n.json"]
WAYS = {
    "plan": {
        "records": (["--records", "800"], {"together"}),
        "sizes": (["--records", "f=320", "--records", "m=480"], set()),
        "csv": (["{csv}", *FOUND], CSV),
        "parquet": (["{parquet}", *FOUND], BINARY),
        "positives": (["{csv}", *FOUND, "--label", "approved", *POSITIVES], {*CSV, "positives"}),
    },
    "check": {
        "csv": (SEARCH, {*CSV, *IN_MEMORY}),
        "parquet": (["{parquet}", *SEARCH[1:]], {*BINARY, *IN_MEMORY}),
    },
    "demo": {"printed": ([], {"printed"}), "json": (["--json"], set())},
    "fit": {
        "json": ([*SEARCH, "--json"], {*CSV, *IN_MEMORY}),
        "csv": (SEARCH, {*CSV, *IN_MEMORY, "printed"}),
        "parquet": (["{parquet}", *SEARCH[1:]], {*BINARY, *IN_MEMORY, "printed"}),
        "large": (["{large}", *SEARCH[1:]], {*BINARY, "output", "random", "printed"}),
        "cluster": ([*SEARCH, "--cluster", "home"], {*CSV, *IN_MEMORY, "printed", "cluster"}),
        "equal opportunity": ([*SEARCH, *POSITIVES], {*CSV, *IN_MEMORY, "printed", "equal_opportunity"}),
    },
    "calibrate": {
        "csv": (["{csv}", *SCORE], {*CSV, *CALIBRATED, "unlabelled"}),
        "parquet": (["{parquet}", *SCORE, "--label", "approved"], {*BINARY, *CALIBRATED}),
        "equal opportunity": (
            ["{csv}", *SCORE, "--label", "approved", *POSITIVES, "--cluster", "home"],
            {*CSV, *CALIBRATED, "equal_opportunity", "cluster"},
        ),
    },
    "sweep": {
        "csv": (SEARCH, {*CSV, *IN_MEMORY}),
        "parquet": (["{parquet}", *SEARCH[1:]], IN_MEMORY),
    },
    "encode": {
        "csv": (["{encoder}", "{csv}", "{out}/encoded.csv"], {*CSV, "as_csv"}),
        "parquet": (["{encoder}", "{parquet}", "{out}/encoded.csv"], {*BINARY, "as_csv"}),
        "to parquet": (["{encoder}", "{csv}", "{out}/encoded.parquet"], CSV),
    },
    "certify": {
        "csv": (["{encoder}", "{csv}", *FOUND], {*CSV, *TO_COUNT}),
        "parquet": (["{encoder}", "{parquet}", *FOUND], {*BINARY, *TO_COUNT}),
        "cluster": (
            ["{encoder}", "{csv}", *FOUND, "--cluster", "home"],
            {*CSV, *TO_COUNT, "random", "cluster"},
        ),
        "weight": (
            ["{encoder}", "{csv}", *FOUND, "--weight", "w"],
            {*CSV, *TO_COUNT, "random", "thinned", "capped"},
        ),
        "sql": (["{encoder}", *SQL, *FOUND], {"sql", "unread"}),
        "relabelled": (
            ["{bundle}", "{csv}", "--label", "approved", *POSITIVES],
            {"records", "csv", "memory", "undrawn", "equal_opportunity", "cut"},
        ),
        "bundle": (["{bundle}", "{csv}"], {"records", "csv", "memory", "undrawn"}),
        "bundle by sql": (["{bundle}", *SQL], {"sql"}),
        "column": (["{csv}", "--column", "job", *FOUND], {*CSV, *TO_COUNT, "column"}),
        "column by sql": (["--column", "job", *SQL, *FOUND], {"sql", "unread", "column"}),
        "counts": (["{counts}"], {"counts"}),
        "encoder and counts": (["{encoder}", "{counts}"], {"counts"}),
        "to a file": (["{counts}", "--output", "{out}/c.json"], {"counts", "output"}),
    },
    "count": {
        "bundle": (["{bundle}", "{csv}", "--output", "{out}/n.json"], {"records", "csv", "undrawn"}),
        "csv": (["{encoder}", "{csv}", *COUNTED], {*CSV, *TO_COUNT}),
        "parquet": (["{encoder}", "{parquet}", *COUNTED], TO_COUNT),
        "sql": (["{encoder}", *SQL, *COUNTED], {"sql", "unread"}),
        "weight": (
            ["{encoder}", "{csv}", *COUNTED, "--weight", "w"],
            {*CSV, *TO_COUNT, "random", "thinned", "capped"},
        ),
        "cluster": (["{encoder}", "{csv}", *COUNTED, "--cluster", "home"], {*CSV, *TO_COUNT, "random", "cluster"}),
    },
    "verify": {"certificate": (["{certificate}"], set())},
    "show": {
        "encoder": (["{encoder}"], set()),
        "encoder as JSON": (["{encoder}", "--json"], set()),
        "certificate": (["{certificate}"], {"certified"}),
    },
    "monitor": {
        "csv": (["{encoder}", "{csv}"], {"csv", "fresh"}),
        "parquet": (["{encoder}", "{parquet}"], {"fresh"}),
        "sql": (["{encoder}", *SQL, "--period", "May"], {"sql"}),
        "counts": (["{encoder}", "{counts}"], {"fresh"}),
        "course": (["{encoder}"], set()),
    },
    "explain": {
        "csv": (["{encoder}", "{csv}", "3"], CSV),
        "parquet": (["{encoder}", "{parquet}", "3"], BINARY),
        "bundle": (["{bundle}", "{csv}", "3"], {"records", "csv"}),
    },
    "report": {
        "written": (["{certificate}", "--output", "{out}/r.json"], {"written"}),
        "JSON": (["{certificate}", "--json"], set()),
    },
}
#: Values of options that take no text.
VALUES = {
    "valid_until": "2999-12-31",
    **dict.fromkeys(["max_cells", "seed", "suppress", "looks", "max_looks", "min_group_size", "pool_groups"], 5),
    **dict.fromkeys(["cap", "confidence", "max_bound", "max_weight", "target", "share", "select"], 0.5),
    "stated_records": "f=320",
    "periods": 5,
    "cuts": "0.5",
    "metric": "demographic_parity",
    "utility": "explained",
}
#: Options that are ways of their own.
SWITCHES = {"sql", "as_json", "column"}


@pytest.fixture(scope="module")
def places(files, make_people, tmp_path_factory):
    """A file of each kind that a command reads."""
    folder = tmp_path_factory.mktemp("walk")
    people = make_people(600, 5).assign(home=lambda t: t.index // 2, w=1.0)
    people.to_csv(folder / "people.csv", index=False)
    people.to_parquet(folder / "people.parquet")
    people.to_parquet(folder / "large.parquet")
    with duckdb.connect(str(folder / "people.db")) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT * FROM '{folder}/people.parquet'")  # noqa: S608
    return {
        "encoder": files / "encoder.json",
        "csv": folder / "people.csv",
        "parquet": folder / "people.parquet",
        "large": folder / "large.parquet",
        "sql": f"duckdb:///{folder}/people.db",
        "counts": folder / "counts.json",
        "certificate": folder / "certificate.json",
        "bundle": folder / "bundle",
        "out": folder,
    }


@pytest.fixture
def run(cli, places, monkeypatch):
    """Run a command with the files in place."""
    monkeypatch.setattr(certifare.frontier.large, "is_large", lambda path: path == places["large"])
    if not places["counts"].exists():
        assert cli("count", places["encoder"], places["csv"], "--sensitive", "sex", "-o", places["counts"]).status == 0
        assert cli("certify", places["counts"], "-o", places["certificate"]).status == 0
        places["bundle"].mkdir()
        shutil.copy(places["encoder"], places["bundle"] / "encoder.json")
        shutil.copy(places["certificate"], places["bundle"] / "certificate.json")
    return lambda *arguments: cli(*(str(part).format(**places) for part in arguments))


@pytest.fixture
def begin(run, places, monkeypatch):
    """Run a command until it has looked at its options, and say what it said: what comes then takes time."""

    def refuse(context, *conditions):
        refuse_ignored(context, *conditions)
        raise ArgumentError("the work begins")

    # A command's name stands for its function; its module is known to the system alone.
    for command in WAYS:
        monkeypatch.setattr(sys.modules[f"certifare.cli.{command}"], "refuse_ignored", refuse)

    def told(*arguments):
        # An ArgumentError ends with status 2; making the parser anew each time, as a shell does, takes long.
        with pytest.raises(ArgumentError) as error:
            ROOT([str(part).format(**places) for part in arguments], standalone_mode=False)
        return str(error.value)

    return told


@pytest.mark.parametrize("command", COMMANDS)
def test_what_options_need_are_conditions_or_options_of_the_command(command):
    needs = needs_of(COMMANDS[command])
    for needed in needs.values():
        assert needed <= {*CONDITIONS, *options_of(command)}
    # A command that asks no questions honours all of its options.
    assert command in WAYS or not any(needed - {"output"} for needed in needs.values())


@pytest.mark.parametrize(("command", "way"), [(command, way) for command, ways in WAYS.items() for way in ways])
def test_each_option_is_honoured_or_refused(begin, command, way):
    arguments, holds = WAYS[command][way]
    for option, parameter in options_of(command).items():
        spelt = max(parameter.opts, key=len)
        if set(parameter.opts) & set(arguments) or option in SWITCHES:
            continue
        value = [] if parameter.is_flag else [VALUES.get(option, "sex")]
        message = begin(command, *arguments, spelt, *value)
        needed = needs_of(COMMANDS[command])[option]
        if not needed or needed & {*holds, option}:
            assert message == "the work begins"
        else:
            assert message.startswith(f"{spelt} would be ignored")


@pytest.mark.parametrize("option", ["weight", "cluster"])
def test_weights_and_clusters_are_refused_with_counts_and_databases(run, places, option):
    """Both were ignored, and written into the certificate's command, whether there was such a column or not."""
    sql = ["{encoder}", "--sql", "{sql}", "--table", "people", "--sensitive", "sex"]
    for arguments, column, words in (
        (["{counts}"], "no_such_column", f"--{option} would be ignored with counts files"),
        (["{counts}"], "no_such_column", "certifare count"),
        (sql, "home", f"--{option} would be ignored with a database"),
        (sql, "home", "export an extract, and run certifare count on the file"),
    ):
        result = run("certify", *arguments, f"--{option}", column, "--output", "{out}/never.json")
        assert result.status == 2
        assert words in " ".join(result.stderr.split())
        assert not (places["out"] / "never.json").exists()


@pytest.mark.parametrize("option", ["weight", "cluster"])
def test_a_database_counts_all_of_its_records_and_draws_none(run, places, option):
    sql = ["{encoder}", "--sql", "{sql}", "--table", "people", "--sensitive", "sex"]
    for others in ([], ["--seed", "4"], ["--max-weight", "5"], ["--population", "records"]):
        refused = run("count", *sql, f"--{option}", "home", *others, "--output", "{out}/never.json")
        assert refused.status == 2
        words = " ".join(refused.stderr.split())
        assert f"--{option} would be ignored with a database" in words
        assert "export an extract, and run certifare count on the file" in words
        assert not (places["out"] / "never.json").exists()
    assert run("count", *sql, "--output", "{out}/whole.json").status == 0
    assert json.loads((places["out"] / "whole.json").read_text())["seed"] is None


def test_columns_that_the_counts_are_not_about_are_refused(run):
    for arguments, words in (
        (["--sensitive", "job"], "by sex, not by job"),
        (["--label", "approved"], "the counts have no labels"),
    ):
        result = run("certify", "{counts}", *arguments)
        assert result.status == 2
        assert words in result.stderr


def test_a_label_that_is_not_needed_must_be_there(run):
    arguments = ["certify", "{encoder}", "{csv}", "--sensitive", "sex"]
    assert run(*arguments, "--label", "approved").status == 0
    result = run(*arguments, "--label", "aproved")
    assert result.status == 2
    assert "Did you mean 'approved'" in result.stderr
