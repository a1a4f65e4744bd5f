"""A slow group-aware tree in plain Python, on the records themselves, in exact fractions.

Written from the documented rules (common, matched and stepped cuts; the charge; ties, missing values and unseen codes);
shares no code with the package. Any number of groups; of more than two, categories are ordered by the label alone.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product

from .reference import Problem, Record, ReferenceSplit, groups_of, label_gini, paper_orderings, strata

Cuts = tuple[int, ...]


def n_groups(problem: Problem) -> int:
    return max(r[2] for r in problem.records) + 1


def distance(problem: Problem, leaves: Sequence[Sequence[Record]]) -> Fraction:
    """½ Σ |c_i/n_i - c_j/n_j| over leaves, the mean over pairs of groups and over strata."""
    looked_at = strata(problem)
    pairs = list(combinations(range(n_groups(problem)), 2))
    total = Fraction(0)
    for stratum, (i, j) in product(looked_at, pairs):
        everyone = groups_of(problem.records, stratum)
        for leaf in leaves:
            here = groups_of(leaf, stratum)
            shares = [Fraction(here.count(g), everyone.count(g)) if g in everyone else Fraction(0) for g in (i, j)]
            total += abs(shares[0] - shares[1]) / 2
    return total / (len(looked_at) * max(len(pairs), 1))


def gain_of(problem: Problem, node: Sequence[Record], left: Sequence[Record], right: Sequence[Record]) -> Fraction:
    """Decrease of the labels' impurity, weighted by the node's share, less what the distance grows by."""
    labels = len(node) * label_gini(problem, node)
    labels -= len(left) * label_gini(problem, left) + len(right) * label_gini(problem, right)
    grows = distance(problem, [left, right]) - distance(problem, [node])
    return (1 - problem.gamma) * labels / len(problem.records) - problem.gamma * grows


class Ordering:
    """One ordering of the codes that occur in a node, and the splits that cuts of it make."""

    def __init__(self, problem: Problem, records: Sequence[Record], column: int, order: Sequence[int]) -> None:
        self.problem, self.records, self.column, self.order = problem, records, column, list(order)
        self.groups = range(n_groups(problem))

    def parts(self, cuts: Cuts) -> tuple[list[Record], list[Record]]:
        left, right = [], []
        for r in self.records:
            (left if self.order.index(r[0][self.column]) < cuts[r[2]] else right).append(r)
        return left, right

    def gain(self, cuts: Cuts) -> Fraction | None:
        left, right = self.parts(cuts)
        if min(len(left), len(right)) < self.problem.min_size:
            return None
        return gain_of(self.problem, self.records, left, right)

    def own_cuts(self, group: int, stratum: int | None = None) -> list[int]:
        """Cuts of a group: before all, behind each code that it has (in the stratum), at the end behind the last."""
        has = {r[0][self.column] for r in self.records if r[2] == group and (stratum is None or r[1][0] == stratum)}
        cuts = [0, *(i + 1 for i, code in enumerate(self.order) if code in has)]
        return [*cuts[:-1], len(self.order)] if has else [0]

    def matched(self, stratum: int | None) -> list[Cuts]:
        """For every share q, the cuts nearest to it: they change only at the middle between two shares of a group."""
        cuts_of, shares_of = [], []
        for group in self.groups:
            records = [r for r in self.records if r[2] == group and (stratum is None or r[1][0] == stratum)]
            cuts = self.own_cuts(group, stratum)
            if not records:
                records, cuts = [r for r in self.records if r[2] == group], self.own_cuts(group)
            places = [self.order.index(r[0][self.column]) for r in records]
            cuts_of.append(cuts)
            shares_of.append([Fraction(sum(p < c for p in places), max(len(places), 1)) for c in cuts])
        middles = sorted({(a + b) / 2 for shares in shares_of for a, b in pairwise(shares)})
        between = [(a + b) / 2 for a, b in zip(middles, [*middles[1:], Fraction(2)], strict=True)]
        return [
            tuple(
                min(zip(cuts, shares, strict=True), key=lambda cut: abs(cut[1] - q))[0]
                for cuts, shares in zip(cuts_of, shares_of, strict=True)
            )
            for q in between
        ]

    def best(self) -> tuple[Fraction, Cuts] | None:
        """The best of the common and the matched cuts."""
        tried = [(cut,) * len(self.groups) for cut in range(1, len(self.order))]
        for stratum in strata(self.problem):
            tried += self.matched(stratum)
        found: tuple[Fraction, Cuts] | None = None
        for cuts in tried:
            gain = self.gain(cuts)
            if gain is not None and (found is None or gain > found[0]):
                found = gain, cuts
        return found

    def step(self, found: tuple[Fraction, Cuts]) -> tuple[Fraction, Cuts]:
        """Move one group's cut after the other while that gains."""
        moved = True
        while moved:
            moved = False
            for group in self.groups:
                if not any(r[2] == group for r in self.records):
                    continue
                for cut in self.own_cuts(group):
                    cuts = (*found[1][:group], cut, *found[1][group + 1 :])
                    gain = self.gain(cuts)
                    if gain is not None and gain > found[0]:
                        found, moved = (gain, cuts), True
        return found

    def best_of_all(self) -> Fraction:
        """Largest gain over all combinations of the groups' own cuts."""
        gains = [self.gain(cuts) for cuts in product(*(self.own_cuts(group) for group in self.groups))]
        return max((gain for gain in gains if gain is not None), default=Fraction(0))

    def sides(self, cuts: Cuts) -> tuple[list[list[bool]], list[bool]]:
        """Which codes go left, for each group, and for records of unknown group."""
        left, right = self.parts(cuts)
        sizes = [sum(r[0][self.column] in self.order[:c] for r in self.records) for c in range(1, len(self.order))]
        common = self.side(1 + min(range(len(sizes)), key=lambda i: abs(sizes[i] - len(left))), left, right)
        present = {r[2] for r in self.records}
        return [self.side(cut, left, right) if g in present else common for g, cut in enumerate(cuts)], common

    def side(self, cut: int, left: Sequence[Record], right: Sequence[Record]) -> list[bool]:
        n_codes, missing = self.problem.n_codes[self.column], self.problem.missing[self.column]
        inside = self.order[:cut]
        unseen = len(left) >= len(right)
        if missing is None:
            return [code in inside if code in self.order else unseen for code in range(n_codes)]
        known_inside = [code for code in inside if code != missing]
        known = [code for code in self.order if code != missing]
        top = -1 if not known_inside else n_codes if len(known_inside) == len(known) else max(known_inside)
        return [code <= top for code in range(n_codes - 1)] + [missing in inside if missing in self.order else unseen]


