"""From a raw file to certified scores in one command."""

import numpy as np
import pandas as pd
import pytest

from certifare import load_encoder


@pytest.mark.parametrize("aware", [[], ["--group-aware"]])
def test_fit_writes_scores(cli, make_people, tmp_path, aware):
    people = make_people(4_000, 30)
    people.to_csv(tmp_path / "people.csv", index=False)
    made = cli(
        "fit", tmp_path / "people.csv", "--label", "approved", "--sensitive", "sex", "--kind", "tree", "--gamma", "0.9",
        "--max-cells", "4", "--no-ledger", "-o", tmp_path / "bundle", "--scores", tmp_path / "scored.csv", *aware,
    )  # fmt: skip
    assert made.status == 0, made.stderr
    encoder = load_encoder(tmp_path / "bundle" / "encoder.json")
    groups = {"sensitive_features": people["sex"]} if aware else {}
    expected = encoder.predict_proba(pd.read_csv(tmp_path / "people.csv"), **groups)[:, 1]
    assert np.allclose(pd.read_csv(tmp_path / "scored.csv")["score_approved"], expected)


def test_scores_go_to_a_table(cli, make_people, tmp_path):
    make_people(500, 31).to_csv(tmp_path / "people.csv", index=False)
    refused = cli(
        "fit", tmp_path / "people.csv", "--label", "approved", "--sensitive", "sex", "--scores", tmp_path / "x.txt"
    )
    assert refused.status == 2
    assert "ends in .csv or .parquet" in refused.stderr
