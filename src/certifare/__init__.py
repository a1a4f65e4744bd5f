"""certifare: representations of tables about people that come with a certificate.

``fit`` an encoder, ``certify`` it on records it has not seen, ``transform`` anything: with the stated confidence no
classifier trained on the result can treat the groups more differently than the certificate's bound T*.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certifare.bundle import Bundle, produce
    from certifare.certificates import (
        CellCounts,
        Certificate,
        certify_counts,
        joint_cells,
        one_per_cluster,
        thin,
    )
    from certifare.certification import certify, certify_column
    from certifare.encoders import (
        BoostedEncoder,
        FairTreeEncoder,
        KMeansEncoder,
        load_encoder,
    )
    from certifare.errors import CertifareError
    from certifare.frontier.settings import Grid
    from certifare.frontier.sweeping import Frontier, sweep
    from certifare.policy import Policy
    from certifare.table import Table, read_table

__version__ = "0.1.0"

# Loaded when first asked for, so that `import certifare` stays quick: compilers and learners are slow to import.
_HOME = {
    "BoostedEncoder": "certifare.encoders",
    "Bundle": "certifare.bundle",
    "CellCounts": "certifare.certificates",
    "CertifareError": "certifare.errors",
    "Certificate": "certifare.certificates",
    "FairTreeEncoder": "certifare.encoders",
    "Frontier": "certifare.frontier",
    "Grid": "certifare.frontier",
    "KMeansEncoder": "certifare.encoders",
    "Policy": "certifare.policy",
    "Table": "certifare.table",
    "certify": "certifare.certification",
    "certify_column": "certifare.certification",
    "certify_counts": "certifare.certificates",
    "joint_cells": "certifare.certificates",
    "load_encoder": "certifare.encoders",
    "one_per_cluster": "certifare.certificates",
    "produce": "certifare.bundle",
    "read_table": "certifare.table",
    "sweep": "certifare.frontier",
    "thin": "certifare.certificates",
}

__all__ = [
    "BoostedEncoder",
    "Bundle",
    "CellCounts",
    "CertifareError",
    "Certificate",
    "FairTreeEncoder",
    "Frontier",
    "Grid",
    "KMeansEncoder",
    "Policy",
    "Table",
    "certify",
    "certify_column",
    "certify_counts",
    "joint_cells",
    "load_encoder",
    "one_per_cluster",
    "produce",
    "read_table",
    "sweep",
    "thin",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'certifare' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
