"""Fixed sequences: encoders tested against a target in order, each at the full ε, until one fails."""

import math
from functools import cache
from itertools import combinations, product

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multinomial

from certifare.certificates import CellCounts, Certificate, Claim, FixedSequence, certify_counts, difference_limit
from certifare.certificates.assumptions import ASSUMPTIONS, FIXED_IN_ADVANCE, NOT_LOOKED_UP
from certifare.certificates.claims import METRICS, combine, statistic
from certifare.document import suppress
from certifare.errors import ArgumentError, DocumentError, GroupError

GROUPS = ["f", "m"]


def tables(*differences, n=2000, groups=GROUPS, labels=None):
    """Counts of encoders with two cells, whose shares differ by so much between the first two groups."""
    found = []
    for difference in differences:
        first = [round(n * (0.5 + difference / 2)), *[round(n * (0.5 - difference / 2))] * (len(groups) - 1)]
        table = np.stack([first, n - np.array(first)])
        if labels is not None:
            table = np.stack([table // 2, table - table // 2], axis=2)
        found.append(CellCounts(table, groups, labels))
    return found


def certified(walked, counts, **options):
    return certify_counts(counts[walked.passed - 1], sequence=walked, **options)


def test_the_walk_ends_at_the_first_that_fails_and_looks_no_further():
    looked = []

    def drawn():
        for i, counts in enumerate(tables(0.0, 0.05, 0.2, 0.0)):
            looked.append(i)
            yield counts

    walked = FixedSequence.walk(drawn(), 0.15, length=4, encoders=["a" * 64, "b" * 64, "c" * 64, "d" * 64])
    assert looked == [0, 1, 2]
    assert (walked.passed, walked.length, len(walked.steps)) == (2, 4, 3)
    assert walked.published == walked.steps[1]
    assert [step.encoder[0] for step in walked.steps] == ["a", "b", "c"]
    limits = [difference_limit(*statistic(counts.table), 0.05) for counts in tables(0.0, 0.05, 0.2)]
    assert [step.limit for step in walked.steps] == limits


@pytest.mark.parametrize("metric", ["demographic_parity", "equalized_odds", "equalized_odds_max"])
@pytest.mark.parametrize("seed", range(5))
def test_the_largest_limit_of_all_pairs_counts(seed, metric):
    """Groups of 30 to 30,000 records: the pair that differs most need not be the one with the largest limit."""
    rng = np.random.default_rng(seed)
    sizes = np.round(10 ** rng.uniform(1.5, 4.5, 6)).astype(int)
    table = np.stack([rng.multinomial(n, rng.dirichlet([30, 30, 30, 30])) for n in sizes], axis=1).reshape(2, 2, 6)
    counts = CellCounts(table.transpose(0, 2, 1), list("abcdef"), ["no", "yes"])
    if metric == "demographic_parity":
        counts = CellCounts(counts.table.sum(axis=2), list("abcdef"))
    claim = Claim(metric=metric, min_group_size=1).fitted(counts)
    (step,) = FixedSequence.walk([counts], 1.0, claim).steps
    level = claim.epsilon(claim.strata(counts))
    limits = [
        (pair.label, difference_limit(*found, level))
        for pair, found in zip(claim.pairs(counts), step.statistics, strict=True)
    ]
    assert len(limits) == 15 * (1 if metric == "demographic_parity" else 2)
    assert step.limit == min(1.0, combine(METRICS[metric], limits))


def test_the_bound_is_the_target_and_limits_after_a_choice_share_epsilon():
    counts = tables(0.0, 0.05, 0.2)
    walked = FixedSequence.walk(counts, 0.15)
    witness = tables(0.06, n=900)[0]
    certificate = certified(walked, counts, witness=witness)
    assert certificate.bound == 0.15
    assert certificate.candidates == 3
    assert certificate.assumptions == (*ASSUMPTIONS, FIXED_IN_ADVANCE, NOT_LOOKED_UP)
    assert certificate.verify() is certificate
    alike = certify_counts(counts[1], candidates=3, witness=witness)
    assert certificate.lower == alike.lower < certify_counts(counts[1], witness=witness).lower
    assert certificate.for_classifier([0, 1]) == alike.for_classifier([0, 1])
    assert [part.bound for part in certificate.parts] == [0.15]
    assert Certificate.from_dict(certificate.to_dict()) == certificate
    assert "3, in sequence" in certificate._repr_html_()


def test_where_the_first_fails_nothing_can_be_certified():
    walked = FixedSequence.walk(tables(0.3, 0.0), 0.1)
    assert (walked.passed, walked.published) == (0, None)
    with pytest.raises(DocumentError, match="No encoder of the sequence passed"):
        certify_counts(tables(0.3)[0], sequence=walked)


@given(st.lists(st.floats(0, 0.4), min_size=1, max_size=6), st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_a_larger_target_passes_at_least_as_far(differences, target, other):
    counts = tables(*differences, n=600)
    small, large = (FixedSequence.walk(counts, t) for t in sorted([target, other]))
    assert small.passed <= large.passed


@pytest.mark.parametrize("metric", METRICS)
def test_all_metrics_and_several_groups(metric):
    rng = np.random.default_rng(0)
    counts = []
    for k in (2, 3, 5):
        p = rng.dirichlet(30 * np.ones(k), size=(3, 2))
        drawn = [[rng.multinomial(400, q) for q in of_group] for of_group in p]
        counts.append(CellCounts(np.array(drawn).transpose(2, 0, 1), ["a", "b", "c"], ["no", "yes"]))
    own = [certify_counts(c, metric).bound for c in counts]
    target = sorted(own)[1]
    walked = FixedSequence.walk(counts, target, Claim(metric=metric))
    assert [step.limit for step in walked.steps] == pytest.approx(own[: len(walked.steps)], abs=1e-12)
    walked = FixedSequence.walk(counts, 1.0, Claim(metric=metric))
    certificate = certify_counts(counts[2], metric, sequence=walked).verify()
    assert certificate.bound == 1.0
    assert len(walked.steps[0].statistics) == len(certificate.parts)


def test_what_follows_uses_the_target():
    counts = tables(0.0, 0.01, labels=["no", "yes"])
    walked = FixedSequence.walk(counts, 0.2, Claim(metric="equalized_odds"))
    certificate = certified(walked, counts, metric="equalized_odds")
    # The mean over two labels is at most 0.2: one of them may have all of it.
    assert certificate.within("yes") == pytest.approx(0.4)
    assert certificate.within("yes") >= 0.4
    assert certificate.under_shift(0.03, given_label=True) == pytest.approx(0.26)
    assert certificate.under_group_noise([0.1, 0.1], given_label=True) == pytest.approx(0.25)
    counts = tables(0.0, 0.01)
    certificate = certified(FixedSequence.walk(counts, 0.2), counts)
    assert certificate.impact_ratio(0.5) == pytest.approx(0.6)
    assert certificate.score_gap(0, 10) == pytest.approx(2.0)
    assert certificate.guessing_accuracy() == pytest.approx(0.6)
    assert certificate.under_shift({"f": 0.1, "m": 0.05}) == pytest.approx(0.35)
    assert certificate.under_group_noise([0.1, 0.1]) == pytest.approx(0.25)


def test_the_worst_of_equal_bounds_is_the_one_that_looks_worst():
    counts = tables(0.05, groups=["a", "b", "c"])
    certificate = certified(FixedSequence.walk(counts, 0.3), counts)
    assert set(certificate.worst.groups) != {"b", "c"}


def altered(certificate, **changes):
    """A certificate whose sequence says something else; 'steps.1.limit' names the limit of the second step."""
    document = certificate.to_dict()
    for path, value in changes.items():
        place = document["sequence"]
        *way, last = path.split("__")
        for name in way:
            place = place[int(name) if name.isdigit() else name]
        place[int(last) if last.isdigit() else last] = value
    if "target" in changes:
        document["bound"] = changes["target"]
        for part in document["parts"]:
            part["bound"] = changes["target"]
    if "length" in changes:
        document["candidates"] = changes["length"]
    return Certificate.from_dict(document)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps__0__limit": 0.01}, "Encoder 1 of the sequence states the limit 0.01"),
        ({"steps__2__limit": 0.16}, "Encoder 3 of the sequence states the limit 0.16"),
        ({"steps__2__limit": float("nan")}, "sequence"),
        ({"steps__0__statistics": [[2000, 2000, 0]]}, "Encoder 1 of the sequence states"),
        ({"steps__0__statistics": [[3000, 2000, 0]]}, "tested on other records"),
        ({"steps__0__statistics": []}, "tested on other records"),
        ({"steps__0__statistics": [[2000, 2000, -1]]}, "a statistic that no records have"),
        ({"steps__0__statistics": [[2000, 2000, 4_000_001]]}, "a statistic that no records have"),
        ({"steps__1__cells": 3}, "not the one that the counts are about"),
        ({"target": 0.05}, "must go on to the first that fails, and end there"),
        ({"target": 0.9}, "must go on to the first that fails"),
        ({"length": 9, "target": 0.9}, "must go on to the first that fails"),
        ({"target": 0.02}, "No encoder of the sequence passed"),
    ],
)
def test_verification_recomputes_the_sequence(changes, message):
    counts = tables(0.001, 0.05, 0.2, 0.3)
    certificate = certified(FixedSequence.walk(counts, 0.15), counts).verify()
    with pytest.raises(DocumentError, match=message):
        altered(certificate, **changes).verify()


def test_parts_of_a_certificate_with_a_sequence_must_agree():
    counts = tables(0.0, 0.05, 0.2)
    certificate = certified(FixedSequence.walk(counts, 0.15), counts)
    for changes in ({"bound": 0.14}, {"candidates": 2}, {"method": "calibrated"}):
        with pytest.raises(DocumentError, match="its target is the bound"):
            msgspec.structs.replace(certificate, **changes)
    other = msgspec.structs.replace(certificate, counts=counts[0])
    with pytest.raises(DocumentError, match="not the one that the counts are about"):
        other.verify()
    with pytest.raises(DocumentError, match="leaves out what every one must say: The encoders of the"):
        msgspec.structs.replace(certificate, assumptions=ASSUMPTIONS).verify()
    with pytest.raises(ArgumentError, match="tested by the exact method"):
        certify_counts(counts[1], method="calibrated", sequence=certificate.sequence)


def test_pooling_small_cells_leaves_the_sequence_as_it_is():
    rng = np.random.default_rng(1)
    counts = [CellCounts(rng.multinomial(900, rng.dirichlet(np.full(12, 0.4)), 2).T, GROUPS) for _ in range(2)]
    walked = FixedSequence.walk(counts, 0.9)
    pooled, _ = suppress(certified(walked, counts), 10)
    assert pooled.pools
    assert pooled.verify().sequence == walked


def test_samples_of_any_size():
    """M exceeds 64 bits, and survives the way through a document."""
    n = 3 * 10**9
    counts = [CellCounts([[n // 2, n // 2 + 10**6], [n - n // 2, n // 2 - 10**6]], GROUPS)] * 2
    certificate = certified(FixedSequence.walk(counts, 0.2), counts)
    huge = 10**30
    assert msgspec.convert([[1, 1, huge]], tuple[tuple[int, int, int], ...]) == ((1, 1, huge),)
    assert Certificate.from_dict(certificate.to_dict()).verify() == certificate


def test_bad_sequences_are_refused():
    with pytest.raises(ArgumentError, match="at least one encoder"):
        FixedSequence.walk([], 0.1)
    for target in (0.0, -1, 1.5, math.nan):
        with pytest.raises(ArgumentError, match="target"):
            FixedSequence.walk(tables(0.0), target)
    with pytest.raises(GroupError):
        FixedSequence.walk(tables(0.0, n=20), 0.1)


# -- the guarantee, by enumeration --------------------------------------------------------------------------------


@cache
def limit(n0, n1, m, epsilon):
    return max(0.0, difference_limit(n0, n1, m, epsilon))


@pytest.mark.parametrize("p", [((0.5, 0.3, 0.2), (0.2, 0.3, 0.5)), ((0.8, 0.1, 0.1), (0.1, 0.1, 0.8))])
@pytest.mark.parametrize("order", [[(0, 0, 1), (0, 1, 1), (0, 1, 2)], [(0, 1, 2), (0, 1, 0), (0, 0, 1)]])
def test_enumeration_of_all_samples_of_a_tiny_population(p, order):
    """Every sample of 5 + 6 records of three kinds, with its probability: errors add up to at most ε, exactly."""
    n, epsilon = (5, 6), 0.2
    p = np.array(p)
    maps = [np.eye(3, dtype=int)[list(cells)] for cells in order]
    truth = [np.abs(p[0] @ m - p[1] @ m).sum() / 2 for m in maps]
    samples = [[np.array(s) for s in product(range(size + 1), repeat=3) if sum(s) == size] for size in n]
    weights = [multinomial.pmf(drawn, size, q) for drawn, size, q in zip(samples, n, p, strict=True)]
    outcomes = []
    for (i, a), (j, b) in product(enumerate(samples[0]), enumerate(samples[1])):
        found = [statistic(np.stack([a @ m, b @ m], axis=1)) for m in maps]
        outcomes.append((weights[0][i] * weights[1][j], [limit(*s, epsilon) for s in found]))
    assert sum(weight for weight, _ in outcomes) == pytest.approx(1.0)
    targets = {value - 1e-6 for value in truth} | {limits[0] for _, limits in outcomes[:40]}
    for target in sorted(t for t in targets if 0 < t <= 1):
        error = 0.0
        for weight, limits in outcomes:
            passed = next((i for i, value in enumerate(limits) if value > target), len(limits))
            error += weight * any(true > target for true in truth[:passed])
        assert error <= epsilon, target


def test_the_walk_of_the_code_is_the_walk_of_the_enumeration():
    rng = np.random.default_rng(2)
    for _ in range(50):
        counts = [CellCounts(rng.multinomial(9, rng.dirichlet(np.ones(3)), 2).T, GROUPS) for _ in range(3)]
        target = float(rng.uniform(0.3, 1.0))
        limits = [limit(*statistic(c.table), 0.05) for c in counts]
        expected = next((i for i, value in enumerate(limits) if value > target), 3)
        assert FixedSequence.walk(counts, target, Claim(min_group_size=1)).passed == expected


def test_limits_combine_as_the_metric_says():
    counts = tables(0.1, groups=["a", "b", "c"], labels=["no", "yes"])[0]
    (step,) = FixedSequence.walk([counts], 1.0, Claim(metric="equalized_odds")).steps
    pairs = list(combinations(counts.groups, 2))
    labels = [label for label in counts.labels for _ in pairs]
    own = [limit(*s, 0.025) for s in step.statistics]
    assert step.limit == pytest.approx(combine(METRICS["equalized_odds"], list(zip(labels, own, strict=True))))


def test_an_encoder_whose_limit_is_the_target_passes():
    (counts,) = tables(0.05)
    target = difference_limit(*statistic(counts.table), 0.05)
    assert FixedSequence.walk([counts], target).passed == 1
    assert certify_counts(counts, sequence=FixedSequence.walk([counts], target)).verify().bound == target
    below = math.nextafter(target, 0.0)
    assert FixedSequence.walk([counts], below).passed == 0


def test_a_target_of_one_is_the_largest():
    (counts,) = tables(0.05)
    walked = FixedSequence.walk([counts], 1.0)
    assert certify_counts(counts, sequence=walked).bound == 1.0
    above = math.nextafter(1.0, 2.0)
    with pytest.raises(ArgumentError, match="target"):
        FixedSequence.walk([counts], above)
    for target in (above, 1.05, math.nan):
        with pytest.raises(DocumentError):
            msgspec.structs.replace(walked, target=target).check(counts, Claim())
    with pytest.raises(DocumentError, match="No encoder"):
        msgspec.structs.replace(walked, target=0.0).check(counts, Claim())


def test_an_encoder_that_parts_the_groups_altogether_may_be_the_one_that_fails():
    """Its M is as large as M can be, n0·n1, and its limit is 1."""
    (counts,) = tables(0.05)
    apart = CellCounts([[2000, 0], [0, 2000]], GROUPS)
    walked = FixedSequence.walk([counts, apart], 0.2)
    assert walked.steps[1].statistics == ((2000, 2000, 4_000_000),)
    assert walked.steps[1].limit == 1.0
    assert certify_counts(counts, sequence=walked).verify().bound == 0.2


def test_every_statistic_of_a_step_is_checked():
    """Three groups: the first pair may have any M, and one M that no records have is enough to refuse."""
    counts = tables(0.01, 0.05, groups=["a", "b", "c"])
    certificate = certified(FixedSequence.walk(counts, 0.3), counts).verify()
    found = [list(statistic) for statistic in certificate.sequence.steps[0].statistics]
    for pair in range(3):
        for m in (-1, 2000 * 2000 + 1):
            changed = [statistic.copy() for statistic in found]
            changed[pair][2] = m
            with pytest.raises(DocumentError, match="a statistic that no records have"):
                altered(certificate, steps__0__statistics=changed).verify()


def test_limits_of_steps_may_differ_by_a_billionth_and_no_more():
    counts = tables(0.01, 0.05)
    certificate = certified(FixedSequence.walk(counts, 0.3), counts).verify()
    limit = certificate.sequence.steps[0].limit
    for off in (9.9e-10, -9.9e-10):
        altered(certificate, steps__0__limit=limit + off).verify()
    for off in (1.01e-9, -1.01e-9):
        with pytest.raises(DocumentError, match="Encoder 1 of the sequence states"):
            altered(certificate, steps__0__limit=limit + off).verify()


def test_an_encoder_whose_limit_is_the_target_passes_and_the_next_is_tested():
    safe = CellCounts([[700, 690], [800, 710]], groups=["f", "m"])
    bold = CellCounts([[1200, 800], [300, 600]], groups=["f", "m"])
    (limit,) = (step.limit for step in FixedSequence.walk([safe], 1.0).steps)
    walked = FixedSequence.walk([safe, bold], limit)
    assert (walked.passed, len(walked.steps)) == (1, 2)
    assert certify_counts(safe, sequence=walked).verify().bound == limit
