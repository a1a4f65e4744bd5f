"""What follows from a bound, for each metric, against every adversary on tiny populations.

A certificate whose bound *is* the distance of the population takes chance out of it: a consequence that comes out too
low is then contradicted by some classifier, and one that is refused is shown to fail.
"""

from fractions import Fraction
from itertools import combinations, product

import msgspec
import numpy as np
import pytest

from certifare import CellCounts, certify_counts
from certifare.certificates import METRICS, Claim, Part
from certifare.certificates.assumptions import READS_GROUP
from certifare.certificates.claims import combine, metric_of
from certifare.certificates.consequences import CONSEQUENCES, Basis, target_for_ratio
from certifare.errors import ArgumentError, UnprovedClaimError

LABELLED = ["equal_opportunity", "equalized_odds", "equalized_odds_max"]
SHARES = (0.0, 0.3, 1.0)
#: Every classifier that says 0, 1 or tosses a coin on each of two cells.
RULES = np.array(list(product((0.0, 0.5, 1.0), repeat=2)))
SLACK = 1e-12


class Population:
    """Shares of two cells by group and label, and of labels by group."""

    def __init__(self, cells, labels):
        self.p = np.asarray(cells)  # group, label, cell
        self.w = np.asarray(labels)  # group, label

    @property
    def whole(self):
        return (self.p * self.w[:, :, None]).sum(axis=1)

    def strata(self, metric):
        """The distributions that a metric looks at, by label: (groups, cells) each."""
        kind = metric_of(metric).strata
        if kind == "all":
            return {None: self.whole}
        return {str(y): self.p[:, y] for y in ((1,) if kind == "positive" else range(self.p.shape[1]))}

    def certificate(self, metric):
        """A certificate that knows the population: every part's bound is the true distance."""
        g, labels, k = self.p.shape
        shape = (k, g) if metric == "demographic_parity" else (k, g, labels)
        dummy = certify_counts(
            CellCounts(np.full(shape, 40), range(g), None if len(shape) == 2 else range(labels)),
            metric,
        )
        parts = [
            Part(groups=(str(i), str(j)), label=label, records=(1, 1), estimate=0.0, bound=distance(p[i], p[j]))
            for label, p in self.strata(metric).items()
            for i, j in combinations(range(g), 2)
        ]
        bound = min(1.0, combine(metric_of(metric), [(part.label, part.bound) for part in parts]))
        return msgspec.structs.replace(dummy, bound=bound, parts=tuple(parts))


def distance(p, q):
    return min(1.0, float(np.maximum(p - q, 0).sum()))


def populations(groups=2):
    shares = [
        np.array([[[a, 1 - a] for a in row] for row in rows])
        for rows in product(product(SHARES, repeat=2), repeat=groups)
    ]
    for p in shares:
        for positives in product((0.1, 0.6), repeat=groups):
            yield Population(p, [[1 - y, y] for y in positives])


@pytest.mark.parametrize("metric", METRICS)
def test_ratios_scores_and_guesses_hold_for_every_classifier(metric):
    tight = {"ratio": 1.0, "score": 1.0, "guess": 1.0}
    for population in populations():
        certificate = population.certificate(metric)
        for label, p in population.strata(metric).items():
            reached = {ratio: certificate.rate_for_impact_ratio(ratio, label=label) for ratio in (0.5, 0.8)}
            gap, guess = certificate.score_gap(-2, 3, label=label), certificate.guessing_accuracy(label=label)
            for rule in RULES:
                rates = p @ rule
                high, low = rates.max(), rates.min()
                if high > 0:
                    said = certificate.impact_ratio(min(1.0, high), label=label)
                    assert said <= low / high + SLACK
                    if 0 < said < 1:
                        tight["ratio"] = min(tight["ratio"], low / high - said)
                    for ratio, rate in reached.items():
                        assert rate is None or high < rate or low / high >= ratio - SLACK
                scores = p @ (5 * rule - 2)
                assert np.ptp(scores) <= gap + SLACK
                tight["score"] = min(tight["score"], gap - np.ptp(scores))
                balanced = (rates[0] + 1 - rates[1]) / 2
                assert balanced <= guess + SLACK
                tight["guess"] = min(tight["guess"], guess - balanced)
    assert max(tight.values()) < 1e-9, "nothing attains the claim: the test could not fail"


