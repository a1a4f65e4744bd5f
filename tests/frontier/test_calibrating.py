"""The choice among plans of calibrated cells."""

from dataclasses import replace

import numpy as np
import pandas as pd

from certifare.certificates.claims import Claim
from certifare.frontier.calibrating import CalibratedSearch
from certifare.tables.table import Table


def test_plans_are_compared_by_what_they_retain_as_far_as_it_is_asked_for():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_500, 2))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "g": rng.integers(0, 2, 1_500), "y": (x[:, 0] > 0).astype(int)})
    search = CalibratedSearch(
        Table.from_frame(frame, label="y", sensitive="g"), Claim(), retain=0.5, max_cells=6, n_jobs=1
    ).run()
    two, three = (replace(search.candidates[i], promising=True) for i in (0, 1))
    search.candidates = (replace(two, utility=0.5, retained=0.1), replace(three, utility=0.4, retained=0.3))
    assert search.best(0.5) == 1
    search.candidates = (replace(two, utility=0.5, retained=0.1), replace(three, utility=0.4, retained=0.19))
    assert search.best(0.5) == 0
