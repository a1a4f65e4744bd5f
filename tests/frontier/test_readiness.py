import numpy as np
import pandas as pd
import pytest

from certifare import Table, check_table
from certifare.errors import ArgumentError
from certifare.tables.splitting import PARTS


def people(n=4_000):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n), "applicantSex": rng.choice(["f", "m"], n)})
    return frame.assign(hired=(frame["x"] + rng.normal(size=n) > 0).astype(int))


def test_roles_are_guessed_from_names_and_values():
    found = check_table(people())
    assert (found.label, found.sensitive, found.guessed) == (("hired",), ("applicantSex",), ("label", "sensitive"))
    assert found.ready
    assert sum(found.groups.values()) == sum(found.labels["hired"].values()) == found.records == 4_000
    assert sum(found.certification.values()) == 1_600


def test_what_is_within_reach_follows_from_the_records_that_would_certify_or_set_thresholds():
    few, many = check_table(people(2_000)), check_table(people(8_000))
    assert many.least_bound < few.least_bound
    assert [row.cells for row in many.plans] == [2, 4, 8]
    assert many.plans[0].bound < many.plans[1].bound
    aware = check_table(people(8_000), group_aware=True)  # more of them than for other cells; rounded by group
    assert [row.bound for row in many.plans] == pytest.approx([row.bound for row in aware.plans], rel=0.01)
    assert many.least_bound < check_table(people(8_000), parts=PARTS).plans[0].bound
    assert many.seconds > few.seconds > 0


def test_checks_hold_for_bands_of_a_label_and_group_aware_cells():
    frame = people().assign(income=lambda frame: 1_000 * frame["x"]).drop(columns="hired")
    found = check_table(frame, label="income", sensitive="applicantSex", label_quantiles=3, group_aware=True)
    assert len(found.labels["income"]) == 3
    assert found.ready
    assert not check_table(frame, label="income", sensitive="applicantSex").ready


def test_plain_data_have_all_of_it():
    document = check_table(people()).to_dict()
    assert document["ready"] is True
    assert {"records", "label", "groups", "findings", "plans", "least_bound", "seconds"} <= document.keys()


def test_a_table_with_roles_is_refused():
    with pytest.raises(ArgumentError, match="has its roles already"):
        check_table(Table.from_frame(people(), label="hired", sensitive="applicantSex"))
