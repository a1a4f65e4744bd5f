import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

from certifare import KMeansEncoder
from certifare.encoders.space import Space, find_centres
from certifare.errors import EncoderError
from certifare.foundation.randomness import number
from certifare.growth import fit_bins
from certifare.tables.frames import Frame


def test_numbers_are_standardised_and_categories_one_hot():
    table = pd.DataFrame({"n": [1.0, 3.0, np.nan], "c": ["a", "b", None]})
    frame = Frame(table)
    fields = [frame.read(0), frame.read(1)]
    bins = fit_bins([f.column for f in fields], frame.names, [False, True], min_category_count=1)
    points = Space.fit(fields, bins).points(fields).toarray()
    # n, then a, b, rare or new, missing
    assert points.tolist() == [[-1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 0, 1]]


def test_cells_are_those_of_the_nearest_centre(people):
    table = pd.DataFrame(people).drop(columns=["sex", "income"])
    encoder = KMeansEncoder(6).fit(table)
    fields = encoder.read_fields(Frame(table))
    points = encoder._space.points(fields)
    distances = ((points.toarray()[:, None, :] - encoder.centres_) ** 2).sum(axis=2)
    assert np.array_equal(encoder.apply(table), distances.argmin(axis=1))
    reference = KMeans(6, n_init=1, random_state=number(0, "centres")).fit(points)
    assert np.array_equal(reference.predict(points), encoder.apply(table))


def test_labels_and_groups_are_only_described(people):
    table = pd.DataFrame(people)
    X = table.drop(columns=["sex", "income"])
    plain, told = KMeansEncoder(4).fit(X), KMeansEncoder(4).fit(X, table["income"], sensitive_features=table["sex"])
    assert np.array_equal(plain.apply(X), told.apply(X))
    assert plain.describe()[0].groups == {}
    assert set(told.describe()[0].groups["sex"]) == {"female", "male"}
    assert plain.describe()[0].rules[0].startswith("nearest to age = ")


def test_fewer_different_records_than_cells():
    encoder = KMeansEncoder(10).fit(np.array([[0.0], [0.0], [1.0], [1.0], [1.0]]))
    assert encoder.n_cells_ == 2
    assert encoder.transform(np.array([[0.2], [0.9]])).tolist() == [[0.0], [1.0]]


def test_centres_are_different():
    assert len(find_centres(np.zeros((20, 2)), 5, 0)) == 1


@pytest.mark.parametrize("n_cells", [0, 2.5])
def test_bad_numbers_of_cells(n_cells):
    with pytest.raises(EncoderError, match="n_cells is"):
        KMeansEncoder(n_cells).fit(np.ones((3, 1)))
