"""Your own methods and data sets beside those of the paper.

A Python file registers them, and ``certifare reproduce comparison --with that_file.py`` shows them: a method on every
data set of the page, a data set with every kind of encoder and every registered method.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certifare_research.errors import ExperimentError

if TYPE_CHECKING:
    from certifare_research.datasets import Dataset

Encode = Callable[..., NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class Method:
    """A method that makes representations.

    Attributes
    ----------
    name : str
    encode : callable
        ``encode(train, X, s, **setting)``: fit on ``train``, a :class:`~certifare_research.datasets.Dataset`, and
        return a row of numbers for each record of the table X, whose groups are s.
    settings : sequence of mapping
        Hyper-parameters to try, each a mapping of names to numbers.
    """

    name: str
    encode: Encode
    settings: Sequence[Mapping[str, float]] = field(default_factory=lambda: ({},))


#: Names of the paper's: methods, whose results come with this package, and data sets.
TAKEN = (
    *("CVIB", "FCRL", "FNF", "sIPM-LFR", "FairPath", "LAFTR", "identity"),
    *("FARE as published", "FairPath narrow", "LAFTR steady", "sIPM-LFR steady"),
    *("ca", "us", "health", "transfer", "adult", "classes", "employment"),
)
#: How names of parts of data sets begin: states, and years.
PARTS = ("us-", "employment-")
#: What was registered, by name.
METHODS: dict[str, Method] = {}
DATASETS: dict[str, Callable[[], Dataset]] = {}
_read: set[Path] = set()


def register(thing: Method | Dataset | Callable[[], Dataset]) -> None:
    """Add a method, a data set, or a function that loads one (under its own name).

    Labels and groups may be any number; records of one person belong in the data set's ``clusters``.

    >>> from certifare_research.extensions import METHODS, Method, register
    >>> register(Method("constant", lambda train, X, s: X.to_pandas().to_numpy() * 0))
    >>> METHODS.pop("constant").settings
    ({},)
    """
    if isinstance(thing, Method):
        _add(METHODS, thing.name, thing)
    elif callable(thing):
        _add(DATASETS, thing.__name__, thing)
    elif hasattr(thing, "group_names"):
        _add(DATASETS, thing.name, lambda: thing)
    else:
        raise ExperimentError(f"register() takes a Method, a Dataset or a function that loads one, not {thing!r}.")


def _add(known: dict[str, Any], name: str, thing: Any) -> None:
    if name in TAKEN or name.startswith(PARTS):
        raise ExperimentError(f"The name {name!r} is taken: choose another.")
    known[name] = thing


def read(path: Path) -> None:
    """Run a file that registers methods and data sets, once."""
    path = path.resolve()
    if path in _read:
        return
    if not path.is_file():
        raise ExperimentError(f"There is no file {path} with methods or data sets.")
    before = len(METHODS) + len(DATASETS)
    runpy.run_path(str(path), run_name="certifare_extension")
    if len(METHODS) + len(DATASETS) == before:
        raise ExperimentError(f"The file {path} registers nothing: call certifare_research.extensions.register in it.")
    _read.add(path)
