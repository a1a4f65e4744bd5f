"""What calibrated cells would give, said at the end of a search whose encoders do not read the group.

It comes from training records alone, and from the score models of the boosted encoders that were tried. These have not
seen the group, so calibrated cells themselves do a little better.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certifare.certificates.calibrated import CALIBRATED_METRICS, forecast_bound
from certifare.certificates.claims import Claim
from certifare.encoders.partition import ScoredRecords, expected_share, plan_along
from certifare.foundation.randomness import stream
from certifare.frontier.paths import Explorer
from certifare.frontier.utility import utility_left_out

#: Utility that calibrated cells must gain, lest they are not mentioned.
WORTH_MENTIONING = 0.01
#: The most training records that plans are made from.
RECORDS = 20_000


def best_calibrated(
    explorer: Explorer, claim: Claim, sizes: NDArray[np.int64], utility: str, limit: float, min_cells: int
) -> tuple[float, int] | None:
    """Return utility and number of the best calibrated cells within a bound; None if that cannot be told.

    - ``sizes``: certification records of each group that the metric is about.
    - ``limit``: the largest T*.
    """
    if claim.metric not in CALIBRATED_METRICS or not explorer.has_walked("boosted"):
        return None
    training = explorer.prepare("boosted")
    label, score_map = training.labels[0], training.derived.score_map
    if len(training.labels) > 1 or len(label.values) != 2 or explorer.common.get("retain"):
        return None
    rng = stream(explorer.common.get("random_state", 0), "glimpse")
    rows = rng.permutation(len(training))[:RECORDS]
    places = np.unravel_index(training.derived.codes.columns[0][rows], score_map.shape)[0]
    labels, groups = label.codes[rows], training.groups.codes[rows]
    counted = np.ones(len(rows), dtype=bool)
    if claim.labelled:
        counted = labels == label.names.index(str(claim.positive))
    records = ScoredRecords(places.astype(float), rng.random(len(rows)), groups, labels, counted, len(sizes), 2)
    best = None
    for path in plan_along(records, sizes, utility):
        finest = np.bincount(path.finest * 2 + labels, minlength=2 * int(path.finest.max()) + 2).reshape(-1, 2)
        within = [k for k, plan in path.plans.items() if forecast_bound(plan.gaps, 1.0 - claim.confidence) <= limit]
        if not within and path.theta:
            break  # the more of the common order, the larger the distances
        for k in within:
            if k >= min_cells:
                share = expected_share(path, k, utility)
                if share is None:
                    share = float(utility_left_out(utility, [np.add.reduceat(finest, path.starts[k], axis=0)]))
                best = max(best or (0.0, 0), (share, k))
    return best
