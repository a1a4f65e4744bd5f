"""Where ε goes: every limit of a certificate at the level that theory gives it, computed here a second time.

The tables are small, and all that is taken from the package is the exact limit of one difference, which has brute-force
tests of its own. Clopper–Pearson limits are scipy's, sums are fractions.
"""

import math
from fractions import Fraction
from itertools import combinations

import msgspec
import numpy as np
import pytest
from scipy.stats import beta

from certifare import CellCounts, certify_counts
from certifare.certificates import Claim, FixedSequence, Witness, difference_limit
from certifare.certificates.claims import Pair
from certifare.certificates.tail import Tail, clopper_pearson, share_limit
from certifare.errors import DocumentError, GroupError

METRICS = ["demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max"]
#: Cells × groups × labels: four cells in which three groups of different sizes differ much.
TABLE = np.array(
    [
        [[900, 400], [250, 90], [60, 500]],
        [[310, 120], [520, 800], [80, 20]],
        [[45, 300], [130, 210], [700, 90]],
        [[5, 80], [600, 25], [310, 140]],
    ]
)
COUNTS = CellCounts(TABLE, groups="abc", labels=["no", "yes"])
OTHER = CellCounts(TABLE // 2 + 7, groups="abc", labels=["no", "yes"])
TAIL = Tail(cap=2.0, largest=9.0, beyond=((4, 2), (0, 7), (11, 3)))


def strata_of(metric):
    """Tables cells × groups of the strata, with their labels."""
    if metric == "demographic_parity":
        return {None: TABLE.sum(axis=2)}
    if metric == "equal_opportunity":
        return {"yes": TABLE[:, :, 1]}
    return {"no": TABLE[:, :, 0], "yes": TABLE[:, :, 1]}


def beyond_of(label):
    beyond = np.array(TAIL.beyond)
    return beyond.sum(axis=1) if label is None else beyond[:, ["no", "yes"].index(label)]


def combined(metric, by_stratum):
    values = list(by_stratum.values())
    return sum(values) / len(values) if metric == "equalized_odds" else max(values)


def distance(column, other):
    """Half the sum of absolute differences, as a fraction."""
    n, m = int(column.sum()), int(other.sum())
    return sum(abs(Fraction(int(a), n) - Fraction(int(b), m)) for a, b in zip(column, other, strict=True)) / 2


def radius(n, m, epsilon):
    return math.sqrt((1 / n + 1 / m) * math.log(1 / epsilon) / 2)


def share_above(label, pair, epsilon):
    """Upper limit, at a tenth of ε, of the larger of two groups' shares of weight above the cap."""
    shares = []
    for group in pair:
        kept, beyond = int(strata_table(label)[:, group].sum()), int(beyond_of(label)[group])
        limit = beta.ppf(1 - 0.1 * epsilon, beyond + 1, kept - beyond)
        weight = limit * (TAIL.largest - TAIL.cap)
        shares.append(weight / (TAIL.cap + weight))
    return max(shares)


def strata_table(label):
    return TABLE.sum(axis=2) if label is None else TABLE[:, :, ["no", "yes"].index(label)]


def statistic_of(table, pair):
    """M = n1·n0·TV, a whole number."""
    n0, n1 = (int(table[:, group].sum()) for group in pair)
    m = distance(table[:, pair[0]], table[:, pair[1]]) * n0 * n1
    assert m.denominator == 1
    return n0, n1, int(m)


def epsilon_of(metric, candidates):
    """ε of each stratum: shared by candidates, and by labels where their mean is bounded."""
    return 0.1 / candidates / (2 if metric == "equalized_odds" else 1)


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("candidates", [1, 6])
@pytest.mark.parametrize("metric", METRICS)
def test_upper_limits_of_three_groups(metric, candidates, capped):
    epsilon = epsilon_of(metric, candidates)
    level = 0.9 * epsilon if capped else epsilon
    expected = {}
    for label, table in strata_of(metric).items():
        bounds = []
        for pair in combinations(range(3), 2):
            plain = difference_limit(*statistic_of(table, pair), level)
            share = share_above(label, pair, epsilon) if capped else 0.0
            bounds.append(min(1.0, plain + share * (1 - plain)))
        expected[label] = max(bounds)
    certificate = certify_counts(
        COUNTS, metric, 0.9, candidates=candidates, positive="yes", tail=TAIL if capped else None
    )
    assert certificate.bound == pytest.approx(combined(metric, expected), abs=1e-9)


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("candidates", [1, 6])
@pytest.mark.parametrize("metric", METRICS)
def test_lower_limits_of_three_groups_without_a_witness(metric, candidates, capped):
    """The largest of several lower limits: all pairs share ε, and all labels where the largest label counts."""
    epsilon = epsilon_of(metric, candidates)
    strata = strata_of(metric)
    ways = 3 * (len(strata) if metric == "equalized_odds_max" else 1)
    level = (0.9 if capped else 1.0) * epsilon / ways
    expected = {}
    for label, table in strata.items():
        limits = []
        for pair in combinations(range(3), 2):
            n0, n1 = (int(table[:, group].sum()) for group in pair)
            bias = 0.5 * math.sqrt((len(table) - 1) * (1 / n0 + 1 / n1))
            limit = float(distance(table[:, pair[0]], table[:, pair[1]])) - bias - radius(n0, n1, level)
            share = share_above(label, pair, epsilon / ways) if capped else 0.0
            limits.append(limit - share * (1 + limit))
        expected[label] = max(0.0, *limits)
    certificate = certify_counts(
        COUNTS, metric, 0.9, candidates=candidates, positive="yes", tail=TAIL if capped else None
    )
    assert certificate.lower == pytest.approx(combined(metric, expected), abs=1e-9)
    assert 0.1 < certificate.lower < certificate.estimate


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("candidates", [1, 6])
@pytest.mark.parametrize("metric", METRICS)
def test_lower_limits_of_three_groups_with_a_witness(metric, candidates, capped):
    """One set of cells (for each label of a mean), chosen on other records: it has all of the stratum's ε."""
    epsilon = epsilon_of(metric, candidates)
    strata = strata_of(metric)
    by_label = {None: OTHER.table.sum(axis=2), "no": OTHER.table[:, :, 0], "yes": OTHER.table[:, :, 1]}
    other = {label: by_label[label] for label in strata}
    worst = {}
    for label, table in other.items():
        for pair in combinations(range(3), 2):
            key = label if metric == "equalized_odds" else None
            found = distance(table[:, pair[0]], table[:, pair[1]])
            worst[key] = max(worst.get(key, (Fraction(-1),)), (found, label, pair), key=lambda entry: entry[0])
    expected, witnesses = dict.fromkeys(strata, 0.0), []
    for _, label, pair in worst.values():
        chosen_on, table = other[label], strata[label]
        sizes = [int(chosen_on[:, group].sum()) for group in pair]
        cells = [
            i
            for i, row in enumerate(chosen_on)
            if Fraction(int(row[pair[0]]), sizes[0]) > Fraction(int(row[pair[1]]), sizes[1])
        ]
        witnesses.append((tuple("abc"[group] for group in pair), label, tuple(cells)))
        n0, n1 = (int(table[:, group].sum()) for group in pair)
        gap = n1 * int(table[cells, pair[0]].sum()) - n0 * int(table[cells, pair[1]].sum())
        # The upper limit of the difference with groups exchanged.
        limit = -difference_limit(n1, n0, -gap, (0.9 if capped else 1.0) * epsilon)
        share = share_above(label, pair, epsilon) if capped else 0.0
        expected[label] = max(0.0, limit - share * (1 + limit))
    options = {"candidates": candidates, "positive": "yes", "tail": TAIL if capped else None}
    certificate = certify_counts(COUNTS, metric, 0.9, witness=OTHER, **options)
    assert [(w.groups, w.label, w.cells) for w in certificate.witnesses] == witnesses
    assert certificate.lower == pytest.approx(combined(metric, expected), abs=1e-9)
    assert certificate.lower > 0.3
    again = certify_counts(COUNTS, metric, 0.9, witness=certificate.witnesses, **options)
    assert again.lower == certificate.lower


@pytest.mark.parametrize("capped", [False, True])
def test_a_witness_that_fits_gives_a_limit_above_zero(capped):
    """Chosen well, and for the second and third group: the limit is that of the two groups' own numbers of records."""
    witness = [Witness(groups=("b", "c"), label=None, cells=(1, 3))]
    table = TABLE.sum(axis=2)
    sizes = table.sum(axis=0).tolist()
    gap = sizes[2] * int(table[[1, 3], 1].sum()) - sizes[1] * int(table[[1, 3], 2].sum())
    limit = -difference_limit(sizes[2], sizes[1], -gap, 0.045 if capped else 0.05)
    share = share_above(None, (1, 2), 0.05) if capped else 0.0
    found = certify_counts(COUNTS, witness=witness, tail=TAIL if capped else None).lower
    assert found == pytest.approx(limit - share * (1 + limit), abs=1e-9)
    assert found > 0.2


def test_the_share_above_a_cap_is_that_of_the_label_and_of_both_groups():
    for label in (None, "no", "yes"):
        counts = COUNTS if label else COUNTS.without_labels()
        tail = TAIL if label else TAIL.without_labels()
        for pair in combinations(range(3), 2):
            names = tuple("abc"[group] for group in pair)
            found = tail.share(counts, Pair(names, label, None, tuple((group,) for group in pair)), 0.03)
            assert found == pytest.approx(share_above(label, pair, 0.03), abs=1e-10)
            assert found > share_above(label, pair, 0.03)


@pytest.mark.parametrize(
    ("beyond", "kept", "cap", "largest"), [(3, 40, 2.0, 9.0), (0, 500, 1.0, 300.0), (40, 40, 1.0, 9.0)]
)
def test_the_share_above_a_cap_is_rounded_up_by_a_trillionth(beyond, kept, cap, largest):
    upper = clopper_pearson(np.array([beyond]), np.array([kept]), 2 * 0.1 * 0.05)[1][0]
    weight = upper * (largest - cap)
    found = share_limit(beyond, kept, cap, largest, 0.05)
    assert found == pytest.approx(weight / (cap + weight) + 1e-12, abs=2e-14)


def test_the_share_above_a_cap_is_never_more_than_everything():
    assert 0.95 < share_limit(40, 40, 1.0, 30.0, 0.05) < 1.0
    assert share_limit(40, 40, 1.0, 1e15, 0.05) == 1.0


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("metric", METRICS)
def test_every_step_of_a_sequence_is_tested_at_full_epsilon(metric, capped):
    """However many encoders there are: none of them shares ε with the others."""
    tail = TAIL if capped else None
    if capped and metric == "demographic_parity":
        tail = TAIL.without_labels()
    counts = COUNTS if metric != "demographic_parity" else COUNTS.without_labels()
    claim = Claim(metric=metric, confidence=0.9, candidates=6, positive="yes")
    walked = FixedSequence.walk([counts, counts], 1.0, claim, tail=tail)
    alone = certify_counts(counts, metric, 0.9, positive="yes", tail=tail)
    for step in walked.steps:
        assert step.limit == pytest.approx(alone.bound, abs=1e-12)
    found = [statistic_of(table, pair) for table in strata_of(metric).values() for pair in combinations(range(3), 2)]
    assert walked.steps[0].statistics == tuple(found)
    # What is said beside the target was chosen among the encoders of the sequence, and shares ε.
    certificate = certify_counts(counts, metric, 0.9, positive="yes", sequence=walked, tail=tail)
    assert certificate.lower == certify_counts(counts, metric, 0.9, candidates=2, positive="yes", tail=tail).lower


def test_groups_of_thirty_records_are_certified_and_smaller_ones_are_not_unless_asked_for():
    counts = CellCounts([[30, 200], [0, 300]], groups="fm")
    assert certify_counts(counts).counts == counts
    assert Claim().check(counts) == (None,)
    fewer = CellCounts([[29, 200], [0, 300]], groups="fm")
    with pytest.raises(GroupError, match="29 certification records"):
        certify_counts(fewer)
    with pytest.raises(GroupError):
        Claim().check(fewer)
    assert certify_counts(fewer, min_group_size=29).counts == fewer


def test_records_beyond_the_cap_are_added_up_over_cells():
    beyond = CellCounts([[[1, 2], [3, 4], [5, 6]], [[10, 20], [30, 40], [50, 60]]], "abc", ["no", "yes"])
    assert Tail.of(2, 9, beyond) == Tail(cap=2.0, largest=9.0, beyond=((11, 22), (33, 44), (55, 66)))
    assert Tail.of(2, 9, beyond.without_labels()).beyond == ((33,), (77,), (121,))
    assert Tail.of(2, 9, beyond).without_labels().beyond == ((33,), (77,), (121,))


def test_limits_at_both_ends_of_the_range():
    """Groups that are alike, and groups that have no cell in common: nothing is cut off too early."""
    n = 10**6
    alike, apart = (CellCounts(table, groups="fm") for table in ([[n, n], [n, n]], [[n, 0], [0, n]]))
    exact = certify_counts(alike)
    assert exact.lower == exact.estimate == 0.0
    assert 0.0 < exact.bound == difference_limit(2 * n, 2 * n, 0, 0.05) < radius(2 * n, 2 * n, 0.05) < 0.002
    exact = certify_counts(apart)
    assert exact.bound == exact.estimate == 1.0
    assert exact.lower == pytest.approx(1 - 0.5 * math.sqrt(2 / n) - radius(n, n, 0.05), abs=1e-9)
    witness = certify_counts(apart, witness=apart)
    assert 0.99999 < witness.lower == -difference_limit(n, n, -n * n, 0.05) < 1.0


@pytest.mark.parametrize("metric", METRICS)
def test_parts_of_a_sequence_have_the_target_or_all_of_it_in_one_label(metric):
    """A mean over two labels is at most the target, so one label's distance is at most twice that."""
    counts = COUNTS.without_labels() if metric == "demographic_parity" else COUNTS
    claim = Claim(metric=metric, positive="yes")
    for target in (0.92, 0.95, 1.0):
        walked = FixedSequence.walk([counts], target, claim)
        certificate = certify_counts(counts, metric, positive="yes", sequence=walked)
        assert certificate.bound == target
        assert {part.bound for part in certificate.parts} == {1.0 if metric == "equalized_odds" else target}
    one = counts.merge_cells([0, 0, 0, 0])
    walked = FixedSequence.walk([one], 0.3, claim)
    certificate = certify_counts(one, metric, positive="yes", sequence=walked)
    assert {part.bound for part in certificate.parts} == {0.6 if metric == "equalized_odds" else 0.3}


@pytest.mark.parametrize("field", ["bound", "estimate", "lower"])
def test_figures_may_differ_by_a_billionth_and_no_more(field):
    """As much as two machines round differently."""
    certificate = certify_counts(CellCounts([[1200, 800], [300, 600]], groups="fm"))
    for off, accepted in ((9.9e-10, True), (-9.9e-10, True), (1.01e-9, False), (-1.01e-9, False)):
        other = msgspec.structs.replace(certificate, **{field: getattr(certificate, field) + off})
        if accepted:
            assert other.verify() is other
        else:
            with pytest.raises(DocumentError, match=field):
                other.verify()


@pytest.mark.parametrize("field", ["bound", "estimate"])
def test_figures_of_a_pair_may_differ_by_a_billionth_and_no_more(field):
    certificate = certify_counts(COUNTS.without_labels())
    first, *others = certificate.parts
    for off, accepted in ((9.9e-10, True), (-9.9e-10, True), (1.01e-9, False), (-1.01e-9, False)):
        part = msgspec.structs.replace(first, **{field: getattr(first, field) + off})
        other = msgspec.structs.replace(certificate, parts=(part, *others))
        if accepted:
            assert other.verify() is other
        else:
            with pytest.raises(DocumentError, match="single pairs"):
                other.verify()


def test_parts_name_the_records_of_both_groups():
    parts = certify_counts(COUNTS.without_labels()).parts
    sizes = dict(zip("abc", TABLE.sum(axis=(0, 2)).tolist(), strict=True))
    assert [part.groups for part in parts] == list(combinations("abc", 2))
    assert [part.records for part in parts] == [(sizes[a], sizes[b]) for a, b in combinations("abc", 2)]
