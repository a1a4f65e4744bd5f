"""Settings of all tests of the research."""

import os

# Tests run side by side, so each has one processor. OpenMP reads this when a library first loads it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# The first example of a test may compile; how long it takes is no finding.
settings.register_profile("certifare", deadline=None)
settings.load_profile("certifare")
