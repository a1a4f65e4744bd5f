"""Keys from the command line."""

import io
import stat
import sys

import pytest

from certifare.document import load_private_key, load_public_key


def test_a_pair_is_made_and_shown(cli, tmp_path):
    made = cli("key", "new", tmp_path / "producer")

    assert made.status == 0
    keyid = load_public_key(tmp_path / "producer.pub.pem").keyid
    assert keyid in made.stdout
    assert "keep it to yourself" in made.stdout
    assert stat.S_IMODE((tmp_path / "producer.pem").stat().st_mode) == 0o600
    assert cli("key", "show", tmp_path / "producer.pub.pem").stdout.strip() == keyid


def test_nothing_is_overwritten(cli, tmp_path):
    cli("key", "new", tmp_path / "producer")
    before = (tmp_path / "producer.pem").read_bytes()

    again = cli("key", "new", tmp_path / "producer")

    assert again.status == 2
    assert "exists. Choose another name" in again.stderr
    assert (tmp_path / "producer.pem").read_bytes() == before


def test_machines_read_json(cli, tmp_path):
    made = cli("key", "new", tmp_path / "producer", "--json").json

    assert load_private_key(made["private"]).public_key.keyid == made["keyid"]
    assert cli("key", "show", made["public"], "--json").json["keyid"] == made["keyid"]


def test_a_private_key_is_not_shown(cli, tmp_path):
    cli("key", "new", tmp_path / "producer")

    result = cli("key", "show", tmp_path / "producer.pem")

    assert result.status == 2
    assert "is a private key" in result.stderr


class Keyboard(io.StringIO):
    def isatty(self):
        return True


def test_a_passphrase_is_asked_for(cli, tmp_path, monkeypatch):
    answers = iter(["open sesame", "open sesame"])
    monkeypatch.setattr("typer.prompt", lambda *args, **options: next(answers))
    monkeypatch.setattr(sys, "stdin", Keyboard())
    monkeypatch.delenv("CERTIFARE_PASSPHRASE", raising=False)

    assert cli("key", "new", tmp_path / "producer", "--passphrase").status == 0

    assert b"ENCRYPTED" in (tmp_path / "producer.pem").read_bytes()
    load_private_key(tmp_path / "producer.pem", "open sesame")


@pytest.mark.parametrize("stdin", [io.StringIO("open sesame\n"), None])
def test_without_a_terminal_no_passphrase_is_asked_for(cli, tmp_path, monkeypatch, stdin):
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.delenv("CERTIFARE_PASSPHRASE", raising=False)

    result = cli("key", "new", tmp_path / "producer", "--passphrase")

    assert result.status == 2
    assert "no terminal" in result.stderr
    assert "CERTIFARE_PASSPHRASE" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stdin", [io.StringIO(), Keyboard()])
def test_the_passphrase_may_stand_in_the_environment(cli, tmp_path, monkeypatch, stdin):
    """A pipeline makes a key with it, and signs with it."""
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setenv("CERTIFARE_PASSPHRASE", "open sesame")

    assert cli("key", "new", tmp_path / "producer", "--passphrase").status == 0

    assert b"ENCRYPTED" in (tmp_path / "producer.pem").read_bytes()
    load_private_key(tmp_path / "producer.pem")
    monkeypatch.delenv("CERTIFARE_PASSPHRASE")
    load_private_key(tmp_path / "producer.pem", "open sesame")
    monkeypatch.setenv("CERTIFARE_PASSPHRASE", "")
    result = cli("key", "new", tmp_path / "other", "--passphrase")
    assert result.status == 2
    assert "passphrase is empty" in result.stderr
