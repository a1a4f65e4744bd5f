"""The command that is published says what was asked for, and nothing of where it was asked."""

import inspect
import json

import pytest
import typer

from certifare import CellCounts, certify_counts
from certifare.cli import app
from certifare.cli.published import PUBLISHED, _leaves, command_line
from certifare.document import new_key, read_document, write_document

#: Options whose text is published as it was given. A new one is added here on purpose, or is declared as private.
TEXTS = {
    "label", "sensitive", "weight", "cluster", "categorical", "drop", "missing", "delimiter", "encoding", "decimal",
    "metric", "positive", "population", "kind", "utility", "table", "feature", "column", "cuts", "names", "label_cuts",
    "given", "tie_column", "score", "producer", "purpose", "valid_until",
}  # fmt: skip


def published(path):
    return read_document(path).statement.predicate.command


def test_paths_are_not_published_in_a_certificate(cli, files, tmp_path):
    private, _ = new_key(tmp_path / "secret")
    result = cli(
        "certify", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex", "--sensitive", "age>=60",
        "--key", private, "-o", tmp_path / "certificate.json", "--max", "0.99",
    )  # fmt: skip
    assert result.status == 0, result.stderr

    assert published(tmp_path / "certificate.json") == (
        "certifare certify ENCODER DATA --output OUTPUT --max 0.99 --sensitive sex --sensitive 'age>=60' --key KEY"
    )


def test_paths_are_not_published_in_a_bundle(cli, tmp_path, make_people):
    folder = tmp_path / "of-a-client"
    folder.mkdir()
    make_people(3_000, 4).to_csv(folder / "people.csv", index=False)
    made = cli(
        "fit", folder / "people.csv", "--label", "approved", "--sensitive", "sex", "--kind", "tree",
        "--max-cells", "4", "-o", folder / "bundle",
    )  # fmt: skip
    assert made.status == 0, made.stderr

    for path in (folder / "bundle").rglob("*"):
        if path.is_file() and path.suffix != ".npz":
            assert "of-a-client" not in path.read_text("utf-8"), path
    assert published(folder / "bundle" / "certificate.json").startswith(
        "certifare fit DATA --label approved --sensitive sex --output OUTPUT"
    )


def test_paths_and_addresses_are_not_published_with_counts_and_databases(cli, files, tmp_path):
    for name in ("one", "two"):
        counted = cli("count", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex", "-o", tmp_path / name)
        assert counted.status == 0, counted.stderr
        assert str(tmp_path) not in (tmp_path / name).read_text("utf-8")
        assert str(files) not in (tmp_path / name).read_text("utf-8")
    assert cli("certify", tmp_path / "one", "-o", tmp_path / "c.json").status == 0
    assert published(tmp_path / "c.json") == "certifare certify ENCODER --output OUTPUT"

    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(tmp_path / "clients.duckdb") as database:
        database.execute("CREATE TABLE people AS SELECT * FROM read_csv(?, nullstr='')", [str(files / "fresh.csv")])
    address = f"duckdb:///{tmp_path / 'clients.duckdb'}"
    done = cli(
        "certify", files / "encoder.json", "--sql", address, "--table", "people", "--sensitive", "sex", "-o",
        tmp_path / "c.json",
    )  # fmt: skip
    assert done.status == 0, done.stderr
    assert "clients" not in published(tmp_path / "c.json")
    assert "--table people" in published(tmp_path / "c.json")


@pytest.mark.parametrize("name", ["fit", "certify", "demo"])
def test_every_text_option_says_whether_it_is_published(name):
    """Whether a value is published hangs on what the parameter is declared as, and texts are listed one by one."""
    command = typer.main.get_command(app).commands[name]
    declared = inspect.signature(command.callback, eval_str=True).parameters
    for parameter in command.params:
        leaves = _leaves(declared[parameter.name].annotation)
        if str in leaves:
            assert parameter.name in TEXTS, f"{name} --{parameter.name}: is its text to be published?"
        if parameter.name in ("encoder", "data", "output", "key", "sql"):
            assert not leaves <= PUBLISHED


def test_a_report_shows_the_published_command_without_paths(cli, files, tmp_path):
    cli("certify", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex", "-o", tmp_path / "c.json")

    report = cli("report", tmp_path / "c.json", "--json").stdout

    assert json.loads(report)["command"] == "certifare certify ENCODER DATA --output OUTPUT --sensitive sex"
    assert str(tmp_path) not in report
    assert str(files) not in report


ADDRESSES = [
    "md:people?motherduck_token=eyJhbGciOi",
    "duckdb:///people.db?token=eyJhbGciOi",
    "duckdb:md:people?motherduck_token=eyJhbGciOi",
    "postgresql://me:eyJhbGciOi@127.0.0.1:1/people?connect_timeout=1",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_token_of_an_address_is_printed_wherever_it_was_given(cli, files, tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    encoder, sensitive = files / "encoder.json", ("--sensitive", "sex")
    place = ("--sql", address, "--table", "people", *sensitive)
    for arguments in (
        ("certify", encoder, *place),
        ("certify", encoder, *place, "--json"),
        ("count", encoder, *place, "-o", "c.json"),
        ("certify", encoder, address, *sensitive),
        ("count", encoder, address, *sensitive, "-o", "c.json"),
        ("fit", address, "--label", "approved", *sensitive),
        ("encode", encoder, address, "z.csv"),
    ):
        result = cli(*arguments)
        assert result.status == 2
        assert "eyJhbGciOi" not in result.stdout + result.stderr, arguments
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_token_of_an_address_reaches_the_command_that_is_published(address):
    command = typer.main.get_command(app).commands["certify"]
    context = command.make_context("certify", ["encoder.json", address, "--sql", address, "--table", "people"])
    assert command_line(context) == "certifare certify ENCODER DATA --sql SQL --table people"


@pytest.mark.parametrize("value", ["nan", "inf", "-0.1", "1.5"])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["fit", "fresh.csv", "--label", "approved", "--sensitive", "sex"], "--target"),
        (["sweep", "fresh.csv", "--label", "approved", "--sensitive", "sex"], "--max"),
        (["certify", "encoder.json", "fresh.csv", "--sensitive", "sex"], "--max"),
        (["verify", "certificate.json"], "--max"),
        (["demo", "-o", "demo"], "--target"),
    ],
)
def test_a_number_that_is_no_distance_is_refused_before_any_work(
    cli, files, tmp_path, monkeypatch, command, option, value
):
    monkeypatch.chdir(tmp_path)
    for name in ("fresh.csv", "encoder.json"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    write_document("certificate.json", certify_counts(CellCounts([[400, 300], [300, 400]], "fm")))
    before = sorted(tmp_path.iterdir())

    result = cli(*command, option, value)

    assert result.status == 2
    assert "a distance between groups lies in" in result.stderr
    assert "reading" not in result.stderr
    assert sorted(tmp_path.iterdir()) == before
