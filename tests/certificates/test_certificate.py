"""Metrics, limits and consequences, and the certificate as a value."""

import math
from functools import cache
from itertools import combinations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare import CellCounts, CertifareError, Certificate, certify_counts
from certifare.certificates import Exclusion, Witness, difference_limit, hoeffding_radius
from certifare.certificates.assumptions import ASSUMPTIONS, NOT_CLAIMED
from certifare.certificates.claims import estimate_of, statistic
from certifare.errors import ArgumentError, CountsError, DocumentError, GroupError


def random_counts(seed, k=6, groups=2, labels=None, n=800):
    rng = np.random.default_rng(seed)
    shape = (groups,) if labels is None else (groups, labels)
    p = rng.dirichlet(np.ones(k), size=shape)
    table = np.stack([rng.multinomial(n, q) for q in p.reshape(-1, k)], axis=1).reshape(k, *shape)
    return CellCounts(table, [f"g{i}" for i in range(groups)], None if labels is None else range(labels))


def exact_of(table, epsilon):
    return max(0.0, difference_limit(*statistic(table), epsilon))


def test_two_groups():
    counts = random_counts(0)
    certificate = certify_counts(counts)
    assert certificate.bound == exact_of(counts.table, 0.05)
    assert certificate.estimate == estimate_of(counts.table)
    assert certificate.lower <= certificate.estimate <= certificate.bound
    assert certificate.bound < certificate.estimate + math.sqrt((2 / 800) * math.log(20) / 2)


@pytest.mark.parametrize("metric", ["demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max"])
@pytest.mark.parametrize("groups", [2, 4])
def test_metrics_spend_epsilon_as_documented(metric, groups):
    counts = random_counts(1, groups=groups, labels=3)
    certificate = certify_counts(counts, metric, candidates=5, positive=2 if metric == "equal_opportunity" else None)

    def largest(table, epsilon):
        return max(exact_of(table[:, list(pair)], epsilon) for pair in combinations(range(groups), 2))

    epsilon = 0.05 / 5
    by_label = [counts.table[:, :, y] for y in range(3)]
    expected = {
        "demographic_parity": largest(counts.table.sum(axis=2), epsilon),
        "equal_opportunity": largest(by_label[2], epsilon),
        "equalized_odds": np.mean([largest(t, epsilon / 3) for t in by_label]),
        "equalized_odds_max": max(largest(t, epsilon) for t in by_label),
    }[metric]
    assert certificate.bound == pytest.approx(expected, abs=1e-12)
    assert certificate.lower <= certificate.estimate <= certificate.bound
    assert certificate.verify() is certificate
    assert certificate.worst.bound == max(p.bound for p in certificate.parts)


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(2, 3))
def test_exact_is_never_above_mcdiarmid(seed, k, groups):
    for part in certify_counts(random_counts(seed, k, groups, n=60)).parts:
        assert part.bound <= min(1.0, part.estimate + hoeffding_radius(*part.records, 0.05))


