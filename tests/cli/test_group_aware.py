"""``--group-aware``: fit, sweep and sql, and encode with the sensitive column."""

import json

import numpy as np
import pandas as pd
import pytest

from certifare import load_encoder
from certifare.bundle import produce
from certifare.certificates.assumptions import READS_GROUP
from certifare.frontier import Grid

FIT = ["--label", "paid", "--max-cells", 8, "--group-aware"]


def people(n=6000, seed=0):
    """Groups are numbers; the label depends on the rank of the age within the group."""
    rng = np.random.default_rng(seed)
    sex, rank = rng.integers(0, 2, n), rng.random(n)
    table = pd.DataFrame({"age": np.round(20 + 40 * rank + 15 * sex), "hours": rng.normal(38, 6, n).round(1)})
    table["sex"], table["race"] = sex, rng.choice(["x", "y"], n)
    table["paid"] = np.where(rank + 0.2 * rng.normal(size=n) > 0.6, "yes", "no")
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aware")
    people().to_csv(folder / "people.csv", index=False)
    people(800, 1).to_csv(folder / "fresh.csv", index=False)
    return folder


@pytest.fixture
def bundle(cli, folder):
    """Fitted once, by whoever asks first."""
    if not (folder / "bundle").exists():
        result = cli(
            "fit", folder / "people.csv", "--sensitive", "sex", *FIT, "--target", 0.1, "-v", "--output",
            folder / "bundle",
        )  # fmt: skip
        assert result.status == 0, result.stderr
        assert "it reads the group, and encoding needs it too" in " ".join(result.stdout.split())
        assert "if groups are read" not in result.stdout
    return folder / "bundle"


def test_fit_says_in_certificate_and_report_that_the_group_is_read(bundle):
    encoder = load_encoder(bundle / "encoder.json")
    assert encoder.reads_groups
    assert READS_GROUP in (bundle / "certificate.json").read_text(encoding="utf-8")
    report = (bundle / "report.html").read_text(encoding="utf-8")
    assert "reads the group" in report
    assert "another group is stated" in report


def test_the_report_says_which_columns_survived_and_which_were_lost(bundle):
    report = (bundle / "report.html").read_text(encoding="utf-8")
    section = report.partition('id="retained"')[2].partition("</section>")[0]
    assert section.index(">age<") < section.index(">race<")
    assert "<td>lost</td>" in section[section.index(">race<") :]
    assert "<td>lost</td>" not in section[: section.index(">age<") + 80]


def test_explain_reads_the_group(cli, bundle, folder):
    result = cli("explain", bundle, folder / "fresh.csv", 3, "--json")
    assert result.status == 0, result.stderr
    fresh = pd.read_csv(folder / "fresh.csv")
    expected = load_encoder(bundle / "encoder.json").apply(fresh, sensitive_features=fresh["sex"])[2]
    assert result.json["cell"] == expected


def test_encode_reads_the_sensitive_column_and_leaves_it_out(cli, bundle, folder, tmp_path):
    result = cli("encode", bundle, folder / "fresh.csv", tmp_path / "z.csv")
    assert result.status == 0, result.stderr
    assert "the group was read (sex) and left out" in result.stderr
    assert list(pd.read_csv(tmp_path / "z.csv").columns) == ["cell", "typical_age", "typical_hours", "typical_race"]
    cli("encode", bundle, folder / "fresh.csv", tmp_path / "c.csv", "--as", "cells", "--keep", "sex")
    cells, fresh = pd.read_csv(tmp_path / "c.csv"), pd.read_csv(folder / "fresh.csv")
    assert list(cells.columns) == ["cell", "sex"]
    expected = load_encoder(bundle / "encoder.json").apply(fresh, sensitive_features=fresh["sex"])
    assert np.array_equal(cells["cell"], expected)


def test_encode_needs_the_sensitive_column(cli, bundle, folder, tmp_path):
    pd.read_csv(folder / "fresh.csv").rename(columns={"sex": "gender"}).to_csv(tmp_path / "f.csv", index=False)
    result = cli("encode", bundle, tmp_path / "f.csv", tmp_path / "z.csv")
    assert result.status == 2
    assert "No column 'sex' (group column of the encoder)" in result.stderr


def test_encode_refuses_records_of_unknown_groups(cli, bundle, folder, tmp_path):
    fresh = pd.read_csv(folder / "fresh.csv").astype({"sex": object})
    fresh.loc[:6, "sex"] = 7
    fresh.loc[7:9, "sex"] = None
    fresh.to_csv(tmp_path / "f.csv", index=False)
    result = cli("encode", bundle, tmp_path / "f.csv", tmp_path / "z.csv")
    assert result.status == 2
    assert "10 of 800 records have a group that the encoder was not fitted with" in result.stderr
    assert not (tmp_path / "z.csv").exists()


@pytest.mark.parametrize("sensitive", [["sex", "race"], ["hours>=38", "race"]])
def test_groups_may_be_intersections_and_comparisons(cli, folder, tmp_path, sensitive):
    options = [text for column in sensitive for text in ("--sensitive", column)]
    result = cli("fit", folder / "people.csv", *options, *FIT, "--target", 0.3, "--output", tmp_path / "bundle")
    assert result.status == 0, result.stderr
    result = cli("encode", tmp_path / "bundle", folder / "fresh.csv", tmp_path / "c.csv", "--as", "cells")
    assert result.status == 0, result.stderr
    assert pd.read_csv(tmp_path / "c.csv")["cell"].nunique() > 1


