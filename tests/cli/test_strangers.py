"""Files and names from strangers, outputs that are in the way, and ends that come from outside.

What is read, written and printed, and how a command ends.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from certifare.cli import main
from certifare.cli.running import BUG
from certifare.encoders.base import RestrictedEncoder

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes, devices and signals are POSIX's")
ROLES = ["--label", "approved", "--sensitive", "sex"]
QUICK = ["--kind", "tree", "--max-cells", "4"]


@pytest.fixture
def here(files, tmp_path, monkeypatch):
    """A folder of one's own with an encoder and fresh records, to be worked in."""
    for name in ("encoder.json", "fresh.csv"):
        shutil.copy(files / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# -- what is read -------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("place", ["pipe", "/dev/zero"])
@pytest.mark.parametrize(
    "command",
    [
        ["fit", "{}", *ROLES, "-o", "bundle"],
        ["sweep", "{}", *ROLES],
        ["encode", "{}", "fresh.csv", "z.csv"],
        ["encode", "encoder.json", "{}", "z.csv"],
        ["certify", "encoder.json", "{}", "--sensitive", "sex"],
        ["certify", "{}", "fresh.csv", "--sensitive", "sex"],
        ["certify", "encoder.json", "fresh.csv", "--sensitive", "sex", "-o", "c.json", "--key", "{}"],
        ["count", "encoder.json", "{}", "--sensitive", "sex", "-o", "counts.json"],
        ["count", "{}", "fresh.csv", "--sensitive", "sex", "-o", "counts.json"],
        ["verify", "{}"],
        ["verify", "certificate.json", "--encoder", "{}"],
        ["verify", "certificate.json", "--key", "{}"],
        ["verify", "certificate.json", "--data", "{}", "--encoder", "encoder.json"],
        ["verify", "certificate.json", "--predictions", "{}"],
        ["show", "{}"],
        ["sql", "{}"],
        ["report", "{}"],
        ["key", "show", "{}"],
    ],
    ids=lambda command: " ".join(command),
)
def test_pipes_and_devices_are_refused_by_every_command(cli, here, command, place):
    if place == "pipe":
        os.mkfifo(here / "pipe")
    cli("certify", "encoder.json", "fresh.csv", "--sensitive", "sex", "-o", "certificate.json")
    result = cli(*(word.format(place) for word in command))
    assert result.status == 2, result
    assert f"it is a {'pipe' if place == 'pipe' else 'device'}" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["encode", "certify", "count", "fit"])
def test_a_damaged_arrow_file_gives_one_line(cli, here, name):
    frame = pd.read_csv("fresh.csv")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    text = table["job"].combine_chunks().cast(pa.string())
    offsets = np.frombuffer(text.buffers()[1], np.int32).copy()
    offsets[1000] = 1 << 28
    broken = pa.Array.from_buffers(pa.string(), len(text), [None, pa.py_buffer(offsets), text.buffers()[2]])
    table = table.set_column(table.column_names.index("job"), "job", broken)
    with pa.OSFile("people.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    roles = ["--sensitive", "sex"]
    result = {
        "encode": lambda: cli("encode", "encoder.json", "people.arrow", "z.csv"),
        "certify": lambda: cli("certify", "encoder.json", "people.arrow", *roles),
        "count": lambda: cli("count", "encoder.json", "people.arrow", *roles, "-o", "counts.json"),
        "fit": lambda: cli("fit", "people.arrow", *ROLES, "-o", "bundle"),
    }[name]()
    assert result.status == 2
    assert "people.arrow" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (here / "z.csv").exists()


def test_numbers_whose_squares_overflow_are_worked_with(cli, here):
    frame = pd.read_csv("fresh.csv")
    frame["wealth"] = np.where(np.arange(len(frame)) % 2, 1e160, -1.7e308)
    frame.to_csv("rich.csv", index=False)
    for kind in ("tree", "boosted"):
        result = cli("sweep", "rich.csv", *ROLES, *QUICK, "--kind", kind, "--json")
        assert result.status == 0, result.stderr
        assert np.isfinite(result.json["knee"]["retained"])


# -- what is written ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["encode", "encoder.json", "fresh.csv", "fresh.csv", "--replace"],
        ["encode", "encoder.json", "fresh.csv", "link.csv", "--replace"],
        ["certify", "encoder.json", "fresh.csv", "--sensitive", "sex", "-o", "encoder.json"],
        ["certify", "encoder.json", "fresh.csv", "--sensitive", "sex", "-o", "fresh.csv"],
        ["count", "encoder.json", "fresh.csv", "--sensitive", "sex", "-o", "fresh.csv"],
        ["sweep", "fresh.csv", *ROLES, *QUICK, "-o", "fresh.csv"],
        ["report", "certificate.json", "-o", "certificate.json"],
    ],
    ids=lambda command: " ".join(command),
)
def test_no_command_writes_over_its_input(cli, here, command):
    cli("certify", "encoder.json", "fresh.csv", "--sensitive", "sex", "-o", "certificate.json")
    (here / "link.csv").symlink_to("fresh.csv")
    before = content(here)
    result = cli(*command)
    assert result.status == 2, result
    assert "is an input of this command" in result.stderr
    assert content(here) == before


