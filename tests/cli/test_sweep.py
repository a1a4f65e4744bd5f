import re
import stat

import pytest

from certifare.document import read_document
from certifare.files import read_file

QUICK = ["--kind", "tree", "--gamma", "0.5", "--gamma", "0.9", "--min-cell-size", "40", "--max-cells", "16"]
ROLES = ["--label", "approved", "--sensitive", "sex"]


@pytest.fixture(scope="session")
def table(tmp_path_factory, make_people):
    path = tmp_path_factory.mktemp("sweep") / "people.parquet"
    make_people(5_000, 6).to_parquet(path)
    return path


def test_a_sweep_prints_the_frontier_and_writes_every_encoder(cli, table, tmp_path):
    output = tmp_path / "frontier.csv"
    result = cli("sweep", table, *ROLES, *QUICK, "-o", output, "--max", "0.4")
    assert result.status == 0, result.stderr
    assert "certified together" in result.stdout
    assert "knee" in result.stdout
    rows = read_file(output)[0].to_pylist()
    assert {row["certified"] for row in rows} == {True, False}
    plain = cli("sweep", table, *ROLES, *QUICK, "--max", "0.4", "--json").json
    assert plain["tried"] == len(rows)
    assert plain["certified"] == sum(row["certified"] for row in rows)
    assert plain["best"]["bound"] <= 0.4
    assert [point["bound"] for point in plain["front"]] == sorted(point["bound"] for point in plain["front"])


def test_holdout_certifies_nothing(cli, table):
    result = cli("sweep", table, *ROLES, *QUICK, "--correction", "holdout", "--json")
    assert result.json["certified"] == 0
    shown = cli("sweep", table, *ROLES, *QUICK, "--correction", "holdout")
    assert "predictions from other records" in shown.stdout


def test_a_sweep_goes_on_from_its_state_file(cli, table, tmp_path):
    state = tmp_path / "state.jsonl"
    first = cli("sweep", table, *ROLES, *QUICK, "--state", state, "--json")
    lines = state.read_text().splitlines()
    state.write_text("\n".join(lines[:2]) + "\n")
    again = cli("sweep", table, *ROLES, *QUICK, "--state", state, "--json")
    assert again.json == first.json
    assert sorted(state.read_text().splitlines()) == sorted(lines)
    other = cli("sweep", table, *ROLES, *QUICK, "--state", state, "--seed", "1")
    assert other.status == 2
    assert "another sweep" in other.stderr


@pytest.mark.parametrize("suffix", ["svg", "html", "json"])
def test_the_frontier_can_be_drawn(cli, table, tmp_path, suffix):
    drawing = tmp_path / f"frontier.{suffix}"
    assert cli("sweep", table, *ROLES, *QUICK, "--plot", drawing).status == 0
    assert "information" in drawing.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--plot", "frontier.doc"], ".svg"),
        (["--correction", "bonferroni"], "simultaneous"),
        (["--max", "0.0001"], "the smallest is"),
        (["-o", "/absent/frontier.csv"], "/absent"),
    ],
)
def test_bad_options(cli, table, options, message):
    result = cli("sweep", table, *ROLES, *QUICK, *options)
    assert result.status == 2
    assert message in result.stderr


@pytest.mark.parametrize("correction", ["simultaneous", "holdout"])
def test_item_13_6_a_point_of_a_sweep_becomes_a_bundle(cli, table, tmp_path, correction):
    kept, bundle = tmp_path / "kept", tmp_path / "bundle"
    swept = cli("sweep", table, *ROLES, *QUICK, "-o", kept, "--correction", correction)
    assert swept.status == 0, swept.stderr
    number = int(re.search(r"The chart marks point (\d+)", swept.stdout)[1])
    assert f"certifare fit --from {kept} --point {number}" in swept.stdout
    assert stat.S_IMODE((kept / "private").stat().st_mode) == 0o700
    made = cli("fit", "--from", kept, "--point", number, "-o", bundle, "--json")
    assert made.status == 0, made.stderr
    (row,) = (row for row in read_file(kept / "frontier.csv")[0].to_pylist() if row["number"] == number)
    assert made.json["encoder"]["cells"] == row["cells"]
    assert row["certified"] is (correction == "simultaneous")
    if row["certified"]:
        assert made.json["bound"] == row["bound"]
    assert made.json["look"]["number"] == 1
    assert cli("verify", bundle, "--max", made.json["bound"]).status == 0
    command = read_document(bundle / "certificate.json").statement.predicate.command
    assert command == f"certifare fit --output OUTPUT --from SWEPT --point {number} --json"


def test_item_13_6_what_a_kept_sweep_refuses(cli, table, tmp_path, make_people):
    kept = tmp_path / "kept"
    assert cli("sweep", table, *ROLES, *QUICK, "-o", kept, "--json").status == 0
    assert "holds other files" in cli("sweep", table, *ROLES, *QUICK, "-o", kept).stderr
    point = ["fit", "--from", kept, "-o", tmp_path / "bundle"]
    assert "Which point" in cli(*point).stderr
    assert "There is no point 900" in cli(*point, "--point", 900).stderr
    assert "--target would be ignored" in cli(*point, "--point", 0, "--target", "0.2").stderr
    uncertified = next(row for row in read_file(kept / "frontier.csv")[0].to_pylist() if not row["certified"])
    assert "was not certified" in cli(*point, "--point", uncertified["number"]).stderr
    other = tmp_path / "other.parquet"
    make_people(5_000, 7).to_parquet(other)
    assert "is not the table of the sweep" in cli("fit", other, *point[1:], "--point", 0).stderr
    request = kept / "private" / "sweep.json"
    request.write_text(request.read_text()[:100])
    damaged = cli(*point, "--point", 0)
    assert damaged.status == 2
    assert "is not what a sweep was asked for" in damaged.stderr
    assert "There is no sweep in" in cli("fit", "--from", tmp_path, "--point", 0, "-o", tmp_path / "bundle").stderr
    assert "Which table?" in cli("fit").stderr
    assert not (tmp_path / "bundle").exists()


def test_item_13_6_a_boosted_point_of_a_kept_sweep(cli, table, tmp_path):
    """The growths come from the state that was kept: what they were counted by is found again."""
    kept, bundle = tmp_path / "kept", tmp_path / "bundle"
    boosted = ["--kind", "boosted", *QUICK[2:]]
    swept = cli("sweep", table, *ROLES, *boosted, "-o", kept, "--correction", "holdout")
    assert swept.status == 0, swept.stderr
    number = re.search(r"The chart marks point (\d+)", swept.stdout)[1]
    made = cli("fit", "--from", kept, "--point", number, "-o", bundle)
    assert made.status == 0, made.stderr
    assert "if groups are read" in made.stdout