def orderings(problem: Problem, records: Sequence[Record], column: int) -> list[Ordering]:
    present = sorted({r[0][column] for r in records})
    missing = problem.missing[column]
    if len(present) < 2:
        return []
    if missing is None:
        orders = paper_orderings(problem, records, column)
        orders = orders[:1] if n_groups(problem) > 2 else orders
    else:
        orders = [present]
        if missing in present and len(present) > 2:
            orders.append([missing, *present[:-1]])
    return [Ordering(problem, records, column, order) for order in orders]


def best_split(problem: Problem, node: int, records: Sequence[Record]) -> tuple[ReferenceSplit, list[bool]] | None:
    """The first of the splits with the largest gain, and where records of unknown group go."""
    best: tuple[Fraction, Ordering, Cuts] | None = None
    for column in range(len(problem.n_codes)):
        of_column: tuple[Fraction, Ordering, Cuts] | None = None
        for ordering in orderings(problem, records, column):
            found = ordering.best()
            if found is not None and (of_column is None or found[0] > of_column[0]):
                of_column = found[0], ordering, found[1]
        if of_column is not None:
            gain, cuts = of_column[1].step((of_column[0], of_column[2]))
            if gain > (best[0] if best else 0):
                best = gain, of_column[1], cuts
    if best is None:
        return None
    gain, ordering, cuts = best
    left, right = ordering.parts(cuts)
    sides, common = ordering.sides(cuts)
    return ReferenceSplit(node, ordering.column, sides, gain, len(left), len(right)), common  # type: ignore[arg-type]


def grow(problem: Problem, max_cells: int) -> list[tuple[ReferenceSplit, list[bool]]]:
    """Splits in the order made: always the leaf with the largest gain, the first of them where several have it."""
    nodes = {0: list(problem.records)}
    waiting = {0: best_split(problem, 0, problem.records)}
    splits: list[tuple[ReferenceSplit, list[bool]]] = []
    while len(splits) + 1 < max_cells:
        ready = [found for found in waiting.values() if found is not None]
        if not ready:
            break
        found = min(ready, key=lambda f: (-f[0].gain, f[0].node))
        split = found[0]
        splits.append(found)
        del waiting[split.node]
        for child, side in ((2 * len(splits) - 1, True), (2 * len(splits), False)):
            nodes[child] = [
                r
                for r in nodes[split.node]
                if split.goes_left[r[2]][r[0][split.column]] == side  # type: ignore[index]
            ]
            waiting[child] = best_split(problem, child, nodes[child])
    return splits
