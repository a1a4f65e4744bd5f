"""Where the ε of a history goes: every figure of a period at the level that theory gives it, computed a second time.

In period t, J = 3 + 2·(groups × labels looked at) statements share ε_t: the bound, two lower limits, and two limits of
each movement. Whatever was chosen on the certification records divides the level of a movement further.
"""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import msgspec
import numpy as np
import pytest

from certifare import CellCounts, History, certify_counts
from certifare.certificates import Exclusion, difference_limit, hoeffding_radius
from certifare.certificates.looks import Look
from certifare.certificates.planning import equal_gaps
from certifare.certificates.tail import Tail
from certifare.certification.monitoring import Movement
from certifare.errors import ArgumentError, FileError, GroupError

ENCODER = "0" * 64
METRICS = ["demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max"]

#: Cells × groups × labels.
REFERENCE = np.array(
    [
        [[900, 410], [250, 95], [160, 500]],
        [[310, 120], [520, 800], [180, 120]],
        [[145, 300], [130, 210], [700, 190]],
        [[55, 80], [600, 125], [310, 140]],
    ]
)
TRAINING = REFERENCE.sum(axis=2) * 2 + 11
MONTHS = [
    np.roll(REFERENCE, 1, axis=0) + np.arange(24).reshape(4, 3, 2),
    REFERENCE[::-1] // 2 + 40,
    REFERENCE * 2 // 3 + np.arange(24)[::-1].reshape(4, 3, 2) * 5,
]


def labelled(table):
    return CellCounts(table, groups="abc", labels=["no", "yes"])


def begin(metric="demographic_parity", certificate=None, **options):
    certificate = certificate or certify_counts(labelled(REFERENCE), metric, positive="yes")
    return History.begin(certificate, ENCODER, **{"target": 0.5, **options})


def strata_of(metric, table):
    """Tables cells × groups of the strata."""
    if metric == "demographic_parity":
        return {None: table.sum(axis=2)}
    if metric == "equal_opportunity":
        return {"yes": table[:, :, 1]}
    return {"no": table[:, :, 0], "yes": table[:, :, 1]}


def combined(metric, by_stratum):
    values = list(by_stratum.values())
    return sum(values) / len(values) if metric == "equalized_odds" else max(values)


def distance(column, other):
    n, m = int(column.sum()), int(other.sum())
    return sum(abs(Fraction(int(a), n) - Fraction(int(b), m)) for a, b in zip(column, other, strict=True)) / 2


def closed_form(column, other, level):
    """The plug-in distance less its largest bias and its radius: a lower limit."""
    weight = 1 / column.sum() + 1 / other.sum()
    bias = 0.5 * math.sqrt((len(column) - 1) * weight)
    return float(distance(column, other)) - bias - math.sqrt(weight * math.log(1 / level) / 2)


def bound_of(metric, table, level):
    strata = strata_of(metric, table)
    level /= len(strata) if metric == "equalized_odds" else 1
    largest = {}
    for label, rows in strata.items():
        limits = []
        for i, j in combinations(range(rows.shape[1]), 2):
            n0, n1 = int(rows[:, i].sum()), int(rows[:, j].sum())
            limits.append(difference_limit(n0, n1, int(distance(rows[:, i], rows[:, j]) * n0 * n1), level))
        largest[label] = max(limits)
    return combined(metric, largest)


def lower_of(metric, table, past, level):
    """The larger of a limit by cells that the past chose, and of the closed form."""
    strata, before = strata_of(metric, table), strata_of(metric, past)
    pairs = list(combinations(range(table.shape[1]), 2))
    mean = metric == "equalized_odds"
    level /= len(strata) if mean else 1
    ways = len(pairs) * (1 if mean else len(strata))
    at_once = {
        label: max(0.0, *(closed_form(rows[:, i], rows[:, j], level / ways) for i, j in pairs))
        for label, rows in strata.items()
    }
    chosen = dict.fromkeys(strata, 0.0)
    found = [(distance(rows[:, i], rows[:, j]), label, i, j) for label, rows in before.items() for i, j in pairs]
    for label in strata if mean else [None]:
        _, own, i, j = max((entry for entry in found if not mean or entry[1] == label), key=lambda entry: entry[0])
        rows, now = before[own], strata[own]
        cells = rows[:, i] * int(rows[:, j].sum()) > rows[:, j] * int(rows[:, i].sum())
        n0, n1 = int(now[:, i].sum()), int(now[:, j].sum())
        gap = n1 * int(now[cells, i].sum()) - n0 * int(now[cells, j].sum())
        chosen[own] = max(0.0, -difference_limit(n1, n0, -gap, level))
    return max(combined(metric, chosen), combined(metric, at_once))


