"""Weights with a cap: what is above it is bounded from the weights alone, and every limit is about whole weights."""

import importlib
from fractions import Fraction
from functools import cache
from itertools import product
from math import factorial

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from certifare import CellCounts, Certificate, certify_counts, thin
from certifare.certificates import METRICS, Claim, Exclusion, FixedSequence, Subsample, Witness
from certifare.certificates.assumptions import ASSUMPTIONS, CAP_FIXED, NOT_LOOKED_UP
from certifare.certificates.counts import THINNED
from certifare.certificates.exact import difference_limit
from certifare.certificates.population import BY_WEIGHT
from certifare.certificates.tail import Tail, clopper_pearson, lowered, raised, share_limit
from certifare.document.suppression import suppress
from certifare.errors import ArgumentError, DocumentError


def total_variation(p, q):
    return sum(max(a - b, 0) for a, b in zip(p, q, strict=True))


def by_cell(records, weight):
    """Distribution of the cell where records of (chance, weight, cell) count in proportion to a weight of theirs."""
    total = sum(chance * weight(w) for chance, w, _ in records)
    return [sum(chance * weight(w) for chance, w, c in records if c == cell) / total for cell in range(3)]


def share_above(records, cap):
    return sum(p * max(w - cap, 0) for p, w, _ in records) / sum(p * w for p, w, _ in records)


populations = st.lists(
    st.tuples(st.integers(1, 9).map(Fraction), st.integers(1, 20).map(Fraction), st.integers(0, 2)),
    min_size=1,
    max_size=6,
)


@given(populations, populations, st.integers(1, 19).map(Fraction), st.lists(st.integers(0, 1), min_size=3, max_size=3))
def test_distances_by_whole_weights_lie_between_the_limits(first, second, cap, rule):
    whole = [by_cell(records, lambda w: w) for records in (first, second)]
    capped = [by_cell(records, lambda w: min(w, cap)) for records in (first, second)]
    share = max(share_above(records, cap) for records in (first, second))
    assert total_variation(*whole) <= raised(total_variation(*capped), share)
    assert total_variation(*whole) >= lowered(total_variation(*capped), share)
    gap, below = (sum(g * (a - b) for g, a, b in zip(rule, *p, strict=True)) for p in (whole, capped))
    assert lowered(below, share) <= gap <= raised(below, share)


def test_the_limit_is_reached_where_heavy_weights_go_with_the_cells():
    """All the weight above the cap is in another cell in each group: no smaller limit would hold."""
    first = [(Fraction(1), Fraction(1), 0), (Fraction(1), Fraction(9), 1)]
    second = [(Fraction(1), Fraction(9), 0), (Fraction(1), Fraction(1), 1)]
    share = share_above(first, 1)
    assert share == share_above(second, 1) == Fraction(8, 10)
    whole = [by_cell(records, lambda w: w) for records in (first, second)]
    assert total_variation(*whole) == raised(Fraction(0), share)


@given(populations, st.integers(1, 19).map(Fraction))
def test_of_the_records_kept_the_share_beyond_tells_the_weight_above_the_cap(records, cap):
    largest = Fraction(20)
    kept = sum(p * min(w, cap) / cap for p, w, _ in records)
    beyond = sum(p * max(w - cap, 0) / (largest - cap) for p, w, _ in records)
    weight = beyond / kept * (largest - cap)
    assert weight / (cap + weight) == share_above(records, cap)


def test_thinning_draws_with_these_chances():
    weights = np.repeat([1.0, 4.0, 10.0], 40_000)
    sample = thin(weights, cap=4.0, max_weight=12.0, seed=3)
    kept, beyond = (mask.reshape(3, -1).mean(axis=1) for mask in (sample.keep, sample.beyond))
    assert kept == pytest.approx([0.25, 1.0, 1.0], abs=0.01)
    assert beyond == pytest.approx([0.0, 0.0, 0.75], abs=0.01)
    assert (sample.cap, sample.largest) == (4.0, 12.0)
    assert not (sample.beyond & ~sample.keep).any()


def test_the_coin_beyond_the_cap_does_not_know_the_one_that_thins():
    """One uniform number for both would make records beyond the cap those that a smaller cap keeps."""
    weights = np.full(4_000, 5.0)
    draws = [thin(weights, cap=cap, max_weight=10.0, seed=1) for cap in (None, 2.5)]
    together = (draws[0].keep & draws[1].beyond).mean()
    assert together == pytest.approx(draws[0].keep.mean() * draws[1].beyond.mean(), abs=0.02)


