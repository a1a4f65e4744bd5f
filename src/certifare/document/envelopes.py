"""Write certificate files in one canonical form; read and validate them.

A plain file is the statement itself. A signed one is a DSSE envelope whose payload is the statement's bytes.
Reading validates everything and executes nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from certifare.certificates import Certificate
from certifare.document.keys import load_private_key
from certifare.document.statement import OLDEST_VERSION, PREDICATE, VERSION, Statement, canonical, make_statement
from certifare.encoders.format import EncoderFile
from certifare.errors import DocumentError, ExpiredVersionError, FileError
from certifare.foundation.storage import atomic_file, distinct_keys, open_regular, read_regular

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner, SSlibKey

PayloadType = Literal["application/vnd.in-toto+json"]
PAYLOAD_TYPE: PayloadType = "application/vnd.in-toto+json"
#: A certificate of a hundred thousand cells has a few megabytes.
MAX_BYTES = 16 * 2**20
#: The most lists and objects in a file: an empty one has three bytes there, and fifty or more in memory.
MOST_LISTS = 2**20


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signature of an envelope, in base64, and a hint at its key."""

    sig: Annotated[str, msgspec.Meta(max_length=1_000)]
    keyid: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A DSSE envelope: a payload in base64, its type, and signatures over both."""

    payload: str
    payload_type: PayloadType = msgspec.field(name="payloadType", default=PAYLOAD_TYPE)
    signatures: Annotated[tuple[Signature, ...], msgspec.Meta(min_length=1, max_length=32)]


@dataclass(frozen=True, slots=True)
class Document:
    """A certificate file that was read or is to be written.

    Attributes
    ----------
    statement : Statement
        The content.
    payload : bytes
        The bytes of the statement, which are signed.
    signatures : tuple of Signature
        Empty for a plain file. Reading does not check them: :meth:`signed_by` does.
    """

    statement: Statement
    payload: bytes
    signatures: tuple[Signature, ...] = ()

    @property
    def certificate(self) -> Certificate:
        """The certificate in the statement."""
        return self.statement.predicate.certificate

    @property
    def id(self) -> str:
        """A short name of the statement: the first 16 digits of the SHA-256 digest of its bytes."""
        return hashlib.sha256(self.payload).hexdigest()[:16]

    def signed_by(self, key: SSlibKey) -> bool:
        """Return whether one of the signatures is by this key, over exactly these bytes."""
        from securesystemslib.exceptions import UnverifiedSignatureError
        from securesystemslib.signer import Signature as Signed

        message = _preauthentication(self.payload)
        for signature in self.signatures:
            try:
                key.verify_signature(Signed(key.keyid, _base64(signature.sig, "a signature").hex()), message)
            except UnverifiedSignatureError:
                continue
            return True
        return False

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        if not self.signatures:
            return self.payload + b"\n"
        payload = base64.b64encode(self.payload).decode("ascii")
        return canonical(msgspec.to_builtins(Envelope(payload=payload, signatures=self.signatures))) + b"\n"


def write_document(
    path: str | os.PathLike[str],
    certificate: Certificate,
    key: str | os.PathLike[str] | CryptoSigner | None = None,
    *,
    encoder: str | os.PathLike[str] | None = None,
    **context: Any,
) -> Document:
    """Write a certificate to a file, signed if a key is given.

    The file is written completely or not at all.

    Parameters
    ----------
    path : path
        The file, usually ``certificate.json``.
    certificate : Certificate
        The certificate to write.
    key : path or signer, optional
        The private key.
    encoder : path, optional
        The encoder's file, whose digest is stored. It must have as many cells as the certificate.
    **context
        Arguments of :func:`certifare.document.make_statement`: ``data_digest``, ``selection``, ``suppress_below``,
        ``reading``, ``command``, ``created`` …

    Returns
    -------
    Document
    """
    if encoder is not None:
        from certifare.encoders.records import check_cells

        file = EncoderFile.of(encoder)
        check_cells(file.document.n_cells, certificate.counts)
        context["encoder_digest"] = digest(file)
    document = sign(make_statement(certificate, **context), key)
    with atomic_file(path) as name:
        name.write_bytes(document.to_bytes())
    return document


def sign(stated: Statement, key: str | os.PathLike[str] | CryptoSigner | None) -> Document:
    """Make a document from a statement; sign it if a private key is given."""
    payload = canonical(stated.to_dict())
    if key is None:
        return Document(stated, payload)
    signer = load_private_key(key) if isinstance(key, str | os.PathLike) else key
    signed = signer.sign(_preauthentication(payload))
    sig = base64.b64encode(bytes.fromhex(signed.signature)).decode("ascii")
    return Document(stated, payload, (Signature(sig, signed.keyid),))


def read_document(source: str | os.PathLike[str] | bytes) -> Document:
    """Read a certificate file and validate its form. :func:`verify_document` checks its figures and signatures.

    Parameters
    ----------
    source : path or bytes
        A file, or its content.

    Raises
    ------
    DocumentError
        It is not a certificate, or has a newer version of the format;
        :class:`~certifare.errors.ExpiredVersionError` if its version is no longer accepted.
    """
    if not isinstance(source, bytes):
        try:
            return read_document(read_regular(source, MAX_BYTES + 1))
        except DocumentError as error:
            raise type(error)(f"{os.fspath(source)}: {error}") from error
    content = parse(source)
    if isinstance(content, dict) and "payload" in content:
        try:
            envelope = msgspec.convert(content, Envelope)
        except msgspec.ValidationError as error:
            raise DocumentError(f"Not a signed certificate: {error}") from error
        payload = _base64(envelope.payload, "the payload")
        return Document(_statement(parse(payload)), payload, envelope.signatures)
    return Document(_statement(content), source.rstrip(b"\n"))


def digest(source: str | os.PathLike[str] | bytes) -> str:
    """Return the SHA-256 digest of a file, or of bytes, in hexadecimal digits.

    >>> digest(b"")[:16]
    'e3b0c44298fc1c14'
    """
    if isinstance(source, bytes):
        return hashlib.sha256(source).hexdigest()
    try:
        if isinstance(source, EncoderFile):
            return source.digest
        with open_regular(source) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"The file {os.fspath(source)!r} cannot be read: {error.strerror}.") from error


def parse(data: bytes) -> Any:
    """Parse JSON strictly: UTF-8, no duplicate keys, no NaN, no numbers out of range."""
    if len(data) > MAX_BYTES:
        raise DocumentError(
            f"The file is larger than {MAX_BYTES // 2**20} MB, too large for a certificate, and was not read."
        )
    if not data.strip():
        raise DocumentError("The file is empty.")
    if (found := data.count(b"[") + data.count(b"{")) > MOST_LISTS:
        raise DocumentError(f"The file has {found:,} lists; at most {MOST_LISTS:,} are allowed.")
    try:
        # msgspec is stricter, json detects duplicate keys.
        msgspec.json.decode(data)
        return json.loads(data, object_pairs_hook=distinct_keys)
    except RecursionError as error:
        raise DocumentError("Not a certificate: the file is nested too deeply.") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise DocumentError(f"Not a certificate: the file is not valid JSON ({error}).") from error


def _statement(content: Any) -> Statement:
    kind = content.get("predicateType") if isinstance(content, dict) else None
    version = re.fullmatch(re.escape(PREDICATE) + r"([0-9]{1,9})", kind) if isinstance(kind, str) else None
    if version is None:
        raise DocumentError(
            "Not a certificate: " + (f"a statement of another kind, {kind!r}." if kind else "no predicateType.")
        )
    if int(version[1]) > VERSION:
        raise DocumentError(
            f"The certificate has version {version[1]} of the format, but this certifare only reads versions up to "
            f"{VERSION}. Install a newer one."
        )
    if int(version[1]) < OLDEST_VERSION:
        raise ExpiredVersionError(
            f"The certificate has version {version[1]} of the format, which has expired (the oldest accepted is "
            f"{OLDEST_VERSION}). Ask its producer for a new one."
        )
    return Statement.from_dict(content)


def _preauthentication(payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: type and payload with their lengths."""
    from securesystemslib.dsse import Envelope as Dsse

    return Dsse(payload, PAYLOAD_TYPE, {}).pae()


def _base64(text: str, what: str) -> bytes:
    """Decode base64 with either alphabet, as DSSE requires."""
    try:
        return base64.b64decode(text.translate({ord("-"): "+", ord("_"): "/"}), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DocumentError(f"Not a signed certificate: {what} is not valid base64.") from error
