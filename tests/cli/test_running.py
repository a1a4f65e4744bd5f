"""Outcomes: JSON documents with a version, an outcome and the exit status; one spelling of errors."""

import io
import json
import os
import subprocess
import sys

import pytest

from certifare.cli import terminal
from certifare.errors import FileError


@pytest.mark.parametrize(
    ("arguments", "outcome", "status"),
    [
        (["certify", "{encoder}", "{fresh}", "--sensitive", "sex"], "DONE", 0),
        (["certify", "{encoder}", "{fresh}", "--sensitive", "sex", "--max", "0.9"], "PASS", 0),
        (["certify", "{encoder}", "{fresh}", "--sensitive", "sex", "--max", "0.001"], "FAIL", 1),
        (["count", "{encoder}", "{fresh}", "--sensitive", "sex", "-o", "{out}/counts.json"], "DONE", 0),
        (["encode", "{encoder}", "{fresh}", "{out}/encoded.csv"], "DONE", 0),
        (["explain", "{encoder}", "{fresh}", "17"], "DONE", 0),
        (["show", "{encoder}"], "DONE", 0),
        (["sql", "{encoder}"], "DONE", 0),
        (["plan", "--records", "800"], "DONE", 0),
        (["key", "new", "{out}/mine"], "DONE", 0),
        (["verify", "{encoder}"], "ERROR", 2),
        (["fit", "{fresh}"], "ERROR", 2),
        (["fit", "{fresh}", "--nonsense"], "ERROR", 2),
        (["count", "{encoder}"], "ERROR", 2),
    ],
)
def test_every_document_says_what_came_out(cli, files, tmp_path, arguments, outcome, status):
    places = {"encoder": files / "encoder.json", "fresh": files / "fresh.csv", "out": tmp_path}
    result = cli(*(argument.format(**places) for argument in arguments), "--json")
    assert result.status == status, result.stderr
    head = {name: result.json[name] for name in ("schema_version", "outcome", "exit_status")}
    assert head == {"schema_version": 1, "outcome": outcome, "exit_status": status}
    if outcome == "ERROR":
        assert result.stderr.startswith("Error: ")
        assert result.json["error"].split()[0] in result.stderr


@pytest.mark.parametrize(("given", "meant"), [("5", "0.05"), ("8", "0.08"), ("2.5", "0.025")])
def test_a_target_in_percent_is_pointed_out(cli, files, given, meant):
    roles = ("--label", "approved", "--sensitive", "sex")
    result = cli("fit", files / "fresh.csv", *roles, "--target", given)
    assert result.status == 2
    assert f"Did you mean {meant}?" in result.stderr
    assert "Did you mean" not in cli("fit", files / "fresh.csv", *roles, "--target", "500").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("fitt", "No such command 'fitt'. Did you mean 'fit'? See certifare --help."),
        ("fit", "Missing argument 'DATA'. See certifare fit --help."),
        ("fit {fresh} --target abc", "--target: give a number. See"),
        ("fit {fresh} --seed 1.5", "--seed: give a whole number. See"),
        ("fit {fresh} --looks 0", "--looks: give at least 1. See"),
        ("fit {fresh} --tagret 1", "No such option --tagret. Did you mean --target? See"),
        ("demo more", "Unexpected arguments (more). See"),
        ("fit {fresh} --label approved --sensitive sex --confidence 95", "Did you mean 0.95?"),
        ("verify {fresh}", "fresh.csv: Not a certificate: "),
    ],
)
def test_a_mistake_is_named_in_plain_words(cli, files, arguments, said):
    result = cli(*arguments.format(fresh=files / "fresh.csv").split())
    assert result.status == 2
    assert said in result.stderr
    assert "Input should" not in result.stderr


def test_encode_replaces_a_file_only_if_asked(cli, files, tmp_path):
    written = tmp_path / "encoded.csv"
    written.write_text("mine\n")
    arguments = ("encode", files / "encoder.json", files / "fresh.csv", written)
    refused = cli(*arguments)
    assert refused.status == 2
    assert "--replace" in refused.stderr
    assert written.read_text() == "mine\n"
    assert cli(*arguments, "--replace").status == 0
    assert written.read_text() != "mine\n"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_an_encoding_lacks_is_written_in_plain_signs_and_never_lost_in_json_or_sql(encoding, monkeypatch):
    """A locale without UTF-8, or a pipe on Windows."""
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(content, encoding=encoding))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    terminal.accept_any_encoding()
    terminal.out.print("✓ T* ≤ 0.05 … ∑")
    terminal.print_json({"city": "Łódź"})
    terminal.print_exactly("'Oslo'")
    with pytest.raises(FileError, match="PYTHONUTF8=1"):
        terminal.print_exactly("'Łódź'")
    sys.stdout.flush()
    text = content.getvalue().decode(encoding)
    assert text.startswith("ok T* <= 0.05")
    assert json.loads(text[text.index("{") : text.index("}") + 1]) == {"city": "Łódź"}
    assert text.rstrip().endswith("'Oslo'")


def test_a_command_ends_well_where_the_locale_has_no_signs():
    plan = [sys.executable, "-m", "certifare", "plan", "--records", "800", "--target", "0.05"]
    run = subprocess.run(plan, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    assert b"records for T* <= 0.05" in b" ".join(run.stdout.split())