def test_more_candidates_and_more_confidence_cost_more():
    counts = random_counts(2)
    bounds = [certify_counts(counts, candidates=m).bound for m in (1, 10, 1000)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[1] < bounds[2]
    assert certify_counts(counts, confidence=0.99).bound == pytest.approx(certify_counts(counts, candidates=5).bound)


def test_witness_is_chosen_on_other_records_and_raises_the_lower_limit():
    counts, other = random_counts(3, n=5_000), random_counts(3, n=4_000)
    plain, seen = certify_counts(counts), certify_counts(counts, witness=other)
    assert plain.lower < seen.lower <= seen.estimate
    (witness,) = seen.witnesses
    share = [other.table[list(witness.cells), j].sum() / 4_000 for j in range(2)]
    assert share[0] - share[1] == pytest.approx(estimate_of(other.table))
    c0, c1 = (int(counts.table[list(witness.cells), j].sum()) for j in range(2))
    assert seen.lower == pytest.approx(-difference_limit(5_000, 5_000, 5_000 * (c1 - c0), 0.05))
    assert certify_counts(counts, witness=seen.witnesses).lower == seen.lower
    mean = certify_counts(random_counts(4, labels=2), "equalized_odds", witness=random_counts(5, labels=2))
    assert {w.label for w in mean.witnesses} == {"0", "1"}


def test_consequences():
    certificate = certify_counts(CellCounts([[5000, 5100], [5000, 4900]], "fm"))
    t = certificate.bound
    assert certificate.impact_ratio(0.5) == pytest.approx(1 - t / 0.5)
    assert certificate.impact_ratio(t / 2) == 0.0
    assert certificate.rate_for_impact_ratio() == pytest.approx(5 * t)
    assert certificate.rate_for_impact_ratio(0.99) is None
    assert certificate.under_shift(0.01) == pytest.approx(t + 0.02)
    assert certificate.under_shift({"f": 0.01, "m": 0.0}) == pytest.approx(t + 0.01)
    assert certificate.under_shift(1.0) == 1.0
    assert certificate.under_group_noise([0.1, 0.2]) == pytest.approx(t / 0.7)
    three = certify_counts(random_counts(0, groups=3))
    moved = {"g0": 0.0, "g1": 0.0, "g2": 0.2}
    assert three.under_shift(moved) == pytest.approx(
        max(p.bound + (0.2 if "g2" in p.groups else 0.0) for p in three.parts)
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.impact_ratio(0),
        lambda c: c.impact_ratio(1.1),
        lambda c: c.rate_for_impact_ratio(1.0),
        lambda c: c.under_shift(-0.1),
        lambda c: c.under_shift({"f": 0.1}),
        lambda c: c.under_group_noise([0.5, 0.5]),
        lambda c: c.under_group_noise([0.1]),
        lambda c: c.for_classifier([0, 1, 1]),
        lambda c: c.for_classifier([0.5, 1.5]),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(ArgumentError):
        call(certify_counts(CellCounts([[50, 40], [50, 60]], "fm")))


GOOD = CellCounts([[50, 40], [50, 60]], "fm")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"confidence": 1.0}, ArgumentError, "between 0 and 1"),
        ({"confidence": 0.0}, ArgumentError, "between 0 and 1"),
        ({"confidence": "high"}, ArgumentError, "between 0 and 1"),
        ({"confidence": 0.3}, ArgumentError, "a confidence of at least 0.5"),
        ({"candidates": 10**99}, ArgumentError, "fewer encoders"),
        ({"candidates": 10**400}, ArgumentError, "fewer encoders"),
        ({"metric": "parity"}, ArgumentError, "demographic_parity"),
        ({"method": "lemmas"}, ArgumentError, "exact, calibrated"),
        ({"metric": "equalized_odds"}, ArgumentError, "y="),
        ({"candidates": 0}, ArgumentError, "at least 1"),
        ({"candidates": 1.5}, ArgumentError, "at least 1"),
    ],
)
def test_bad_requests_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        certify_counts(GOOD, **arguments)
    assert issubclass(error, CertifareError)


def test_bad_groups_are_refused():
    with pytest.raises(GroupError, match=r"Group 'm' has no records\. Leave"):
        certify_counts(CellCounts([[50, 0]], "fm"))
    with pytest.raises(GroupError, match=r"Group 'm' has 12 certification records, and at least 30 .*min_group_size="):
        certify_counts(CellCounts([[50, 12]], "fm"))
    assert certify_counts(CellCounts([[50, 12]], "fm"), min_group_size=12).bound < 1
    with pytest.raises(GroupError, match="Only one group, 'f'"):
        certify_counts(CellCounts([[50]], "f"))
    with pytest.raises(GroupError, match="Group 'f' has 3 certification records with label '1', and"):
        certify_counts(CellCounts([[[50, 3], [50, 40]]], "fm", "01"), "equalized_odds_max")


def test_positive_label():
    counts = random_counts(0, labels=3)
    with pytest.raises(ArgumentError, match="Which label"):
        certify_counts(counts, "equal_opportunity")
    with pytest.raises(ArgumentError, match="not among the labels"):
        certify_counts(counts, "equal_opportunity", positive="yes")
    two = random_counts(0, labels=2)
    assert certify_counts(two, "equal_opportunity").positive == "1"
    assert certify_counts(two, "equal_opportunity", positive=0.0).bound == exact_of(two.table[:, :, 0], 0.05)


