import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from certifare.certificates import CellCounts, Claim
from certifare.frontier.target import Outlook
from certifare_research.experiments.shortlist import shortlist


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


def best_of(values):
    return lambda positions: max(positions, key=lambda i: values[i])


def test_the_shortlist_goes_from_bold_to_safe():
    gaps = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]
    outlooks = [outlook([0.5 + gap, 0.5 - gap], [0.5, 0.5]) for gap in gaps]
    chosen = shortlist(outlooks, 0.06, 0.05, best_of(gaps))
    assert chosen == sorted(chosen, reverse=True)
    assert 2 <= len(chosen) <= 4
    assert 5 not in chosen
    for number in chosen:
        assert outlooks[number].predict(0.05 / len(chosen)).chance(0.06) > 0.15


def test_one_encoder_that_meets_the_target_for_sure_is_the_whole_shortlist():
    outlooks = [outlook([0.5, 0.5], [0.5, 0.5]), outlook([0.6, 0.4], [0.5, 0.5])]
    assert shortlist(outlooks, 0.5, 0.05, best_of([0.7, 0.8])) == [1]


def test_where_nothing_is_likely_the_likeliest_is_tried():
    outlooks = [outlook([0.7, 0.3], [0.5, 0.5]), outlook([0.6, 0.4], [0.5, 0.5])]
    assert shortlist(outlooks, 0.01, 0.05, best_of([0.7, 0.8])) == [1]


@given(st.integers(0, 1000))
def test_the_shortlist_always_ends(seed):
    rng = np.random.default_rng(seed)
    outlooks = [
        outlook(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)), train=(400, 400), select=(200, 200), rng=rng)
        for _ in range(4)
    ]
    chosen = shortlist(outlooks, float(rng.uniform(0.01, 0.9)), 0.05, best_of(rng.random(4)))
    assert chosen
    assert len(set(chosen)) == len(chosen)
