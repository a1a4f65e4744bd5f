"""Issue 15, item 10: words."""

import pytest

from certifare.certificates.claims import METRICS
from certifare.words import amount, one


@pytest.mark.parametrize("metric", METRICS.values())
def test_item_10_the_article_goes_by_the_metric(metric):
    assert one(metric.words).startswith("an e" if metric.words.startswith("e") else "a d")


def test_item_10_one_record_is_no_records():
    assert [amount(n, "cell") for n in (0, 1, 2, 1000)] == ["0 cells", "1 cell", "2 cells", "1,000 cells"]


@pytest.mark.parametrize("command", ["fit", "sweep"])
def test_item_10_required_options_are_marked(cli, command):
    text = cli(command, "--help").stdout
    panel = text[text.index("What is required") :].split("╰")[0]
    assert "--label" in panel
    assert "--sensitive" in panel


def test_item_10_sql_of_a_boosted_encoder_says_what_to_do(cli, make_people, tmp_path):
    from certifare import BoostedEncoder

    train = make_people(600, 3)
    boosted = BoostedEncoder(sensitive="sex", max_cells=4, min_cell_size=30)
    boosted.fit(train.drop(columns="approved"), train["approved"]).save(tmp_path / "boosted.json")
    refused = cli("sql", tmp_path / "boosted.json")
    assert refused.status == 2
    assert "certifare encode" in refused.stderr
    assert "--kind tree" in refused.stderr