@posix
@pytest.mark.parametrize("place", ["pipe.csv", "/dev/null", "link.csv"])
def test_outputs_replace_neither_pipes_nor_devices(cli, here, place):
    os.mkfifo("pipe.csv")
    (here / "link.csv").symlink_to("/dev/null")
    mode = os.stat(place).st_mode
    result = cli("certify", "encoder.json", "fresh.csv", "--sensitive", "sex", "-o", place)
    assert result.status == 2
    assert "name a file to write" in result.stderr
    assert os.stat(place).st_mode == mode


def test_foreign_files_in_a_bundle_are_not_lost(cli, here):
    fit = ["fit", "fresh.csv", *ROLES, *QUICK, "-o", "bundle"]
    assert cli(*fit).status == 0
    assert cli(*fit).status == 2
    for place in ("notes.txt", "private/notes.txt", "private/deep/notes.txt"):
        path = here / "bundle" / place
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        result = cli(*fit, "--replace")
        assert result.status == 2
        assert "holds other files" in result.stderr
        assert path.read_text() == "mine"
        path.unlink()


def test_the_demonstration_replaces_former_demonstrations_only(cli, here, monkeypatch):
    demo = import_module("certifare.cli.demo")
    asked = []

    def check(folder, *, replace):
        asked.append(replace)
        raise KeyboardInterrupt  # seen what was to be seen

    monkeypatch.setattr("certifare.bundle.check_output", check)
    for command, private in (("certifare demo --seed 1", True), ("certifare fit --seed 1", True), (None, False)):
        folder = here / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        if private:
            (folder / "private").mkdir(parents=True)
            (folder / "private" / "run.json").write_text(json.dumps({"command": command}))
        cli("demo", "-o", folder)
    cli("demo", "-o", folder, "--replace")
    assert asked == [True, False, False, True]
    assert not demo._made_here(here / "nothing")


def test_a_list_column_is_kept_in_parquet_and_refused_in_csv(cli, here):
    table = pa.Table.from_pandas(pd.read_csv("fresh.csv"), preserve_index=False)
    pq.write_table(table.append_column("visits", pa.array([[1, 2]] * len(table))), "lists.parquet")
    refused = cli("encode", "encoder.json", "lists.parquet", "z.csv", "--keep", "visits")
    assert refused.status == 2
    assert "'visits': 'list" in refused.stderr
    assert not (here / "z.csv").exists()
    assert cli("encode", "encoder.json", "lists.parquet", "z.parquet", "--keep", "visits").status == 0


def test_cells_that_begin_like_formulas_are_made_harmless(cli, here):
    frame = pd.read_csv("fresh.csv", nrows=9)
    frame["=note"] = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", " =1", "plain", "-5", "+1.5e3"]
    frame.to_csv("notes.csv", index=False)
    keep = ["--as", "cells", "--keep", "=note"]
    assert cli("encode", "encoder.json", "notes.csv", "z.csv", *keep).status == 0
    assert pd.read_csv("z.csv")["=note"].tolist() == frame["=note"].tolist()
    assert cli("encode", "encoder.json", "notes.csv", "z.csv", *keep, "--spreadsheet-safe", "--replace").status == 0
    safe = pd.read_csv("z.csv")
    assert safe.columns.tolist() == ["cell", "'=note"]
    assert safe["'=note"].tolist() == ["'" + text for text in frame["=note"][:6]] + ["plain", "-5", "+1.5e3"]
    refused = cli("encode", "encoder.json", "notes.csv", "z.parquet", *keep, "--spreadsheet-safe")
    assert refused.status == 2
    assert "--spreadsheet-safe would be ignored" in refused.stderr


def test_a_kept_column_never_takes_the_place_of_another(cli, here):
    frame = pd.read_csv("fresh.csv").assign(cell="mine", cell_kept="mine too")
    frame.to_csv("kept.csv", index=False)
    result = cli(
        "encode", "encoder.json", "kept.csv", "z.csv", "--keep", "cell", "--keep", "cell_kept", "--keep", "cell"
    )
    assert result.status == 0
    assert pd.read_csv("z.csv").columns.tolist() == [
        "cell", "typical_age", "typical_job", "cell_kept", "cell_kept_kept",
    ]  # fmt: skip


