"""Certificates whose records set the thresholds: issued, stored, verified; and missed as often as they say."""

import math
from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from certifare import CellCounts, Certificate, certify_counts, thin
from certifare.certificates import Claim, FixedSequence, Subsample, Witness
from certifare.certificates.assumptions import ASSUMPTIONS, NOT_LOOKED_UP, READS_GROUP, SET_THRESHOLDS
from certifare.certificates.bounding import Evidence
from certifare.certificates.calibrated import (
    MOST_PAIRS,
    CalibratedLimits,
    calibrated_bound,
    calibrated_limits,
)
from certifare.certificates.claims import gaps_of
from certifare.certificates.issuing import issue
from certifare.certificates.looks import Look
from certifare.certificates.planning import equal_gaps
from certifare.certificates.population import BY_WEIGHT
from certifare.certificates.provenance import Provenance, provenance_of
from certifare.certificates.tail import Tail, lowered, raised, share_limit
from certifare.errors import ArgumentError, DocumentError, GroupError, UnprovedClaimError

EPSILON = 0.05


def counts_of(gaps, labels=None):
    """Return counts whose gaps are these, with as many records of another label if there are labels."""
    table = np.array(gaps)
    table[-1] -= 1
    names = [f"g{i}" for i in range(table.shape[1])]
    if labels is None:
        return CellCounts(table, names)
    return CellCounts(np.stack([np.full_like(table, 20), table], axis=2), names, labels)


@cache
def certificate(sizes=(300, 200), cells=6, **options):
    return certify_counts(counts_of(equal_gaps(sizes, cells)), method="calibrated", **options)


def changed(made, **fields):
    return msgspec.structs.replace(made, **fields)


# -- figures ----------------------------------------------------------------------------------------------------


def test_the_figures_are_those_of_the_plan():
    gaps = equal_gaps([300, 200, 250], 5)
    made = certify_counts(counts_of(gaps), method="calibrated")
    assert (made.lower, made.bound) == calibrated_limits(gaps, EPSILON)
    assert np.array_equal(gaps_of(made.counts, None), gaps)
    for part, (g, h) in zip(made.parts, [(0, 1), (0, 2), (1, 2)], strict=True):
        assert part.bound == pytest.approx(calibrated_bound(gaps[:, [g, h]], EPSILON), rel=0.01)
        assert part.bound < made.bound
    assert made.estimate == max(part.estimate for part in made.parts)
    assert made.witnesses == ()


def test_equal_opportunity_looks_at_the_gaps_of_the_positive_label():
    gaps = equal_gaps([120, 90], 4)
    made = certify_counts(counts_of(gaps, ["no", "yes"]), "equal_opportunity", method="calibrated")
    assert made.bound == calibrated_bound(gaps, EPSILON)
    assert made.within("yes") == made.bound
    made.verify()


def test_candidates_share_epsilon_and_two_groups_have_one_bound():
    made = certificate(candidates=5)
    assert made.bound == calibrated_bound(equal_gaps([300, 200], 6), EPSILON / 5)
    assert [part.bound for part in made.parts] == [made.bound]


def test_many_pairs_of_groups_have_the_joint_bound():
    groups = math.isqrt(2 * MOST_PAIRS) + 2
    limits = CalibratedLimits.of(equal_gaps([40] * groups, 3), EPSILON)
    assert set(limits.pairs) == {limits.bound}
    assert limits.unsupported(equal_gaps([40] * groups, 3), EPSILON, 1) is None


def test_one_cell_has_distance_nought():
    made = certify_counts(counts_of([[40, 50]]), method="calibrated")
    assert (made.bound, made.lower) == (0.0, 0.0)
    made.verify()
    with pytest.raises(DocumentError):
        changed(made, bound=0.01, parts=(changed(made.parts[0], bound=0.01),)).verify()


# -- what it assumes --------------------------------------------------------------------------------------------


def test_it_says_that_its_records_set_the_thresholds_and_that_the_group_is_read():
    assert certificate().assumptions == (SET_THRESHOLDS, ASSUMPTIONS[1], READS_GROUP, NOT_LOOKED_UP)


def test_an_encoder_that_is_known_to_read_the_group_says_so_once():
    evidence = Evidence(counts_of(equal_gaps([300, 200], 6)))
    made = issue(evidence, Claim(method="calibrated"), provenance_of(None, reads_groups=True))
    assert made.assumptions.count(READS_GROUP) == 1
    made.verify()


