import pytest

from certifare import CellCounts, certify_counts
from certifare.document import write_document


def test_cells_and_tree(cli, files):
    result = cli("show", files / "encoder.json")
    assert result.status == 0, result.stderr
    assert "8 cells" in result.stdout
    assert "yes:" in result.stdout
    assert "cell 7" in result.stdout
    assert "1 more" in cli("show", files / "encoder.json", "--cells", 7).stdout


def test_json(cli, files):
    document = cli("show", files / "encoder.json", "--json").json
    assert [cell["cell"] for cell in document["cells"]] == list(range(8))


def test_certificate(cli, tmp_path):
    certificate = certify_counts(CellCounts([[120, 80], [30, 60]], groups=["[red]f", "m\x1b[2J"]))
    write_document(tmp_path / "c.json", certificate)
    result = cli("show", tmp_path / "c.json")
    assert str(certificate).split("(")[0] in result.stdout
    assert "[red]f" in result.stdout
    assert "\x1b[2J" not in result.stdout
    assert cli("show", tmp_path / "c.json", "--json").json["certificate"]["bound"] == certificate.bound


@pytest.mark.parametrize("content", [None, "", "{}", "not json"])
def test_bad_files(cli, tmp_path, content):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    assert cli("show", path).status == 2


def test_version_and_help(cli):
    assert cli("--version").stdout.startswith("certifare ")
    assert "encode" in cli("--help").stdout
