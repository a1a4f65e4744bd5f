"""What a report says follows from the certificate, and is plain data."""

import dataclasses
import json
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certifare import CellCounts, certify_counts
from certifare.certificates import Claim, Exclusion, FixedSequence
from certifare.certificates.bounding import Evidence
from certifare.certificates.chance import distance_by_chance
from certifare.certificates.claims import gaps_of
from certifare.certificates.issuing import issue
from certifare.certificates.looks import Look
from certifare.certificates.planning import equal_gaps
from certifare.certificates.rounding import round_up
from certifare.document import make_statement, new_key, sign, verify_document
from certifare.document.keys import load_private_key
from certifare.encoders import load_encoder
from certifare.errors import ArgumentError
from certifare.report import describe_encoder, render_html, report_data
from certifare.report.contents import MOST_CELLS

from .samples import ENCODERS, bundle, encoder_report, hostile_report, table


@pytest.fixture(scope="module")
def certificate():
    counts = CellCounts(
        [[400, 300], [3, 1], [290, 402], [2, 9], [5, 4]],
        groups=["Female", "Male"],
        exclusions=[Exclusion("group missing", 12)],
    )
    return certify_counts(counts)


def test_figures_are_those_of_the_certificate_rounded_to_the_safe_side(certificate):
    data = report_data(certificate, target=0.3)
    figures = data["figures"]

    assert figures["bound"] == certificate.bound <= float(figures["bound_text"])
    assert figures["lower"] == certificate.lower >= float(figures["lower_text"])
    assert data["target"] == {"value": 0.3, "met": True}
    assert report_data(certificate, target=0.01)["target"]["met"] is False
    assert data["exclusions"] == [{"reason": "group missing", "records": 12}]
    assert [group["records"] for group in data["groups"]] == [700, 716]
    assert data["cells"]["pair"] == ["Female", "Male"]
    assert data["cells"]["rows"][0]["difference"] == pytest.approx(400 / 700 - 300 / 716)
    positive = sum(max(row["difference"], 0) for row in data["cells"]["rows"])
    assert positive == pytest.approx(certificate.estimate)


def test_the_positive_differences_sum_to_the_estimate(certificate):
    cells = report_data(certificate)["cells"]
    climbing = [step for step in cells["steps"] if step["more"] == 0]

    assert [step["name"] for step in cells["steps"]] == ["0", "1", "4", "3", "2"]
    assert climbing[0]["start"] == 0.0
    assert climbing[-1]["end"] == pytest.approx(certificate.estimate)
    assert cells["steps"][-1]["end"] == pytest.approx(0.0, abs=1e-12)
    assert all(b["start"] == a["end"] for a, b in pairwise(cells["steps"]))
    assert all(step["shares"][0] - step["shares"][1] == pytest.approx(step["difference"]) for step in cells["steps"])
    assert cells["estimate"] <= cells["by_chance"] == certificate.bound


def test_a_mean_over_labels_is_said_to_be_one():
    rng = np.random.default_rng(1)
    counts = CellCounts(rng.integers(50, 400, (8, 3, 2)), groups=["a", "b", "c"], labels=["no", "yes"])
    mean, largest = (report_data(certify_counts(counts, metric)) for metric in ("equalized_odds", "equalized_odds_max"))

    assert mean["cells"]["bound"] > mean["figures"]["bound"]
    assert largest["cells"]["bound"] == largest["figures"]["bound"]
    assert "mean over labels of the largest bound of each" in render_html(mean)
    assert "bound of this pair" in render_html(mean)
    assert "bound of this pair" not in render_html(largest)


def test_many_cells_are_taken_together_and_the_sum_stays():
    rng = np.random.default_rng(2)
    certificate = certify_counts(CellCounts(rng.integers(5, 400, (60, 2)), groups=["a", "b"]))
    steps = report_data(certificate)["cells"]["steps"]

    others = [step for step in steps if "others" in step["name"]]
    assert len(steps) == MOST_CELLS + len(others)
    assert sum(int(step["name"].split()[0]) for step in others) == 60 - MOST_CELLS
    assert max(step["end"] for step in steps) == pytest.approx(certificate.estimate)
    assert steps == sorted(steps, key=lambda step: step["more"])


