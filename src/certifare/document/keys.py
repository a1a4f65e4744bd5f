"""Ed25519 keys in PEM files, as OpenSSL writes them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from certifare.errors import FileError
from certifare.foundation.storage import read_regular, writable

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, SSlibKey

#: Environment variable for the passphrase.
PASSPHRASE_VARIABLE = "CERTIFARE_PASSPHRASE"  # noqa: S105
#: Key files are a few hundred bytes.
_MAX_KEY_BYTES = 65_536


def new_key(path: str | os.PathLike[str], passphrase: str | None = None) -> tuple[Path, Path]:
    """Make a key pair: ``NAME.pem`` to sign with, ``NAME.pub.pem`` for everyone else.

    Parameters
    ----------
    path : path
        The name of the pair, with or without ``.pem``. Existing files are never overwritten.
    passphrase : str, optional
        Encrypts the private key.

    Returns
    -------
    private, public : Path
        The two files; only their owner can read the private key.

    Examples
    --------
    >>> import tempfile
    >>> private, public = new_key(Path(tempfile.mkdtemp()) / "producer")
    >>> private.name, public.name
    ('producer.pem', 'producer.pub.pem')
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    name = Path(path)
    if name.name.endswith(".pem"):
        name = name.with_name(name.name.removesuffix(".pem"))
    if not name.name or name.is_dir():
        raise FileError(f"{os.fspath(path)!r} is a folder. Add the name of the key, such as keys/producer.")
    if passphrase == "":
        raise FileError("The passphrase is empty. Give one, or leave it out.")
    private, public = name.with_name(name.name + ".pem"), name.with_name(name.name + ".pub.pem")
    key = Ed25519PrivateKey.generate()
    locked = (
        serialization.NoEncryption()
        if passphrase is None
        else serialization.BestAvailableEncryption(passphrase.encode("utf-8"))
    )
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    open_part = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _write_new(public, open_part, 0o644)
    try:
        _write_new(private, secret, 0o600)
    except BaseException:
        public.unlink()
        raise
    return private, public


def load_private_key(path: str | os.PathLike[str], passphrase: str | None = None) -> CryptoSigner:
    """Read a private key. Its passphrase can also be in the environment variable ``CERTIFARE_PASSPHRASE``."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    pem = _read(path)
    if b"PUBLIC KEY" in pem:
        raise FileError(f"{path} is a public key. Signing needs the private one, the file without .pub in its name.")
    if passphrase is None:
        passphrase = os.environ.get(PASSPHRASE_VARIABLE)
    if not locked(path):
        passphrase = None
    elif not passphrase:
        raise FileError(f"{path} is encrypted. Give its passphrase, or set {PASSPHRASE_VARIABLE}.")
    try:
        key = load_pem_private_key(pem, None if passphrase is None else passphrase.encode("utf-8"))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FileError(
            f"{path} cannot be read as a private key" + (". Check the passphrase." if passphrase else ".")
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise FileError(f"{path} is not an Ed25519 key. `certifare key new` makes one.")
    return CryptoSigner(key)


def load_public_key(path: str | os.PathLike[str]) -> SSlibKey:
    """Read a public key, which checks signatures."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    pem = _read(path)
    if b"PRIVATE KEY" in pem:
        raise FileError(
            f"{path} is a private key. Checking a signature needs the public one only, the file with .pub in its name."
        )
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FileError(f"{path} cannot be read as a public key in PEM form.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise FileError(f"{path} is not an Ed25519 key; only these sign certificates.")
    return SSlibKey.from_crypto(key)


def locked(path: str | os.PathLike[str]) -> bool:
    """Return whether a private key file is encrypted with a passphrase."""
    return b"ENCRYPTED PRIVATE KEY" in _read(path)


def _read(path: str | os.PathLike[str]) -> bytes:
    data = read_regular(path, _MAX_KEY_BYTES + 1, what="key file")
    if len(data) > _MAX_KEY_BYTES:
        raise FileError(f"{path} is far too large for a key file.")
    return data


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a new file with these permissions from the start, completely or not at all."""
    try:
        with writable(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(descriptor)  # some disks report only now that they are full
            except BaseException:
                path.unlink()
                raise
    except FileError as error:
        if isinstance(error.__cause__, FileExistsError):
            raise FileError(f"{path} exists. Choose another name.") from error
        raise FileError(str(error)) from error
