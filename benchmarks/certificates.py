"""How tight is each bound, and how long does it take?

For a grid of sample sizes, group balances, numbers of cells and true distances: one held-out sample is drawn from a
known population and certified by the paper's lemmas, by McDiarmid's closed form, and exactly. The paper's procedure
uses half of the held-out records for the cells and half for the sum, and gets as many records again for base rates;
the others use the held-out records as they are.

    python benchmarks/certificates.py [--quick]
"""

import argparse
import time

import numpy as np

from certifare import CellCounts, certify_counts


def population(rng: np.random.Generator, k: int, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Two distributions on k cells at exactly this total variation distance."""
    p = np.sort(rng.dirichlet(np.full(k, 5.0)))[::-1]
    above = np.arange(k) < (k + 1) // 2
    q = np.where(above, p * (1 - distance / p[above].sum()), p * (1 + distance / p[~above].sum()))
    return p, q / q.sum()


def draw(rng: np.random.Generator, p: np.ndarray, q: np.ndarray, n0: int, n1: int) -> CellCounts:
    return CellCounts(np.stack([rng.multinomial(n0, p), rng.multinomial(n1, q)], axis=1), ["a", "b"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small grid")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sizes = [10_000] if arguments.quick else [1_000, 10_000, 33_000, 200_000, 2_000_000]
    rng = np.random.default_rng(arguments.seed)
    certify_counts(CellCounts([[50, 50], [60, 40]], ["a", "b"]))  # compile, so that it is not timed

    print("| records | balance | cells | true distance | estimate | paper | McDiarmid | exact | exact, ms |")
    print("|--:|:-:|--:|--:|--:|--:|--:|--:|--:|")
    in_order = rows = 0
    for n in sizes:
        for share in (0.5, 0.95):
            for k in (3, 10, 50, 200):
                for distance in (0.02, 0.1, 0.3):
                    n0 = round(n * share)
                    p, q = population(rng, k, distance)
                    halves = [draw(rng, p, q, n0 // 2, (n - n0) // 2) for _ in range(2)]
                    base = draw(rng, p, q, n0, n - n0)
                    counts = halves[0] + halves[1]
                    paper = certify_counts(
                        halves[0], method="lemmas", base_counts=base, sum_counts=halves[1], min_group_size=1
                    )
                    closed = certify_counts(counts, method="mcdiarmid")
                    start = time.perf_counter()
                    exact = certify_counts(counts)
                    milliseconds = 1000 * (time.perf_counter() - start)
                    rows += 1
                    in_order += exact.bound <= closed.bound <= paper.bound
                    print(
                        f"| {n:,} | {share:.0%} | {k} | {distance:.3f} | {exact.estimate:.4f} | {paper.bound:.4f} "
                        f"| {closed.bound:.4f} | **{exact.bound:.4f}** | {milliseconds:.1f} |"
                    )
    print(f"\nexact <= McDiarmid <= paper in {in_order} of {rows} rows")


if __name__ == "__main__":
    main()
