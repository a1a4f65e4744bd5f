"""The command that opens the studio; tests/studio shows what it serves."""

import sys

import pytest

from certifare.cli.studio import FOLDER
from certifare.studio import server


@pytest.fixture
def served(monkeypatch):
    """What the command serves; it tells an address, and does not listen."""
    asked = []

    def serve(studio, *, show):
        asked.append((studio.folder, studio.file))
        show("http://127.0.0.1:4711/?token=secret")

    monkeypatch.setattr(server, "serve", serve)
    return asked


def test_a_table_or_a_folder_is_handed_on_and_the_address_is_printed_whole(cli, served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    table = tmp_path / "people.csv"
    table.write_text("a,b\n1,2\n")
    done = cli("studio", table)
    assert done.status == 0
    assert "\n  http://127.0.0.1:4711/?token=secret\n" in done.stdout
    assert opened == ["http://127.0.0.1:4711/?token=secret"]
    cli("studio", tmp_path)
    assert served == [(tmp_path / FOLDER, table), (tmp_path, None)]


def test_what_cannot_be_served_is_an_error_in_words(cli, served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FOLDER.write_text("")
    for arguments, words in ((("absent.csv",), "There is no file"), ((), "is not a folder")):
        refused = cli("studio", *arguments)
        assert refused.status == 2
        assert words in refused.stderr
    assert served == []


def test_without_the_extra_the_remedy_is_named(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "certifare.studio.server", None)
    refused = cli("studio")
    assert refused.status == 2
    assert "pip install 'certifare[studio]'" in refused.stderr