def test_training_records_void_it():
    evidence = Evidence(counts_of(equal_gaps([300, 200], 6)))
    made = issue(evidence, Claim(method="calibrated"), Provenance(void="VOID: training records."))
    assert made.assumptions[0] == "VOID: training records."
    assert SET_THRESHOLDS not in made.assumptions
    made.verify()


@pytest.mark.parametrize("missing", [SET_THRESHOLDS, READS_GROUP, ASSUMPTIONS[1]])
def test_an_assumption_that_is_left_out_is_refused(missing):
    made = certificate()
    silent = changed(made, assumptions=tuple(text for text in made.assumptions if text != missing))
    with pytest.raises(DocumentError, match="leaves out"):
        silent.verify()


# -- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["equalized_odds", "equalized_odds_max"])
def test_other_metrics_are_refused(metric):
    with pytest.raises(UnprovedClaimError, match="Calibrated cells bound"):
        Claim(method="calibrated", metric=metric)


def test_parts_of_other_methods_are_refused():
    counts = counts_of(equal_gaps([300, 200], 6))
    witness = Witness(groups=("g0", "g1"), label=None, cells=(0,))
    walked = FixedSequence.walk([counts], 0.5)
    for options in ({"witness": counts}, {"witness": [witness]}, {"sequence": walked}):
        with pytest.raises(ArgumentError, match=r"witness|sequence"):
            certify_counts(counts, method="calibrated", **options)


def test_a_group_without_a_record_in_a_cell_is_refused():
    with pytest.raises(ArgumentError, match="at least one gap"):
        certify_counts(CellCounts([[0, 40], [50, 40]], ["f", "m"]), method="calibrated")
    # The last cell has a gap even without a record.
    certify_counts(CellCounts([[40, 50], [0, 30]], ["f", "m"]), method="calibrated").verify()


def test_small_groups_and_extreme_levels_are_refused():
    with pytest.raises(GroupError, match="min_group_size"):
        certificate((300, 20))
    certificate((300, 20), min_group_size=20)
    for confidence, candidates in ((0.99999, 1), (0.999, 100)):
        with pytest.raises(ArgumentError, match=r"from 0.0001 to 0.5"):
            certificate(confidence=confidence, candidates=candidates)


# -- verification -----------------------------------------------------------------------------------------------

plans = st.integers(2, 4).flatmap(
    lambda groups: st.lists(
        st.lists(st.integers(1, 60), min_size=groups, max_size=groups).map(tuple), min_size=1, max_size=7
    )
)


@pytest.mark.slow
@given(plans, st.sampled_from([None, ("no", "yes")]), st.sampled_from([0.5, 0.9, 0.999]))
@settings(max_examples=6)
def test_what_is_issued_is_stored_and_verified(gaps, labels, confidence):
    metric = "demographic_parity" if labels is None else "equal_opportunity"
    # Every group has a record.
    gaps = [*gaps, (2,) * len(gaps[0])]
    made = certify_counts(counts_of(gaps, labels), metric, confidence, "calibrated", min_group_size=1)
    again = Certificate.from_dict(made.to_dict())
    assert again == made
    again.verify()
    again.at_look(Look(number=2, spent=0.05)).verify()


PLANS = {
    "two cells": equal_gaps([300, 200], 2),
    "six cells": equal_gaps([300, 200], 6),
    "twenty cells": equal_gaps([400, 500], 20),
    "unequal cells": np.array([[10, 30], [90, 51], [101, 120]]),
    "four groups": equal_gaps([300, 200, 400, 100], 5),
}


def restated(made, figure, factor):
    """State another figure; a bound with those of its pairs."""
    value = factor * getattr(made, figure)
    if figure == "lower":
        return changed(made, lower=value)
    parts = tuple(changed(part, bound=min(part.bound * factor, value)) for part in made.parts)
    return changed(made, bound=value, parts=parts)


