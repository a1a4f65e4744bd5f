"""Where data files come from: a folder that the user names, or a download that is cached.

``CERTIFARE_DATA`` names a folder with data files. ``CERTIFARE_CACHE`` names the folder for downloads; unless given it
is ``certifare`` in the user's cache folder. A download is written under a temporary name and renamed when complete,
and its SHA-256 is kept beside it and compared whenever the file is read.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from certifare_research.errors import DataFileError

CHUNK = 1 << 20
#: Data files that the published figures were made from: their SHA-256. Others give other figures.
FILES = {
    "acs_income_2018.parquet": "0154c339fa2fd33025c7576576d79fcb64cfff73621c6e66a8b0c4c9b06ce79e",
    "acs_income_dollars_2018.parquet": "4e54010f483513c601c43b1030b848fbe2929ced5f17b95e61e5fd6743d267a1",
    "acs_employment_ma_2015_2018.parquet": "f97fd9e9ebc8193f22085ee9cef162d95e83603f4dcfe3f38e919501e698dd2a",
    "health.parquet": "46d797eae5f8acb48180a6354ffe5da8134a5a2d8b81c7e0ea506283870fa41c",
    "adult.parquet": "e546e711817fb7822e9c313e4233d7241719e3b000576f5cf4e3c5a3dbf410e1",
    "compas.parquet": "b3e6e5d846a447a107ae007f26dc52a6056f4d6ecd8f526c069cf791e41ca46f",
    "german_credit.parquet": "1eb61dfd4c73ae06a8391ef3beadac1e03d973dbac43cfaff6caf4909d22f6a7",
    "law_school.parquet": "fc10968b98939ca8368c7b6ffc34b56f5422ebb5ab3befc791cadb204eff52ce",
}


def data_folder(data: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder given, or the one that ``CERTIFARE_DATA`` names, if any."""
    named = data if data is not None else os.environ.get("CERTIFARE_DATA")
    return Path(named) if named else None


def cache_folder() -> Path:
    """Return the folder for downloads."""
    if named := os.environ.get("CERTIFARE_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "certifare"


def find(name: str, data: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the file of this name in the data folder or in the cache, where it is there."""
    for folder in (data_folder(data), cache_folder()):
        if folder is not None and (folder / name).is_file():
            path = folder / name
            check(path)
            return path
    return None


def require(name: str, origin: str, data: str | os.PathLike[str] | None = None) -> Path:
    """Return the file of this name; where it is missing, say what to place where."""
    path = find(name, data)
    if path is None:
        raise DataFileError(f"{missing(name, data)} {origin}")
    return path


def missing(name: str, data: str | os.PathLike[str] | None = None) -> str:
    """Say where a file was looked for."""
    folder = data_folder(data)
    if folder is None:
        where = "(CERTIFARE_DATA is not set)"
    else:
        where = f"in {folder}" + ("" if folder.is_dir() else ", which is no folder")
    return (
        f"The data file {name} was not found {where}. Put it into a folder and name that folder by --data (in Python "
        "data=) or in the environment variable CERTIFARE_DATA."
        + (f" The published figures were made from the file with the SHA-256 {FILES[name]}." if name in FILES else "")
    )


def whereabouts(name: str, data: str | os.PathLike[str] | None = None) -> str:
    """Say of a data file whether it is there, and whether it is the one that the published figures were made from."""
    path = find(name, data)
    if path is None:
        if name == "adult.parquet":
            return "comes with certifare"
        return f"not found: put it into the folder of --data or CERTIFARE_DATA; SHA-256 {FILES[name]}"
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    same = "the file of the published figures" if digest == FILES[name] else f"another file, SHA-256 {digest}"
    return f"{path}: {same}"


def download(url: str, name: str, sha256: str | None = None, timeout: float = 60.0) -> Path:
    """Fetch a file into the cache, once.

    Parameters
    ----------
    url : str
        An http or https address.
    name : str
        The file's name in the cache.
    sha256 : str, optional
        The digest that it must have, where one is known. Otherwise that of the first download is kept.
    timeout : float
        Seconds without an answer after which to give up.
    """
    if not url.startswith(("https://", "http://")):
        raise DataFileError(f"{url!r} is not an address to download from.")
    target = cache_folder() / name
    if target.is_file():
        check(target)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file, urllib.request.urlopen(url, timeout=timeout) as answer:  # noqa: S310
            while chunk := answer.read(CHUNK):
                digest.update(chunk)
                file.write(chunk)
        if sha256 is not None and digest.hexdigest() != sha256:
            raise DataFileError(f"{url} has the SHA-256 {digest.hexdigest()}, not {sha256}: it is not used.")
        _digest_file(target).write_text(digest.hexdigest() + "\n")
        os.replace(temporary, target)
    except (urllib.error.URLError, OSError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{url} could not be downloaded ({error}).") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return target


def check(path: Path) -> None:
    """Compare a file with the digest kept beside it, where there is one."""
    kept = _digest_file(path)
    if not kept.is_file():
        return
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != kept.read_text().strip():
        raise DataFileError(
            f"{path} does not have the SHA-256 noted in {kept.name} when it was downloaded: delete both and try again."
        )


def _digest_file(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")
