"""Read and write files safely: open only regular files, and write results completely or not at all.

Input files may be hostile, and results may go where other files are. Every input is opened by :func:`open_regular`;
every result is written by :func:`atomic_file` or :func:`atomic_folder`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from certifare.errors import FileError

#: Path of a file.
FilePath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The files that a command has read, and the folders as they were when it first checked them."""

    inputs: set[tuple[int, int]] = field(default_factory=set)
    folders: dict[Path, tuple[int, int] | None] = field(default_factory=dict)


_seen: _Seen | None = None


@contextlib.contextmanager
def nothing_overwritten() -> Iterator[None]:
    """Within this context, never replace a file that was read, or a folder that another run has made since."""
    global _seen
    before, _seen = _seen, _Seen()
    try:
        yield
    finally:
        _seen = before


def open_regular(path: str | os.PathLike[str], *, replaceable: bool = False) -> io.BufferedReader:
    """Open a regular file for reading; every input file is opened here.

    Pipes and devices are refused: they may block, or never end.

    - ``replaceable``: whether the file is read in order to be rewritten; any other input is never replaced.

    Raises ``OSError``: if the file cannot be opened, or is not a regular file; ``strerror`` says why.
    """
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    file = open(path, "rb", opener=lambda name, _: os.open(name, flags))  # noqa: SIM115
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        file.close()
        raise OSError(errno.EINVAL, f"it is {_sort(status.st_mode)}; save the data to a file", os.fspath(path))
    if _seen is not None and not replaceable:
        _seen.inputs.add((status.st_dev, status.st_ino))
    return file


def read_regular(path: FilePath, most: int, *, what: str = "file", replaceable: bool = False) -> bytes:
    """Return the first ``most`` bytes of a regular file, as :func:`open_regular` opens it."""
    try:
        with open_regular(path, replaceable=replaceable) as file:
            return file.read(most)
    except OSError as error:
        raise FileError(f"The {what} {os.fspath(path)!r} cannot be read: {error.strerror}.") from error


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file atomically: yield a temporary path, which becomes ``path`` at the end, or is removed on failure.

    Only a regular file is replaced; for a link, the file that it points to.

    Examples
    --------
    >>> from certifare.foundation.storage import atomic_file
    >>> with atomic_file("numbers.txt") as name:  # doctest: +SKIP
    ...     _ = name.write_text("1 2 3")
    """
    target = check_file(path)
    temporary = _beside(target, "part")
    try:
        with writable(Path(path)):
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            yield temporary
            # Only the owner may read unfinished files; results get the usual permissions.
            temporary.chmod(0o666 & ~_umask())
            check_file(target)
            os.replace(temporary, target)
    finally:
        # On a read-only file system this fails even if there is nothing to remove.
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str], *, replace: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """Write a folder atomically: yield a temporary folder, which becomes ``path`` at the end, or is removed on failure.

    A folder that another run has made in the meantime is left unchanged.

    - ``path``: must not exist, be an empty folder, or be one that ``replace`` accepts.
    - ``replace``: returns whether an existing folder may be replaced.
    """
    check_folder(path, replace=replace)
    target = Path(os.path.realpath(path))
    before = _identity(target) if _seen is None else _seen.folders[target]
    temporary, old = _beside(target, "part"), _beside(target, "old")
    try:
        with writable(Path(path)):
            temporary.mkdir(0o700)
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            if before is not None and before == _identity(target):
                os.rename(target, old)
                if before != _identity(old) or not _replaceable(old, replace):
                    raise _taken(target)
            try:
                # Fails if anything but an empty folder is there by now.
                os.rename(temporary, target)
            except OSError as error:
                if not target.exists():
                    raise
                raise _taken(target) from error
    except BaseException:
        with contextlib.suppress(OSError):
            os.rename(old, target)
        raise
    else:
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_private(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that only its owner can read from the start, replacing what was there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object, as ``object_pairs_hook``; raise ValueError if a key occurs twice.

    Given two values for a key, different readers may take different ones.

    >>> import json
    >>> json.loads('{"a": 1}', object_pairs_hook=distinct_keys)
    {'a': 1}
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        repeated = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {repeated[:200]!r} occurs twice in one object")
    return found


def check_file(path: str | os.PathLike[str]) -> Path:
    """Raise if a path may not be replaced by a file; return the file to write (for a link, its target)."""
    with writable(Path(path)):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return Path(os.path.realpath(path))
    if stat.S_ISDIR(status.st_mode):
        raise FileError(f"{os.fspath(path)!r} is a folder; name a file to write.")
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{os.fspath(path)!r} is {_sort(status.st_mode)}; name a file to write.")
    if _seen is not None and (status.st_dev, status.st_ino) in _seen.inputs:
        raise FileError(f"{os.fspath(path)!r} is an input of this command and would be overwritten; name another file.")
    return Path(os.path.realpath(path))


def check_folder(path: str | os.PathLike[str], *, replace: Callable[[Path], bool] | None = None) -> None:
    """Raise if a folder cannot be written, before any work is done."""
    path = Path(path)
    if not path.name:
        raise FileError(f"{str(path)!r} cannot be replaced; name a folder to make.")
    if path.exists():
        if not path.is_dir():
            raise FileError(f"{str(path)!r} is a file; name a folder to write.")
        if not _replaceable(path, replace):
            raise FileError(f"{str(path)!r} exists and holds other files; name another folder.")
    if not path.parent.is_dir():
        raise FileError(f"There is no folder {str(path.parent)!r} to write {path.name!r} into.")
    check_writable(path.parent)
    if _seen is not None:
        target = Path(os.path.realpath(path))
        _seen.folders.setdefault(target, _identity(target))


def check_writable(folder: str | os.PathLike[str]) -> None:
    """Raise if no file can be created in a folder."""
    import tempfile  # it loads random numbers and hashes, which no other command needs

    folder = Path(folder)
    with writable(folder), tempfile.TemporaryFile(dir=folder):
        pass


def _beside(path: Path, ending: str) -> Path:
    """Return a hidden name that is not taken, chosen before anything is created so that nothing is left behind."""
    return path.with_name(f".{path.name[:40]}.{os.urandom(6).hex()}.{ending}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _replaceable(folder: Path, replace: Callable[[Path], bool] | None) -> bool:
    return not any(folder.iterdir()) or (replace is not None and replace(folder))


def _taken(path: Path) -> FileError:
    return FileError(f"{str(path)!r} was made or changed by another run in the meantime; name another folder.")


@contextlib.contextmanager
def writable(path: Path) -> Iterator[None]:
    """Convert writers' exceptions into errors that name the file and say what is wrong."""
    try:
        yield
    except OSError as error:
        reason = {
            errno.EROFS: "the file system is read-only",
            errno.EACCES: "no permission to write there",
            errno.EPERM: "no permission to write there",
            errno.ENOSPC: "the disk is full",
            errno.ENOENT: "its folder does not exist",
        }.get(error.errno or 0, error.strerror or str(error))
        raise FileError(f"{str(path)!r} cannot be written: {reason}. Name another place.") from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sort(mode: int) -> str:
    """Return what a file is that is not a regular one."""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