def test_the_ratio_of_whole_groups_does_not_follow_from_label_metrics():
    """Groups alike among each label, with different shares of labels: the old claim was 0.8 from 13 % up."""
    table = np.zeros((2, 2, 2), dtype=int)
    table[0, :, 1], table[1, :, 0] = (1_000, 40_000), (99_000, 60_000)
    certificate = certify_counts(CellCounts(table, "fm", "01"), "equalized_odds_max")
    rates = table[0].sum(axis=1) / table.sum(axis=(0, 2))
    old_rate = certificate.bound / 0.2
    assert rates.max() > old_rate
    assert rates.min() / rates.max() < 0.03

    for call in (certificate.impact_ratio, certificate.rate_for_impact_ratio):
        with pytest.raises(UnprovedClaimError, match=r"whole groups.*four-fifths rule.*label= one of '0', '1'"):
            call(0.5)
    assert not any("selects" in text and not text.startswith("Among") for text in certificate.what_follows())
    assert certificate.what_follows()[-1].endswith("four-fifths rule.")


@pytest.mark.parametrize("metric", METRICS)
def test_several_groups_have_ratios_too_but_no_guesses(metric):
    for i, population in enumerate(populations(groups=3)):
        if i % 23:
            continue
        certificate = population.certificate(metric)
        for label, p in population.strata(metric).items():
            for rule in RULES:
                rates = p @ rule
                if rates.max() > 0:
                    said = certificate.impact_ratio(min(1.0, rates.max()), label=label)
                    assert said <= rates.min() / rates.max() + SLACK
        for call in (lambda c: c.guessing_accuracy(label="1"), lambda c: c.under_group_noise([0.1, 0.1])):
            with pytest.raises(UnprovedClaimError, match="two groups; this certificate has 3"):
                call(certificate)


def moved(population, by):
    """Populations whose cells moved, given the label, in each group by one step of a grid."""
    for steps in product((-by, 0.0, by), repeat=4):
        p = population.p.copy()
        p[:, :, 0] = np.clip(p[:, :, 0] + np.reshape(steps, (2, 2)), 0, 1)
        p[:, :, 1] = 1 - p[:, :, 0]
        yield Population(p, population.w)


@pytest.mark.parametrize("metric", METRICS)
def test_shift_is_that_of_the_records_the_metric_looks_at(metric):
    tight = 1.0
    for i, population in enumerate(populations()):
        if i % 7:
            continue
        certificate, before = population.certificate(metric), population.strata(metric)
        for other in moved(population, 0.1):
            after = other.strata(metric)
            rho = {str(s): max(distance(before[y][s], after[y][s]) for y in before) for s in range(2)}
            bound = certificate.under_shift(rho, given_label=metric in LABELLED)
            true = combine(metric_of(metric), [(y, distance(q[0], q[1])) for y, q in after.items()])
            assert true <= bound + SLACK
            if max(rho.values()) > 0 and bound < 1:
                tight = min(tight, bound - true)
    assert tight < 1e-9


@pytest.mark.parametrize("metric", METRICS)
def test_noise_is_that_among_the_records_the_metric_looks_at(metric):
    tight = 1.0
    for population in populations():
        for rates in ((0.1, 0.2), (0.0, 0.4), (0.45, 0.45)):
            keep = np.array([[1 - rates[0], rates[0]], [rates[1], 1 - rates[1]]])
            recorded = Population(np.einsum("rs,syc->ryc", keep, population.p), keep @ population.w)
            if metric == "demographic_parity":
                # Whole groups are mixed; shares of labels by true group do not matter to them.
                recorded.p = np.repeat((keep @ population.whole)[:, None], 2, axis=1)
            certificate = recorded.certificate(metric)
            bound = certificate.under_group_noise(rates, given_label=metric in LABELLED)
            true = combine(metric_of(metric), [(y, distance(*p)) for y, p in population.strata(metric).items()])
            assert true <= bound + SLACK
            if 0 < bound < 1:
                tight = min(tight, bound - true)
    assert tight < 1e-9


def test_noise_is_refused_where_cells_read_the_recorded_group():
    """Recorded groups look alike by construction, while the true ones need not."""
    certificate = Population([[[0.5, 0.5]] * 2] * 2, [[0.5, 0.5]] * 2).certificate("demographic_parity")
    aware = msgspec.structs.replace(certificate, assumptions=(*certificate.assumptions, READS_GROUP))
    assert certificate.under_group_noise([0.2, 0.0]) == pytest.approx(0.0)
    with pytest.raises(UnprovedClaimError, match="reads the group as it is recorded"):
        aware.under_group_noise([0.2, 0.0])


