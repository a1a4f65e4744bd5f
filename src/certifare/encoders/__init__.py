"""Encoders: how records become cells."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certifare.encoders.base import RestrictedEncoder
    from certifare.encoders.boosted import BoostedEncoder
    from certifare.encoders.existing import column_encoder
    from certifare.encoders.fingerprint import Fingerprint, Overlap
    from certifare.encoders.kmeans import KMeansEncoder
    from certifare.encoders.loading import load_encoder
    from certifare.encoders.tree import FairTreeEncoder

# Loaded when first asked for: each needs scikit-learn, and a compiler that is slow to import.
_HOME = {
    "BoostedEncoder": "boosted",
    "FairTreeEncoder": "tree",
    "Fingerprint": "fingerprint",
    "KMeansEncoder": "kmeans",
    "Overlap": "fingerprint",
    "RestrictedEncoder": "base",
    "column_encoder": "existing",
    "load_encoder": "loading",
}

__all__ = [
    "BoostedEncoder",
    "FairTreeEncoder",
    "Fingerprint",
    "KMeansEncoder",
    "Overlap",
    "RestrictedEncoder",
    "column_encoder",
    "load_encoder",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