# -- what is printed ----------------------------------------------------------------------------------------------

HOSTILE = "\x1b[31mred\x9b2J\u202egnp\x07"


def test_names_do_not_act_on_the_terminal(cli, here):
    frame = pd.read_csv("fresh.csv")
    frame["sex"] = frame["sex"].replace({"f": HOSTILE + "\nSPOOFED"})
    frame.loc[:5, "sex"] = None
    name = f"{HOSTILE}.csv"
    frame.to_csv(name, index=False)
    results = [
        cli("certify", "encoder.json", name, "--sensitive", "sex", "-o", f"{HOSTILE}.json"),
        cli("count", "encoder.json", name, "--sensitive", "sex", "-o", f"{HOSTILE}.count"),
        cli("encode", "encoder.json", name, name.replace(".csv", ".z.csv"), "--keep", "sex"),
        cli("show", f"{HOSTILE}.json"),
        cli("verify", f"{HOSTILE}.json"),
        cli("fit", name, *ROLES, *QUICK, "-o", f"{HOSTILE}.bundle"),
        cli("fit", name, "--label", f"{HOSTILE}>3", "--sensitive", "sex", "-o", "b"),
        cli("encode", "encoder.json", HOSTILE, "z.csv"),
        cli("key", "new", HOSTILE),
        cli("certify", "encoder.json", name, "--sensitive", "sex", "--json"),
    ]
    assert [result.status for result in results] == [0, 0, 0, 0, 0, 0, 2, 2, 0, 0], results
    for result in results:
        for text in (result.stdout, result.stderr):
            assert all(character.isprintable() or character == "\n" for character in text), text
            assert "\nSPOOFED" not in text
    # For a program that reads JSON, the name is what it was.
    assert HOSTILE + "\nSPOOFED" in results[-1].json["counts"]["groups"]


@pytest.mark.parametrize("folder", ["[", "[red]x[", "[bold"])
def test_a_path_is_not_read_as_markup(cli, here, folder):
    (here / folder).mkdir()
    path = f"{folder}/].csv"
    shutil.copy("fresh.csv", path)
    target = f"{folder}/]z.csv"
    result = cli("encode", "encoder.json", path, target)
    assert result.status == 0
    assert target in result.stdout
    fitted = cli("fit", path, *ROLES, *QUICK, "-o", f"{folder}/]b")
    assert fitted.status == 0, fitted.stderr
    assert f"{folder}/]b/report.html" in fitted.stdout
    missing = cli("encode", "encoder.json", f"{folder}/]nothing.csv", f"{folder}/]new.csv")
    assert missing.status == 2
    assert f"{folder}/]nothing.csv" in missing.stderr


def test_a_long_message_is_cut(cli, here):
    name = "x" * 100_000
    pd.DataFrame({name: [1, 2], "y": [0, 1]}).to_parquet("wide.parquet")
    result = cli("encode", "encoder.json", "wide.parquet", "z.csv", "--keep", "sex")
    assert result.status == 2
    assert len(result.stderr) < 3000


# -- ends ---------------------------------------------------------------------------------------------------------


def test_a_mistake_of_ours_is_told_from_one_of_the_users(here, monkeypatch, capsys):
    def fail(*arguments, **options):
        raise RuntimeError("password=secret")

    monkeypatch.setattr(RestrictedEncoder, "transform_from", fail)
    monkeypatch.setattr(sys, "argv", ["certifare", "encode", "encoder.json", "fresh.csv", "z.csv"])
    with pytest.raises(SystemExit) as end:
        main()
    told = capsys.readouterr().err
    assert end.value.code == BUG == 70
    assert "mistake in certifare, not in your input: RuntimeError in test_strangers.py" in told
    assert "CERTIFARE_DEBUG=1" in told
    assert "secret" not in told
    assert "Traceback" not in told
    assert not (here / "z.csv").exists()
    monkeypatch.setenv("CERTIFARE_DEBUG", "1")
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 70
    assert "Traceback" in capsys.readouterr().err


@posix
@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGHUP", marks=pytest.mark.slow)])
def test_a_signal_leaves_nothing_behind(here, name):
    code = """
import signal, sys, time
from certifare.cli import main
from certifare.encoders.base import RestrictedEncoder
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
def wait(*arguments, **options):
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
RestrictedEncoder.transform_from = wait
sys.argv = ["certifare", "encode", "encoder.json", "fresh.csv", "z.csv"]
main()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        assert any(path.name.endswith(".part") for path in here.iterdir())
        process.send_signal(signal.Signals[name])
        _, told = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.Signals[name]
    assert told == f"ended by {name}: nothing was written\n"
    assert sorted(path.name for path in here.iterdir()) == ["encoder.json", "fresh.csv"]