def test_the_epsilon_that_was_used_is_shown():
    counts = CellCounts([[400, 300], [300, 400]], groups=["f", "m"])
    alone, one_of_four = (report_data(certify_counts(counts, candidates=m))["figures"] for m in (1, 4))

    assert alone["epsilon_used"] == pytest.approx(0.05)
    assert one_of_four["epsilon_used"] == pytest.approx(0.0125)
    assert "4 encoders share ε" in one_of_four["epsilon_words"]
    assert one_of_four["epsilon_words"].endswith("0.0125.")
    labelled = CellCounts(np.full((3, 2, 2), 200), groups=["f", "m"], labels=["no", "yes"])
    mean = report_data(certify_counts(labelled, "equalized_odds"))["figures"]
    assert mean["epsilon_used"] == pytest.approx(0.025)
    assert "2 labels share ε" in mean["epsilon_words"]


def test_nothing_is_said_twice(tmp_path):
    """No sentence of some length stands twice in a report."""
    page = render_html(encoder_report(tmp_path)).partition("<body>")[2]
    text = re.sub(r"<(details|table|pre|figcaption).*?</\1>", "", page, flags=re.S)
    sentences = [s.strip() for s in re.split(r"(?<=[.:])\s|<[^>]*>|\n", text) if len(s) > 40]

    assert len(sentences) > 10
    assert len(set(sentences)) == len(sentences)
    assert text.count("is the probability, over samples") == 1


def test_the_four_fifths_rule():
    certificate = certify_counts(CellCounts([[5000, 4800], [5000, 5200]], groups=["f", "m"]))
    data = report_data(certificate)["four_fifths"]
    (limit,) = data["limits"]

    assert data["title"] == "Four-fifths rule"
    assert limit["rate"] == certificate.rate_for_impact_ratio()
    assert all(entry["holds"] == (entry["rate"] >= 5 * certificate.bound) for entry in limit["ratios"])
    hopeless = certify_counts(CellCounts([[300, 0], [0, 300]], groups=["a", "b"]))
    (limit,) = report_data(hopeless)["four_fifths"]["limits"]
    assert limit["rate"] is None
    assert "too large" in limit["words"]


@pytest.mark.parametrize("metric", ["equal_opportunity", "equalized_odds", "equalized_odds_max"])
def test_ratios_of_label_metrics_are_those_within_a_label(metric):
    """The report said "impact ratio at least 0.8" of whole groups where the true ratio was 0.026."""
    table = np.zeros((2, 2, 2), dtype=int)
    table[0, :, 1], table[1, :, 0] = (1_000, 40_000), (99_000, 60_000)
    certificate = certify_counts(CellCounts(table, groups=["f", "m"], labels=["no", "yes"]), metric)
    data = report_data(certificate)
    ratios = data["four_fifths"]

    assert "within a label" in ratios["title"]
    among = {limit["label"]: limit["among"] for limit in ratios["limits"]}
    assert (
        among
        == {
            "equal_opportunity": {"yes": "among the records with label 'yes'"},
            "equalized_odds": {y: f"among the records with label '{y}'" for y in ("no", "yes")},
            "equalized_odds_max": {"no": "among the records of any one label"},
        }[metric]
    )
    for limit in ratios["limits"]:
        assert limit["bound"] == certificate.within(limit["label"])
        assert limit["words"].startswith("Among the records")
    assert ratios["limits"][ratios["largest"]]["bound"] == max(limit["bound"] for limit in ratios["limits"])
    page = render_html(data)
    assert "impact ratio" not in page
    assert "mong the records" in page


def test_everything_is_plain_data(tmp_path, certificate):
    private, _ = new_key(tmp_path / "producer")
    signed = sign(make_statement(certificate, suppress_below=10), load_private_key(private))

    for data in (report_data(certificate), report_data(signed), encoder_report(tmp_path), hostile_report()):
        assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_a_signature_that_was_not_checked_is_said_to_be_unchecked(tmp_path, certificate):
    private, public = new_key(tmp_path / "producer")
    _, other = new_key(tmp_path / "other")
    signed = sign(make_statement(certificate), load_private_key(private))

    def words(document, **key):
        data = report_data(document, verdict=verify_document(document, **key))
        assert f"<dt>Signature</dt><dd>{data['signature']['words']}</dd>" in render_html(data)
        return data["signature"]["words"]

    assert words(signed) == "not checked"
    assert words(signed, key=public) == "checked"
    assert words(signed, key=other) == "does not hold"
    assert words(sign(make_statement(certificate), None)) == "not signed"


