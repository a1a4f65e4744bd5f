"""For all tests and examples: their ledger, what they need, and what must not be skipped."""

import importlib.util
import os
from typing import Any

import pytest

# None of them counts looks in the ledger of whoever runs them.
os.environ["CERTIFARE_STATE"] = "off"
# Processes of tests share the cores: a thread that waits for another must not spin.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Examples of the baselines need PyTorch. Any other module that cannot be imported is an error, not a skipped test.
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = [
        "research/src/certifare_research/baselines/*.py",
        "research/src/certifare_research/evaluation/stacked.py",
    ]

#: What must be there: a test that is skipped for want of one of these fails. CI names what it installs.
REQUIRED = os.environ.get("CERTIFARE_REQUIRE", "").lower().split()


def _fail_if_required(report: Any) -> Any:
    """Turn a skip into a failure if its reason names something that is required."""
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[-1]
        missing = [name for name in REQUIRED if name in reason.lower()]
        if missing:
            report.outcome = "failed"
            report.longrepr = f"{reason}\nCERTIFARE_REQUIRE names {', '.join(missing)}: this test must not be skipped."
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    """Judge the skip of a test."""
    return _fail_if_required((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Any:
    """Judge the skip of a whole module."""
    return _fail_if_required((yield))
