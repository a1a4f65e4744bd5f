"""A slow fair tree in plain Python: every split of every leaf tried on the records themselves, in exact fractions.

Written from the paper and from the documented rules for ties, missing values and unseen codes; shares no code with
the package. Two groups only, and the paper's orderings only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

Record = tuple[tuple[int, ...], tuple[int, ...], int]  # codes, labels, group


@dataclass
class Problem:
    """What is grown, and how. ``missing[c]`` is the missing code of a continuous column, None if categorical."""

    records: list[Record]
    n_codes: Sequence[int]
    missing: Sequence[int | None]
    gamma: Fraction
    metric: str = "demographic_parity"
    positive: int = 1
    weights: Sequence[Fraction] = (Fraction(1),)
    min_size: int = 1


@dataclass
class ReferenceSplit:
    node: int
    column: int
    goes_left: list[bool]
    gain: Fraction
    left_count: int
    right_count: int


def gini(values: Sequence[int]) -> Fraction:
    """1 - Σp² of the values."""
    n = len(values)
    return 1 - sum((Fraction(values.count(v), n) ** 2 for v in set(values)), Fraction(0))


def fair_gini(problem: Problem, records: Sequence[Record]) -> Fraction:
    """(1-γ)·Gini_y + γ·(1/2 - Gini_s) of a non-empty list of records."""
    labels = sum((w * gini([r[1][i] for r in records]) for i, w in enumerate(problem.weights)), Fraction(0)) / sum(
        problem.weights
    )
    if problem.metric == "demographic_parity":
        groups = gini([r[2] for r in records])
    elif problem.metric == "equal_opportunity":
        looked_at = [r[2] for r in records if r[1][0] == problem.positive]
        groups = gini(looked_at) if looked_at else Fraction(1, 2)
    else:
        groups = Fraction(0)
        for label in {r[1][0] for r in records}:
            looked_at = [r[2] for r in records if r[1][0] == label]
            groups += Fraction(len(looked_at), len(records)) * gini(looked_at)
    return (1 - problem.gamma) * labels + problem.gamma * (Fraction(1, 2) - groups)


def paper_orderings(problem: Problem, records: Sequence[Record], column: int) -> list[list[int]]:
    """The categories present, ordered for q = 1, 2, 4."""
    present = sorted({r[0][column] for r in records})
    counted = [r for r in records if problem.metric != "equal_opportunity" or r[1][0] == problem.positive]
    overall = Fraction(sum(r[2] for r in counted), len(counted)) if counted else Fraction(0)

    def share(code: int) -> Fraction:
        here = [r[2] for r in counted if r[0][column] == code]
        return Fraction(sum(here), len(here)) if here else overall

    def label(code: int) -> Fraction:
        here = [r[1][0] for r in records if r[0][column] == code]
        return Fraction(sum(here), len(here))

    by_share = sorted(present, key=lambda code: (share(code), code))
    orderings = []
    for q in (1, 2, 4):
        cuts = [len(present) * j // q for j in range(q + 1)]
        parts = [sorted(by_share[cuts[j] : cuts[j + 1]], key=lambda code: (label(code), code)) for j in range(q)]
        orderings.append([part[turn] for turn in range(len(present)) for part in reversed(parts) if turn < len(part)])
    return orderings


def best_split(problem: Problem, node: int, records: Sequence[Record]) -> ReferenceSplit | None:
    """The first of the splits with the largest gain."""
    best: ReferenceSplit | None = None
    before = fair_gini(problem, records)
    for column, n_codes in enumerate(problem.n_codes):
        present = {r[0][column] for r in records}
        missing = problem.missing[column]
        sides: list[list[bool]] = []
        if missing is None:
            for ordering in paper_orderings(problem, records, column):
                sides += [[code in ordering[:cut] for code in range(n_codes)] for cut in range(1, len(ordering))]
        else:
            values = sorted(present - {missing})
            sides += [[code <= t and code != missing for code in range(n_codes)] for t in values[:-1]]
            if missing in present and values:
                sides.append([code != missing for code in range(n_codes)])
                sides += [[code <= t or code == missing for code in range(n_codes)] for t in values[:-1]]
        for side in sides:
            left = [r for r in records if side[r[0][column]]]
            right = [r for r in records if not side[r[0][column]]]
            if min(len(left), len(right)) < max(problem.min_size, 1):
                continue
            after = len(left) * fair_gini(problem, left) + len(right) * fair_gini(problem, right)
            gain = (len(records) * before - after) / len(problem.records)
            if gain > (best.gain if best else 0):
                for code in range(n_codes):
                    if code not in present and (missing is None or code == missing):
                        side[code] = len(left) >= len(right)
                best = ReferenceSplit(node, column, side, gain, len(left), len(right))
    return best


def grow(problem: Problem, max_cells: int) -> list[ReferenceSplit]:
    """Splits in the order made: always the leaf with the largest gain, the first of them where several have it."""
    nodes = {0: problem.records}
    waiting = {0: best_split(problem, 0, problem.records)}
    splits: list[ReferenceSplit] = []
    while len(splits) + 1 < max_cells:
        ready = [split for split in waiting.values() if split is not None]
        if not ready:
            break
        split = min(ready, key=lambda s: (-s.gain, s.node))
        left, right = 2 * len(splits) + 1, 2 * len(splits) + 2
        splits.append(split)
        del waiting[split.node]
        for child, side in ((left, True), (right, False)):
            nodes[child] = [r for r in nodes[split.node] if split.goes_left[r[0][split.column]] == side]
            waiting[child] = best_split(problem, child, nodes[child])
    return splits