def test_an_encoder_of_another_shape_is_not_described(tmp_path, certificate):
    path, _ = bundle(tmp_path)

    with pytest.raises(ArgumentError, match="has 9 cells, but the certificate has 5"):
        report_data(certificate, encoder=describe_encoder(path))


def test_pooled_cells_point_to_their_row(certificate):
    data = report_data(sign(make_statement(certificate, suppress_below=10), None))

    pools = [row["pool"] for row in data["cells"]["rows"]]
    assert pools == [0, 0, 2, 2, 0]
    assert data["suppression"] == {"below": 10, "pooled": [[0, 1, 4], [2, 3]], "still_small": []}


def test_commands_name_what_the_certificate_knows(tmp_path, certificate):
    private, _ = new_key(tmp_path / "producer")
    context = {"encoder_digest": "00" * 32, "reading": {"sensitive": ["sex", "age >= 60"], "label": "paid"}}
    data = report_data(
        sign(make_statement(certificate, **context), load_private_key(private)), files={"certificate": "my file.json"}
    )

    commands = [step["command"] for step in data["verify"]]
    assert commands[0] == "certifare verify 'my file.json'"
    # The certificate says how records are read: no option repeats it.
    assert commands[-1].endswith("--data fresh.csv")
    assert all("--key producer.pub.pem" in command for command in commands[1:])
    assert len(report_data(certificate)["verify"]) == 1


def test_selection_in_words(certificate):
    many = make_statement(certificate, selection={"tried": 1200, "correction": "holdout"})
    assert "1,200 encoders were tried" in report_data(sign(many, None))["selection"]
    assert report_data(certificate)["selection"] == "One encoder was tried."


def test_the_best_of_the_frontier_are_marked_among_their_sort(certificate):
    points = [
        {"bound": 0.1, "accuracy": 0.7},
        {"bound": 0.2, "accuracy": 0.6},
        {"bound": 0.3, "accuracy": 0.9},
        {"bound": 0.3, "accuracy": None, "kind": "untested"},
        {"bound": 0.4, "accuracy": float("nan"), "cells": np.int64(3)},
        {"bound": None, "accuracy": 1.0},
        {"bound": 0.25, "accuracy": 0.65, "certified": True},
        {"bound": 0.5, "accuracy": 0.6},
    ]
    data = report_data(certificate, frontier=points, chosen=2)["frontier"]

    assert [point["best"] for point in data["points"]] == [True, False, True, False, False, True, False]
    assert [point["chosen"] for point in data["points"]] == [False, False, True, False, False, False, False]
    assert [point["certified"] for point in data["points"]] == [False, False, True, False, False, True, False]
    assert data["certified"] == 2
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert report_data(certificate, frontier=[])["frontier"] is None


def test_the_data_set_has_the_name_that_the_producer_gave(certificate):
    named = report_data(sign(make_statement(certificate, dataset="Applicants <2029>"), None))

    assert named["dataset"] == "Applicants <2029>"
    assert "<dt>Data set</dt><dd>Applicants &lt;2029&gt;</dd>" in render_html(named)
    assert report_data(certificate)["dataset"] is None
    with pytest.raises(ArgumentError, match="dataset"):
        make_statement(certificate, dataset="x" * 201)


@settings(max_examples=25)
@given(first=st.integers(30, 400), second=st.integers(30, 400))
def test_the_example_of_a_rate_errs_outwards(first, second):
    certificate = certify_counts(CellCounts([[first, second], [400 - first, 400 - second]], groups=["a", "b"]))
    words = report_data(certificate)["meaning"]
    low, high = map(float, re.findall(r"between ([\d.]+) % and ([\d.]+) %", words)[0]) if words else (0.0, 100.0)

    assert low / 100 <= max(0.0, 0.3 - certificate.bound)
    assert high / 100 >= min(1.0, 0.3 + certificate.bound)


def test_the_formula_is_about_t_star(certificate):
    formula = report_data(certificate)["claim"]["formula"]

    assert "≤ T* ) ≥ 0.95, P over certification samples" in formula
    assert formula.endswith(f"; here T* = {round_up(certificate.bound)}")


