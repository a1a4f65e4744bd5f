"""Random generators, each determined by a seed and a purpose.

Two generators with one seed would give the same numbers. If one sample chooses the encoder and another one is certified
on, the second must be independent of the first; so all generators of the package are made here. Streams of different
seeds or purposes are independent: their states are different outputs of a cryptographic hash.
"""

import hashlib
import operator

import numpy as np

from certifare.errors import ArgumentError


def stream(seed: int, *purpose: str) -> np.random.Generator:
    """Return the generator of a seed and a purpose.

    - ``*purpose``: what is drawn and, if several draws have one purpose, for which part of the records.

    Examples
    --------
    >>> from certifare.foundation.randomness import stream
    >>> stream(0, "thinning", "select").random() == stream(0, "thinning", "select").random()
    True
    >>> stream(0, "thinning", "select").random() == stream(0, "thinning", "certify").random()
    False
    """
    return np.random.default_rng(number(seed, *purpose, bits=256))


def number(seed: int, *purpose: str, bits: int = 31) -> int:
    """Return an integer with this many bits, for a library or a hash that takes a seed instead of a generator.

    Examples
    --------
    >>> from certifare.foundation.randomness import number
    >>> number(0, "folds") == number(0, "centres"), number(0, "folds") < 2**31
    (False, True)
    """
    try:
        words = [str(operator.index(seed)), *purpose]
    except TypeError as error:
        raise ArgumentError(f"seed={seed!r}: give a whole number.") from error
    # Lengths keep ("ab", "c") and ("a", "bc") apart.
    text = "".join(f"{len(word)}:{word}" for word in words)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()) >> (256 - bits)
