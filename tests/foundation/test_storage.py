"""Files are opened only if they are regular, and nothing is written over."""

import ast
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from certifare.errors import FileError
from certifare.foundation import storage
from certifare.foundation.storage import (
    atomic_file,
    atomic_folder,
    check_file,
    check_folder,
    nothing_overwritten,
    open_regular,
)

SOURCES = Path(storage.__file__).parents[1]
#: Where certifare reads what it has brought along, what is installed or just written, or opens no file at all.
OWN = {
    ("cli/help.py", "read_text"),
    ("cli/studio.py", "open"),
    ("drawing/palette.py", "read_text"),
    ("report/html.py", "read_text"),
    ("report/pdf.py", "read_bytes"),
    ("studio/server.py", "open"),
    ("studio/server.py", "read_text"),
    ("tables/stores.py", "open"),
}
posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices are POSIX's")


@posix
@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a device"])
def test_only_regular_files_are_opened(tmp_path, kind):
    path = tmp_path / "people.csv"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))  # a path that long would not do
    # Opening a socket fails by itself; the others would wait, or never end.
    with pytest.raises(OSError, match="No such device" if kind == "a socket" else f"it is {kind}; save the data"):
        open_regular(path)
    with pytest.raises(FileError, match=f"is {kind}; name a file"), atomic_file(path):
        pass
    assert path.exists()
    assert not path.is_file()


def test_a_regular_file_is_opened_and_a_folder_is_not(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"text")
    with open_regular(tmp_path / "a.txt") as file:
        assert file.read() == b"text"
    with pytest.raises(OSError, match="directory|folder|denied"):
        open_regular(tmp_path)


def test_a_command_does_not_write_over_what_it_reads(tmp_path):
    source, link, hard = tmp_path / "a.csv", tmp_path / "link.csv", tmp_path / "hard.csv"
    source.write_text("1")
    link.symlink_to(source)
    os.link(source, hard)
    with nothing_overwritten():
        with open_regular(source):
            pass
        for path in (source, link, hard):
            with pytest.raises(FileError, match="is an input of this command"), atomic_file(path):
                pass
        with atomic_file(tmp_path / "b.csv") as name:
            name.write_text("2")
    with open_regular(source), atomic_file(source) as name:
        name.write_text("3")  # in Python, who reads and writes one file means it
    assert source.read_text() == "3"


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    (tmp_path / "dangling.txt").symlink_to(tmp_path / "new.txt")
    for name in ("link.txt", "dangling.txt"):
        with atomic_file(tmp_path / name) as part:
            part.write_text("new")
        assert (tmp_path / name).is_symlink()
    assert (tmp_path / "real.txt").read_text() == (tmp_path / "new.txt").read_text() == "new"


def write_folder(path, text, **options):
    with atomic_folder(path, **options) as name:
        (name / "a.txt").write_text(text)


