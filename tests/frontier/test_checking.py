import numpy as np
import pandas as pd
import pytest

from certifare import Table
from certifare.errors import RoleError
from certifare.frontier.checking import check_roles, group_findings, training_findings


def table(n=3_000, **columns):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"y": rng.integers(0, 2, n), "s": rng.choice(["a", "b"], n), "x": rng.normal(size=n)})
    return Table.from_frame(frame.assign(**{k: v(frame, rng) for k, v in columns.items()}), label="y", sensitive="s")


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (lambda frame, _: frame["y"], True),
        (lambda frame, _: frame["y"].map({0: "no", 1: "yes"}), True),
        (lambda frame, rng: frame["y"] + rng.uniform(0, 0.9, len(frame)), True),
        (lambda frame, rng: np.where(rng.random(len(frame)) < 0.9, frame["y"], 1 - frame["y"]), False),
        (lambda frame, _: np.arange(len(frame)), False),
        (lambda frame, rng: rng.normal(size=len(frame)), False),
    ],
)
def test_near_copies_of_the_label_are_found_and_good_predictors_are_not(column, found):
    findings = training_findings(table(copy=column))
    assert [finding.column for finding in findings] == (["copy"] if found else [])


def test_mostly_missing_columns_are_noted():
    (finding,) = training_findings(table(gone=lambda frame, rng: np.where(rng.random(len(frame)) < 0.8, np.nan, 1.0)))
    assert (finding.severity, finding.column) == ("note", "gone")


def test_many_numbers_are_a_warning_and_very_many_are_refused():
    for values, refused in ((20, False), (40, True)):
        frame = pd.DataFrame({"y": np.arange(4_000) % 2, "s": np.arange(4_000) // 2 % values, "x": np.arange(4_000.0)})
        numbers = Table.from_frame(frame, label="y", sensitive="s")
        if refused:
            with pytest.raises(RoleError, match=r'40 different numbers.*such as "s>=20"'):
                check_roles(numbers)
        else:
            check_roles(numbers)
            (finding,) = group_findings(numbers.groups, np.full(values, 500), "merge them")
            assert "group of its own" in finding.text


def test_a_label_of_very_many_numbers_and_groups_of_numbers_and_a_dash_are_refused():
    frame = pd.DataFrame({"y": np.arange(4_000) % 40, "s": np.arange(4_000) % 2, "x": np.arange(4_000.0)})
    with pytest.raises(RoleError, match=r'label \'y\' has 40 different numbers.*"y>=20", or cut it'):
        check_roles(Table.from_frame(frame, label="y", sensitive="s"))
    frame["y"] = frame["y"].astype(str).where(frame["x"] > 50, "-")
    with pytest.raises(RoleError, match=r'40 different numbers.*--missing -.*"y>=20"'):
        check_roles(Table.from_frame(frame, label="s", sensitive="y"))


def test_groups_that_differ_in_case_only_are_pointed_out():
    frame = pd.DataFrame({"y": np.arange(4_000) % 2, "s": np.array(["f", "m", "F"])[np.arange(4_000) % 3], "x": 1.0})
    (finding,) = group_findings(Table.from_frame(frame, label="y", sensitive="s").groups, np.full(3, 500), "")
    assert finding.text.startswith("'F' and 'f' differ in upper and lower case only")


def test_small_groups_are_named_with_the_bound_that_they_allow():
    (finding,) = group_findings(table().groups, np.array([1_000, 64]), "merge them")
    assert "'b' (64)" in finding.text
    assert "0.10" in finding.text