def test_what_is_known_of_whole_groups_is_not_taken_for_labels():
    """The issue's cases: .0237 was said where .200 is true, and .222 where .400 is."""
    before = Population([[[0.5, 0.5]] * 2] * 2, [[0.95, 0.05]] * 2)
    after = Population([[[0.5, 0.5], [0.7, 0.3]], [[0.5, 0.5], [0.5, 0.5]]], before.w)
    rho = distance(after.whole[0], before.whole[0])
    assert rho == pytest.approx(0.01)
    assert distance(*after.strata("equal_opportunity")["1"]) == pytest.approx(0.2)
    for metric in LABELLED:
        certificate = before.certificate(metric)
        with pytest.raises(UnprovedClaimError, match=r"rho must be that among the records of each of .*given_label"):
            certificate.under_shift(rho)
        with pytest.raises(UnprovedClaimError, match="error_rates must be that among"):
            certificate.under_group_noise([0.05, 0.05])
    parity = before.certificate("demographic_parity")
    for call in (
        lambda: parity.under_shift(0.1, given_label=True),
        lambda: parity.under_group_noise([0.1, 0.1], given_label=True),
    ):
        with pytest.raises(UnprovedClaimError, match="of whole groups"):
            call()


def test_limits_within_a_label():
    counts = CellCounts([[[500, 90], [480, 60]], [[500, 60], [520, 90]]], "fm", ["no", "yes"])
    mean, largest, positive = (
        certify_counts(counts, m) for m in ("equalized_odds", "equalized_odds_max", "equal_opportunity")
    )
    one = [certify_counts(counts, "equal_opportunity", positive=y, candidates=2).bound for y in ("no", "yes")]
    assert [mean.within(y) for y in ("no", "yes")] == one
    assert mean.bound == pytest.approx(sum(one) / 2, abs=1e-12)
    assert largest.within("no") == largest.within("yes") == largest.bound
    assert positive.within("yes") == positive.bound
    with pytest.raises(UnprovedClaimError, match="nothing follows for those with label 'no'"):
        positive.within("no")
    with pytest.raises(UnprovedClaimError, match="Nothing about the distance among the records of one label is proved"):
        certify_counts(counts).within("no")
    with pytest.raises(UnprovedClaimError, match="about whole groups"):
        certify_counts(counts).impact_ratio(0.5, label="no")


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.score_gap(1, 0),
        lambda c: c.score_gap(0, float("inf")),
        lambda c: c.score_gap(-float("inf"), 0),
        lambda c: c.rate_for_impact_ratio(-0.01),
        lambda c: c.under_shift(1.01),
        lambda c: c.under_group_noise([float("nan"), 0]),
        lambda c: c.under_group_noise([-0.01, 0.5]),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(ArgumentError):
        call(certify_counts(CellCounts([[50, 40], [50, 60]], "fm")))


def with_bound(bound):
    """A certificate of this bound."""
    made = certify_counts(CellCounts([[50, 40], [50, 60]], "fm"))
    return msgspec.structs.replace(made, bound=bound, parts=(msgspec.structs.replace(made.parts[0], bound=bound),))


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda c: c.rate_for_impact_ratio(0.0), 0.25),
        (lambda c: c.rate_for_impact_ratio(0.05), float(Fraction(25, 95))),
        (lambda c: c.rate_for_impact_ratio(0.74), float(Fraction(25, 26))),
        (lambda c: c.rate_for_impact_ratio(0.75), 1.0),
        (lambda c: c.rate_for_impact_ratio(0.76), None),
        (lambda c: c.impact_ratio(1.0), 0.75),
        (lambda c: c.impact_ratio(0.05), 0.0),
        (lambda c: c.score_gap(7, 7), 0.0),
        (lambda c: c.score_gap(-2, 3), 1.25),
        (lambda c: c.guessing_accuracy(), 0.625),
        (lambda c: c.under_shift(0.375), 1.0),
        (lambda c: c.under_group_noise([0.5, 0.25]), 1.0),
        (lambda c: c.under_group_noise([0.5, 0.45]), 1.0),
        (lambda c: c.under_group_noise([0.0, 0.0]), 0.25),
    ],
)
def test_what_follows_from_a_bound_of_a_quarter(call, value):
    """At the ends of what may be asked for, and of what may come out."""
    found = call(with_bound(0.25))
    assert found == (None if value is None else pytest.approx(value, abs=1e-15))


