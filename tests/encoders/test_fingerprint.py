import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.conftest import FULL

from certifare.encoders.fingerprint import Fingerprint
from certifare.encoders.hashes import hash_records
from certifare.errors import FileError
from certifare.tables.frames import Frame


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
    assert len(np.intersect1d(one.views[0].hashes, two.views[0].hashes)) <= 1  # of 32 bits


def test_training_records_are_recognised():
    rng = np.random.default_rng(0)
    fields = fields_of(rng.normal(size=(500, 3)))
    overlap = Fingerprint.of(fields).overlap(fields)
    assert overlap.seen == overlap.records == 500
    assert overlap.expected == 0.0
    assert overlap.excessive
    assert "500 of 500 records are among the training records" in str(overlap)


@pytest.mark.parametrize("values", [3, 4, 6, 10])
@pytest.mark.parametrize("seed", range(5 if FULL else 2))
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
    assert 0.1 < fingerprint.views[0].chance < 0.3
    assert not fingerprint.overlap(fields_of(fresh)).excessive
    assert fingerprint.overlap(fields_of(pd.concat([fresh.iloc[:9500], train.iloc[:500]]))).excessive


def test_real_people_who_resemble_each_other(acs):
    features = acs.drop(columns=["PINCP_GT50K", "SEX"])
    order = np.random.default_rng(0).permutation(len(features))
    train, fresh = features.iloc[order[:25_000]], features.iloc[order[25_000:]]
    fingerprint = Fingerprint.of(fields_of(train))
    assert fingerprint.views[0].chance > 0.005
    assert not fingerprint.overlap(fields_of(fresh)).excessive
    assert fingerprint.overlap(fields_of(pd.concat([fresh.iloc[:9700], train.iloc[:300]]))).excessive


def test_a_private_file_keeps_it(tmp_path):
    fields = fields_of(np.random.default_rng(0).normal(size=(10_000, 5)))
    fingerprint, path = Fingerprint.of(fields), tmp_path / "fingerprint.npz"
    path.write_bytes(b"")
    path.chmod(0o644)
    fingerprint.save(path)
    assert path.stat().st_mode & 0o777 == 0o600  # its owner's alone
    assert path.stat().st_size < 400_000
    loaded = Fingerprint.load(path)
    assert loaded.names == fingerprint.names
    assert loaded.overlap(fields) == fingerprint.overlap(fields)


def damaged(path):
    return path.write_bytes(path.read_bytes()[:-60])


def contradicts(path):
    with np.load(path) as file:
        np.savez(path, **{**file, "sizes": file["sizes"] + 1})


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not a zip"),
        damaged,
        lambda path: np.savez(path, format=np.array("certifare/fingerprint"), version=np.array(1)),
        lambda path: np.savez(path, format=np.array("certifare/fingerprint"), version=np.array(3)),
        lambda path: np.savez_compressed(path, format=np.zeros(1 << 27, dtype=np.uint8)),  # a bomb
        contradicts,
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
    with pytest.raises(FileError, match="fingerprint"):
        Fingerprint.load(path)


def one_column(X, change):
    return np.column_stack([change(X[:, 0]), X[:, 1:]])


DISGUISES = {
    "float32": lambda X: X.astype(np.float32),
    "two digits": lambda X: X.round(2),
    "one column + 1e-9": lambda X: one_column(X, lambda column: column + 1e-9),
    "one column in other units": lambda X: one_column(X, lambda column: 1000 * column),
    "noise of a hundredth": lambda X: X + np.random.default_rng(9).normal(0, 0.01, X.shape),
}


@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES)
@pytest.mark.parametrize(("copies", "columns"), [(1, 4), (2, 12), (10, 4)])
def test_training_records_are_recognised_in_disguise(disguise, copies, columns):
    rng = np.random.default_rng(3)
    train = np.repeat(rng.normal(size=(2000, columns)), copies, axis=0)
    fingerprint = Fingerprint.of(fields_of(train))
    assert fingerprint.overlap(fields_of(disguise(train))).excessive
    assert not fingerprint.overlap(fields_of(disguise(rng.normal(size=(2000, columns))))).excessive


def test_whole_numbers_and_zeros_are_recognised_in_disguise():
    rng = np.random.default_rng(4)
    train = discrete(rng, 3000, 40, 6).astype(float)
    fingerprint = Fingerprint.of(fields_of(train))
    for change in (lambda t: t.astype("float32"), lambda t: t.assign(c0=t.c0 + 1e-9), lambda t: t + 1e-9):
        assert fingerprint.overlap(fields_of(change(train))).excessive


@pytest.mark.parametrize("name", ["adult", "acs"])
def test_copies_of_real_people_recognise_themselves_and_nobody_else(request, name):
    people = request.getfixturevalue(name).sample(12_000, random_state=0)
    train, fresh = people.iloc[:6000], people.iloc[6000:]
    twice = Fingerprint.of(fields_of(pd.concat([train, train])))
    assert twice.overlap(fields_of(pd.concat([train, train]))).excessive
    assert twice.overlap(fields_of(train.sample(1000, random_state=1))).excessive
    assert not twice.overlap(fields_of(fresh)).excessive


def test_many_records_are_sampled_by_their_hashes(monkeypatch):
    monkeypatch.setattr("certifare.encoders.fingerprint.MOST_HASHES", 1500)
    monkeypatch.setattr("certifare.encoders.fingerprint.MOST_COARSE", 1000)
    rng = np.random.default_rng(0)
    train = rng.normal(size=(5000, 4))
    fingerprint = Fingerprint.of(fields_of(train))
    assert all(len(view.hashes) <= 1500 for view in fingerprint.views)
    assert fingerprint.overlap(fields_of(train.round(2))).excessive
    assert not fingerprint.overlap(fields_of(rng.normal(size=(5000, 4)))).excessive
