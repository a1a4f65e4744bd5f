import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import people

from certifare import BoostedEncoder, load_encoder


def test_query_runs_in_duckdb(cli, files):
    fresh = pd.read_csv(files / "fresh.csv")
    result = cli("sql", files / "encoder.json", "--table", "fresh")
    assert result.status == 0
    cells = duckdb.sql(result.stdout).df()["cell"]
    assert np.array_equal(cells, load_encoder(files / "encoder.json").apply(fresh))


def test_json_and_errors(cli, files, tmp_path):
    assert "CASE" in cli("sql", files / "encoder.json", "--dialect", "snowflake", "--json").json["sql"]
    unknown = cli("sql", files / "encoder.json", "--dialect", "cobol")
    assert unknown.status == 2
    assert "duckdb" in unknown.stderr
    train = people(600, 3)
    boosted = BoostedEncoder(sensitive="sex", max_cells=4, min_cell_size=30)
    boosted.fit(train.drop(columns="approved"), train["approved"]).save(tmp_path / "boosted.json")
    assert cli("sql", tmp_path / "boosted.json", "--table", "people").stdout.startswith("SELECT")
    refused = cli("sql", tmp_path / "boosted.json", "--dialect", "trino")
    assert refused.status == 2
    assert "written for duckdb, postgres, sqlite, not for trino" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("table", ["", " ", ".", "people.", ".people", "a..b"])
def test_a_table_without_a_name_is_refused(cli, files, table):
    """It was quoted as it is, and the query read from "" or from a schema without a name."""
    result = cli("sql", files / "encoder.json", "--table", table)
    assert result.status == 2
    assert "name a table, or schema.table" in result.stderr


@pytest.mark.parametrize("command", ["certify", "count"])
def test_a_database_is_not_asked_for_a_table_without_a_name(cli, files, tmp_path, command):
    duckdb.connect(str(tmp_path / "people.db")).close()
    output = ["-o", tmp_path / "c.json"]
    place = ["--sql", f"duckdb:///{tmp_path}/people.db", "--table", "", "--sensitive", "sex"]
    result = cli(command, files / "encoder.json", *place, *output)
    assert result.status == 2
    assert "name a table, or schema.table" in result.stderr