def hidden(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_of_two_runs_into_one_folder_the_first_keeps_its_result(tmp_path):
    target = tmp_path / "bundle"
    with pytest.raises(FileError, match="by another run"), atomic_folder(target):
        write_folder(target, "first")
    assert (target / "a.txt").read_text() == "first"
    assert not hidden(tmp_path)


def test_of_two_runs_that_replace_one_folder_the_first_keeps_its_result(tmp_path):
    target = tmp_path / "bundle"
    write_folder(target, "old")
    with nothing_overwritten():
        check_folder(target, replace=lambda _: True)  # the second run begins …
        with nothing_overwritten():
            write_folder(target, "first", replace=lambda _: True)  # … and the first, in another process, ends
        with pytest.raises(FileError, match="by another run"):
            write_folder(target, "second", replace=lambda _: True)
    assert (target / "a.txt").read_text() == "first"
    assert not hidden(tmp_path)


def test_what_comes_into_a_folder_meanwhile_is_not_lost(tmp_path):
    target = tmp_path / "bundle"
    write_folder(target, "old")

    def replace(folder):
        return {path.name for path in folder.iterdir()} == {"a.txt"}

    with pytest.raises(FileError, match="by another run"), atomic_folder(target, replace=replace):
        (target / "notes.txt").write_text("mine")
    assert (target / "a.txt").read_text() == "old"
    assert (target / "notes.txt").read_text() == "mine"
    assert not hidden(tmp_path)


def test_a_file_can_be_checked_before_the_work_is_done(tmp_path):
    assert check_file(tmp_path / "new.csv") == (tmp_path / "new.csv").resolve()
    with pytest.raises(FileError, match="is a folder"):
        check_file(tmp_path)


def interrupted_while_writing(path):
    path.write_text("half")
    raise KeyboardInterrupt


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "result.txt"
    with pytest.raises(KeyboardInterrupt), atomic_file(target) as name:
        interrupted_while_writing(name)
    assert list(tmp_path.iterdir()) == []
    target.write_text("old")
    with atomic_file(target) as name:
        name.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["result.txt"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~storage._umask()


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "bundle"
    with pytest.raises(KeyboardInterrupt), atomic_folder(target) as name:
        interrupted_while_writing(name / "a.txt")
    assert list(tmp_path.iterdir()) == []
    with atomic_folder(target) as name:
        (name / "a.txt").write_text("1")
    assert (target / "a.txt").read_text() == "1"
    with pytest.raises(FileError, match="holds other files"), atomic_folder(target):
        pass
    with atomic_folder(target, replace=lambda path: (path / "a.txt").exists()) as name:
        (name / "b.txt").write_text("2")
    assert [p.name for p in target.iterdir()] == ["b.txt"]
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


def test_places_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileError, match="is a file"), atomic_folder(tmp_path / "file"):
        pass
    with pytest.raises(FileError, match="There is no folder"), atomic_folder(tmp_path / "no" / "bundle"):
        pass
    with pytest.raises(FileError, match="folder does not exist"), atomic_file(tmp_path / "no" / "a.txt"):
        pass
    with pytest.raises(FileError, match="is a folder"), atomic_file(tmp_path):
        pass


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_read_only_folders_are_refused(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    with pytest.raises(FileError, match="no permission"), atomic_file(folder / "a.txt"):
        pass
    with pytest.raises(FileError, match="no permission"), atomic_folder(folder / "bundle"):
        pass


def test_a_read_only_file_system_is_refused():
    if not os.path.isdir("/proc/self"):
        pytest.skip("no /proc here")
    with pytest.raises(FileError, match="cannot be written"), atomic_folder("/proc/self/bundle"):
        pass


@pytest.fixture
def read_only(tmp_path):
    """A folder on a file system that is mounted to be read."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    place = tmp_path / "mounted"
    place.mkdir()
    command = [mount, "-t", "tmpfs", "-o", "ro,size=4k", "tmpfs", place]
    if mount is None or unmount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")
    yield place
    subprocess.run([unmount, place], check=True)


def test_a_file_on_a_read_only_file_system_is_refused_by_its_own_name(read_only):
    words = "cannot be written: the file system is read-only. Name another place"
    with pytest.raises(FileError, match=f"a.txt' {words}"), atomic_file(read_only / "a.txt"):
        pass
    with pytest.raises(FileError, match=words), atomic_folder(read_only / "bundle"):
        pass


def reading_calls(tree):
    """Calls that open a file to read it: open without a mode for writing, read_text, read_bytes, memory_map."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        modes = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
        # os.open, as low as it gets, is told by its flags.
        writes = "O_EXCL" in ast.dump(node) or any(set("wax") & set(mode) for mode in modes)
        if name in ("read_text", "read_bytes", "memory_map", "fromfile") or (name == "open" and not writes):
            yield name


def test_every_file_is_opened_in_one_place():
    found = {
        (path.relative_to(SOURCES).as_posix(), name)
        for path in SOURCES.rglob("*.py")
        if path.name != "storage.py"
        for name in reading_calls(ast.parse(path.read_text("utf-8")))
    }
    assert found == OWN