@pytest.mark.parametrize(
    "plan", [pytest.param(plan, marks=[pytest.mark.slow] * (plan in ("twenty cells", "four groups"))) for plan in PLANS]
)
def test_figures_that_the_plan_does_not_give_are_refused(plan):
    made = certify_counts(counts_of(PLANS[plan]), method="calibrated")
    changed(made, lower=0.0).verify()  # claims nothing
    # A little less than the method gives is valid: another's Monte Carlo may be coarser.
    for figure, factor in (("bound", 1.01), ("lower", 0.99)):
        restated(made, figure, factor).verify()
    for figure, factor in (("bound", 0.98), ("bound", 1.06), ("lower", 1.06)):
        with pytest.raises(DocumentError, match=r"states|single pairs"):
            restated(made, figure, factor).verify()


def test_bounds_of_pairs_are_checked_by_themselves():
    made = certify_counts(counts_of(PLANS["four groups"]), method="calibrated")
    for factor in (0.97, 1.1):
        parts = (changed(made.parts[0], bound=factor * made.parts[0].bound), *made.parts[1:])
        with pytest.raises(DocumentError, match="single pairs"):
            changed(made, parts=parts).verify()
    two = certificate()
    with pytest.raises(DocumentError, match="single pairs"):
        changed(two, parts=(changed(two.parts[0], bound=0.999 * two.bound),)).verify()
    with pytest.raises(DocumentError, match="single pairs"):
        changed(made, parts=made.parts[:-1]).verify()


def test_other_counts_metrics_and_methods_are_refused():
    made = certificate()
    table = made.counts.table.copy()
    table[0] += [10, -10]
    with pytest.raises(DocumentError):
        changed(made, counts=CellCounts(table, made.counts.groups)).verify()
    with pytest.raises(DocumentError):
        changed(made, estimate=made.estimate + 0.001).verify()
    with pytest.raises(DocumentError, match="leaves out"):
        changed(made, method="exact").verify()
    labelled = certify_counts(counts_of(PLANS["six cells"], ["no", "yes"]), "equal_opportunity", method="calibrated")
    with pytest.raises((DocumentError, UnprovedClaimError)):
        changed(labelled, metric="equalized_odds_max", positive=None).verify()
    with pytest.raises(DocumentError, match="pool"):
        changed(made, pools=((0, 1),))


@pytest.mark.slow
def test_honest_limits_pass_with_every_seed_and_better_ones_with_none():
    for name in ("two cells", "unequal cells", "four groups"):
        gaps = PLANS[name]
        limits = CalibratedLimits.of(gaps, EPSILON)
        assert all(limits.unsupported(gaps, EPSILON, seed) is None for seed in range(3))
        better = replace(limits, bound=0.985 * limits.bound, pairs=tuple(0.985 * p for p in limits.pairs))
        assert {better.unsupported(gaps, EPSILON, seed) for seed in range(3)} == {"bound"}


# -- capped weights ---------------------------------------------------------------------------------------------


def test_capped_weights_raise_the_bound_and_lower_the_lower_limit():
    gaps = equal_gaps([300, 200, 250], 5)
    tail = Tail(cap=2.0, largest=6.0, beyond=((3,), (1,), (4,)))
    drawn = Subsample(np.ones(750, dtype=bool), (), 750.0, 1, (), (BY_WEIGHT,))
    made = certify_counts(counts_of(gaps), method="calibrated", tail=tail, drawn=drawn)
    lower, bound = calibrated_limits(gaps, 0.9 * EPSILON)
    shares = [share_limit(b, n, 2.0, 6.0, EPSILON) for b, n in ((3, 300), (1, 200), (4, 250))]
    assert made.bound == raised(bound, max(shares))
    assert made.lower == max(0.0, lowered(lower, max(shares)))
    assert made.parts[0].bound == pytest.approx(
        raised(calibrated_bound(gaps[:, :2], 0.9 * EPSILON), max(shares[:2])), rel=0.01
    )
    made.verify()
    for factor in (0.98, 1.05):
        with pytest.raises(DocumentError):
            restated(made, "bound", factor).verify()


# -- one classifier ---------------------------------------------------------------------------------------------


def test_the_interval_of_one_classifier_is_that_of_its_beta_rates():
    made = certificate(cells=4)
    gaps = gaps_of(made.counts, None)
    interval = made.for_classifier([1, 0, 0, 1])
    assert (interval.lower, interval.upper) == calibrated_limits(gaps, EPSILON / 2, rule=[1, 0, 0, 1])
    assert interval.lower <= interval.estimate <= interval.upper
    soft = made.for_classifier([0.1, 0.2, 0.7, 0.9])
    assert (soft.lower, soft.upper) == calibrated_limits(gaps, EPSILON / 2, rule=[0.1, 0.2, 0.7, 0.9])
    assert made.for_classifier([1, 1, 1, 1]).upper == 0.0


