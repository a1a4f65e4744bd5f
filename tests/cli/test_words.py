"""What commands print on the way: records left out, notes, and what is required."""

import pytest

from certifare.certificates.counts import Exclusion
from certifare.cli.terminal import show_left_out, show_notes


def test_what_was_left_out_and_notes_have_a_line_each_and_only_show(capsys):
    show_left_out([Exclusion("no \x1b[31mgroup\nat all", 1), Exclusion("far too long a reason " * 9, 2_500)])
    show_notes(["\x1b]0;title\x07 a column\nof theirs"])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "left out: 1 record (no \ufffd[31mgroup\ufffdat all)"
    assert lines[1].startswith("left out: 2,500 records (far")
    assert lines[2] == "note: \ufffd]0;title\ufffd a column\ufffdof theirs"


def test_a_period_that_leaves_out_one_record_says_so(cli, files, make_people, tmp_path):
    bundle, fresh, period = tmp_path / "bundle", tmp_path / "fresh.csv", tmp_path / "may.csv"
    bundle.mkdir()
    (bundle / "encoder.json").write_bytes((files / "encoder.json").read_bytes())
    make_people(2_000, 5).to_csv(fresh, index=False)
    people = make_people(2_000, 6)
    people.loc[7, "sex"] = None
    people.to_csv(period, index=False)
    arguments = ["--sensitive", "sex", "-o", bundle / "certificate.json"]
    assert cli("certify", bundle, fresh, *arguments).status == 0
    assert "left out: 1 record (" in cli("monitor", bundle, period, "--history", tmp_path / "history.json").stderr


@pytest.mark.parametrize("command", ["certify", "count"])
def test_a_second_label_is_refused(cli, files, tmp_path, command):
    bundle, fresh = tmp_path / "bundle", files / "fresh.csv"
    bundle.mkdir()
    (bundle / "encoder.json").write_bytes((files / "encoder.json").read_bytes())
    by = ["--sensitive", "sex", "--label", "approved"]
    claim = ["--metric", "equalized_odds", "-o", bundle / "certificate.json"]
    assert cli("certify", bundle, fresh, *by, *claim).status == 0
    written = ["-o", tmp_path / "counts.json"] if command == "count" else []
    result = cli(command, bundle, fresh, *by, "--label", "job", *written)
    assert result.status == 2
    assert "pass --label once" in result.stderr


@pytest.mark.parametrize("command", ["fit", "sweep"])
def test_required_options_come_first_and_are_marked(cli, command):
    options = [line.split() for line in cli(command, "--help").stdout.splitlines() if " --" in line]
    assert [(line[1], line[2]) for line in options[:2]] == [("*", "--label"), ("*", "--sensitive")]


def test_sql_in_a_dialect_that_a_boosted_encoder_is_not_written_in_says_what_to_do(cli, make_people, tmp_path):
    from certifare import BoostedEncoder

    train = make_people(600, 3)
    boosted = BoostedEncoder(sensitive="sex", max_cells=4, min_cell_size=30)
    boosted.fit(train.drop(columns="approved"), train["approved"]).save(tmp_path / "boosted.json")
    assert cli("sql", tmp_path / "boosted.json").status == 0
    refused = cli("sql", tmp_path / "boosted.json", "--dialect", "bigquery")
    assert refused.status == 2
    assert "certifare encode" in refused.stderr
    assert "--kind tree" in refused.stderr