def test_what_follows_in_words():
    ratio = " of the group it selects most has selection rates whose ratio is at least 0.8."
    assert with_bound(0.1).what_follows() == (
        "Mean scores between 0 and 1 of two groups differ by at most 0.1000.",
        f"A classifier that selects at least 50 %{ratio}",
        "No rule guesses a record's group with a balanced accuracy above 0.5500.",
    )
    assert with_bound(0.95).what_follows() == (
        "Mean scores between 0 and 1 of two groups differ by at most 0.9500.",
        "No rule guesses a record's group with a balanced accuracy above 0.9750.",
    )


def test_sentences_are_rounded_to_the_safe_side():
    counts = CellCounts([[5000, 5100], [5000, 4900]], "fm")
    certificate = certify_counts(counts)
    scores, ratio, guess = certificate.what_follows()
    assert float(scores.split()[-1][:-1]) >= certificate.bound
    assert float(ratio.split("at least ")[1].split(" %")[0]) >= 100 * certificate.rate_for_impact_ratio()
    assert float(guess.split()[-1][:-1]) >= certificate.guessing_accuracy()
    assert certify_counts(CellCounts([[40, 0], [0, 40]], "fm")).what_follows() == ()


def test_one_declaration():
    """Each declared consequence is a method, and the proof page lists each with its form for each metric."""
    from pathlib import Path

    from certifare import Certificate

    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text("utf-8")
    for name, consequence in CONSEQUENCES.items():
        assert callable(getattr(Certificate, name))
        cells = [f"`{name}`", "two" if consequence.two_groups else "any"]
        cells += [consequence.forms[m].value if m in consequence.forms else "refused" for m in METRICS]
        assert f"| {' | '.join(cells)} |" in page
    assert {Basis.GROUPS} == {c.forms["demographic_parity"] for n, c in CONSEQUENCES.items() if n != "within"}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("consequence", CONSEQUENCES)
def test_what_follows_is_allowed_or_refused(metric, consequence):
    declared = CONSEQUENCES[consequence]
    if metric not in declared.forms:
        with pytest.raises(UnprovedClaimError, match=metric):
            declared.basis(Claim(metric=metric), ["f", "m"])
        return
    assert (declared.basis(Claim(metric=metric), ["f", "m"]) is Basis.GROUPS) == (metric == "demographic_parity")
    if declared.two_groups:
        with pytest.raises(UnprovedClaimError, match="two groups"):
            declared.basis(Claim(metric=metric), ["f", "m", "x"])


@pytest.mark.parametrize(
    ("ratio", "rate"), [("0.8", "0.3"), ("0.5", "1"), ("0.9", "0.07"), ("0.99", "0.001"), ("0.01", "1")]
)
def test_a_target_for_a_ratio_is_never_above_what_guarantees_it(ratio, rate):
    target = target_for_ratio(float(ratio), float(rate))
    wanted = Fraction(rate) * (1 - Fraction(ratio))
    assert Fraction(repr(target)) <= wanted
    assert target == pytest.approx(float(wanted), rel=1e-12)


@pytest.mark.parametrize(
    ("ratio", "rate", "words"),
    [(0.0, 0.3, "min_ratio"), (1.0, 0.3, "min_ratio"), (0.8, 0.0, "min_rate"), (0.8, 1.01, "min_rate")],
)
def test_a_ratio_that_nothing_guarantees_is_refused(ratio, rate, words):
    with pytest.raises(ArgumentError, match=words):
        target_for_ratio(ratio, rate)


@pytest.mark.parametrize(
    ("metric", "cases"),
    [
        ("demographic_parity", ((None, ""),)),
        ("equal_opportunity", (("yes", "among the records with label 'yes'"),)),
        ("equalized_odds", tuple((y, f"among the records with label {y!r}") for y in ("no", "yes"))),
        ("equalized_odds_max", (("no", "among the records of any one label"),)),
    ],
)
def test_records_for_which_something_follows_are_named(metric, cases):
    labels = None if metric == "demographic_parity" else ["no", "yes"]
    table = np.full((2, 2) if labels is None else (2, 2, 2), 100)
    assert certify_counts(CellCounts(table, "fm", labels), metric).cases("impact_ratio") == cases