def test_the_estimate_of_one_classifier_is_the_largest_difference_of_rates_within_its_limits():
    gaps = np.array([[200, 100, 120], [100, 150, 100], [101, 151, 81]])
    made = certify_counts(counts_of(gaps), method="calibrated")
    shares = made.counts.table / made.counts.table.sum(axis=0)
    for rule in ([1, 0, 0], [0, 1, 1], [0.9, 0.1, 0.4]):
        rates = rule @ shares
        interval = made.for_classifier(rule)
        assert interval.estimate == pytest.approx(rates.max() - rates.min())
        assert interval.lower < interval.estimate < interval.upper
    equal = certificate(cells=4).for_classifier([1, 0, 0, 1])
    assert equal.estimate == equal.lower > 0.0


def test_capped_weights_move_the_limits_of_one_classifier_by_the_largest_share_above_the_cap():
    gaps = np.array([[90, 60, 70], [60, 90, 60], [61, 61, 81]])
    counts, tail = counts_of(gaps), Tail(cap=2.0, largest=5.0, beyond=((1,), (2,), (25,)))
    interval = certify_counts(counts, method="calibrated", tail=tail).for_classifier([1, 0, 0])
    kept = counts.table.sum(axis=0).tolist()
    above = share_limit(25, kept[2], 2.0, 5.0, EPSILON / 2)
    assert above > share_limit(2, kept[1], 2.0, 5.0, EPSILON / 2)
    low, high = calibrated_limits(gaps, 0.9 * EPSILON / 2, rule=[1, 0, 0])
    assert interval.upper == pytest.approx(raised(high, above), abs=1e-9)
    assert interval.lower == pytest.approx(max(0.0, lowered(low, above)), abs=1e-9)


def test_several_classes_share_epsilon():
    made = certificate(cells=4)
    interval = made.for_classifier(["a", "b", "c", "c"])
    limits = [calibrated_limits(gaps_of(made.counts, None), EPSILON / 6, rule=r) for r in np.eye(3)[:, [0, 1, 2, 2]]]
    assert interval.upper == max(upper for _, upper in limits)
    assert interval.lower == max(lower for lower, _ in limits)


def test_too_many_classes_are_referred_to_the_bound():
    # Twice four classes have 0.0001 each, the smallest level.
    five = certificate(cells=5, confidence=0.9992)
    assert 0.0 < five.for_classifier(["a", "b", "c", "d", "d"]).upper < five.bound
    with pytest.raises(UnprovedClaimError, match="5 classes share ε"):
        five.for_classifier(list("abcde"))
    made = certify_counts(counts_of(equal_gaps([400, 400], 300)), method="calibrated")
    with pytest.raises(UnprovedClaimError, match=r"300 classes share ε.*T\* ="):
        made.for_classifier(np.arange(300))


# -- what follows -----------------------------------------------------------------------------------------------


def test_what_follows_from_the_bound_follows_and_noise_is_refused():
    made = certificate()
    assert made.impact_ratio(0.5) == pytest.approx(1 - made.bound / 0.5)
    assert made.guessing_accuracy() == pytest.approx((1 + made.bound) / 2)
    with pytest.raises(UnprovedClaimError, match="reads the group"):
        made.under_group_noise([0.01, 0.02])


def test_a_shift_is_added_to_the_joint_bound():
    """Which pair is worst depends on the thresholds, so that bounds of single pairs do not hold together."""
    made = certificate((300, 200, 100), 5)
    rho = {"g0": 0.02, "g1": 0.01, "g2": 0.0}
    assert made.under_shift(rho) == pytest.approx(made.bound + 0.03)


# -- the guarantee, by simulation -------------------------------------------------------------------------------


def cells_of(values, ranks):
    """Set thresholds at ranks of one column of uniform values; return them, and the counts of the records' cells."""
    thresholds = np.sort(values)[ranks - 1]
    return thresholds, np.bincount(np.searchsorted(thresholds, values, side="left"), minlength=len(ranks) + 1)


