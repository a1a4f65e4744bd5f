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
    charge: str = "every"


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


def label_gini(problem: Problem, records: Sequence[Record]) -> Fraction:
    """Gini_y of a non-empty list of records, averaged over the label columns."""
    return sum((w * gini([r[1][i] for r in records]) for i, w in enumerate(problem.weights)), Fraction(0)) / sum(
        problem.weights
    )


def strata(problem: Problem) -> list[int | None]:
    """Values of the first label whose records are looked at for the groups; None: all records."""
    if problem.metric == "demographic_parity":
        return [None]
    if problem.metric == "equal_opportunity":
        return [problem.positive]
    return sorted({r[1][0] for r in problem.records})


def groups_of(records: Sequence[Record], stratum: int | None) -> list[int]:
    """Groups of the stratum's records."""
    return [r[2] for r in records if stratum is None or r[1][0] == stratum]


def group_penalty(records: Sequence[Record], stratum: int | None) -> Fraction:
    """1/2 - Gini_s in the stratum, times its records."""
    looked_at = groups_of(records, stratum)
    return len(looked_at) * (Fraction(1, 2) - gini(looked_at)) if looked_at else Fraction(0)


def crosses(problem: Problem, left: Sequence[Record], right: Sequence[Record], stratum: int | None) -> bool:
    """One child has more of group 1 than all records have, the other less."""
    everyone = groups_of(problem.records, stratum)
    share = Fraction(sum(everyone), len(everyone)) if everyone else Fraction(0)
    beyond = [sum(own) - share * len(own) for own in (groups_of(left, stratum), groups_of(right, stratum))]
    return min(beyond) < 0 < max(beyond)


def gain_of(problem: Problem, records: Sequence[Record], left: Sequence[Record], right: Sequence[Record]) -> Fraction:
    """Decrease of FairGini, weighted by the node's share of all records."""
    labels = len(records) * label_gini(problem, records)
    labels -= len(left) * label_gini(problem, left) + len(right) * label_gini(problem, right)
    penalty = Fraction(0)
    for stratum in strata(problem):
        if problem.charge == "every" or crosses(problem, left, right, stratum):
            penalty += group_penalty(left, stratum) + group_penalty(right, stratum)
            penalty -= group_penalty(records, stratum)
    return ((1 - problem.gamma) * labels - problem.gamma * penalty) / len(problem.records)


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
            gain = gain_of(problem, records, left, right)
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
