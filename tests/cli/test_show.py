import json
import sys

import pytest

from certifare import CellCounts, certify_counts
from certifare.document import new_key, write_document


def test_cells_and_tree(cli, files, monkeypatch):
    result = cli("show", files / "encoder.json")
    assert result.status == 0, result.stderr
    assert "8 cells" in result.stdout
    assert "yes:" in result.stdout
    assert "cell 7" in result.stdout
    monkeypatch.setattr(sys.modules["certifare.cli.show"], "MOST_LISTED", 7)
    assert "1 more" in cli("show", files / "encoder.json").stdout


def test_json_holds_what_is_shown(cli, files):
    document = cli("show", files / "encoder.json", "--json").json
    assert [cell["cell"] for cell in document["encoder"]["cells"]] == list(range(8))


def test_a_certificate_is_shown_without_control_characters(cli, tmp_path):
    certificate = certify_counts(CellCounts([[120, 80], [30, 60]], groups=["[red]f", "m\x1b[2J"]))
    write_document(tmp_path / "c.json", certificate)
    result = cli("show", tmp_path / "c.json")
    assert str(certificate).split("(")[0] in result.stdout
    assert "[red]f" in result.stdout
    assert "\x1b[2J" not in result.stdout
    assert cli("show", tmp_path / "c.json", "--json").json["certificate"]["bound"] == certificate.bound


def test_what_follows_is_said_in_the_form_that_is_proved(cli, tmp_path):
    table = [[[500, 900], [480, 870]], [[500, 600], [520, 630]]]
    for metric, words in (
        ("demographic_parity", "A classifier that selects at least"),
        ("equal_opportunity", "Among the records with label '1', a classifier that selects at least"),
        ("equalized_odds_max", "Among the records of any one label, mean scores"),
    ):
        certificate = certify_counts(CellCounts(table, "fm", "01"), metric)
        write_document(tmp_path / f"{metric}.json", certificate)
        shown = " ".join(cli("show", tmp_path / f"{metric}.json").stdout.split())
        assert words in shown
        assert ("nothing follows from it for the selection rates of whole groups" in shown) == (
            metric != "demographic_parity"
        )


@pytest.mark.parametrize("content", [None, "", "{}", "not json"])
def test_bad_files_are_refused(cli, tmp_path, content):
    path = tmp_path / "x.json"
    if content is not None:
        path.write_text(content)
    assert cli("show", path).status == 2


def test_version_and_help(cli):
    assert cli("--version").stdout.startswith("certifare ")
    assert "encode" in cli("--help").stdout


def altered(path):
    """Write down a bound that the counts do not support, and leave everything else as it was."""
    document = json.loads(path.read_text("utf-8"))
    document["predicate"]["certificate"]["bound"] = 0.01
    path.write_text(json.dumps(document), "utf-8")


def test_an_altered_certificate_is_not_shown(cli, tmp_path):
    write_document(tmp_path / "c.json", certify_counts(CellCounts([[120, 80], [30, 60]], groups=["f", "m"])))
    altered(tmp_path / "c.json")

    result = cli("show", tmp_path / "c.json")

    assert result.status == 1
    assert result.stdout.startswith("FAIL")
    assert "its counts give" in result.stdout
    assert "<= 0.01" not in result.stdout
    document = cli("show", tmp_path / "c.json", "--json")
    assert document.status == 1
    assert document.json["verification"]["outcome"] == "FAIL"


def test_a_signature_is_checked_or_said_to_be_unchecked(cli, tmp_path):
    private, public = new_key(tmp_path / "producer")
    _, other = new_key(tmp_path / "other")
    path = tmp_path / "c.json"
    write_document(path, certify_counts(CellCounts([[120, 80], [30, 60]], groups=["f", "m"])), private)

    unchecked = cli("show", path)
    assert unchecked.status == 0
    assert "Not checked: The certificate is signed" in unchecked.stdout
    assert "Not checked" not in cli("show", path, "--key", public).stdout
    wrong = cli("show", path, "--key", other)
    assert wrong.status == 1
    assert wrong.stdout.startswith("FAIL")
    assert "another key" in wrong.stdout


def test_an_encoder_that_is_not_the_certified_one_fails(cli, files, tmp_path):
    path = tmp_path / "encoder.json"
    path.write_bytes((files / "encoder.json").read_bytes())
    done = cli("certify", path, files / "fresh.csv", "--sensitive", "sex", "-o", tmp_path / "certificate.json")
    assert done.status == 0
    assert cli("show", tmp_path).status == 0
    path.write_text(path.read_text("utf-8") + " ", "utf-8")

    result = cli("show", tmp_path)

    assert result.status == 1
    assert "not the certified one" in result.stdout


def test_a_key_for_an_encoder(cli, files):
    assert cli("show", files / "encoder.json", "--key", "any.pem").status == 2
