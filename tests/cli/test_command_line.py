"""Item 17: the command that is published says what was asked for, and nothing of where it was asked."""

import inspect
import json

import pytest
import typer

from certifare.cli import app, common
from certifare.document import new_key, read_document

#: Options whose text is published as it was given. A new one is added here on purpose, or is declared as private.
TEXTS = {
    "label", "sensitive", "weight", "cluster", "categorical", "continuous", "drop", "missing", "delimiter", "encoding",
    "decimal", "metric", "method", "positive", "population", "kind", "split", "utility", "table_name",
    "dataset", "feature", "column", "cuts", "header", "names", "on", "label_cuts",
}  # fmt: skip


def published(path):
    return read_document(path).statement.predicate.command


def test_item_17_paths_stay_at_home(cli, files, tmp_path):
    private, _ = new_key(tmp_path / "secret")
    result = cli(
        "certify", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex", "--sensitive", "age>=60",
        "--key", private, "-o", tmp_path / "certificate.json", "--max", "0.99", "--no-unknown-groups",
    )  # fmt: skip
    assert result.status == 0, result.stderr

    assert published(tmp_path / "certificate.json") == (
        "certifare certify ENCODER DATA --sensitive sex --sensitive 'age>=60' --no-unknown-groups --output OUTPUT "
        "--key KEY --max 0.99"
    )


def test_item_17_nor_do_they_reach_a_bundle(cli, tmp_path, make_people):
    folder = tmp_path / "of-a-client"
    folder.mkdir()
    make_people(3_000, 4).to_csv(folder / "people.csv", index=False)
    made = cli(
        "fit", folder / "people.csv", "--label", "approved", "--sensitive", "sex", "--kind", "tree", "--gamma", "0.9",
        "--max-cells", "4", "-o", folder / "bundle",
    )  # fmt: skip
    assert made.status == 0, made.stderr

    for path in (folder / "bundle").rglob("*"):
        if path.is_file() and path.suffix != ".npz":
            assert "of-a-client" not in path.read_text("utf-8"), path
    assert published(folder / "bundle" / "certificate.json").startswith(
        "certifare fit DATA --label approved --sensitive sex --output OUTPUT"
    )


def test_item_17_counts_files_and_databases(cli, files, tmp_path):
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
        "certify", files / "encoder.json", "--sql", address, "--table", "people", "--sensitive", "sex",
        "-o", tmp_path / "c.json",
    )  # fmt: skip
    assert done.status == 0, done.stderr
    assert "clients" not in published(tmp_path / "c.json")
    assert "--table people" in published(tmp_path / "c.json")


@pytest.mark.parametrize("name", ["fit", "certify", "demo"])
def test_item_17_a_new_option_cannot_leak(name):
    """Whether a value is published hangs on what the parameter is declared as, and texts are listed one by one."""
    command = typer.main.get_command(app).commands[name]
    declared = inspect.signature(command.callback, eval_str=True).parameters
    for parameter in command.params:
        leaves = common._leaves(declared[parameter.name].annotation)
        if str in leaves:
            assert parameter.name in TEXTS, f"{name} --{parameter.name}: is its text to be published?"
        if parameter.name in ("encoder", "data", "output", "key", "sql"):
            assert not leaves <= common.PUBLISHED


def test_item_17_the_report_has_the_same(cli, files, tmp_path):
    cli("certify", files / "encoder.json", files / "fresh.csv", "--sensitive", "sex", "-o", tmp_path / "c.json")

    report = cli("report", tmp_path / "c.json", "--json").stdout

    assert json.loads(report)["command"] == "certifare certify ENCODER DATA --sensitive sex --output OUTPUT"
    assert str(tmp_path) not in report
    assert str(files) not in report
