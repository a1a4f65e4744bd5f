"""A sample of the hashes of records, by value: all records with a hash up to a limit, which falls as they grow many.

Whether a record is in the sample depends on its hash alone, so samples of parts of a table add up, equal records
stay together, and a table is looked up in the sample by the records whose hashes are within the limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.fingerprint import Fingerprint

MOST_HASHES = 1 << 22
"""So many distinct hashes are kept at most."""


@dataclass(frozen=True, eq=False)
class HashSample:
    """Hashes up to ``2^(64-halvings) - 1``, and how many records have each.

    Examples
    --------
    >>> import numpy as np
    >>> from certifare.engines.hashes import HashSample
    >>> hashes = np.array([7, 2**63, 7, 2**40], dtype=np.uint64)
    >>> sample = HashSample.merge([HashSample.of(hashes, 4), HashSample.of(hashes, 4)], most=2)
    >>> sample.hashes.tolist(), sample.counts.tolist(), sample.halvings
    ([7, 1099511627776], [4, 2], 1)
    """

    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]
    halvings: int

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], n_records: int, most: int = MOST_HASHES) -> HashSample:
        """Sample the hashes of some of ``n_records`` records."""
        halvings = max(0, math.ceil(math.log2(max(n_records, 1) / most)))
        kept = hashes[hashes <= _limit(halvings)]
        return cls(kept, np.ones(len(kept), dtype=np.int64), halvings)

    @classmethod
    def merge(cls, samples: Sequence[HashSample], most: int = MOST_HASHES) -> HashSample:
        """Sample all records, given the samples of parts of them."""
        halvings = max(sample.halvings for sample in samples)
        hashes = np.concatenate([sample.hashes for sample in samples])
        counts = np.concatenate([sample.counts for sample in samples])
        kept = hashes <= _limit(halvings)
        merged = cls(hashes[kept], counts[kept], halvings)
        # Sorting is the slow part, so it waits until there are too many.
        return merged if len(merged.hashes) <= most else merged.sorted(most)

    def sorted(self, most: int = MOST_HASHES) -> HashSample:
        """Put each hash once, in order; of too many, keep those up to a lower limit."""
        hashes, inverse = np.unique(self.hashes, return_inverse=True)
        counts = np.zeros(len(hashes), dtype=np.int64)
        np.add.at(counts, inverse, self.counts)
        halvings = self.halvings
        while len(hashes) > most:
            halvings += 1
            n_kept = int(np.searchsorted(hashes, _limit(halvings), side="right"))
            hashes, counts = hashes[:n_kept], counts[:n_kept]
        return HashSample(hashes, counts, halvings)

    def fingerprint(self, salt: bytes, names: Sequence[str]) -> Fingerprint:
        """Make the fingerprint of the records, hashed with this salt."""
        whole = self.sorted()
        return Fingerprint(
            salt=salt,
            names=tuple(names),
            hashes=whole.hashes,
            records=int(whole.counts.sum()),
            singles=int((whole.counts == 1).sum()),
            pairs=int((whole.counts == 2).sum()),
            limit=int(_limit(whole.halvings)),
        )


def _limit(halvings: int) -> np.uint64:
    return np.uint64(2 ** (64 - halvings) - 1)
