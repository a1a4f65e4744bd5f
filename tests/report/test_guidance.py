"""Example rules and recommended actions of a report."""

import pytest

from certifare import CellCounts, certify_counts
from certifare.certificates import Exclusion
from certifare.document import make_statement, new_key, sign
from certifare.report import report_data


def cells(shares):
    return [
        {"cell": i, "rules": [], "records": 100, "labels": {"paid": {"no": 1 - s, "yes": s}}}
        for i, s in enumerate(shares)
    ]


def described(shares):
    return {"kind": "fair tree", "reads_groups": False, "cells": cells(shares), "nodes": None, "map": None}


COUNTS = CellCounts([[600, 500], [300, 300], [100, 200]], groups=["f", "m"])


def test_the_example_selects_the_cells_where_most_have_the_rarer_label():
    data = report_data(certify_counts(COUNTS), encoder=described([0.1, 0.2, 0.7]))["example"]

    assert "at least 50 % of the training records have paid = yes" in data["rules"][0]["words"]
    assert [group["rates"][0] for group in data["groups"]] == pytest.approx([0.1, 0.2])


def test_the_other_rule_has_the_distance_of_the_sample():
    certificate = certify_counts(COUNTS)
    data = report_data(certificate, encoder=described([0.1, 0.2, 0.3]))["example"]

    assert "at least 30 % of" in data["rules"][0]["words"]  # no cell has half: the best one
    first, second = (group["rates"][1] for group in data["groups"])
    assert first - second == pytest.approx(certificate.estimate)


def test_without_statistics_only_the_most_unequal_rule_is_shown():
    assert len(report_data(certify_counts(COUNTS))["example"]["rules"]) == 1


def test_actions_follow_from_what_was_found(tmp_path):
    certificate = certify_counts(CellCounts(COUNTS.table, COUNTS.groups, None, [Exclusion("group missing", 400)]))
    unsigned = " ".join(report_data(certificate)["actions"])
    assert "certifare sign" in unsigned
    assert "of the certification records were left out" in unsigned
    assert "certifare monitor" in unsigned

    private, _ = new_key(tmp_path / "k")
    signed = sign(make_statement(certify_counts(COUNTS), terms={"valid_until": "2999-12-31"}), private)
    actions = " ".join(report_data(signed)["actions"])
    assert "certifare sign" not in actions
    assert "Get the producer's public key" in actions
    assert "before 2999-12-31" in actions
    assert "left out" not in actions

    expired = sign(make_statement(certify_counts(COUNTS), terms={"valid_until": "2020-01-01"}), private)
    data = report_data(expired, target=0.9)
    assert data["actions"][0].startswith("Do not rely on this certificate")
    assert data["target"]["met"] is False
