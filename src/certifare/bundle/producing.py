"""The whole job: a table goes in; an encoder, its certificate and a report come out.

Candidates are fitted on the train part and compared on the select part. There they are put in order, from safe to bold,
and only then are the certification records looked at: the encoders are tested against the target in that order, each at
full ε, until one fails, and the last that passed is taken. ``docs/theory.md`` shows why that is sound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from certifare.bundle.result import Bundle, bundle_of
from certifare.certificates.consequences import target_for_ratio
from certifare.errors import ArgumentError
from certifare.frontier.calibrating import CalibratedSearch
from certifare.frontier.job import Progress
from certifare.frontier.large import is_large, open_large
from certifare.frontier.search import Search
from certifare.frontier.settings import Grid
from certifare.frontier.sweeping import Frontier, default_parts, open_search


def produce(
    table: Any,
    *,
    target: float | None = None,
    min_ratio: float | None = None,
    min_rate: float | None = None,
    metric: str = "demographic_parity",
    confidence: float = 0.95,
    positive: str | None = None,
    population: str = "clusters",
    min_group_size: int = 30,
    looks: int | None = None,
    ledger: bool = True,
    min_cells: int = 2,
    grid: Grid | None = None,
    utility: str = "information",
    retain: float = 0.0,
    group_aware: bool = False,
    tie_column: str | None = None,
    score_column: str | None = None,
    pool_groups: int | None = None,
    label_quantiles: int | None = None,
    parts: Mapping[str, float] | None = None,
    seed: int = 0,
    n_jobs: int = 2,
    progress: Progress | None = None,
    **roles: Any,
) -> Bundle:
    """Find, certify and describe an encoder for a table.

    Parameters
    ----------
    table : Table, dataframe or path
        A dataframe or a file needs ``label`` and ``sensitive`` as well. A Dask or Spark DataFrame stays on its
        cluster, and large Parquet files (a path, folder or address such as ``s3://…``) where they are
        (:mod:`certifare.frontier.large`).
    target : float, optional
        The largest T* to be accepted: encoders are tested against it in a fixed sequence. Without it one encoder is
        certified, the knee of the frontier.
    min_ratio, min_rate : float, optional
        Instead of a target: every classifier that selects at least ``min_rate`` of some group must have selection rates
        whose ratio is at least ``min_ratio`` (four fifths: 0.8). The largest T* that guarantees it is the target.
    metric, confidence, positive, min_group_size
        Of the certificate (:func:`certifare.certify_counts`).
    population : {"clusters", "records"}
        With clusters: what the claim is about.
    looks : int, optional
        How many looks are planned: each has its share of ε, and all of them hold together with ``confidence``.
    ledger : bool
        Whether looks at the certification records are counted (:mod:`certifare.certification.ledger`).
    min_cells : int
        The fewest cells that the encoder may have.
    grid : Grid, optional
        What to try.
    utility : {"information", "explained", "accuracy"}
        What encoders are compared by (:mod:`certifare.frontier.utility`).
    retain : float
        As in :class:`~certifare.FairTreeEncoder`.
    group_aware : bool
        Let cells read the group: :class:`~certifare.CalibratedEncoder`.
    tie_column : str, optional
        For ``group_aware``: a column that identifies records, whose keyed hash decides about records on a threshold.
    score_column : str, optional
        For ``group_aware``: a column that is a score already. No model is fitted; thresholds are set on this score.
        Without a label every record may set them: ``certifare calibrate``, or
        :class:`~certifare.CalibratedEncoder`.
    pool_groups : int, optional
        Pool groups that may be expected to have fewer certification records, by the numbers of the others.
    label_quantiles : int, optional
        Cut a label that is a quantity into this number of bands, each with about as many training and select records.
    parts : mapping of str to float
        Shares of train, select and certify; of train and certify if ``group_aware``, when the default depends on the
        target and the sizes of groups.
    seed : int
    n_jobs : int
        How many growths are fitted at a time.
    progress : callable, optional
        Told what is being done, how much is done and how much there is.
    **roles
        ``label``, ``sensitive``, ``weight``, ``cluster``, ``categorical``, ``drop`` …: for a dataframe as in
        :meth:`Table.from_frame`, for a file as in :func:`read_table`.

    Returns
    -------
    Bundle

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from certifare.frontier import Grid
    >>> from certifare.bundle import produce
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"x": rng.normal(size=6000), "s": rng.integers(0, 2, 6000)})
    >>> people["y"] = (people["x"] + rng.normal(size=6000) > 0).astype(int)
    >>> bundle = produce(people, label="y", sensitive="s", target=0.15, grid=Grid(kinds=["tree"], gammas=[0.5, 0.9]))
    >>> bundle.verdict, bundle.certificate.bound <= 0.15
    ('PASS', True)
    """
    ratio = None
    if min_ratio is not None or min_rate is not None:
        if roles.get("given") is not None:
            raise ArgumentError("min_ratio is about selection rates of whole groups, of which given= says nothing.")
        target, ratio = _ratio_target(target, min_ratio, min_rate, metric, each=bool(roles.get("each")))
    if target is not None and not 0.0 < target <= 1.0:
        raise ArgumentError(f"target={target}: give a distance in (0, 1].")
    how: dict[str, Any] = {
        "metric": metric,
        "confidence": confidence,
        "positive": positive,
        "population": population,
        "min_group_size": min_group_size,
        "looks": looks,
        "ledger": ledger,
        "utility": utility,
        "retain": retain,
        "group_aware": group_aware,
        "tie_column": tie_column,
        "score_column": score_column,
        "pool_groups": pool_groups,
        "parts": parts,
        "seed": seed,
        "n_jobs": n_jobs,
        "task": repr((target, min_cells, grid or Grid(), tie_column, score_column)),
    }
    if not is_large(table):
        search = open_search(table, grid, target=target, label_quantiles=label_quantiles, **how, **roles)
    elif label_quantiles is not None:
        raise ArgumentError(
            "label_quantiles needs the whole table in memory, and this one is too large for that: cut the label at "
            "fixed numbers (label_cuts)."
        )
    else:
        shares, besides = parts or default_parts(group_aware), (tie_column, score_column)
        sample, elsewhere = open_large(table, roles, shares, seed, progress, besides=besides)
        search = open_search(sample, grid, elsewhere=elsewhere, **how)
    if ratio is not None:
        search.notes.append(ratio)
    return _choose(search, target, min_cells, progress)


def _ratio_target(
    target: float | None, min_ratio: float | None, min_rate: float | None, metric: str, *, each: bool
) -> tuple[float, str]:
    """Return the target that guarantees a ratio of selection rates, and what it guarantees in words."""
    if target is not None:
        raise ArgumentError("Give target, or min_ratio and min_rate, not both.")
    if min_ratio is None or min_rate is None:
        raise ArgumentError("min_ratio and min_rate go together: a ratio follows from T* from some selection rate on.")
    if metric != "demographic_parity":
        raise ArgumentError(f"min_ratio is about selection rates of whole groups, and the metric {metric} is not.")
    found = target_for_ratio(min_ratio, min_rate)
    some = "of some group of an attribute has, among that attribute's groups," if each else "of some group has"
    return found, (
        f"asked for: every classifier that selects at least {100 * min_rate:g} % {some} selection rates "
        f"whose ratio is at least {min_ratio:g}, which T* ≤ {found:g} guarantees"
    )


def _choose(
    search: Search | CalibratedSearch, target: float | None, min_cells: int, progress: Progress | None
) -> Bundle:
    """Run a search, put encoders in order, and test them against the target; or certify one."""
    search.run(progress=progress)
    most = max(candidate.cells for candidate in search.candidates)
    if most < min_cells:
        raise ArgumentError(f"No encoder has {min_cells} cells or more; the largest has {most}. Ask for fewer.")
    if target is None:
        frontier = Frontier(search, "holdout")
        knee = search.knee(min_cells)
        if not knee:
            return bundle_of(frontier, None, min_cells=min_cells)
        return Bundle.of(frontier, frontier.points[knee[0]], min_cells=min_cells, progress=progress)
    if isinstance(search, CalibratedSearch):
        frontier, best = Frontier(search, "holdout"), search.best(target, min_cells)
        if best is None:
            return bundle_of(frontier, None, min_cells=min_cells, target=target)
        return Bundle.of(frontier, frontier.points[best], target=target, min_cells=min_cells, progress=progress)
    numbers = search.chain(min_cells)
    if not numbers:
        return bundle_of(Frontier(search, "holdout"), None, min_cells=min_cells, target=target)
    walked, found = search.walk(numbers, target, progress=progress)
    if found is None:
        frontier, chosen = Frontier(search, "holdout"), None
    else:
        number = numbers[walked.passed - 1]
        frontier = Frontier(search, "holdout", {number: found[1]}, {number: found[0]})
        chosen = frontier.points[number]
    if progress is not None:
        progress("measuring", 0, 1)
    return bundle_of(
        frontier,
        chosen,
        min_cells=min_cells,
        target=target,
        order=[frontier.points[number] for number in numbers],
        limits=[step.limit for step in walked.steps],
    )