def in_direction(earlier, chosen_on, tested, now, level):
    """A limit by the cells of which earlier periods, the last above all, have more than other records have."""
    total = sum(0.5**age * column for age, column in enumerate(reversed(earlier)))
    cells = total / total.sum() > chosen_on / chosen_on.sum()
    n, rest = int(now.sum()), int(tested.sum())
    gap = rest * int(now[cells].sum()) - n * int(tested[cells].sum())
    return -difference_limit(rest, n, -gap, level)


# -- shares of ε --------------------------------------------------------------------------------------------------


def test_planned_periods_have_equal_shares_and_others_have_basel_shares():
    planned = begin(planned=12, confidence=0.9)
    assert [planned.epsilon_of(t) for t in (1, 2, 12)] == pytest.approx([0.1 / 12] * 3, rel=1e-12)
    endless = begin(confidence=0.9)
    for t in (1, 2, 7, 100):
        assert endless.epsilon_of(t) == pytest.approx(0.1 * 6 / math.pi**2 / t**2, rel=1e-12)
    # The rest of the sum beyond T is at most that of 1/t(t−1), which is 1/T.
    total = math.fsum(endless.epsilon_of(t) for t in range(1, 10_001))
    assert 0.1 * (1 - 6 / math.pi**2 / 10_000) <= total < 0.1


@pytest.mark.parametrize("planned", [3, None])
@pytest.mark.parametrize("metric", METRICS)
def test_the_bound_and_the_lower_limit_of_every_period(metric, planned):
    year = begin(metric, planned=planned, confidence=0.9)
    past = REFERENCE.copy()
    strata = len(strata_of(metric, REFERENCE))
    for number, month in enumerate(MONTHS, 1):
        year = year.add(str(number), labelled(month))
        finding = year.latest()
        share = 0.1 / 3 if planned else 0.1 * 6 / (math.pi * number) ** 2
        assert finding.epsilon == pytest.approx(share, rel=1e-12)
        level = share / (3 + 2 * 3 * strata)
        # The confidence 1 − level is rounded up, and written as a decimal: the level keeps about twelve digits.
        assert finding.bound == pytest.approx(bound_of(metric, month, level), abs=1e-9)
        assert finding.lower == pytest.approx(lower_of(metric, month, past, level), abs=1e-9)
        assert finding.estimate == pytest.approx(bound_estimate(metric, month), abs=1e-12)
        assert 0.0 < finding.lower < finding.estimate < finding.bound
        past += month
    assert year.findings() == tuple(year.finding(number) for number in (1, 2, 3))


def bound_estimate(metric, table):
    strata = strata_of(metric, table)
    return combined(
        metric,
        {
            label: max(float(distance(rows[:, i], rows[:, j])) for i, j in combinations(range(rows.shape[1]), 2))
            for label, rows in strata.items()
        },
    )