def test_the_report_names_the_producer_and_whether_that_was_checked(tmp_path, certificate):
    private, public = new_key(tmp_path / "producer")
    signed = sign(make_statement(certificate, created="2030-01-31T12:00:00Z"), load_private_key(private))
    unchecked = report_data(signed)
    checked = report_data(signed, verdict=verify_document(signed, key=public))

    assert report_data(certificate)["producer"] == "not known"
    assert unchecked["producer"].endswith("by its own account")
    assert checked["producer"] == f"holder of key {signed.signatures[0].keyid[:16]}…"
    assert checked["created"] == "2030-01-31T12:00:00Z"
    assert "not counted" in checked["look"]["words"]
    assert checked["look"]["short"] == "not counted"
    second = report_data(certificate.at_look(Look(number=2, spent=0.05, planned=None)))
    assert second["look"]["short"] == "number 2, by the producer's ledger"
    assert render_html(second).count("this is look 2") == 1
    assert checked["verification"]["words"] == "6 checks hold; not checked: encoder, data"
    assert "signature" in unchecked["verification"]["words"].split("not checked:")[1]


# -- the encoder's file -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ENCODERS)
def test_cells_are_described_as_the_encoder_describes_them(tmp_path, kind):
    """From the file, without an encoder, from the encoder, without a file: as the encoder itself does."""
    path, _ = bundle(tmp_path, kind)
    encoder = load_encoder(path)

    described = describe_encoder(path)

    assert describe_encoder(encoder) == described
    assert described["cells"] == [dataclasses.asdict(cell) | {"rules": list(cell.rules)} for cell in encoder.describe()]
    assert all(cell["rules"] for cell in described["cells"])
    assert (described["nodes"] is not None) == (kind == "tree")
    assert described["reads_groups"] == (kind == "calibrated")
    assert (described["map"] is not None) == (kind == "boosted")


def test_the_drawn_tree_is_the_encoders(tmp_path):
    """Following the questions from the root leads each record to the cell that the encoder finds."""
    import operator

    path, _ = bundle(tmp_path, "tree")
    nodes = describe_encoder(path)["nodes"]
    records = table(500, seed=5)
    found = load_encoder(path).apply(records.features)

    def answer(question, record):
        column, relation, value = question.split(" ", 2)
        return operator.le(record[column], float(value)) if relation == "≤" else record[column] in value.split(", ")

    for record, cell in zip(records.features.to_pylist(), found.tolist(), strict=True):
        at = 0
        while nodes[at]["cell"] is None:
            wanted = "yes" if answer(nodes[at]["question"], record) else "no"
            below = [i for i in range(at + 1, len(nodes)) if nodes[i]["depth"] == nodes[at]["depth"] + 1]
            at = next(i for i in below if nodes[i]["answer"] == wanted)
        assert nodes[at]["cell"] == cell


@pytest.mark.parametrize("below", [None, 200])
def test_a_node_of_the_tree_holds_what_its_children_hold(tmp_path, below):
    """A node holds what its children hold; what is pooled with cells outside is not published."""
    data = encoder_report(tmp_path, "tree", suppress_below=below)
    nodes, rows = data["encoder"]["nodes"], data["cells"]["rows"]

    assert nodes[0]["records"] == data["figures"]["records"]
    assert nodes[0]["difference"] == pytest.approx(0.0, abs=1e-12)
    for i, node in enumerate(nodes):
        if node["cell"] is not None:
            pooled = rows[node["cell"]]["pool"] is not None
            assert (node["records"] is None) == pooled
            assert pooled or node["difference"] == rows[node["cell"]]["difference"]
            continue
        later = nodes[i + 1 :]
        end = next((j for j, other in enumerate(later) if other["depth"] <= node["depth"]), len(later))
        children = [other for other in later[:end] if other["depth"] == node["depth"] + 1]
        if all(child["records"] is not None for child in children):
            assert node["records"] == sum(child["records"] for child in children)
            assert node["difference"] == pytest.approx(sum(child["difference"] for child in children))
    assert any(node["records"] is None for node in nodes) == (below is not None)


def test_the_drawn_map_holds_every_cell(tmp_path):
    path, document = bundle(tmp_path, "boosted")
    drawn = describe_encoder(path)["map"]

    assert set(np.unique(drawn["cells"])) == set(range(document.certificate.counts.n_cells))
    assert len(drawn["cells"]) == len(drawn["x"]["places"])
    assert len(drawn["cells"][0]) == len(drawn["y"]["places"])
    assert drawn["flattened"] is False


