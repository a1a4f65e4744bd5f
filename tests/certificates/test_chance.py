"""What chance alone does to a measured distance, against samples; and the records that would confirm a bound."""

import numpy as np
import pytest

from certifare import CellCounts, certify_counts
from certifare.certificates.chance import confirming_words, distance_by_chance, records_to_confirm

SHARES = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])


def sampled(rng, sizes, distance=0.0, shares=SHARES):
    """Draw counts of groups of which the last differs from the others by a distance."""
    moved = shares.copy()
    moved[0] += distance
    moved[1] -= distance
    columns = [rng.multinomial(n, moved if g == len(sizes) - 1 else shares) for g, n in enumerate(sizes)]
    return CellCounts(np.stack(columns, axis=1), [f"g{g}" for g in range(len(sizes))])


@pytest.mark.parametrize("sizes", [[300, 300], [5_000, 400]])
def test_groups_that_are_alike_show_this_distance_on_average(sizes):
    rng = np.random.default_rng(1)
    made = [certify_counts(sampled(rng, sizes)) for _ in range(300)]
    assert np.mean([c.estimate for c in made]) == pytest.approx(distance_by_chance(made[0]), rel=0.08)


def test_equal_cells_show_0_4_root_k_over_n():
    counts = CellCounts(np.full((50, 2), 40), ["f", "m"])
    assert distance_by_chance(certify_counts(counts)) == pytest.approx(0.4 * np.sqrt(50 * 2 / 2000), rel=0.02)


def test_the_mean_over_labels_is_that_of_the_labels_and_pairs_take_the_largest():
    table = np.full((4, 2, 2), 50)
    table[:, :, 1] = 200
    made = certify_counts(CellCounts(table, ["f", "m"], ["no", "yes"]), "equalized_odds")
    no, yes = (certify_counts(CellCounts(table[:, :, y], ["f", "m"])) for y in (0, 1))
    assert distance_by_chance(made) == pytest.approx((distance_by_chance(no) + distance_by_chance(yes)) / 2)
    three = certify_counts(CellCounts([[50, 400, 400], [50, 400, 400]], ["a", "b", "c"]))
    two = certify_counts(CellCounts([[50, 400], [50, 400]], ["a", "b"]))
    assert distance_by_chance(three) == pytest.approx(distance_by_chance(two))


@pytest.mark.parametrize(("distance", "target"), [(0.0, 0.05), (0.02, 0.06)])
def test_with_the_records_needed_about_half_of_all_samples_confirm(distance, target):
    rng = np.random.default_rng(2)
    needed = [records_to_confirm(certify_counts(sampled(rng, [400, 600], distance)), target) for _ in range(40)]
    n = int(np.median([needed if needed is not None else 10**9 for needed in needed]))

    def confirmed(records):
        sizes = [round(0.4 * records), round(0.6 * records)]
        return np.mean([certify_counts(sampled(rng, sizes, distance)).bound <= target for _ in range(60)])

    assert confirmed(0.5 * n) < 0.5 < confirmed(2 * n)


def test_a_distance_that_seems_to_be_above_the_target_needs_no_number():
    made = certify_counts(CellCounts([[400, 200], [600, 800]], ["f", "m"]))
    assert records_to_confirm(made, 0.1) is None
    assert "may refute" in confirming_words(None, 0.1)
    assert records_to_confirm(made, 0.3) < 2000