def test_a_cap_above_all_weights_caps_nothing():
    weights = np.array([1.0, 2.0, 3.0] * 50)
    plain, capped = thin(weights, seed=2), thin(weights, seed=2, cap=3.0)
    assert capped.tail(lambda rows: CellCounts([[1, 1]], "fm")) is None
    assert np.array_equal(plain.keep, capped.keep)


@pytest.mark.parametrize("cap", [0.0, -1.0, float("nan")])
def test_what_is_no_cap_is_refused(cap):
    with pytest.raises(ArgumentError, match="above 0"):
        thin([1.0, 2.0], cap=cap)


def test_the_limit_of_the_share_covers_it():
    """Exactly: the probability of a limit below the share is at most a tenth of ε."""
    from scipy.stats import binom

    for kept, share, cap in product((10, 40), (0.01, 0.1, 0.3), (2.0, 8.0)):
        chance = share / (1 - share) * cap / (10.0 - cap)
        if chance < 1.0:
            low = [share_limit(b, kept, cap, 10.0, 0.5) < share for b in range(kept + 1)]
            assert binom.pmf(np.arange(kept + 1), kept, chance) @ low <= 0.05


def compositions(n, parts):
    if parts == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in compositions(n - first, parts - 1):
            yield first, *rest


def all_samples(n, chances):
    """Every table of n records of these kinds, with its probability."""
    for numbers in compositions(n, len(chances)):
        probability = float(factorial(n))
        for number, chance in zip(numbers, chances, strict=True):
            probability *= chance**number / factorial(number)
        yield numbers, probability


@pytest.mark.parametrize("heavy", [0.05, 0.2])
def test_every_limit_over_all_samples_of_a_small_population(heavy, monkeypatch):
    """Two cells; the weight above the cap lies in cell 0 in one group, and in cell 1 in the other. Misses add up.

    Kinds of records kept: cell 0, cell 1, and those beyond the cap, in the cell where the heavy weights are.
    """
    for module in ("classifier", "bounding", "sequence"):
        found = importlib.import_module(f"certifare.certificates.{module}")
        monkeypatch.setattr(found, "difference_limit", cache(difference_limit))
    cap, largest, confidence, n = 1.0, 1.5, 0.6, 5
    shares = np.array([[0.8, 0.2], [0.3, 0.7]])  # by capped weights
    # q = ρ/(1 − ρ) · cap/(largest − cap) of the kept, all of them among the records of one cell.
    beyond = np.full(2, heavy / (1 - heavy) * cap / (largest - cap))
    kinds = [[shares[0, 0] - beyond[0], shares[0, 1], beyond[0]], [shares[1, 0], shares[1, 1] - beyond[1], beyond[1]]]
    whole = np.array(
        [
            [(1 - heavy) * shares[0, 0] + heavy, (1 - heavy) * shares[0, 1]],
            [(1 - heavy) * shares[1, 0], (1 - heavy) * shares[1, 1] + heavy],
        ]
    )
    truth = whole[0, 0] - whole[1, 0]
    bound = lower = upper = below = passed = 0.0
    for (a, p), (b, q) in product(all_samples(n, kinds[0]), all_samples(n, kinds[1])):
        counts = CellCounts([[a[0] + a[2], b[0]], [a[1], b[1] + b[2]]], "fm")
        tail = Tail(cap=cap, largest=largest, beyond=((a[2],), (b[2],)))
        witness = [Witness(groups=("f", "m"), label=None, cells=(0,))]
        options = {"tail": tail, "min_group_size": 1}
        c = certify_counts(counts, confidence=confidence, witness=witness, **options)
        interval = c.for_classifier([1, 0])
        bound += p * q * (c.bound < truth)
        lower += p * q * (c.lower > truth)
        upper += p * q * (interval.upper < truth)
        below += p * q * (interval.lower > truth)
        walked = FixedSequence.walk([counts], truth - 1e-9, Claim(confidence=confidence, min_group_size=1), tail=tail)
        passed += p * q * walked.passed
    epsilon = 1 - confidence + 1e-9
    assert max(bound, lower, upper + below, passed) <= epsilon
    assert bound > 0.0  # the test could fail


