"""Count the records of one file, of any kind and size, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from certifare.certificates.counts import Exclusion
from certifare.certificates.sampling import Subsample, one_per_cluster, thin
from certifare.encoders.base import RestrictedEncoder
from certifare.engines.blocks import Reading, roles_of
from certifare.engines.counting import Entry, Naming, Tally, Teller, merge_tallies, one_label, reading_for
from certifare.engines.preparing import Share
from certifare.errors import ColumnTypeError, EmptyTableError, TableError
from certifare.files import TEXT, Batches, kind_of, open_batches
from certifare.frames import Field, Frame
from certifare.levels import name_of
from certifare.records import open_records
from certifare.roles import MissingGroups, absent

PART = "count"
"""Draws for counting are independent of those of any other job with the same seed."""


def count_file(
    encoder: RestrictedEncoder,
    path: str | os.PathLike[str],
    *,
    sensitive: Sequence[str],
    label: str | None = None,
    weight: str | None = None,
    cluster: str | None = None,
    population: str = "clusters",
    max_weight: float | None = None,
    seed: int = 0,
    missing_groups: MissingGroups = "drop",
    salt: bytes = b"",
    naming: Naming | None = None,
    progress: Share | None = None,
    **csv: Any,
) -> Tally:
    """Count a CSV, Parquet or Arrow file by cell, group and label.

    With weights or clusters the file is read twice: their columns first, which must fit into memory, to draw the
    records; then all columns, to count those that were drawn.

    Parameters
    ----------
    encoder : RestrictedEncoder
    path : path
    sensitive : sequence of str
        Sensitive columns, or comparisons such as ``"age>=60"``.
    label : str, optional
    weight, cluster : str, optional
        Columns of survey weights, to which records are thinned (:func:`certifare.thin`), and of clusters, of which one
        record each is kept (:func:`certifare.one_per_cluster`).
    population : {"clusters", "records"}
        With clusters: what a claim is to be about.
    max_weight : float, optional
        The largest weight (or size of a cluster) in the population; see :func:`certifare.thin`.
    seed : int
        Seed of the draw.
    missing_groups : {"drop", "unknown"}
        Whether records without a group take part in the draw. Without a draw they are counted, and
        :meth:`~certifare.engines.counting.Tally.table` decides.
    salt : bytes
        For the checksum of the records.
    naming : Naming, optional
        Pools groups, and cuts the label.
    progress : callable, optional
        Told which share of the file is done.
    **csv
        ``delimiter``, ``encoding``, ``missing``, ``header``, ``names`` and ``decimal`` of CSV files, as in
        :func:`certifare.files.read_file`.
    """
    names = open_batches(path, {}, **csv).names
    groups = roles_of(sensitive, names, "sensitive")
    labels = () if label is None else roles_of(label, names, "label")
    one_label(labels)
    types = {
        role.column: TEXT if role.comparison is None or not _is_number(role.comparison.value) else pa.float64()
        for role in (*groups, *labels)
    }
    keep, sample = None, None
    if weight is not None or cluster is not None:
        for role, name in (("weight", weight), ("cluster", cluster)):
            if name is not None and name not in names:
                raise absent(name, names, role)
        own = {name: type_ for name, type_ in ((weight, pa.float64()), (cluster, TEXT)) if name is not None}
        keep, sample = _draw(
            open_batches(path, {**types, **own}, **csv),
            Reading((), tuple(labels), tuple(groups)),
            weight,
            cluster,
            unknown_groups=missing_groups == "unknown",
            inferred=kind_of(path) == "csv",
            population=population,
            max_weight=max_weight,
            seed=seed,
        )
    reading = reading_for(encoder, labels, groups)
    teller = Teller(encoder, reading, salt)
    batches = open_records(encoder, path, types, **csv)
    tallies, start = [], 0
    for batch in batches:
        block = reading.read(pa.Table.from_batches([batch]))
        tallies.append(teller.tell(block, None if keep is None else keep[start : start + len(block)]))
        start += len(block)
        if progress is not None and batches.size:
            progress(batches.position / batches.size)
    if keep is not None and len(keep) != start:
        raise TableError(f"{os.fspath(path)!r} changed while it was read: {len(keep):,} records, then {start:,}.")
    tally = replace(merge_tallies(tallies), drawn=sample)
    tally = _typed(tally) if kind_of(path) == "csv" else tally
    return tally.named(naming or Naming(), unknown=missing_groups == "unknown")


def _draw(
    batches: Batches,
    reading: Reading,
    weight: str | None,
    cluster: str | None,
    *,
    unknown_groups: bool,
    inferred: bool,
    population: str,
    max_weight: float | None,
    seed: int,
) -> tuple[NDArray[np.bool_], Subsample]:
    """Draw independent records among those that have all that their roles need; say which, of all in the file."""
    place: dict[str, int] = {}
    lacking: dict[str, list[NDArray[np.bool_]]] = {
        f"{role} missing": [] for role in ("label", "cluster", "group", "weight")
    }
    weights, clusters = [], []
    for batch in batches:
        table = pa.Table.from_batches([batch])
        frame, block = Frame(table), reading.read(table)
        lacking["label missing"].append(_any_missing(block.labels, len(table)))
        lacking["group missing"].append(_any_missing(() if unknown_groups else block.groups, len(table)))
        if weight is not None:
            field = frame.read(weight)
            if field.type != "number":
                raise ColumnTypeError(f"Column {weight!r} holds no numbers; weights must be numbers.")
            weights.append(field.numbers())
            lacking["weight missing"].append(field.missing())
        if cluster is not None:
            found = frame.read(cluster).levels()
            lacking["cluster missing"].append(found.missing)
            clusters.append(np.array([*(place.setdefault(name, len(place)) for name in found.names), -1])[found.codes])
    reasons = {reason: np.concatenate(masks) for reason, masks in lacking.items() if masks}
    complete = ~np.logical_or.reduce(list(reasons.values()))
    exclusions, left = [], np.ones(len(complete), dtype=bool)
    for reason, mask in reasons.items():
        exclusions.append(Exclusion(reason, int((left & mask).sum())))
        left &= ~mask
    if not complete.any():
        raise EmptyTableError(f"No record is left: {', '.join(f'{e.reason} ({e.records:,})' for e in exclusions)}.")
    w = np.concatenate(weights)[complete] if weight is not None else None
    if cluster is None:
        sample = thin(w, seed=seed, part=PART, max_weight=max_weight)  # type: ignore[arg-type]  # one of both is there
    else:
        of_code = np.arange(len(place))
        if inferred:
            # Text that reads as the same number is the same cluster, as it is where the whole table is read.
            same = _names(place)
            first = {name: place[text] for text, name in same.items()}
            for text, name in same.items():
                of_code[place[text]] = first[name]
        sample = one_per_cluster(
            of_code[np.concatenate(clusters)[complete]],
            weights=w,
            population=population,
            max_weight=max_weight,
            seed=seed,
            part=PART,
        )
    keep = complete.copy()
    keep[complete] = sample.keep
    return keep, replace(sample, exclusions=(*exclusions, *sample.exclusions))


def _any_missing(fields: Sequence[Field], n: int) -> NDArray[np.bool_]:
    return np.logical_or.reduce([field.missing() for field in fields]) if fields else np.zeros(n, dtype=bool)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _typed(tally: Tally) -> Tally:
    """Name values of text columns as if their type had been inferred from all of them, as ``read_table`` does."""
    n_groups = len(tally.entries[0].groups) if tally.entries else 0
    columns = [{entry.groups[i] for entry in tally.entries} for i in range(n_groups)]
    columns.append({entry.label for entry in tally.entries})
    names = [_names({value for value in values if value is not None}) for values in columns]
    entries = tuple(
        Entry(
            entry.cell,
            tuple(None if g is None else of_column[g] for g, of_column in zip(entry.groups, names, strict=False)),
            None if entry.label is None else names[-1][entry.label],
            entry.records,
        )
        for entry in tally.entries
    )
    return replace(tally, entries=entries)


def _names(values: Iterable[str]) -> dict[str, str]:
    """Name values as reading the whole column would: whole numbers, truth values, numbers, or text."""
    texts = list(values)
    for type_ in (pa.int64(), pa.bool_(), pa.float64()):
        if type_ == pa.bool_() and not {text.lower() for text in texts} <= {"true", "false"}:
            continue
        try:
            return dict(zip(texts, map(name_of, pa.array(texts, pa.string()).cast(type_).to_pylist()), strict=True))
        except pa.ArrowInvalid:
            continue
    return {text: text for text in texts}
