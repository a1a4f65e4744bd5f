"""Documents that several tests use."""

import json

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner

from certifare import CellCounts, FairTreeEncoder, certify_counts
from certifare.certificates import Exclusion, FixedSequence
from certifare.document import make_statement, sign

CONTEXT = {
    "encoder_digest": "0a" * 32,
    "data_digest": "1b" * 32,
    "selection": {"tried": 40, "correction": "holdout"},
    "reading": {"sensitive": ["sex"], "label": "income"},
    "command": "certifare fit people.csv --label income --sensitive sex",
    "created": "2030-01-31T12:00:00Z",
    "tool": {"name": "certifare", "version": "0.1.0"},
}


def certificate(*, witness=True, **options):
    counts = CellCounts(
        [[400, 300], [3, 1], [290, 402], [2, 9], [5, 4]],
        groups=["Female", "Male"],
        exclusions=[Exclusion("group missing", 12)],
    )
    other = CellCounts([[410, 290], [2, 3], [300, 390], [4, 8], [5, 5]], groups=["Female", "Male"])
    return certify_counts(counts, witness=other if witness else None, **options)


def in_sequence(digest="3d" * 32, **options):
    """A certificate by a fixed sequence: of three encoders the second was the last to pass."""
    counts = certificate().counts
    safe = CellCounts([[350, 358], [350, 358]], groups=counts.groups)
    bold = CellCounts([[500, 200], [200, 516]], groups=counts.groups)
    walked = FixedSequence.walk(
        [safe, counts, bold], 0.25, length=5, encoders=["4e" * 32, digest, "5f" * 32], **options
    )
    return certify_counts(counts, sequence=walked, witness=certificate().witnesses)


def encoder_of(values):
    """Return an encoder of the column x, with a cell for each of these values."""
    x = np.repeat(np.asarray(values, dtype=float), 2)
    encoder = FairTreeEncoder(gamma=0.0, max_cells=len(values), min_cell_size=1)
    return encoder.fit(pd.DataFrame({"x": x}), x, sensitive_features=np.tile(["f", "m"], len(values)))


def encoder_file(path, n_cells=5):
    """Write an encoder of so many cells; as many as the certificate has, unless given."""
    encoder_of(range(n_cells)).save(path)
    return path


def fixed_key(seed=7):
    """A key pair that is the same in every run: Ed25519 signs without randomness."""
    return CryptoSigner(Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


def plain(**context):
    return sign(make_statement(certificate(), **{**CONTEXT, **context}), None).to_bytes()


def signed(seed=7, **context):
    return sign(make_statement(certificate(), **{**CONTEXT, **context}), fixed_key(seed)).to_bytes()


def changed(content, *path, to):
    """Change a document at one place, or add something there."""
    document = json.loads(content)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return json.dumps(document).encode()