def test_small_groups_are_pooled_and_have_thresholds_together(cli, folder, tmp_path):
    table = people()
    table["race"] = np.random.default_rng(3).choice(["w", "x", "y", "z"], len(table), p=[0.9, 0.08, 0.01, 0.01])
    table.to_csv(tmp_path / "people.csv", index=False)
    options = ["--sensitive", "race", "--pool-groups", 60, *FIT, "--target", 0.3, "--output", tmp_path / "bundle"]
    result = cli("fit", tmp_path / "people.csv", *options)
    assert result.status == 0, result.stderr
    encoder = load_encoder(tmp_path / "bundle" / "encoder.json")
    assert encoder.groups_ == ("other groups", "w", "x")
    assert encoder.other_group == "other groups"
    fresh = people(800, 1).assign(race=np.resize(["w", "x", "y", "z", "never seen"], 800))
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    written = tmp_path / "c.csv"
    assert cli("encode", tmp_path / "bundle", tmp_path / "fresh.csv", written, "--as", "cells").status == 0
    named = fresh["race"].where(fresh["race"].isin(["w", "x"]), "other groups")
    assert (
        pd.read_csv(written)["cell"] == encoder.apply(fresh[["age", "hours", "sex"]], sensitive_features=named)
    ).all()
    counted = cli("certify", tmp_path / "bundle", tmp_path / "fresh.csv", "--json")
    assert counted.status == 0, counted.stderr
    fresh.assign(race=None).to_csv(tmp_path / "f.csv", index=False)
    assert "800 missing" in cli("encode", tmp_path / "bundle", tmp_path / "f.csv", tmp_path / "z.csv").stderr
    each = cli(
        "fit", tmp_path / "people.csv", "--sensitive", "sex", "--each", *options[:-2], "--output", tmp_path / "e"
    )
    assert "--each claims each column" in each.stderr


def test_missing_groups_can_be_a_group_of_their_own(cli, folder, tmp_path):
    table = people().astype({"sex": object})
    table.loc[::4, "sex"] = None
    table.to_csv(tmp_path / "people.csv", index=False)
    options = ["--sensitive", "sex", "--unknown-groups", *FIT, "--target", 0.3, "--output", tmp_path / "bundle"]
    assert cli("fit", tmp_path / "people.csv", *options).status == 0
    assert load_encoder(tmp_path / "bundle" / "encoder.json").groups_ == ("0", "1", "unknown")


def test_counts_of_holders_are_by_the_group_that_was_read(cli, bundle, folder, tmp_path):
    counted = cli("count", bundle, folder / "fresh.csv", "--sensitive", "sex", "--output", tmp_path / "counts.json")
    assert counted.status == 0, counted.stderr
    result = cli("certify", bundle, tmp_path / "counts.json", "--output", tmp_path / "c.json", "--json")
    assert result.status == 0, result.stderr
    assert READS_GROUP in (tmp_path / "c.json").read_text(encoding="utf-8")
    direct = cli("certify", bundle, folder / "fresh.csv", "--sensitive", "sex", "--json")
    assert result.json["bound"] == direct.json["bound"]


def test_certify_and_verify_read_the_group(cli, bundle, folder):
    result = cli("certify", bundle, folder / "fresh.csv", "--sensitive", "sex", "--json")
    assert result.status == 0, result.stderr
    result = cli("verify", bundle / "certificate.json", "--encoder", bundle / "encoder.json", "--json")
    assert result.status == 0


def test_sweep_shows_plans_with_their_bounds(cli, folder):
    options = ["--label", "paid", "--sensitive", "sex", "--group-aware", "--json"]
    result = cli("sweep", folder / "people.csv", *options)
    assert result.status == 0, result.stderr
    assert json.loads(result.stdout)["knee"]["kind"] == "calibrated"
    result = cli("sweep", folder / "people.csv", *options, "--kind", "tree")
    assert result.status == 2
    assert "have no kinds, gammas or smallest cells" in result.stderr


def test_a_plain_fit_says_what_calibrated_cells_would_give_if_that_is_more():
    grid = Grid(kinds=["boosted"], gammas=[0.5, 0.9], min_cell_sizes=[50], cells=[2, 4, 8])
    bundle = produce(people(), label="paid", sensitive="sex", target=0.1, grid=grid, ledger=False)
    glimpse = bundle.group_aware
    assert glimpse.limit == 0.1
    assert glimpse.cells > 1
    assert glimpse.own is None or glimpse.utility > glimpse.own
    assert "If cells may read the group (--group-aware)" in str(glimpse)


def test_suppression_is_refused_before_the_work_because_counts_are_the_plan(cli, folder, tmp_path):
    result = cli(
        "fit", folder / "people.csv", "--sensitive", "sex", *FIT, "--target", 0.1, "--suppress", 5, "-o",
        tmp_path / "bundle",
    )  # fmt: skip
    assert result.status == 2
    assert "the counts of calibrated cells are their plan" in result.stderr


def test_fit_says_that_intervals_measured_on_the_records_that_set_thresholds_are_approximate(cli, folder, tmp_path):
    result = cli(
        "fit", folder / "people.csv", "--sensitive", "sex", *FIT, "--target", 0.1, "-o", tmp_path / "bundle", "--json"
    )
    assert any("are approximate" in note for note in result.json["notes"])