def some_counts(draw, labels):
    shape = (draw(st.integers(1, 4)), draw(st.integers(2, 3)), *((labels,) if labels else ()))
    table = np.array(draw(st.lists(st.integers(0, 60), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))))
    return table.reshape(shape) + 1


@st.composite
def claims(draw):
    metric = draw(st.sampled_from(sorted(METRICS)))
    labels = 0 if metric == "demographic_parity" else 2
    table = some_counts(draw, labels)
    counts = CellCounts(table, "abc"[: table.shape[1]], "01" if labels else None)
    kept = table.sum(axis=0).reshape(table.shape[1], -1)
    beyond = tuple(tuple(draw(st.integers(0, min(5, int(n)))) for n in row) for row in kept)
    cap = draw(st.floats(0.1, 100.0))
    return metric, counts, Tail(cap=cap, largest=cap * draw(st.floats(1.01, 50.0)), beyond=beyond)


def drawn(counts):
    """Say that the records were thinned, and that as many again were left out."""
    n = counts.n_records
    return Subsample(np.ones(n, dtype=bool), (Exclusion(THINNED, n),), 1.5 * n, 0, (), (BY_WEIGHT,))


@given(claims(), st.booleans())
def test_a_certificate_with_a_cap_is_recomputed_from_what_it_holds(claim, witnessed):
    metric, counts, tail = claim
    options = {"tail": tail, "drawn": drawn(counts), "min_group_size": 1, "witness": counts if witnessed else None}
    certificate = certify_counts(counts, metric, **options)
    again = Certificate.from_dict(certificate.to_dict()).verify()
    assert again == certificate
    plain = certify_counts(counts, metric, min_group_size=1, witness=options["witness"])
    near = 0.02  # limits are computed to a hundredth of their radius
    assert certificate.bound >= plain.bound - near
    assert certificate.lower <= plain.lower + near
    assert certificate.estimate == plain.estimate
    assert certificate.assumptions == (*ASSUMPTIONS, CAP_FIXED, NOT_LOOKED_UP)
    rule = np.arange(counts.n_cells) % 2
    with_cap, without = certificate.for_classifier(rule), plain.for_classifier(rule)
    assert with_cap.lower <= without.lower + near
    if counts.n_cells > 1:
        assert with_cap.upper >= without.upper - near


@settings(max_examples=15)
@given(claims())
def test_a_sequence_with_a_cap_is_recomputed_too(claim):
    metric, counts, tail = claim
    coarse = counts.merge_cells(np.zeros(counts.n_cells, dtype=int))
    walked = FixedSequence.walk([coarse, counts], 1.0, Claim(metric=metric, min_group_size=1), tail=tail)
    certificate = certify_counts(counts, metric, sequence=walked, tail=tail, drawn=drawn(counts), min_group_size=1)
    assert Certificate.from_dict(certificate.to_dict()).verify().bound == 1.0
    alone = certify_counts(counts, metric, tail=tail, min_group_size=1)
    assert walked.steps[-1].limit == pytest.approx(alone.bound, abs=1e-12)
    with pytest.raises(DocumentError, match="states the limit"):
        certify_counts(counts, metric, sequence=walked, min_group_size=1)


COUNTS = CellCounts([[900, 700], [100, 300]], "fm")
TAIL = Tail(cap=2.0, largest=8.0, beyond=((3,), (1,)))


def test_a_changed_tail_is_found():
    certificate = certify_counts(COUNTS, tail=TAIL)
    fewer = msgspec.structs.replace(TAIL, beyond=((0,), (0,)))
    lighter = msgspec.structs.replace(TAIL, largest=2.1)
    for changed in (fewer, lighter, None):
        with pytest.raises(DocumentError, match="states"):
            msgspec.structs.replace(certificate, tail=changed).verify()


def test_a_certificate_with_a_cap_says_that_it_is_about_records_by_their_weights():
    certificate = certify_counts(COUNTS, tail=TAIL, drawn=drawn(COUNTS))
    assert certify_counts(COUNTS, tail=TAIL).population == certificate.verify().population == (BY_WEIGHT,)
    unsaid = msgspec.structs.replace(certificate, population=())
    kept_all = msgspec.structs.replace(unsaid, counts=COUNTS, effective_size=1900.0)
    for silent in (unsaid, kept_all):
        with pytest.raises(DocumentError, match="in proportion to their weights"):
            silent.verify()


