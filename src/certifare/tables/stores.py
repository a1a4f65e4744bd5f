"""Open files on this machine and in object stores (``s3://``, ``gs://``, ``abfs://``, ``hdfs://``).

Credentials come from the environment, as the store's own tools take them. An address that holds some is refused, so
none gets into a document or a message.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from certifare.errors import ArgumentError, CertifareError, FileError

#: Schemes of object stores, and of file systems of clusters.
SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
#: What stores say to a client without the right credentials.
DENIED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY", "authenticate", "Forbidden", "credentials")
#: Bytes that are uploaded at a time.
BLOCK = 1 << 24
#: A path is normalised on the way from a command line: one slash may be gone.
_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)}):/+(.+)", re.S)


def store_address(path: str | os.PathLike[str]) -> str | None:
    """Return the address of a file in an object store; None if the path is on this machine.

    >>> store_address("s3:/bucket/people.parquet"), store_address("people.parquet")
    ('s3://bucket/people.parquet', None)
    """
    found = _ADDRESS.fullmatch(os.fspath(path))
    return None if found is None else f"{found[1]}://{found[2]}"


class Store:
    """A file, folder or pattern in an object store.

    - ``address``: such as ``s3://bucket/people/*.parquet``.
    - ``path``: the address without its scheme.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        container = parts.scheme in ("abfs", "abfss")  # abfs://container@account.dfs.core.windows.net/path
        if (parts.username and not container) or parts.password or parts.query:
            raise ArgumentError(
                f"The {parts.scheme}:// address holds more than a bucket and a path. Take out credentials and options: "
                "they belong into the environment (such as AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL)."
            )
        self.address = address
        self._scheme = parts.scheme
        with reachable(address):
            self.system, self.path = _system(address)

    def sibling(self, path: str) -> Store:
        """Return another file of the same store."""
        other = object.__new__(Store)
        other.address, other.path, other.system = f"{self._scheme}://{path}", path, self.system
        other._scheme = self._scheme
        return other

    @property
    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        return bool(self._type() != pafs.FileType.NotFound)

    @property
    def is_folder(self) -> bool:
        """Whether there is a folder, or objects whose names begin with this path and a slash."""
        return bool(self._type() == pafs.FileType.Directory)

    def _type(self) -> Any:
        with reachable(self.address):
            return self.system.get_file_info(self.path).type

    def reader(self) -> Any:
        """Return the file, opened for reading."""
        with reachable(self.address):
            return self.system.open_input_file(self.path)

    def files(self, pattern: str | None = None) -> list[Store]:
        """Return the files below this folder, sorted; only those whose paths match a pattern, if there is one."""
        with reachable(self.address):
            found = self.system.get_file_info(pafs.FileSelector(self.path, recursive=True, allow_not_found=True))
        paths = sorted(info.path for info in found if info.type == pafs.FileType.File)
        if pattern is not None:
            paths = [path for path in paths if _matches(path, pattern)]
        return [self.sibling(path) for path in paths]

    def matching(self) -> list[Store]:
        """Return the files that match this address as a pattern."""
        fixed = self.path[: re.search(r"[*?\[]", self.path).start()]  # type: ignore[union-attr]
        return self.sibling(fixed.rpartition("/")[0]).files(self.path)

    def __str__(self) -> str:
        return self.address


@contextlib.contextmanager
def store_file(address: str) -> Iterator[Path]:
    """Write a file in an object store: yield a local path, whose content is uploaded at the end.

    The file appears in the store when it is complete, or not at all.
    """
    target = Store(address)
    # An object of S3 or Google's store appears when its upload ends; in other stores a complete file is moved there.
    in_place = target.system.type_name in ("s3", "gcs")
    written = target.path if in_place else f"{target.path}.{secrets.token_hex(8)}.part"
    with tempfile.TemporaryDirectory(prefix="certifare-") as folder:
        temporary = Path(folder) / "output"
        yield temporary
        with reachable(address):
            try:
                with temporary.open("rb") as content, target.system.open_output_stream(written) as file:
                    while block := content.read(BLOCK):
                        file.write(block)
                if not in_place:
                    target.system.move(written, target.path)
            except BaseException:
                # An upload that is interrupted, even by Ctrl-C, ends with what there is.
                with contextlib.suppress(pa.ArrowException, OSError):
                    target.system.delete_file(written)
                raise


def _system(address: str) -> tuple[Any, str]:
    """Find the file system of an address: pyarrow's, or fsspec's if pyarrow has none."""
    # Google's client would try for a quarter of an hour to reach a store.
    patience = "?retry_limit_seconds=60" if address.startswith(("gs:", "gcs:")) else ""
    try:
        system, path = pafs.FileSystem.from_uri(address + patience)
        return system, path
    except (pa.ArrowInvalid, NotImplementedError):
        pass
    try:
        import fsspec  # type: ignore[import-untyped]

        system, path = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise FileError(
            f"{address.partition(':')[0]}:// is not supported by this installation of pyarrow. Install fsspec and its "
            "package for this store."
        ) from error
    return pafs.PyFileSystem(pafs.FSSpecHandler(system)), path


@contextlib.contextmanager
def reachable(address: str) -> Iterator[None]:
    """Turn the errors of an object store, which may hold keys, into errors that name the file and say what to do."""
    try:
        yield
    except CertifareError:
        raise
    except FileNotFoundError:
        raise FileError(f"There is no file {address!r}.") from None
    except Exception as error:  # packages of fsspec raise errors of their own
        text = str(error)
        denied = isinstance(error, PermissionError) or any(sign in text for sign in DENIED)
        reason = "access was denied: set the store's credentials in the environment" if denied else _first(text)
        raise FileError(f"{address!r} cannot be used: {reason}.") from None


def _matches(path: str, pattern: str) -> bool:
    """Return whether a path matches a pattern, in which * stands for anything but a slash and ** for folders."""
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]]*\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    regular = "".join(known.get(part, part if part.startswith("[") else re.escape(part)) for part in parts)
    return re.fullmatch(regular, path) is not None


def _first(text: str) -> str:
    """Return the first sentence of a message, without anything that looks like a key."""
    line = text.split("\n")[0]
    return re.sub(r"(?i)(key|token|secret|signature|credential)\S*[=:]\S+", r"\1 left out", line)[:200].rstrip(". ")
