import duckdb
import numpy as np
import pandas as pd
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
    refused = cli("sql", tmp_path / "boosted.json")
    assert refused.status == 2
    assert "cannot be written as SQL" in refused.stderr
