"""The guarantee on every path, by simulated jobs: ``benchmarks/guarantee.py`` at reduced size.

``CERTIFARE_FULL=1`` (`make test-slow`) runs it as the benchmark does, and `make test` one track of each way to a bound.
Seeds are fixed, so the outcome is too.
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from scipy.stats import binom

FULL = os.environ.get("CERTIFARE_FULL") == "1"
if not FULL:
    pytestmark = pytest.mark.usefixtures("few_draws")

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "guarantee.py"
specification = importlib.util.spec_from_file_location("guarantee", BENCHMARK)
guarantee = sys.modules["guarantee"] = importlib.util.module_from_spec(specification)
specification.loader.exec_module(guarantee)

#: Ties between draws show after some jobs; a claim that does not follow, or an option that is ignored, shows at once.
MANY = dict.fromkeys(("fit to a target, clusters", "sweep, smallest prediction certified, clusters"), 60)
TRACKS = {track.name: track for track in guarantee.tracks()}
#: Claims that do not exist, because they do not follow from the certificate, and records that are refused.
REFUSED = {
    f"{claim}, {metric}"
    for claim in ("impact ratio", "shift")
    for metric in ("equal_opportunity", "equalized_odds", "equalized_odds_max")
} | {
    "certify, values of a column that were not there",
    "fit, people with one to five equal records",
    "certify, people with one to five equal records",
}

#: A track of each way to a bound.
QUICK = REFUSED | {
    "fit to a target, demographic_parity",
    "fit to a target, group-aware, demographic_parity",
    "fit to a target, weights",
    "fit to a target, given a column",
    "fit to a target, stream",
    "sweep, equalized_odds",
    "calibrate, a score of five values, T\\*",
    "sequence of 6 encoders, correlated, all just above the target",
    "certify, exact, clusters",
    "certify, capped weights, equal_opportunity",
    "command certify, a file, weights",
    "command certify, counts of three holders, clusters",
    "command certify, each of two attributes, DuckDB",
    "verify --data, T* is the truth",
    "impact ratio, demographic_parity",
    "shift, demographic_parity",
}
assert TRACKS.keys() >= QUICK


@pytest.fixture(autouse=True)
def no_looks(state_folder, monkeypatch):
    """Made-up people are looked at once, and too many of them for a ledger."""
    monkeypatch.setenv("CERTIFARE_STATE", "off")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in TRACKS]
)
def test_the_truth_is_seldom_above_the_published_bound(name):
    if "Dask" in name:
        pytest.importorskip("distributed", reason="Dask is not installed (pip install 'certifare[dask]')")
    track = TRACKS[name]
    jobs = track.jobs if FULL else MANY.get(name, 5)
    outcome = guarantee.run(track, jobs)
    assert (outcome.misses is None) == (name in REFUSED)
    if outcome.misses is not None:
        assert outcome.misses <= binom.ppf(0.9999, jobs, guarantee.EPSILON)
