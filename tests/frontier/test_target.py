import os

import numpy as np
import pytest

from certifare.certificates import CellCounts, Claim, certify_counts
from certifare.frontier.target import Outlook, growth_needed


def outlook(p0, p1, train=(40_000, 40_000), select=(20_000, 20_000), certify=(5_000, 9_000), rng=None):
    """What counts drawn from two distributions of cells say; without ``rng``, their expectations."""
    shares = np.array([p0, p1]).T

    def counts(sizes):
        if rng is None:
            table = np.rint(shares * sizes)
        else:
            table = np.stack([rng.multinomial(n, p) for n, p in zip(sizes, shares.T, strict=True)], axis=1)
        return CellCounts(table, ["a", "b"])

    return Outlook.of(counts(train), counts(select), CellCounts([certify], ["a", "b"]), Claim())


def test_the_prediction_is_what_certificates_say_on_average():
    rng = np.random.default_rng(0)
    p0 = rng.dirichlet(np.full(20, 5.0))
    p1 = 0.9 * p0 + 0.1 * rng.dirichlet(np.full(20, 5.0))
    predicted = outlook(p0, p1, train=(10**7, 10**7)).predict(0.05)
    bounds, estimates = [], []
    for _ in range(60 if os.environ.get("CERTIFARE_FULL") else 20):
        table = np.stack([rng.multinomial(5_000, p0), rng.multinomial(9_000, p1)], axis=1)
        certificate = certify_counts(CellCounts(table, ["a", "b"]))
        bounds.append(certificate.bound)
        estimates.append(certificate.estimate)
    assert predicted.estimate == pytest.approx(np.mean(estimates), abs=0.002)
    assert predicted.bound == pytest.approx(np.mean(bounds), abs=0.002)
    assert predicted.spread >= np.std(bounds)


def test_the_prediction_knows_that_many_cells_look_further_apart():
    few, many = (outlook(np.full(k, 1 / k), np.full(k, 1 / k)).predict(0.05) for k in (2, 100))
    assert many.estimate > few.estimate > 0


def test_chances_grow_with_the_target():
    prediction = outlook([0.5, 0.5], [0.45, 0.55]).predict(0.05)
    chances = [prediction.chance(target) for target in (0.03, 0.06, 0.1)]
    assert chances == sorted(chances)
    assert prediction.chance(prediction.bound) == pytest.approx(0.5)
    assert prediction.chance(prediction.reachable(0.8)) == pytest.approx(0.8)


def test_several_groups_and_labels():
    rng = np.random.default_rng(1)
    counts = CellCounts(rng.integers(200, 400, (6, 3, 2)), "abc", ["no", "yes"])
    sizes = CellCounts(np.full((1, 3, 2), 1000), "abc", ["no", "yes"])
    parity, opportunity, odds, largest = (
        Outlook.of(counts, counts, sizes, Claim(metric=metric))
        for metric in ("demographic_parity", "equal_opportunity", "equalized_odds", "equalized_odds_max")
    )
    assert parity.differences.shape == (1, 3, 6)
    assert odds.differences.shape == (2, 3, 6)
    assert largest.predict(0.05).estimate >= odds.predict(0.05).estimate
    # Half of the records are looked at, so the bound is wider.
    assert opportunity.predict(0.05).bound - opportunity.predict(0.05).estimate > (
        parity.predict(0.05).bound - parity.predict(0.05).estimate
    )


def test_a_group_without_records_in_select_does_no_harm():
    counts = CellCounts([[10, 0], [10, 0]], "ab")
    none = CellCounts([[0, 0], [0, 0]], "ab")
    prediction = Outlook.of(none, counts, CellCounts([[20, 20]], "ab"), Claim()).predict(0.05)
    assert 0.0 <= prediction.bound <= 1.0


def test_the_records_needed_are_enough_and_not_many_more():
    found = outlook([0.52, 0.48], [0.5, 0.5], train=(10**7, 10**7), certify=(500, 500))
    factor = growth_needed(found, 0.04, 0.05)
    assert factor is not None
    assert factor > 1
    enough, fewer = (
        outlook([0.52, 0.48], [0.5, 0.5], train=(10**7, 10**7), certify=(int(500 * f),) * 2).predict(0.05)
        for f in (factor, factor / 1.5)
    )
    assert enough.chance(0.04) > 0.7
    assert fewer.chance(0.04) < enough.chance(0.04)
    assert growth_needed(found, 0.01, 0.05) is None
    assert growth_needed(found, 0.9, 0.05) == 1.0
