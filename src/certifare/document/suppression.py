"""Hide small counts before publication: pool cells with small counts, without changing any figure.

Pooling cells changes the statistic M of a pair of groups only if their differences have different signs
(``docs/certificate-format.md`` has the proof). So small cells are pooled by their *pattern*: the sign of the
difference of every pair of groups in every stratum of the metric, and whether the cell belongs to each witness. The
records of a pool are shown in the row of its first cell; the other rows become zero. Cells keep their ids and their
number, so that every figure, including the lower bound, follows exactly from the pooled table.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated

import msgspec
import numpy as np

from certifare.certificates import CellCounts, Certificate
from certifare.errors import DocumentError

Pool = tuple[int, ...]


class Suppression(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why cells were pooled before publication; :attr:`Certificate.pools` lists them.

    Attributes
    ----------
    below : int
        Cells with a count below this number were pooled.
    still_small : tuple of int
        Rows that still show a count below ``below``, because no other cell has their pattern.
    """

    below: Annotated[int, msgspec.Meta(ge=2)]
    still_small: tuple[int, ...]


def suppress(certificate: Certificate, n: int) -> tuple[Certificate, Suppression]:
    """Pool the cells of a certificate that have a count below ``n``; no figure changes.

    A pool that is still too small gets one more cell of the same pattern, the one with the fewest records.
    If there is none, the row stays as it is and is listed in ``still_small``.

    Parameters
    ----------
    certificate : Certificate
        Any, except with ``method="calibrated"``, whose bound uses single cells, or with pools.
    n : int
        The smallest count that may be shown, at least 2.

    Returns
    -------
    certificate, suppression
        The certificate with the pooled table, and the reason for its pools.

    Examples
    --------
    >>> from certifare import CellCounts, certify_counts
    >>> table = [[400, 300], [3, 1], [290, 402], [2, 9], [5, 4]]
    >>> pooled, what = suppress(certify_counts(CellCounts(table, groups=["f", "m"])), 10)
    >>> pooled.pools
    ((0, 1, 4), (2, 3))
    >>> pooled.counts.table.tolist()
    [[408, 305], [0, 0], [292, 411], [0, 0], [0, 0]]
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 2:
        raise DocumentError(f"suppress={n!r}: give the smallest count that may be shown, an integer of at least 2.")
    if certificate.method == "calibrated":
        raise DocumentError(
            "The bound of calibrated cells needs the count of every cell. These counts are the plan, which was fixed "
            "before any certification record was looked at: they say nothing about the people counted but how many "
            "they are. Publish without suppression."
        )
    if certificate.pools:
        raise DocumentError(
            "Cells of the certificate are already pooled, so their own counts are unknown. Suppress the original "
            "certificate."
        )
    counts = certificate.counts
    pools, still_small = _pools(certificate, n)
    table = counts.table.copy()
    for pool in pools:
        table[pool[0]] = counts.table[list(pool)].sum(axis=0)
        table[list(pool[1:])] = 0
    pooled = CellCounts(table, counts.groups, counts.labels, counts.exclusions)
    return (
        msgspec.structs.replace(certificate, counts=pooled, pools=pools),
        Suppression(below=n, still_small=still_small),
    )


def _pools(certificate: Certificate, n: int) -> tuple[tuple[Pool, ...], tuple[int, ...]]:
    """Return the sets of cells to pool, and the rows that stay small."""
    table = certificate.counts.table.reshape(certificate.counts.n_cells, -1)
    small = table.min(axis=1) < n
    members: dict[tuple[bool, ...], list[int]] = defaultdict(list)
    for cell, pattern in enumerate(_patterns(certificate)):
        members[pattern].append(cell)

    pools, still_small = [], []
    for cells in members.values():
        pool = [cell for cell in cells if small[cell]]
        if pool and table[pool].sum(axis=0).min() < n:
            # Any cell that is not small lifts every count of the pool to n.
            large = [cell for cell in cells if not small[cell]]
            pool += sorted(large, key=lambda cell: int(table[cell].sum()))[:1]
            if not large:
                still_small.append(min(pool))
        if len(pool) > 1:
            pools.append(tuple(sorted(pool)))
    return tuple(sorted(pools)), tuple(sorted(still_small))


def _patterns(certificate: Certificate) -> list[tuple[bool, ...]]:
    """Return for each cell which of two groups it favours, for all pairs and strata, and which witnesses contain it."""
    counts = certificate.counts
    columns: list[list[bool]] = []
    for pair in certificate.claim.pairs(counts):
        rows = pair.table(counts)
        # Python integers, because the products exceed 64 bits for large samples.
        first, second = (int(size) for size in rows.sum(axis=0))
        columns.append([second * a > first * b for a, b in rows.tolist()])
    for witness in certificate.witnesses:
        inside = np.zeros(counts.n_cells, dtype=bool)
        inside[list(witness.cells)] = True
        columns.append(inside.tolist())
    return list(zip(*columns, strict=True))
