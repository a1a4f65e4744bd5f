"""What notebooks show, offline."""

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer

from certifare import FairTreeEncoder, certify
from certifare.bundle import produce
from certifare.drawing.svg import tag
from certifare.encoders.weighting import repeated_rows
from certifare.errors import ArgumentError
from certifare.foundation.display import Drawing
from certifare.frontier import Grid
from certifare.tables.table import Table

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(40, 10, 3000), "job": rng.choice(["cook", EVIL], 3000)})
    table["sex"] = rng.choice(["f", EVIL], 3000)
    table["other"] = rng.normal(size=3000)
    table["paid"] = (table["age"] + 4 * (table["sex"] == "f") + rng.normal(0, 5, 3000) > 42).astype(int)
    return table


@pytest.fixture(scope="module")
def encoder(people):
    fitted = FairTreeEncoder(sensitive="sex", max_cells=4, min_cell_size=100)
    return fitted.fit(people[:1500].drop(columns="paid"), people[:1500]["paid"])


@pytest.fixture(scope="module")
def bundle(people):
    grid = Grid(kinds=["tree"], gammas=[0.5], min_cell_sizes=[100], cells=[2, 4])
    return produce(people, label="paid", sensitive="sex", grid=grid, ledger=False)


@pytest.mark.parametrize("output", ["representatives", "cells", "onehot", "score"])
def test_encoders_work_in_a_column_transformer_with_set_output(people, output):
    encoder = FairTreeEncoder(sensitive="sex", max_cells=4, min_cell_size=100, output=output)
    columns = ColumnTransformer([("fair", encoder, ["age", "sex", "job"])], remainder="passthrough")
    encoded = columns.set_output(transform="pandas").fit_transform(people.drop(columns="paid"), people["paid"])
    assert list(encoded.columns) == list(columns.get_feature_names_out())
    assert not any("sex" in name for name in encoded.columns)
    assert len(encoded) == len(people)


def test_feature_names_leave_out_the_sensitive_column_of_an_array(people):
    numbers = people[["age", "other"]].to_numpy()
    array = np.column_stack([numbers[:, 0], people["sex"] == "f", numbers[:, 1]]).astype(float)
    encoder = FairTreeEncoder(sensitive=[1], max_cells=4, min_cell_size=100).fit(array, people["paid"])
    assert list(encoder.get_feature_names_out(["a", "b", "c"])) == ["a", "c"]
    with pytest.raises(ValueError, match="length"):
        encoder.get_feature_names_out(["a"])


def test_weights_that_are_whole_numbers_equal_repeated_records(people):
    X, y = people[["age", "other", "sex"]], people["paid"]
    weights = np.random.default_rng(1).integers(0, 4, len(people))
    rows = np.repeat(np.arange(len(people)), weights)
    settings = {"sensitive": "sex", "max_cells": 6, "min_cell_size": 100}
    weighted = FairTreeEncoder(**settings).fit(X, y, sample_weight=weights)
    repeated = FairTreeEncoder(**settings).fit(X.iloc[rows], y.iloc[rows])
    assert str(weighted.describe()) == str(repeated.describe())
    plain = FairTreeEncoder(**settings).fit(X, y)
    assert str(FairTreeEncoder(**settings).fit(X, y, sample_weight=np.ones(len(X))).describe()) == str(plain.describe())
    assert str(plain.describe()) != str(weighted.describe())
    out = FairTreeEncoder(**settings).fit_transform(X, y, sample_weight=weights)
    assert len(out) == len(X)


def test_fractional_weights_are_kept_within_one_record():
    weights = np.random.default_rng(0).random(5000) * 100
    rows = repeated_rows(weights, 5000, seed=0)
    assert abs(len(rows) - 5000) <= 1
    times = np.bincount(rows, minlength=5000)
    expected = weights * 5000 / weights.sum()
    assert abs(times - expected).max() < 1
    assert abs(np.cumsum(times) - np.cumsum(expected)).max() <= 1.0
    for bad, error in (([1.0], ArgumentError), ([-1.0] * 5000, ArgumentError), ([0.0] * 5000, ArgumentError)):
        with pytest.raises(error):
            repeated_rows(bad, 5000, seed=0)


def test_encoders_and_bundles_have_a_short_text(encoder, bundle):
    assert str(encoder) == "FairTreeEncoder: 4 cells of 3 columns, label paid, groups by sex"
    assert str(FairTreeEncoder(gamma=0.3)) == "FairTreeEncoder(gamma=0.3)"
    assert repr(bundle).startswith("<Bundle: DONE")
    assert repr(bundle.frontier).startswith("<Frontier: ")


def test_what_notebooks_show_is_a_card_with_a_chart_and_escaped(encoder, bundle, people):
    table = Table.from_frame(people, label="paid", sensitive="sex")
    for shown in (table, encoder, bundle, bundle.frontier, bundle.certificate):
        text = shown._repr_html_()
        assert text.startswith('<div class="certifare">')
        assert text.count("<svg") >= 1
        assert "<table" in text
        assert EVIL not in text
        assert len(repr(shown)) < 400
        ElementTree.fromstring(text)  # noqa: S314  (well formed)
    assert repr(table) == "<Table: 3,000 records, 3 features, label paid, sensitive sex>"
    assert repr(bundle.certificate).startswith("<Certificate: demographic parity distance")
    assert "4 cells" in encoder._repr_mimebundle_()["text/html"]
    assert "sk-" in FairTreeEncoder()._repr_mimebundle_()["text/html"]  # as scikit-learn shows it


def test_plots_draw_every_encoder_that_was_tried(bundle):
    for drawn in (bundle.plot(), bundle.frontier.plot()):
        svg = drawn.svg()
        marks = len(re.findall(r'class="(?:predicted|certified) ', svg))
        assert marks == len(bundle.frontier) > 1


def test_drawings_need_no_network(encoder, bundle, people, tmp_path):
    certificate = certify(encoder, people[1500:].drop(columns="paid"), sensitive_features=people[1500:]["sex"])
    for drawn in (encoder.plot(), certificate.plot(), bundle.frontier.plot(), bundle.plot()):
        assert isinstance(drawn, Drawing)
        assert drawn._repr_html_().startswith("<svg")
        assert EVIL not in drawn._repr_html_()
    drawn.save(tmp_path / "frontier.html")
    page = (tmp_path / "frontier.html").read_text()
    assert drawn.svg() in page
    assert not re.search(r"<(script|link|img)|https?://(?!www\.w3\.org/2000/svg)", page)
    for name in ("frontier.png", "frontier"):
        with pytest.raises(ArgumentError, match=r"\.svg or \.html"):
            drawn.save(tmp_path / name)


def test_a_drawing_is_well_formed_whatever_the_names():
    drawn = Drawing("\x00<b>", tag("svg", tag("text", f"\x00\ud800{chr(0x202E)}<b>")))
    assert ElementTree.fromstring(drawn.svg())[0].text == "\ufffd\ufffd\ufffd<b>"  # noqa: S314