def true_shares(rng, gaps):
    """Set one group's thresholds by a tree with another function in each half; return true shares and counts.

    Records have two independent uniform values. The first splits the group in two, the second splits each half: so the
    true share of every cell is known.
    """
    n, left = int(gaps.sum()) - 1, len(gaps) // 2
    values = rng.random((n, 2))
    (cut,), _ = cells_of(values[:, 0], np.array([gaps[:left].sum()]))
    shares, counts = [], []
    for share, inside, own in (
        (cut, values[:, 0] < cut, gaps[:left]),
        (1 - cut, values[:, 0] > cut, gaps[left:]),
    ):
        thresholds, placed = cells_of(values[inside, 1], np.cumsum(own)[:-1])
        shares.append(share * np.diff([0.0, *thresholds, 1.0]))
        counts.append(placed)
    # The record at the cut lies in the last cell of the left half: it goes left.
    counts[0][-1] += 1
    return np.concatenate(shares), np.concatenate(counts)


SIMULATED = {
    "2 groups, 2 cells": ([40, 60], 2, None),
    "2 groups, 48 cells": ([200, 120], 48, None),
    "3 groups, 7 cells": ([90, 60, 120], 7, None),
    "5 groups, 12 cells": ([80, 60, 50, 90, 70], 12, None),
    "equal opportunity, 2 groups, 5 cells": ([60, 80], 5, ["no", "yes"]),
}


@pytest.mark.parametrize("name", SIMULATED)
def test_the_true_distance_exceeds_the_bound_as_often_as_stated(name):
    sizes, cells, labels = SIMULATED[name]
    gaps, runs, rng = equal_gaps(sizes, cells), 2_000, np.random.default_rng(5)
    counts = counts_of(gaps, labels)
    metric = "demographic_parity" if labels is None else "equal_opportunity"
    made = certify_counts(counts, metric, method="calibrated")
    rule = np.arange(cells) % 2
    interval = made.for_classifier(rule)
    above = below = outside = 0
    for _ in range(runs):
        shares, placed = zip(*(true_shares(rng, column) for column in gaps.T), strict=True)
        assert np.array_equal(np.transpose(placed), gaps - np.eye(cells, dtype=int)[:, [-1]])
        distance = max(np.abs(a - b).sum() / 2 for a in shares for b in shares)
        above, below = above + (distance > made.bound), below + (distance < made.lower)
        rates = np.array(shares) @ rule
        outside += not interval.lower <= np.ptp(rates) <= interval.upper
    for misses in (above, below, outside):
        assert stats.binom.ppf(1e-5, runs, 0.93 * EPSILON) <= misses <= stats.binom.ppf(1 - 1e-5, runs, EPSILON)


def test_capped_weights_miss_no_more_often_than_stated():
    """Heavy records of one group lie at one end, where capped weights understate its share."""
    gaps, rng, runs = equal_gaps([120, 120], 3), np.random.default_rng(7), 60
    heavy, cap, largest = 0.02, 2.0, 8.0
    misses = 0
    for _ in range(runs):
        shares, placed, beyond = [], [], []
        for g, column in enumerate(gaps.T):
            scores = rng.random(20_000)
            weights = np.where((scores < heavy) & (g == 0), largest, 1.0)
            drawn = thin(weights, seed=int(rng.integers(2**31)), cap=cap, max_weight=largest)
            rows = np.flatnonzero(drawn.keep)[: int(column.sum()) - 1]
            thresholds, counts = cells_of(scores[rows], np.cumsum(column)[:-1])
            ends = np.array([0.0, *thresholds, 1.0])
            # Weight below a score: 8 for each heavy record, 1 for others.
            weight = ends + (largest - 1) * np.minimum(ends, heavy) * (g == 0)
            shares.append(np.diff(weight) / weight[-1])
            placed.append(counts)
            beyond.append((int(np.count_nonzero(drawn.beyond[rows])),))
        counts = CellCounts(np.transpose(placed), ["f", "m"])
        tail = Tail(cap=cap, largest=largest, beyond=tuple(beyond))
        made = certify_counts(counts, method="calibrated", tail=tail)
        misses += np.abs(shares[0] - shares[1]).sum() / 2 > made.bound
    assert misses <= stats.binom.ppf(1 - 1e-5, runs, EPSILON)
