"""Ed25519 keys in PEM files, as OpenSSL writes them, and signatures over DSSE envelopes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from certifare.errors import FileError
from certifare.foundation.storage import open_regular, writable

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, SSlibKey

#: Where a passphrase is looked for when none is given.
PASSPHRASE_VARIABLE = "CERTIFARE_PASSPHRASE"  # noqa: S105
#: Key files are a few hundred bytes.
_MAX_KEY_BYTES = 65_536


def new_key(path: str | os.PathLike[str], passphrase: str | None = None) -> tuple[Path, Path]:
    """Make a key pair: ``NAME.pem`` for the one who signs, ``NAME.pub.pem`` for everyone.

    Parameters
    ----------
    path : path
        The name of the pair, with or without ``.pem``. Files that exist are never overwritten.
    passphrase : str, optional
        Encrypts the private key.

    Returns
    -------
    private, public : Path
        The two files; only their owner can read the first.

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
        raise FileError(f"{os.fspath(path)!r} is a folder: give the name of the key as well, such as keys/producer.")
    if passphrase == "":
        raise FileError("The passphrase is empty: give one, or none at all.")
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
    """Read the key that signs. The passphrase, if any, may also stand in ``CERTIFARE_PASSPHRASE``."""
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
        raise FileError(f"{path} is locked by a passphrase: give it, or set {PASSPHRASE_VARIABLE}.")
    try:
        key = load_pem_private_key(pem, None if passphrase is None else passphrase.encode("utf-8"))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise FileError(
            f"{path} cannot be read as a private key" + (": is the passphrase right?" if passphrase else ".")
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise FileError(f"{path} holds no Ed25519 key. `certifare key new` makes one.")
    return CryptoSigner(key)


def load_public_key(path: str | os.PathLike[str]) -> SSlibKey:
    """Read the key that checks signatures."""
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
        raise FileError(f"{path} holds no Ed25519 key, the only kind that signs certificates.")
    return SSlibKey.from_crypto(key)


def locked(path: str | os.PathLike[str]) -> bool:
    """Whether a private key file asks for a passphrase."""
    return b"ENCRYPTED PRIVATE KEY" in _read(path)


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        with open_regular(path) as file:
            data = file.read(_MAX_KEY_BYTES + 1)
    except OSError as error:
        raise FileError(f"The key file {os.fspath(path)!r} cannot be read: {error.strerror}.") from error
    if len(data) > _MAX_KEY_BYTES:
        raise FileError(f"{path} is far too large for a key file.")
    return data


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that does not exist yet, readable from its first moment by whom ``mode`` allows only.

    It is there as a whole, or not at all.
    """
    try:
        with writable(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(descriptor)  # a disk may only now say that it is full
            except BaseException:
                path.unlink()
                raise
    except FileError as error:
        if isinstance(error.__cause__, FileExistsError):
            raise FileError(f"{path} exists and is not overwritten: choose another name.") from error
        raise FileError(str(error)) from error
