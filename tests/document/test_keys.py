"""Key files: made once, private to their owner, refused where they are something else."""

import os
import resource
import stat

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certifare.document import load_private_key, load_public_key, new_key
from certifare.errors import FileError


def test_a_pair_signs_and_checks(tmp_path):
    private, public = new_key(tmp_path / "producer")

    signed = load_private_key(private).sign(b"text")
    key = load_public_key(public)
    assert key.keyid == signed.keyid
    key.verify_signature(signed, b"text")


def test_names_with_and_without_ending(tmp_path):
    assert [p.name for p in new_key(tmp_path / "a")] == ["a.pem", "a.pub.pem"]
    assert [p.name for p in new_key(tmp_path / "b.pem")] == ["b.pem", "b.pub.pem"]
    assert [p.name for p in new_key(str(tmp_path / "c.2030"))] == ["c.2030.pem", "c.2030.pub.pem"]


def test_only_the_owner_reads_the_private_key(tmp_path):
    old = os.umask(0)
    try:
        private, _ = new_key(tmp_path / "producer")
    finally:
        os.umask(old)

    assert stat.S_IMODE(private.stat().st_mode) == 0o600


@pytest.mark.parametrize("existing", ["producer.pem", "producer.pub.pem"])
def test_nothing_is_overwritten(tmp_path, existing):
    (tmp_path / existing).write_text("precious")

    with pytest.raises(FileError, match="exists. Choose another name"):
        new_key(tmp_path / "producer")

    assert (tmp_path / existing).read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == [existing]


def test_a_passphrase_locks_the_private_key(tmp_path, monkeypatch):
    secret = " ".join(["Öl", "Brot"])
    private, public = new_key(tmp_path / "producer", secret)
    monkeypatch.delenv("CERTIFARE_PASSPHRASE", raising=False)

    with pytest.raises(FileError, match="is encrypted"):
        load_private_key(private)
    with pytest.raises(FileError, match="Check the passphrase"):
        load_private_key(private, "wrong")
    signed = load_private_key(private, secret).sign(b"text")
    load_public_key(public).verify_signature(signed, b"text")
    monkeypatch.setenv("CERTIFARE_PASSPHRASE", secret)
    assert load_private_key(private).sign(b"text").signature == signed.signature


def test_a_passphrase_for_a_key_without_lock_is_not_needed(tmp_path, monkeypatch):
    private, _ = new_key(tmp_path / "producer")
    monkeypatch.setenv("CERTIFARE_PASSPHRASE", "for another key")

    load_private_key(private)


def test_an_empty_passphrase_is_a_mistake(tmp_path):
    with pytest.raises(FileError, match="empty"):
        new_key(tmp_path / "producer", passphrase="")


def test_the_two_files_are_not_confused(tmp_path):
    private, public = new_key(tmp_path / "producer")

    with pytest.raises(FileError, match="is a public key"):
        load_private_key(public)
    with pytest.raises(FileError, match="is a private key"):
        load_public_key(private)


def test_keys_of_another_kind(tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    (tmp_path / "private.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (tmp_path / "public.pem").write_bytes(
        key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )

    with pytest.raises(FileError, match="Ed25519"):
        load_private_key(tmp_path / "private.pem")
    with pytest.raises(FileError, match="Ed25519"):
        load_public_key(tmp_path / "public.pem")


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 50, b"-----BEGIN PUBLIC KEY-----\nAAAA\n", b"x" * 100_000])
def test_files_that_are_no_keys(tmp_path, content):
    path = tmp_path / "key.pem"
    path.write_bytes(content)

    with pytest.raises(FileError):
        load_public_key(path)
    with pytest.raises(FileError):
        load_private_key(path)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileError, match="No such file"):
        load_public_key(tmp_path / "absent.pem")
    with pytest.raises(FileError, match="cannot be written"):
        new_key(tmp_path / "absent" / "producer")
    with pytest.raises(FileError, match="is a folder"):
        new_key(tmp_path)


@pytest.mark.parametrize("room", [0, 50, 115])
def test_a_full_disk_leaves_no_half_of_a_key(tmp_path, room):
    """A public key takes 113 bytes, a private one 119: no file may be larger than there is room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(FileError, match=r"producer\.(pub\.)?pem' cannot be written"):
            new_key(tmp_path / "producer")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())
    new_key(tmp_path / "producer")  # the name is still free