def test_lower_limits_come_from_whichever_of_both_is_larger():
    """The past chooses well where nothing changed, and badly where the groups changed sides: both limits are needed."""
    groups = ["f", "m"]
    then = np.array([[1400, 700], [600, 1300], [500, 500]])
    year = History.begin(certify_counts(CellCounts(then, groups)), ENCODER, target=0.5, planned=2)
    year = year.add("alike", CellCounts(then // 2 + [[3, 1], [0, 2], [5, 0]], groups))
    year = year.add("turned", CellCounts(then[:, ::-1] // 2 + [[1, 1], [0, 2], [5, 0]], groups))
    level = 0.025 / 7
    for number in (1, 2):
        now = year.periods[number - 1].counts.table
        past = sum((year.periods[i].counts.table for i in range(number - 1)), then)
        cells = past[:, 0] * int(past[:, 1].sum()) > past[:, 1] * int(past[:, 0].sum())
        n0, n1 = (int(n) for n in now.sum(axis=0))
        gap = n1 * int(now[cells, 0].sum()) - n0 * int(now[cells, 1].sum())
        limits = [-difference_limit(n1, n0, -gap, level), closed_form(now[:, 0], now[:, 1], level)]
        assert limits.index(max(limits)) == number - 1
        assert year.finding(number).lower == pytest.approx(max(limits), abs=1e-9)
        assert year.finding(number).lower > 0.1


def test_a_group_that_is_too_small_takes_no_share():
    """Two of three groups have enough records: J = 3 + 2·2."""
    month = MONTHS[0].copy()
    month[:, 1] = [[3, 2], [1, 1], [4, 0], [2, 2]]
    finding = begin(planned=2).add("May", labelled(month)).latest()
    assert finding.small == ("b",)
    level = 0.025 / (3 + 2 * 2)
    assert finding.bound == pytest.approx(bound_of("demographic_parity", month[:, [0, 2]], level), abs=1e-9)
    assert [movement.group for movement in finding.movements] == ["a", "c"]
    now, then = month.sum(axis=2), REFERENCE.sum(axis=2)
    for movement, g in zip(finding.movements, (0, 2), strict=True):
        assert movement.lower == pytest.approx(max(0.0, closed_form(now[:, g], then[:, g], level)), abs=1e-9)


# -- movements ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("candidates", "look"), [(1, None), (1, 1), (5, None), (1, 4), (5, 4)])
@pytest.mark.parametrize("metric", METRICS)
def test_movements_in_the_first_period(metric, candidates, look):
    """By the closed form alone; what was chosen on the records, by candidates or looks, divides the level."""
    certificate = certify_counts(labelled(REFERENCE), metric, candidates=candidates, positive="yes")
    if look is not None:
        certificate = certificate.at_look(Look(number=look, spent=0.01 * (look - 1)))
    year = begin(certificate=certificate, planned=4).add("May", labelled(MONTHS[0]))
    trials = candidates * (look or 1)
    assert year.trials == trials
    now, then = strata_of(metric, MONTHS[0]), strata_of(metric, REFERENCE)
    level = 0.05 / 4 / (3 + 2 * 3 * len(now)) / trials
    found = {(movement.group, movement.label): movement for movement in year.latest().movements}
    assert len(found) == 3 * len(now)
    for g, group in enumerate("abc"):
        for label in now:
            movement = found[group, label]
            columns = now[label][:, g], then[label][:, g]
            assert movement.estimate == pytest.approx(float(distance(*columns)), abs=1e-12)
            assert movement.lower == pytest.approx(max(0.0, closed_form(*columns, level)), abs=1e-9)
            assert movement.moved


@pytest.mark.parametrize("candidates", [1, 5])
def test_movements_in_later_periods_are_looked_for_in_the_direction_of_earlier_ones(candidates):
    """With training records: cells by earlier periods against these, tested on all certification records."""
    certificate = certify_counts(labelled(REFERENCE), candidates=candidates)
    then = REFERENCE.sum(axis=2)
    year = begin(certificate=certificate, planned=4, training=CellCounts(TRAINING, "abc"))
    level = 0.05 / 4 / 9 / candidates
    nearby = [then // 2 + np.array([[50], [2], [-50], [-2]]) * (2 + i) // 2 for i in range(4)]  # it moves slowly
    better = 0
    for number, month in enumerate(nearby, 1):
        year = year.add(str(number), CellCounts(month, "abc"))
        for g, movement in enumerate(year.latest().movements):
            expected = max(0.0, closed_form(month[:, g], then[:, g], level))
            if number > 1:
                earlier = [column[:, g] for column in nearby[: number - 1]]
                directed = in_direction(earlier, TRAINING[:, g], then[:, g], month[:, g], level)
                better += directed > expected
                expected = max(expected, directed)
            assert movement.lower == pytest.approx(expected, abs=1e-9)
    assert better >= 5


@pytest.mark.parametrize("back", [475, 525])
def test_a_period_counts_half_of_the_one_after_it_for_a_direction(back):
    """The first cell was fuller by 10 % and then emptier by 4.75 or 5.25 %: half of the former decides."""
    then = np.array([[4000, 4000], [3000, 3000], [3000, 3000]])
    months = [
        then + np.array([[1000], [-1000], [0]]),
        then + np.array([[-back], [0], [back]]),
        then + np.array([[900], [-1000], [100]]),
    ]
    year = begin(certificate=certify_counts(CellCounts(then, "fm")), planned=3, training=CellCounts(then * 3, "fm"))
    for number, month in enumerate(months):
        year = year.add(str(number), CellCounts(month, "fm"))
    level = 0.05 / 3 / 7
    for g, movement in enumerate(year.latest().movements):
        earlier = [month[:, g] for month in months[:2]]
        directed = in_direction(earlier, then[:, g], then[:, g], months[2][:, g], level)
        assert directed == pytest.approx({475: 0.07, 525: -0.03}[back], abs=0.02)
        expected = max(directed, closed_form(months[2][:, g], then[:, g], level))
        assert movement.lower == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", ["demographic_parity", "equalized_odds"])
def test_without_training_records_half_of_the_certification_records_are_tested_on(metric):
    """All records were in cell 0 and now are in cell 1: the limit depends on the numbers of records alone."""
    n, m, trials = 40_000, 4_000, 3
    then = np.zeros((2, 2, 2), dtype=int)
    then[0] = m
    certificate = certify_counts(CellCounts(then, "fm", ["no", "yes"]), metric, candidates=trials)
    year = History.begin(certificate, ENCODER, target=0.5, planned=5)
    for number in (0, 1):
        year = year.add(str(number), CellCounts(then[::-1] // m * (n + number), "fm", ["no", "yes"]))
    whole = 2 if metric == "demographic_parity" else 1  # both labels together
    level = 0.05 / 5 / (3 + 2 * 2 * (3 - whole)) / trials

    def limit(rest):
        now = whole * (n + 1)
        return -difference_limit(int(rest), now, -int(rest) * now, level)

    middle, deviation = whole * m / 2, math.sqrt(whole * m / 4)
    accuracy = 1.01 * 0.01 * hoeffding_radius(int(middle), whole * n, level)
    for movement in year.latest().movements:
        assert limit(middle - 6 * deviation) - accuracy <= movement.lower <= limit(middle + 6 * deviation) + accuracy
        # Three quarters of the records, or three eighths, would give something else.
        assert limit(middle * 3 / 4) + accuracy < movement.lower < limit(middle * 3 / 2) - accuracy
    assert year.latest() == year.latest()
    # All groups and labels have as many records, and each has coins of its own.
    assert len({movement.lower for movement in year.latest().movements}) > 1


def pooled_certificate(shown, *pools):
    certificate = certify_counts(CellCounts(shown, "abc" if shown.shape[1] == 3 else "fm"))
    return msgspec.structs.replace(certificate, pools=pools)


def test_a_pooled_certificate_has_no_direction_in_a_second_period():
    """What is pooled depends on the records, and so would a set of pools: the closed form stands alone."""
    then = REFERENCE.sum(axis=2)
    shown = then.copy()
    shown[1] += shown[3]
    shown[3] = 0
    options = {"planned": 4, "training": CellCounts(TRAINING, "abc")}
    year = begin(certificate=pooled_certificate(shown, (1, 3)), **options)
    level = 0.05 / 4 / 9
    for number, month in enumerate(MONTHS, 1):
        now = month.sum(axis=2)
        year = year.add(str(number), CellCounts(now, "abc"))
        pooled = now.copy()
        pooled[1] += pooled[3]
        pooled[3] = 0
        for g, movement in enumerate(year.latest().movements):
            assert movement.estimate == pytest.approx(float(distance(pooled[:, g], shown[:, g])), abs=1e-12)
            # As many cells as are shown: an empty one is a cell, too.
            assert movement.lower == pytest.approx(max(0.0, closed_form(pooled[:, g], shown[:, g], level)), abs=1e-9)
    # The same counts without pools do have one, and it is better.
    unpooled = begin(certificate=certify_counts(CellCounts(then, "abc")), planned=4, training=options["training"])
    unpooled = unpooled.add("1", CellCounts(then // 2 + np.array([[30], [0], [-30], [0]]), "abc"))
    unpooled = unpooled.add("2", CellCounts(then // 2 + np.array([[31], [0], [-31], [0]]), "abc"))
    columns = unpooled.periods[1].counts.table[:, 0], then[:, 0]
    assert unpooled.latest().movements[0].lower > closed_form(*columns, level) + 0.01


def test_pools_of_three_cells_are_added_up():
    then = np.array([[700, 650], [0, 0], [0, 0], [300, 350]])
    year = History.begin(pooled_certificate(then, (0, 1, 2)), ENCODER, target=0.5)
    finding = year.add("May", CellCounts([[200, 300], [300, 200], [205, 155], [302, 349]], "fm")).latest()
    expected = [abs(705 / 1007 - 0.7), abs(655 / 1004 - 0.65)]
    assert [movement.estimate for movement in finding.movements] == pytest.approx(expected, abs=1e-12)


# -- what decides -------------------------------------------------------------------------------------------------


def test_a_target_is_met_where_the_bound_equals_it_and_refuted_only_above():
    finding = begin(planned=2).add("May", labelled(MONTHS[0])).latest()
    at = {name: replace(finding, target=getattr(finding, name)) for name in ("bound", "lower")}
    assert at["bound"].outcome == "CONFIRMED"
    assert replace(finding, target=math.nextafter(finding.bound, 0)).outcome == "NOT REFUTED"
    # Nothing is known of a group that is too small.
    assert replace(at["bound"], small=("b",)).outcome == "NOT REFUTED"
    assert not at["lower"].refuted
    assert at["lower"].outcome == "NOT REFUTED"
    below = replace(finding, target=math.nextafter(finding.lower, 0))
    assert below.refuted
    assert below.outcome == "REFUTED"


def test_a_movement_that_may_be_none_is_none():
    assert not Movement("f", None, 0.1, 0.0).moved
    assert Movement("f", None, 0.1, 1e-12).moved


def test_groups_with_as_many_records_as_are_asked_for_take_part():
    then = np.array([[40, 700, 90], [60, 300, 10]])
    now = np.array([[30, 90, 49], [69, 310, 51]])
    for least, small in ((99, ()), (100, ("a",)), (101, ("a", "c"))):
        certificate = certify_counts(CellCounts(then, "abc"))
        year = History.begin(certificate, ENCODER, target=0.5, min_group_size=least)
        if len(small) == 2:
            with pytest.raises(GroupError):
                year.add("May", CellCounts(now, "abc"))
            continue
        finding = year.add("May", CellCounts(now, "abc")).latest()
        assert finding.small == small
        assert finding.groups == {"a": 99, "b": 400, "c": 100}
        left_out = {exclusion.records for exclusion in finding.exclusions}
        assert left_out == ({99} if small else set())


def test_a_label_in_which_a_group_has_too_few_records_decides():
    month = MONTHS[0].copy()
    month[:, 1, 0] = [8, 7, 7, 7]
    assert begin("equalized_odds").add("May", labelled(month)).latest().small == ("b",)
    assert begin("equal_opportunity").add("May", labelled(month)).latest().small == ()
    month[0, 1, 0] = 9
    assert begin("equalized_odds").add("May", labelled(month)).latest().small == ()


def test_exclusions_are_those_of_the_period_and_of_groups_that_are_left_out():
    now = MONTHS[0].sum(axis=2)
    with_new = np.concatenate([now, [[5], [6], [7], [8]]], axis=1)
    counts = CellCounts(with_new, "abcd", exclusions=[Exclusion("group missing", 4)])
    finding = begin().add("May", counts).latest()
    assert sorted(exclusion.records for exclusion in finding.exclusions) == [4, 26]
    assert begin().add("May", CellCounts(now, "abc")).latest().exclusions == ()


def test_what_a_history_begins_with():
    certificate = certify_counts(labelled(REFERENCE))
    year = History.begin(certificate, ENCODER)
    assert (year.target, year.confidence, year.trials, year.planned) == (certificate.bound, 0.95, 1, None)
    assert year.reference.labels is None
    for target in (0.0, 1.0):
        assert History.begin(certificate, ENCODER, target=target).target == target
    for target in (-1e-9, 1.0 + 1e-9):
        with pytest.raises(ArgumentError, match="target"):
            History.begin(certificate, ENCODER, target=target)
    with pytest.raises(ArgumentError):
        History.begin(certificate, ENCODER, confidence=0.4)
    tail = Tail(cap=1.0, largest=2.0, beyond=((0,), (0,), (0,)))
    capped = certify_counts(labelled(REFERENCE).without_labels(), tail=tail)
    with pytest.raises(ArgumentError, match="capped"):
        History.begin(capped, ENCODER)


def test_as_many_periods_as_were_planned_and_no_more():
    year = begin(planned=2).add("1", labelled(MONTHS[0])).add("2", labelled(MONTHS[1]))
    with pytest.raises(FileError, match="2 periods were planned"):
        year.add("3", labelled(MONTHS[2]))
    assert [finding.number for finding in year.findings()] == [1, 2]


def test_digests_of_two_periods_without_one_are_not_the_same_records():
    year = begin().add("1", labelled(MONTHS[0])).add("2", labelled(MONTHS[1]), digest="a" * 64)
    assert len(year.add("3", labelled(MONTHS[2])).periods) == 3
    assert len(year.add("3", labelled(MONTHS[2]), digest="b" * 64).periods) == 3
    with pytest.raises(FileError, match="already in the history, as '2'"):
        year.add("3", labelled(MONTHS[2]), digest="a" * 64)


# -- edges --------------------------------------------------------------------------------------------------------


def test_a_thousand_periods_are_the_most():
    counts = CellCounts([[60, 50], [40, 50]], "fm")
    year = History.begin(certify_counts(counts), ENCODER, target=0.5)
    year = year.add("0", CellCounts([[61, 50], [40, 50]], "fm"))

    def of_length(n):
        periods = [msgspec.structs.replace(year.periods[0], name=str(i)) for i in range(n)]
        return msgspec.structs.replace(year, periods=tuple(periods))

    assert len(of_length(1000).periods) == 1000
    with pytest.raises(FileError, match="at most 1,000 are allowed"):
        of_length(1001)


def test_ten_thousand_statements_are_the_most():
    """Three, and two for each group and label: 4,998 of these are 9,999."""
    year = begin()
    for groups, labels, accepted in ((4998, None, True), (4999, None, False), (1666, 3, True), (1667, 3, False)):
        table = np.ones((4, groups) if labels is None else (4, groups, labels), dtype=int)
        reference = CellCounts(table, range(groups), None if labels is None else range(labels))
        if accepted:
            assert msgspec.structs.replace(year, reference=reference).reference == reference
        else:
            with pytest.raises(FileError, match="more than 10,000"):
                msgspec.structs.replace(year, reference=reference)


@pytest.mark.parametrize(
    ("pools", "accepted"),
    [([[0, 3]], True), ([[0, 4]], False), ([[0, 1], [2, 3]], True), ([[0, 1], [1, 2]], False), ([[]], False)],
)
def test_pools_of_a_history_are_sets_of_its_cells(pools, accepted):
    pools = tuple(map(tuple, pools))
    if accepted:
        assert msgspec.structs.replace(begin(), pools=pools).pools == pools
    else:
        with pytest.raises(FileError, match="Pools"):
            msgspec.structs.replace(begin(), pools=pools)


def test_a_file_that_does_not_name_the_smallest_group_means_thirty(tmp_path):
    document = begin().to_dict()
    assert document.pop("min_group_size") == 30
    (tmp_path / "h.json").write_bytes(msgspec.json.encode(document))
    assert History.load(tmp_path / "h.json").min_group_size == 30


def test_movements_are_named_in_the_order_of_the_groups():
    finding = begin(planned=2).add("May", labelled(MONTHS[0])).latest()
    assert [movement.group for movement in finding.movements] == ["a", "b", "c"]
    assert finding.moved == finding.movements
    one = replace(finding.movements[1], lower=0.0)
    some = replace(finding, movements=(finding.movements[0], one, finding.movements[2]))
    assert [movement.group for movement in some.moved] == ["a", "c"]


def test_labels_and_groups_are_matched_by_name():
    """A period that names them in another order, or lacks a group, says the same of the others."""
    for metric in ("equalized_odds", "equal_opportunity", "demographic_parity"):
        year = begin(metric, planned=3)
        turned = CellCounts(MONTHS[0][:, ::-1, ::-1], groups="cba", labels=["yes", "no"])
        one, other = year.add("1", labelled(MONTHS[0])), year.add("1", turned)
        assert one.latest() == other.latest()
        again = [history.add("2", labelled(MONTHS[1])).latest() for history in (one, other)]
        assert again[0] == again[1]
        lacking = year.add("1", CellCounts(MONTHS[0][:, :2], groups="ab", labels=["no", "yes"])).latest()
        assert lacking.small == ("c",)
        assert lacking.groups["c"] == 0
        assert lacking.exclusions == ()


def test_one_record_of_a_group_takes_part_where_that_is_asked_for():
    then, now = np.array([[1, 70], [0, 30]]), np.array([[0, 60], [1, 50]])
    certificate = certify_counts(CellCounts(then, "fm"), min_group_size=1)
    finding = (
        History.begin(certificate, ENCODER, target=0.5, min_group_size=1).add("May", CellCounts(now, "fm")).latest()
    )
    assert finding.small == ()
    assert finding.estimate == pytest.approx(60 / 110)


def test_a_group_without_any_record_is_too_small_however_few_are_asked_for():
    then = np.array([[50, 70, 9], [40, 30, 8]])
    certificate = certify_counts(CellCounts(then, "abc"), min_group_size=1)
    year = History.begin(certificate, ENCODER, target=0.5, min_group_size=1)
    finding = year.add("May", CellCounts(then[:, :2] + 1, "ab")).latest()
    assert finding.small == ("c",)
    assert [movement.group for movement in finding.movements] == ["a", "b"]


def test_without_a_direction_nothing_has_moved():
    """Earlier periods have no cell more than the training records: no set of cells is left to test."""
    then = np.array([[600, 500], [400, 500]])
    year = begin(certificate=certify_counts(CellCounts(then, "fm")), training=CellCounts(then * 3, "fm"))
    year = year.add("1", CellCounts(then * 2, "fm")).add("2", CellCounts(then + 1, "fm"))
    assert [movement.lower for movement in year.latest().movements] == [0.0, 0.0]


def test_a_group_that_earlier_periods_or_the_training_records_lack_has_no_direction():
    then = np.array([[600, 500, 300], [400, 500, 200]])
    moved = np.array([[300, 350, 100], [700, 650, 400]])
    level = 0.05 * 6 / (2 * math.pi) ** 2 / 9
    expected = [max(0.0, closed_form(moved[:, g], then[:, g], level)) for g in range(3)]
    for training, first in (
        (CellCounts(then * 3, "abc"), CellCounts((then * 2)[:, :2], "ab")),
        (CellCounts([[900, 800, 0], [800, 900, 0]], "abc"), CellCounts(then * 2, "abc")),
    ):
        year = begin(certificate=certify_counts(CellCounts(then, "abc")), training=training)
        year = year.add("1", first).add("2", CellCounts(moved, "abc"))
        assert year.latest().movements[2].lower == pytest.approx(expected[2], abs=1e-9)
        assert expected[2] > 0.1


@pytest.mark.parametrize("apart", [0, 700])
def test_movements_from_a_plan_share_the_error_of_a_period(apart):
    """Seven statements share it, and a movement holds for all 2⁶ sets of cells at once (docs/theory.md)."""
    plan = equal_gaps([4_000, 3_000], 6)
    counts = plan.copy()
    counts[-1] -= 1  # of n records there are n + 1 gaps
    history = History.begin(certify_counts(CellCounts(counts, "fm"), method="calibrated"), ENCODER, confidence=0.9)
    month = np.full((6, 2), 800)
    month[0] += [apart, 2 * apart]
    level = 0.1 * 6 / math.pi**2 / 7
    movements = history.add("May", CellCounts(month, "fm")).latest().movements
    for movement, gaps, now in zip(movements, plan.T, month.T, strict=True):
        radius = math.sqrt((1 / now.sum() + 1 / (gaps.sum() + 1)) * math.log(2**6 / level) / 2)
        assert movement.estimate == pytest.approx(float(distance(now, gaps)), abs=1e-12)
        assert movement.lower == pytest.approx(max(0.0, movement.estimate - radius), abs=1e-9)
        assert (movement.lower > 0.0) == (apart > 0)


def test_a_history_about_a_label_that_no_record_has_is_refused():
    with pytest.raises(ArgumentError, match="maybe"):
        msgspec.structs.replace(begin("equal_opportunity"), positive="maybe")
