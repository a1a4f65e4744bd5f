import numpy as np
import pandas as pd
import polars as pl
import pytest

from certifare.columns import Frame
from certifare.encoders import fingerprint
from certifare.encoders.fingerprint import Fingerprint, hash_records
from certifare.errors import EncoderFileError


def fields_of(table):
    frame = Frame(table)
    return [frame.read(name) for name in frame.names]


def discrete(rng, n, values=4, columns=5):
    return pd.DataFrame(rng.integers(0, values, size=(n, columns)), columns=[f"c{i}" for i in range(columns)])


def test_equal_records_have_equal_hashes_whatever_holds_them():
    table = {"a": [1, 2, 2], "b": ["x", None, None], "c": [0.0, -0.0, 0.0], "d": [True, False, False]}
    salt = b"salt"
    hashes = hash_records(fields_of(pd.DataFrame(table)), salt)
    assert hashes[1] == hashes[2] != hashes[0]
    wider = pd.DataFrame(table).astype({"a": "float64", "b": "category", "d": "int8"})
    for other in (pl.DataFrame(table), wider):
        assert np.array_equal(hash_records(fields_of(other), salt), hashes)


def test_hashes_depend_on_the_salt_the_value_and_its_column():
    table = pd.DataFrame({"a": [1, 2], "b": [2, 1]})
    one = hash_records(fields_of(table), b"one")
    assert one[0] != one[1]
    assert not np.intersect1d(one, hash_records(fields_of(table), b"two")).size


def test_two_fingerprints_of_the_same_records_share_nothing():
    fields = fields_of(pd.DataFrame({"a": np.arange(100)}))
    one, two = Fingerprint.of(fields), Fingerprint.of(fields)
    assert not np.intersect1d(one.hashes, two.hashes).size


def test_training_records_are_recognised():
    rng = np.random.default_rng(0)
    fields = fields_of(rng.normal(size=(500, 3)))
    overlap = Fingerprint.of(fields).overlap(fields)
    assert overlap.seen == overlap.records == 500
    assert overlap.expected == 0.0
    assert overlap.excessive
    assert "500 of 500 records" in str(overlap)


@pytest.mark.parametrize("values", [3, 4, 6, 10])
@pytest.mark.parametrize("seed", range(5))
def test_duplicates_by_chance_are_not_held_against_fresh_records(values, seed):
    rng = np.random.default_rng(seed)
    fingerprint = Fingerprint.of(fields_of(discrete(rng, 4000, values)))
    overlap = fingerprint.overlap(fields_of(discrete(rng, 3000, values)))
    assert abs(overlap.seen - overlap.expected) < 0.05 * overlap.records
    assert not overlap.excessive


@pytest.mark.parametrize("share", [0.03, 0.1, 1.0])
def test_a_few_training_records_are_noticed(share):
    rng = np.random.default_rng(1)
    train, fresh = rng.normal(size=(5000, 3)), rng.normal(size=(2000, 3))
    mixed = np.concatenate([fresh[int(share * 2000) :], train[: int(share * 2000)]])
    overlap = Fingerprint.of(fields_of(train)).overlap(fields_of(mixed))
    assert overlap.seen == int(share * 2000)
    assert overlap.excessive


def test_a_few_training_records_are_noticed_among_duplicates():
    rng = np.random.default_rng(2)
    train, fresh = discrete(rng, 20_000, 10), discrete(rng, 10_000, 10)
    fingerprint = Fingerprint.of(fields_of(train))
    assert 0.1 < fingerprint.chance < 0.3
    assert not fingerprint.overlap(fields_of(fresh)).excessive
    assert fingerprint.overlap(fields_of(pd.concat([fresh.iloc[:9500], train.iloc[:500]]))).excessive


def test_real_people_who_resemble_each_other(acs):
    features = acs.drop(columns=["PINCP_GT50K", "SEX"])
    order = np.random.default_rng(0).permutation(len(features))
    train, fresh = features.iloc[order[:25_000]], features.iloc[order[25_000:]]
    fingerprint = Fingerprint.of(fields_of(train))
    assert fingerprint.chance > 0.005
    assert not fingerprint.overlap(fields_of(fresh)).excessive
    assert fingerprint.overlap(fields_of(pd.concat([fresh.iloc[:9700], train.iloc[:300]]))).excessive


def test_a_private_file_keeps_it(tmp_path):
    fields = fields_of(np.random.default_rng(0).normal(size=(50, 2)))
    fingerprint = Fingerprint.of(fields)
    fingerprint.save(tmp_path / "fingerprint.npz")
    loaded = Fingerprint.load(tmp_path / "fingerprint.npz")
    assert loaded.names == fingerprint.names
    assert loaded.overlap(fields) == fingerprint.overlap(fields)


def damaged(path):
    return path.write_bytes(path.read_bytes()[:-60])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not a zip"),
        damaged,
        lambda path: np.savez(path, format=np.array("certifare/fingerprint"), version=np.array(2)),
        lambda path: np.savez(path, format=np.array("other"), version=np.array(1)),
        lambda path: np.savez(path, x=np.zeros(3)),
        lambda path: path.unlink(),
        lambda path: np.savez(path, format=np.array(["certifare/fingerprint"], dtype=object)),
    ],
)
def test_what_is_no_fingerprint_is_refused(tmp_path, spoil):
    path = tmp_path / "fingerprint.npz"
    Fingerprint.of(fields_of(np.ones((3, 1)))).save(path)
    spoil(path)
    with pytest.raises(EncoderFileError, match="fingerprint"):
        Fingerprint.load(path)


def test_the_kernel_hashes_as_numpy_does(monkeypatch):
    rng = np.random.default_rng(0)
    fields = fields_of(pd.DataFrame({"a": rng.normal(size=500), "b": rng.integers(0, 9, 500)}))
    plain = hash_records(fields, b"salt")
    monkeypatch.setattr(fingerprint, "WORTH_COMPILING", 0)
    assert np.array_equal(hash_records(fields, b"salt"), plain)
