import pytest

from certifare_research.experiments.ablation import MEANS, averages


def record(seed, cells, value):
    return {"seed": seed, **dict.fromkeys(MEANS, value), "cells": cells}


def test_means_over_seeds():
    records = [record(0, 3, 0.1), record(0, 5, 0.2), record(1, 3, 0.3), record(1, 5, 0.4)]
    first, second = averages(records, [3, 5])
    assert (first["k"], first["cells"], second["cells"]) == (3, 3, 5)
    assert [r["accuracy"] for r in (first, second)] == pytest.approx([0.2, 0.3])


def test_a_growth_that_ended_early_counts_with_what_it_reached():
    records = [record(0, 3, 0.1), record(0, 5, 0.2), record(1, 3, 0.3), record(1, 4, 0.4)]
    rows = averages(records, [2, 3, 5, 8])
    # No growth has two cells or fewer, and none goes beyond five: those rows would say nothing new.
    assert [(r["k"], r["cells"]) for r in rows] == [(3, 3), (5, 4.5)]
    assert rows[1]["bound"] == pytest.approx(0.3)
