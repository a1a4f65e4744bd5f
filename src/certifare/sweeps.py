"""A sweep that is kept in a folder, so that a point of its frontier can become a bundle later.

``frontier.csv`` may be handed on. ``private/`` holds what the sweep was asked for, where the table lies, the finished
growths and the certificates: with them and the table, the encoder of a point is made again, and its certificate is the
one that it got in the sweep. A frontier of predictions has none yet: its point is certified then, once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from certifare.bundle import Bundle, write_rows
from certifare.certificates import Certificate
from certifare.certificates.claims import Claim
from certifare.errors import ArgumentError, CertifareError, StateFileError
from certifare.frontier.search import Progress, Search
from certifare.frontier.settings import Grid
from certifare.frontier.sweeping import Correction, Frontier
from certifare.ledger import open_ledger
from certifare.storage import atomic_folder, open_regular, write_private
from certifare.table import read_table

FRONTIER, PRIVATE, REQUEST, STATE = "frontier.csv", "private", "sweep.json", "state.jsonl"
#: The request of a sweep, with its certificates, is not read beyond this.
MAX_REQUEST_BYTES = 256 << 20
PRIVATE_NOTE = """\
Nothing in this folder may be handed on: it tells where the table lies, and counts of its records.
`certifare fit --from FOLDER --point NUMBER` makes a bundle of a point of the frontier from it.
"""

Plain = str | int | float | bool | list[str | float] | dict[str, float] | None


class Certified(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a point of a sweep was certified with: the encoder's digest, and its certificate."""

    encoder: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    certificate: dict[str, Any]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sweep was asked for, and what it certified.

    Attributes
    ----------
    data : str
        Where the table lies.
    reading, options : dict
        What :func:`~certifare.table.read_table` and :class:`~certifare.frontier.search.Search` were told.
    claim : Claim
    grid : Grid
    table : str
        The table's digest.
    certified : dict of int to Certified
    """

    format: Literal["certifare-sweep/1"] = "certifare-sweep/1"
    data: str
    reading: dict[str, Plain]
    options: dict[str, Plain]
    claim: Claim
    grid: Grid
    correction: Correction
    ledger: bool
    table: str
    certified: dict[int, Certified]


def keep_sweep(
    folder: str | os.PathLike[str],
    frontier: Frontier,
    *,
    data: str | os.PathLike[str],
    reading: Mapping[str, Any],
    options: Mapping[str, Any],
    claim: Claim,
    grid: Grid,
    ledger: bool = True,
) -> None:
    """Keep a sweep in a folder that appears as a whole or not at all.

    Parameters
    ----------
    folder : path
        Must not exist, or be empty.
    frontier : Frontier
    data : path
        The file that the table was read from.
    reading, options : mapping
        What :func:`~certifare.table.read_table` and :class:`~certifare.frontier.search.Search` were told.
    claim : Claim
    grid : Grid
    ledger : bool
    """
    search = frontier.search
    request = Request(
        data=os.path.abspath(data),
        reading=dict(reading),
        options=dict(options),
        claim=claim,
        grid=grid,
        correction=frontier.correction,
        ledger=ledger,
        table=search.given.digest,
        certified={
            point.number: Certified(
                encoder=frontier.encoder(point).digest(), certificate=frontier.certificate(point).to_dict()
            )
            for point in frontier.points
            if point.certified
        },
    )
    with atomic_folder(folder) as temporary:
        write_rows(temporary / FRONTIER, frontier.rows())
        private = temporary / PRIVATE
        private.mkdir(mode=0o700)
        write_private(private / "README.txt", PRIVATE_NOTE.encode())
        write_private(private / REQUEST, msgspec.json.encode(request))
        search.save(private / STATE)


def bundle_from(
    folder: str | os.PathLike[str],
    number: int,
    *,
    data: str | os.PathLike[str] | None = None,
    n_jobs: int = 2,
    progress: Progress | None = None,
) -> Bundle:
    """Make the bundle of a point of a sweep that was kept.

    Parameters
    ----------
    folder : path
        Where :func:`keep_sweep` kept it (``certifare sweep --output FOLDER``).
    number : int
        Of the point, as the table and the chart name it.
    data : path, optional
        The table, where it lies elsewhere by now.
    n_jobs : int
    progress : callable, optional
    """
    private = Path(folder) / PRIVATE
    request = _read(private / REQUEST)
    table = read_table(data or request.data, **request.reading)  # type: ignore[arg-type]  # checked there
    if table.digest != request.table:
        raise ArgumentError(
            f"{os.fspath(data or request.data)!r} is not the table of the sweep in {os.fspath(folder)!r}, or has "
            "changed since: name the file that was swept."
        )
    search = Search(
        table,
        request.grid,
        request.claim,
        **request.options,  # type: ignore[arg-type]  # checked there
        n_jobs=n_jobs,
        ledger=open_ledger(request.ledger),
    ).run(state=private / STATE, progress=progress)
    certificates = {
        point: Certificate.from_dict(certified.certificate).verify() for point, certified in request.certified.items()
    }
    frontier = Frontier(search, request.correction, certificates)
    point = frontier.point(number)
    if point.certified and frontier.encoder(point).digest() != request.certified[number].encoder:
        raise StateFileError(
            f"The encoder of point {number} comes out different from the one that was certified, on this machine or "
            "with these versions: sweep again."
        )
    return frontier.bundle(point)


def _read(path: Path) -> Request:
    if not path.is_file():
        raise StateFileError(f"There is no sweep in {str(path.parent.parent)!r}: name a folder of certifare sweep -o.")
    try:
        with open_regular(path) as file:
            content = file.read(MAX_REQUEST_BYTES + 1)
        if len(content) > MAX_REQUEST_BYTES:
            raise StateFileError(f"{str(path)!r} is too large for what a sweep was asked for.")
        return msgspec.json.decode(content, type=Request)
    except (OSError, msgspec.MsgspecError, RecursionError, CertifareError) as error:
        if isinstance(error, StateFileError):
            raise
        raise StateFileError(f"{str(path)!r} is not what a sweep was asked for: {error}.") from error
