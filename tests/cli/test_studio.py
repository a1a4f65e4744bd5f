"""The command that opens the studio; tests/studio shows what it serves."""

import sys

import pytest

from certifare.studio import server


@pytest.fixture
def served(monkeypatch):
    """What the command serves; it tells an address, and does not listen."""
    asked = []

    def serve(studio, *, port, show):
        asked.append((studio.folder, studio.file, port))
        show("http://127.0.0.1:4711/?token=secret")

    monkeypatch.setattr(server, "serve", serve)
    return asked


def test_options_are_handed_on_and_the_address_is_printed_whole(cli, served, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    table = tmp_path / "people.csv"
    table.write_text("a,b\n1,2\n")
    done = cli("studio", table, "--folder", tmp_path / "s", "--port", 4711)
    assert done.status == 0
    assert "\n  http://127.0.0.1:4711/?token=secret\n" in done.stdout
    assert served == [(tmp_path / "s", table, 4711)]
    assert opened == ["http://127.0.0.1:4711/?token=secret"]
    cli("studio", "--no-browser")
    assert len(opened) == 1


def test_what_cannot_be_served_is_an_error_in_words(cli, served, tmp_path):
    (tmp_path / "file").write_text("")
    for arguments, words in (
        ((tmp_path / "absent.csv",), "There is no file"),
        (("--folder", tmp_path / "file"), "--folder"),
    ):
        refused = cli("studio", *arguments)
        assert refused.status == 2
        assert words in refused.stderr
    assert served == []


def test_without_the_extra_the_remedy_is_named(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "certifare.studio.server", None)
    refused = cli("studio")
    assert refused.status == 2
    assert "pip install 'certifare[studio]'" in refused.stderr
