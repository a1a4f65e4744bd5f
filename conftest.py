"""For all tests and examples: none of them counts looks in the ledger of whoever runs them."""

import importlib.util
import os

os.environ["CERTIFARE_STATE"] = "off"

# Examples of the baselines need PyTorch. Any other module that cannot be imported is an error, not a skipped test.
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = [
        "research/src/certifare_research/baselines/*.py",
        "research/src/certifare_research/evaluation/stacked.py",
    ]