def test_a_certificate_with_a_cap_says_that_the_cap_was_fixed_before():
    certificate = certify_counts(COUNTS, tail=TAIL)
    silent = msgspec.structs.replace(certificate, assumptions=(*ASSUMPTIONS, NOT_LOOKED_UP))
    assert silent.silences == (CAP_FIXED,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cap": 8.0}, "between 0 and the largest"),
        ({"cap": 0.0}, "between 0 and the largest"),
        ({"largest": float("inf")}, "between 0 and the largest"),
        ({"cap": float("nan")}, "between 0 and the largest"),
        ({"beyond": ((3,),)}, "groups and labels"),
        ({"beyond": ((3, 1), (1, 2))}, "groups and labels"),
        ({"beyond": ((3,), (1001,))}, "more records"),
        ({"beyond": ((3,), (-1,))}, "Expected"),
    ],
)
def test_a_tail_that_does_not_fit_is_refused(changes, words):
    document = certify_counts(COUNTS, tail=TAIL).to_dict()
    document["tail"] |= changes
    with pytest.raises(DocumentError, match=words):
        Certificate.from_dict(document)


def test_small_cells_are_pooled_with_a_cap_as_without():
    counts = CellCounts([[400, 300], [3, 1], [290, 402], [2, 9], [5, 4]], "fm")
    certificate = certify_counts(counts, tail=TAIL, drawn=drawn(counts))
    assert suppress(certificate, 10)[0].verify().bound == certificate.bound


def test_labels_are_taken_off_for_demographic_parity():
    counts = CellCounts([[[90, 70], [80, 60]], [[10, 30], [20, 40]]], "fm", "01")
    tail = Tail(cap=1.0, largest=4.0, beyond=((2, 1), (0, 3)))
    assert certify_counts(counts, tail=tail).tail.beyond == ((3,), (3,))


def test_without_what_is_above_the_cap_the_bound_would_be_missed():
    """Heavy weights go with the cells. Capped weights alone promise too much; with the tail the bound holds."""
    rng = np.random.default_rng(4)
    n, heavy, weight, runs = 2_000, 0.03, 6.0, 30
    above = heavy * (weight - 1) / (1 + heavy * (weight - 1))
    truth = raised(0.1, above)  # groups of two cells, 0.55 and 0.45 by capped weights
    misses = alone = 0
    for run in range(runs):
        counts, beyond = np.zeros((2, 2), dtype=int), []
        for group, share in enumerate((0.55, 0.45)):
            is_heavy = rng.random(n) < heavy
            first = np.where(is_heavy, group == 0, rng.random(n) < (share - heavy * (group == 0)) / (1 - heavy))
            sample = thin(np.where(is_heavy, weight, 1.0), cap=1.0, seed=2 * run + group)
            counts[:, group] = [(first & sample.keep).sum(), (~first & sample.keep).sum()]
            beyond.append((int(sample.beyond.sum()),))
        tail = Tail(cap=1.0, largest=weight, beyond=tuple(beyond))
        misses += certify_counts(CellCounts(counts, "fm"), tail=tail).bound < truth
        alone += certify_counts(CellCounts(counts, "fm")).bound < truth
    assert misses <= 2
    assert alone > runs / 2


def test_limits_by_capped_weights_follow_from_those_by_whole_weights():
    from certifare.certificates.tail import lowered, raised, unlowered, unraised

    assert unraised(raised(0.1, 0.05), 0.05) == pytest.approx(0.1)
    assert unlowered(lowered(0.1, 0.05), 0.05) == pytest.approx(0.1)


@pytest.mark.parametrize(("successes", "trials"), [(3, 40), (39, 40), (0, 40), (40, 40), (500, 10**6), (0, 0)])
@pytest.mark.parametrize("epsilon", [0.5, 0.05, 1e-12])
def test_limits_of_a_share_are_those_of_scipy_rounded_outwards(successes, trials, epsilon):
    """By 10⁻¹¹ of the smaller share; nothing is known where there were no trials."""
    (low,), (high,) = clopper_pearson(np.array([successes]), np.array([trials]), epsilon)
    expected = beta.ppf(epsilon / 2, successes, trials - successes + 1) if successes else 0.0
    other = beta.ppf(epsilon / 2, trials - successes, successes + 1) if successes < trials else 0.0
    assert low == pytest.approx(expected * (1 - 1e-11), rel=5e-13, abs=0.0)
    assert 1 - high == pytest.approx(other * (1 - 1e-11), rel=5e-13, abs=2e-16)
