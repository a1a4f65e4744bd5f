"""Files of every kind: opened only if they are regular, written as a whole or not at all.

Files come from strangers, and results go where other things may be. Every file that is not our own is opened by
:func:`open_regular`; every result is written by :func:`atomic_file` or :func:`atomic_folder`.
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

FilePath = str | os.PathLike[str]
"""Where a file is."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a command has found so far: files that it read, and folders as they were when it first looked."""

    inputs: set[tuple[int, int]] = field(default_factory=set)
    folders: dict[Path, tuple[int, int] | None] = field(default_factory=dict)


_seen: _Seen | None = None


@contextlib.contextmanager
def nothing_overwritten() -> Iterator[None]:
    """Within this, neither a file that was read is replaced, nor a folder that another run has made since."""
    global _seen
    before, _seen = _seen, _Seen()
    try:
        yield
    finally:
        _seen = before


def open_regular(path: str | os.PathLike[str], *, replaceable: bool = False) -> io.BufferedReader:
    """Open a regular file to read its bytes; every file that is not our own is opened here.

    A pipe may never say anything and a device never end, so neither is opened.

    Parameters
    ----------
    path : path
    replaceable : bool
        Whether the file is one that is read in order to be written anew; any other input is never replaced.

    Raises
    ------
    OSError
        If the file cannot be opened, or is no regular file; ``strerror`` says why.
    """
    # Without O_NONBLOCK, opening a pipe would wait until somebody writes to it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    file = open(path, "rb", opener=lambda name, _: os.open(name, flags))  # noqa: SIM115
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        file.close()
        raise OSError(errno.EINVAL, f"it is {_sort(status.st_mode)}; save the data to a file", os.fspath(path))
    if _seen is not None and not replaceable:
        _seen.inputs.add((status.st_dev, status.st_ino))
    return file


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary name beside ``path`` to write to; it becomes ``path`` at the end, or vanishes if anything fails.

    Only a regular file is replaced; of a link, what it points to.

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
            # Only their owner may read unfinished files; results follow the usual rules.
            temporary.chmod(0o666 & ~_umask())
            check_file(target)
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str], *, replace: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """Give a temporary folder beside ``path`` to fill; it becomes ``path`` at the end, or vanishes if anything fails.

    A folder that another run has made in the meantime stays as it is.

    Parameters
    ----------
    path : path
        Must not exist, be an empty folder, or be one that ``replace`` allows to be replaced.
    replace : callable, optional
        Told the existing folder; says whether it may be replaced.
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
                # Fails if anything but an empty folder has come to be there.
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
    """Write a file that is its owner's alone from its first moment, whatever was there before."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)


def distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON, for ``object_pairs_hook``; raise ValueError if a key occurs twice.

    Of two values, two readers may each take another one.

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
    """Refuse what may not be replaced by a file; return the file to write: of a link, what it points to."""
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
        raise FileError(f"{os.fspath(path)!r} is read by this command, which would write over it; name another file.")
    return Path(os.path.realpath(path))


def check_folder(path: str | os.PathLike[str], *, replace: Callable[[Path], bool] | None = None) -> None:
    """Refuse a folder that could not be written, before any work is done."""
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
    """Refuse a folder in which no file can be made."""
    import tempfile  # which imports random numbers and hashes, that no other command needs

    folder = Path(folder)
    with writable(folder), tempfile.TemporaryFile(dir=folder):
        pass


def _beside(path: Path, ending: str) -> Path:
    """Return a hidden name that is not taken, chosen before anything is made so that nothing is left behind."""
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
    """Turn what writers raise into errors that name the file and say what is wrong."""
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
        raise FileError(f"{str(path)!r} cannot be written: {reason}.") from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _sort(mode: int) -> str:
    """Say what a file is that is not a regular one."""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
