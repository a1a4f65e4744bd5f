"""How tight is each bound, and how long does it take?

For a grid of sample sizes, group balances, numbers of cells and true distances: one held-out sample is drawn from a
known population and certified by the paper's lemmas, by McDiarmid's closed form, and exactly. The paper's procedure
uses half of the held-out records for the cells and half for the sum, and gets as many records again for base rates;
the others use the held-out records as they are.

    python benchmarks/certificates.py [--quick]
"""

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from certifare import CellCounts, certify_counts
from certifare.certificates import hoeffding_radius
from certifare_research.evaluation.lemmas import paper_bound

SIZES = (1_000, 10_000, 33_000, 200_000, 2_000_000)


def population(rng: np.random.Generator, k: int, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Two distributions on k cells at exactly this total variation distance."""
    p = np.sort(rng.dirichlet(np.full(k, 5.0)))[::-1]
    above = np.arange(k) < (k + 1) // 2
    q = np.where(above, p * (1 - distance / p[above].sum()), p * (1 + distance / p[~above].sum()))
    return p, q / q.sum()


def draw(rng: np.random.Generator, p: np.ndarray, q: np.ndarray, n0: int, n1: int) -> CellCounts:
    return CellCounts(np.stack([rng.multinomial(n0, p), rng.multinomial(n1, q)], axis=1), ["a", "b"])


def rows(sizes: Sequence[int], seed: int = 0) -> Iterator[tuple[Any, ...]]:
    """Yield records, balance, cells, true distance, estimate, the three bounds, and milliseconds of the exact one."""
    rng = np.random.default_rng(seed)
    certify_counts(CellCounts([[50, 50], [60, 40]], ["a", "b"]))  # compile, so that it is not timed
    for n, share, k, distance in itertools.product(sizes, (0.5, 0.95), (3, 10, 50, 200), (0.02, 0.1, 0.3)):
        n0 = round(n * share)
        p, q = population(rng, k, distance)
        halves = [draw(rng, p, q, n0 // 2, (n - n0) // 2) for _ in range(2)]
        base = draw(rng, p, q, n0, n - n0)
        counts = halves[0] + halves[1]
        paper = paper_bound([base, *halves])
        start = time.perf_counter()
        exact = certify_counts(counts)
        milliseconds = 1000 * (time.perf_counter() - start)
        closed = min(1.0, exact.estimate + hoeffding_radius(n0, n - n0, 0.05))
        yield n, share, k, distance, exact.estimate, paper, closed, exact.bound, milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small grid")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| records | balance | cells | true distance | estimate | paper | McDiarmid | exact | exact, ms |")
    print("|--:|:-:|--:|--:|--:|--:|--:|--:|--:|")
    in_order = []
    for n, share, k, distance, estimate, paper, closed, exact, milliseconds in rows(
        SIZES[1:2] if arguments.quick else SIZES, arguments.seed
    ):
        in_order.append(exact <= closed <= paper)
        print(
            f"| {n:,} | {share:.0%} | {k} | {distance:.3f} | {estimate:.4f} | {paper:.4f} | {closed:.4f} "
            f"| **{exact:.4f}** | {milliseconds:.1f} |"
        )
    print(f"\nexact <= McDiarmid <= paper in {sum(in_order)} of {len(in_order)} rows")


if __name__ == "__main__":
    main()
