"""Random choices: the one place that hands out generators, each by a seed and a purpose.

Two generators made from one seed give the same numbers. Where one draw chooses the encoder and another the records that
it is certified on, the second draw must not know the first; so nobody else in the package makes a generator. Streams
of different seeds or purposes are independent: their states are different outputs of a cryptographic hash.
"""

import hashlib
import operator

import numpy as np

from certifare.errors import ArgumentError


def stream(seed: int, *purpose: str) -> np.random.Generator:
    """Return the generator of a seed and a purpose, at its beginning.

    Parameters
    ----------
    seed : int
    *purpose : str
        What is drawn and, where several draws have one purpose, for which part of the records.

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
    """Return a whole number of so many bits, for a library or a hash that wants one instead of a generator.

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
