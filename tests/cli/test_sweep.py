import pytest

from certifare.tables.files import read_file

QUICK = ["--kind", "tree", "--max-cells", "16"]
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


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_the_frontier_can_be_drawn(cli, table, tmp_path, suffix):
    drawing = tmp_path / f"frontier.{suffix}"
    assert cli("sweep", table, *ROLES, *QUICK, "-o", drawing).status == 0
    assert "information" in drawing.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "frontier.doc"], ".svg"),
        (["-o", "folder"], "ends in .csv"),
        (["--max", "0.0001"], "the smallest is"),
        (["-o", "/absent/frontier.csv"], "/absent"),
    ],
)
def test_bad_options_are_refused(cli, table, options, message):
    result = cli("sweep", table, *ROLES, *QUICK, *options)
    assert result.status == 2
    assert message in result.stderr
