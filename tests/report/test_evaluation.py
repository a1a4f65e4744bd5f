"""The report shows what drives an encoder, and how well its scores are calibrated."""

import json

import pytest

from certifare.bundle import produce
from certifare.frontier import Grid
from certifare.report import describe_encoder, render_html, report_data
from certifare.report.charts import draw_charts
from certifare.report.evaluation import evaluate

from .samples import HOSTILE, SCRIPT, bundle, fitted, people, table


@pytest.fixture(scope="module", params=["tree", "boosted"])
def evaluated(request, tmp_path_factory):
    path, document = bundle(tmp_path_factory.mktemp("evaluated"), request.param)
    (encoder, _), fresh = fitted(request.param), table(seed=1)
    evaluation = evaluate(encoder, fresh)
    return report_data(document, encoder=describe_encoder(path), evaluation=evaluation), encoder, fresh


def test_the_chart_of_importances_shows_every_column(evaluated):
    data, encoder, _ = evaluated
    drawn = draw_charts(data)["importances"]
    assert drawn.count("<rect") == 2 * len(encoder.columns_)
    page = render_html(data)
    assert 'id="drives"' in page
    for column in encoder.columns_:
        assert column.name in drawn
        assert f'<th scope="row">{column.name}</th>' in page
    json.dumps(data, allow_nan=False)


def test_the_report_shows_calibration_of_every_filled_cell(evaluated):
    data, _, fresh = evaluated
    (scores,) = data["calibration"]
    assert scores["value"] == "yes"
    assert sum(cell["records"] for cell in scores["cells"]) == len(fresh)
    assert scores["error"] < 0.1
    filled = sum(cell["records"] > 0 for cell in scores["cells"])
    assert draw_charts(data)["calibration"].count("<circle") == filled
    assert 'id="calibration"' in render_html(data)


def test_names_of_columns_only_show():
    evaluation = evaluate(fitted("tree")[0], table())
    for column, name in zip(evaluation["importances"]["columns"], HOSTILE, strict=False):
        column["column"] = name
    from certifare import CellCounts, certify_counts

    data = report_data(certify_counts(CellCounts([[120, 80], [30, 60]], groups=["f", "m"])), evaluation=evaluation)
    assert SCRIPT not in render_html(data)


@pytest.mark.parametrize("suppress", [None, 5])
def test_a_bundle_reports_importances_and_publishes_scores_only_with_statistics(tmp_path, suppress):
    made = produce(people(4000), label="paid", sensitive="sex", grid=Grid(kinds=["tree"], gammas=[0.5]), ledger=False)
    made.save(tmp_path / "bundle", suppress=suppress)
    page = (tmp_path / "bundle" / "report.html").read_text("utf-8")
    assert "Feature importance" in page
    # Where the cells' statistics are not published, scores are not, either.
    assert (">Calibration</h2>" in page) == (suppress is None)