@pytest.mark.parametrize("table", [[[1, 0], [0, 1]], [[1, 1]], [[3, 0], [0, 1]]])
def test_a_single_record_in_a_group_is_enough(table):
    certificate = certify_counts(CellCounts(table, "fm"), min_group_size=1)
    assert certificate.estimate <= certificate.bound <= 1.0


def test_the_sentence():
    counts = CellCounts([[1200, 800], [300, 600]], "fm")
    certificate = certify_counts(counts)
    assert str(certificate) == (
        "demographic parity distance of any classifier <= 0.2584 with 95 % confidence (1,500 + 1,400 records, 2 cells)"
    )
    hopeless = certify_counts(CellCounts([[40, 0], [0, 40]], "fm"))
    assert str(hopeless).startswith("no bound below 1")
    positives = certify_counts(CellCounts([[[900, 60], [800, 50]]], "fm", ["no", "yes"]), "equal_opportunity")
    assert str(positives).endswith("(60 + 50 records with label 'yes', 1 cells)")


def test_html_escapes_names():
    counts = CellCounts([[50, 40]], ["<script>", "m"], exclusions=[Exclusion("<b>why</b>", 3)])
    page = certify_counts(counts)._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "&lt;b&gt;why" in page


@pytest.mark.parametrize("metric", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_dictionary_round_trip(metric):
    counts = random_counts(7, labels=2, groups=3)
    certificate = certify_counts(counts, metric, witness=random_counts(8, labels=2, groups=3))
    again = Certificate.from_dict(certificate.to_dict())
    assert again == certificate
    assert again.verify() == certificate


def test_a_certificate_cannot_be_changed():
    certificate = certify_counts(GOOD)
    with pytest.raises(AttributeError):
        certificate.bound = 0.0


@pytest.mark.parametrize("field", ["bound", "estimate", "lower"])
def test_changed_figures_do_not_verify(field):
    document = certify_counts(random_counts(0)).to_dict()
    document[field] = document[field] * 0.9
    with pytest.raises(DocumentError, match=field):
        Certificate.from_dict(document).verify()


def test_changed_counts_and_parts_do_not_verify():
    document = certify_counts(random_counts(0)).to_dict()
    document["counts"]["table"][0][0] += 1
    with pytest.raises(DocumentError):
        Certificate.from_dict(document).verify()
    document = certify_counts(random_counts(0, groups=3)).to_dict()
    part = dict(document["parts"][0], records=(1, 1))
    document["parts"] = (part, *document["parts"][1:])
    with pytest.raises(DocumentError):
        Certificate.from_dict(document).verify()


@pytest.mark.parametrize(
    "change",
    [
        {"bound": "low"},
        {"bound": -0.1},
        {"bound": float("nan")},
        {"confidence": 2.0},
        {"candidates": 0},
        {"metric": "parity"},
        {"counts": None},
        {"counts": {"groups": ["f", "m"], "table": [[1, -2]]}},
        {"parts": []},
        {"surprise": 1},
        {"witnesses": [{"groups": ["f", "m"], "label": None, "cells": [99]}]},
        {"witnesses": [{"groups": ["f", "m"], "label": None}]},
        {"witnesses": [{"groups": ["f", "m"], "label": None, "cells": [0, 0]}]},
        {"witnesses": [{"groups": ["f", "m"], "label": None, "cells": [1, 0]}]},
        {"witnesses": [{"groups": ["f", "f"], "label": None, "cells": [0]}]},
        {"witnesses": [{"groups": ["f", "x"], "label": None, "cells": [0]}]},
        {"witnesses": [{"groups": ["f", "m"], "label": "1", "cells": [0]}]},
        {"witnesses": [{"groups": ["f", "m"], "label": None, "cells": [c]} for c in (0, 1)]},
        {"confidence": 0.000001},
        {"candidates": 10**120},
        {"positive": "1"},
        {"effective_size": -1.0},
        {"parts": [{"groups": ["f", "x"], "label": None, "records": [1, 1], "estimate": 0.0, "bound": 0.0}]},
        {"parts": [{"groups": ["f", "m"], "label": "1", "records": [1, 1], "estimate": 0.0, "bound": 0.0}]},
        {"counts": {"groups": ["f", "m"], "labels": ["0"], "table": [[[50], [40]], [[50], [60]]]}},
        {"counts": {"groups": ["f", "x"], "table": [[50, 40], [50, 60]]}},
        {
            "counts": {
                "groups": ["f", "m"],
                "table": [[50, 40], [50, 60]],
                "exclusions": [{"reason": "x", "records": 10**30}],
            }
        },
        {"sum_counts": {"groups": ["f", "m"], "table": [[50, 40], [50, 60]]}},
        {"base_counts": {"groups": ["f", "m"], "table": [[50, 40], [50, 60]]}},
        {"budget": [0.1, 0.8, 0.1]},
        {"method": ["exact"]},
    ],
)
def test_hostile_documents(change):
    with pytest.raises(DocumentError, match="Not a certificate"):
        Certificate.from_dict({**certify_counts(GOOD).to_dict(), **change})


def test_unknown_label_in_counts():
    with pytest.raises(CountsError, match="No label 'x'"):
        random_counts(0, labels=2).given_label("x")


# -- One witness, because several would have to share ε ---------------------------------------------------------------


def test_the_best_of_many_witnesses_is_refused():
    """Sixty sets of cells, groups alike: the largest of their lower limits was above the true 0 in most samples."""
    rng = np.random.default_rng(0)
    sets = [tuple(np.flatnonzero(rng.random(20) < 0.5).tolist()) for _ in range(60)]
    lower = cache(lambda m: -difference_limit(200, 200, -m, 0.05))
    above = 0
    for _ in range(40):
        c0, c1 = rng.multinomial(200, np.full(20, 0.05), size=2)
        above += max(lower(200 * int(c0[list(cells)].sum() - c1[list(cells)].sum())) for cells in sets) > 0
    assert above > 20
    witnesses = [Witness(groups=("f", "m"), label=None, cells=cells) for cells in sets]
    with pytest.raises(ArgumentError, match=r"60 witnesses.*Give one\."):
        certify_counts(CellCounts(np.stack([c0, c1], axis=1), "fm"), witness=witnesses)


def test_a_mean_has_a_witness_for_each_label():
    counts = random_counts(4, labels=2)
    pair = [Witness(groups=("g0", "g1"), label=y, cells=(0, 3)) for y in ("0", "1")]
    both, one = (certify_counts(counts, "equalized_odds", witness=w) for w in (pair, pair[:1]))
    assert both.lower >= one.lower
    assert both.verify() is both
    for metric in ("equalized_odds_max", "equalized_odds"):
        with pytest.raises(ArgumentError, match="2 witnesses"):
            certify_counts(counts, metric, witness=pair if metric == "equalized_odds_max" else [pair[0]] * 2)
    with pytest.raises(ArgumentError, match="once each"):
        certify_counts(counts, witness=[Witness(groups=("g0", "g1"), label=None, cells=(0, 0, 0))])


# -- What a certificate holds must agree, and nothing that it says may be left out ------------------------------------


def test_a_high_confidence_is_not_rounded_to_certainty():
    assert "99.999996 %" in str(certify_counts(GOOD, confidence=0.99999996))


@pytest.mark.parametrize("text", [*ASSUMPTIONS, *NOT_CLAIMED])
def test_nothing_that_is_assumed_or_not_claimed_may_be_left_out(text):
    certificate = certify_counts(GOOD)
    field = "assumptions" if text in ASSUMPTIONS else "not_claimed"
    for kept in ((), tuple(t for t in getattr(certificate, field) if t != text), (text[:-1],)):
        with pytest.raises(DocumentError, match="leaves out what every one must say"):
            msgspec.structs.replace(certificate, **{field: kept}).verify()
    more = msgspec.structs.replace(certificate, **{field: (*getattr(certificate, field), "And more.")})
    assert more.verify() is more


@pytest.mark.parametrize("method", ["lemmas", "mcdiarmid", "luck"])
def test_a_certificate_by_a_bound_that_is_not_issued_is_refused_by_name(method):
    sample = {"groups": ["f", "m"], "table": [[50, 40], [50, 60]]}
    document = certify_counts(GOOD).to_dict() | {"method": method, "sum_counts": sample, "budget": [0.1, 0.8, 0.1]}
    with pytest.raises(DocumentError, match=rf"by the method '{method}', which .* does not verify. Ask for one by"):
        Certificate.from_dict(document)
