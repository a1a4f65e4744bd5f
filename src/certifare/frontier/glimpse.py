"""What group-aware cells would give, beside a search whose encoders do not read the group.

No model is fitted for it. Where boosted encoders were prepared, a tree with a cut for each group grows over the bins of
their scores; otherwise over the columns. The models have not seen the group, so more than this can be had.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certifare.encoders.training import MemoryTraining
from certifare.foundation.levels import name_of
from certifare.frontier.paths import Explorer, PartCounts, groups_for

#: What is tried over scores, where a growth takes milliseconds, and over columns.
GAMMAS, GAMMA = (0.05, 0.08, 0.11, 0.13, 0.15, 0.17, 0.3), (0.2,)


@dataclass(frozen=True, eq=False)
class Grown:
    """A group-aware growth, counted: training and select records by finest cell, and which cells begin one of k."""

    train: PartCounts
    select: PartCounts
    starts: dict[int, NDArray[np.int64]]


def glimpses(explorer: Explorer) -> Iterator[Grown]:
    """Grow group-aware trees from what a search has prepared."""
    boosted = next((s for s in explorer.settings if s.kind == "boosted" and explorer.has_walked("boosted")), None)
    # Records that lie in files would have to be read again.
    in_memory = explorer.has_walked("tree") and isinstance(explorer.prepare("tree"), MemoryTraining)
    tree = next((s for s in explorer.settings if s.kind == "tree" and in_memory), None)
    first = boosted or tree
    if first is None:
        return
    common = {**explorer.common, "group_aware": True, "charge": "every", "retain": 0.0}
    for gamma in GAMMAS if boosted is not None else GAMMA:
        encoder: Any = replace(first, gamma=gamma).encoder(**common)
        if boosted is not None:
            growth, codes = _over_scores(explorer, encoder)
            n_cells = growth.n_cells
            cells = [growth.apply(of_part).astype(np.int64) for of_part in codes]
            merged = {k: _starts(growth, k) for k in explorer.grid.path(n_cells)}
        else:
            training = replace(explorer.prepare("tree"), derived=None, bare=True)
            encoder.set_params(retain=explorer.common.get("retain", 0.0)).fit_from(training)
            n_cells = int(encoder.n_cells_)
            select = explorer.compared
            cells = [
                encoder.apply_codes(codes).astype(np.int64)
                for codes in (training.codes, encoder.codes(select.features, **groups_for(encoder, select)))
            ]
            merged = {k: np.flatnonzero(np.diff(encoder.cells_at(k), prepend=-1)) for k in explorer.grid.path(n_cells)}
        train, select = explorer.train, explorer.compared
        yield Grown(PartCounts.of(train, cells[0], n_cells), PartCounts.of(select, cells[1], n_cells), merged)


def _over_scores(explorer: Explorer, encoder: Any) -> tuple[Any, list[Any]]:
    """Grow over the bins of scores of models that have not seen the group; also give the codes of both parts."""
    from certifare.growth import Codes, ContinuousBins, MemorySource, grow

    training = explorer.prepare("boosted")
    score_map = training.derived.score_map
    select = explorer.compared
    bins = [ContinuousBins(axis.name, axis.edges) for axis in score_map.axes]
    found = []
    squares = (training.derived.codes, explorer.codes_of("boosted", next(iter(explorer.parts))))
    place_of = {name_of(group): place for place, group in enumerate(training.groups.values)}
    for of_part, table in zip(squares, (explorer.train, select), strict=True):
        places = np.unravel_index(of_part.columns[0], score_map.shape)[: len(bins)]
        columns = tuple(place.astype(np.uint16) for place in places)
        assert table.groups is not None  # noqa: S101  (checked by the search)
        order = np.array([place_of.get(name, 0) for name in table.groups.names])
        found.append(Codes(columns, tuple(b.n_codes for b in bins)).of_groups(order[table.groups.codes]))
    targets, criterion = encoder.make_criterion(training)
    growth = grow(
        MemorySource(found[0], targets, 1),
        bins,
        criterion,
        max_cells=encoder.max_cells,
        min_cell_size=encoder.min_cell_size,
        group_aware=True,
    )
    return growth, found


def _starts(growth: Any, k: int) -> NDArray[np.int64]:
    """Say which of the finest cells begin one of the tree with k cells."""
    from certifare.encoders.grown import node_ranges

    ranges = node_ranges(growth, growth.n_cells)
    starts: NDArray[np.int64] = ranges[growth.leaves(k), 0]
    return starts