@pytest.mark.parametrize("sequenced", [False, True])
def test_the_worst_attribute_and_its_worst_pair_come_first(sequenced):
    """In a sequence all bounds are the target: estimates tell which is the worst."""
    groups = [f"{sex} × {race}" for sex in "fm" for race in "abc"]
    counts = CellCounts([[500, 300, 600, 500, 310, 610], [500, 700, 400, 500, 690, 390]], groups)
    claim = Claim(each=("sex", "race"))
    sequence = FixedSequence.walk([counts], 0.4, claim) if sequenced else None
    data = report_data(issue(Evidence(counts, sequence), claim))
    assert [attribute["name"] for attribute in data["attributes"]] == ["race", "sex"]
    assert [pair["groups"] for pair in data["pairs"]] == [["b", "c"], ["a", "b"], ["a", "c"], ["f", "m"]]
    page = render_html(data)
    assert page.index("<h3>race") < page.index("<h3>sex")


def test_cells_that_predict_nothing_are_marked():
    interval = {"lower": 0.4, "estimate": 0.5, "upper": 0.6, "confidence": 0.95}
    figures = {"records": 900, "baseline": 0.5, **dict.fromkeys(("accuracy", "auc", "explained", "distance"), interval)}
    certificate = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]))
    for worthless in (True, False):
        data = report_data(certificate, measured={**figures, "worthless": worthless})
        page = render_html(data).replace("\n", " ")
        assert ("predict almost nothing" in page) is worthless
        assert "confidence intervals of 95 %, each on its own" in page


def test_nothing_from_data_changes_the_direction_of_text():
    """U+202E before "50.0 = *T" would let a page say T* = 0.05."""
    directions = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    counts = CellCounts(
        np.full((3, 2, 2), 400),
        [f"f{directions}", "m"],
        ["no", f"yes{directions}"],
        [Exclusion(f"no consent{directions}", 12)],
    )
    certificate = certify_counts(counts, "equal_opportunity", positive=f"yes{directions}")
    columns = {"sensitive": [f"sex{directions}"], "label": f"paid{directions}"}
    statement = make_statement(certificate, reading=columns, dataset=f"people{directions}", command=f"fit{directions}")
    data = report_data(sign(statement, None))

    for text in (render_html(data), certificate._repr_html_()):
        assert not set(text) & set(directions)
        assert "no consent" + "\ufffd" * len(directions) in text
    assert not any(character.isprintable() for character in directions)  # so the terminal replaces them, too


# -- calibrated cells ---------------------------------------------------------------------------------------------


def calibrated(groups, labels=None):
    table = equal_gaps([200, 300, 150][:groups], 5)
    table[-1] -= 1
    if labels is None:
        return certify_counts(CellCounts(table, ["f", "m", "x"][:groups]), method="calibrated")
    labelled = CellCounts(np.stack([table + 7, table], axis=2), ["f", "m", "x"][:groups], labels)
    return certify_counts(labelled, "equal_opportunity", method="calibrated")


@pytest.mark.parametrize(("groups", "labels"), [(2, None), (3, None), (2, ["no", "yes"])])
def test_a_plan_is_shown_by_the_shares_of_its_cells(groups, labels):
    certificate = calibrated(groups, labels)
    data = report_data(certificate, target=0.5)
    gaps = gaps_of(certificate.counts, certificate.positive)
    assert np.allclose([row["shares"] for row in data["plan"]["rows"]], gaps / gaps.sum(axis=0))
    assert "set the thresholds of each group" in data["plan"]["words"]
    assert ("with label 'yes'" in data["plan"]["words"]) == (labels is not None)
    assert json.loads(json.dumps(data)) == data
    page = render_html(data)
    assert f"{100 * gaps[0, 0] / gaps[:, 0].sum():.2f} %" in page
    assert ("holds for all of them together" in page) == (groups > 2)
    assert "in the sample" not in page
    assert "chance alone" not in page


def test_a_measured_distance_stands_beside_what_chance_alone_gives():
    certificate = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]))
    data = report_data(certificate)
    assert data["plan"] is None
    assert data["figures"]["by_chance_text"] == f"{distance_by_chance(certificate):.4f}"
    assert "chance alone" in render_html(data)
