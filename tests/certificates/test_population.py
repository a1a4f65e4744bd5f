"""Whom a claim is about."""

import msgspec
import numpy as np
import pandas as pd
import pytest
from tests.certificates.given import Given

from certifare import CellCounts, certify, certify_counts
from certifare.certificates import Certificate, Exclusion
from certifare.certificates.population import BY_WEIGHT, ONE_OF_CLUSTER, draw_of
from certifare.errors import ArgumentError, DocumentError, GroupError, TableError


def people(n=4000, seed=0):
    """Whoever has no label differs: there the groups part by cell."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    unlabelled = rng.random(n) < 0.5
    cell = (rng.random(n) < np.where(unlabelled, 0.2 + 0.6 * group, 0.5)).astype(int)
    label = np.where(unlabelled, np.nan, rng.integers(0, 2, n))
    return pd.DataFrame({"cell": cell, "group": group, "label": label, "person": np.arange(n) // 2})


def test_demographic_parity_counts_records_without_a_label():
    """Dropping them gave a bound of about .06 where the distance is .3."""
    records = people()
    certificate = certify(Given(), records, records["label"])
    assert certificate.counts.n_records == len(records)
    assert certificate.bound > 0.3
    assert certificate == certify(Given(), records)
    assert certificate.population == ()
    assert "among" not in str(certificate)


def test_metrics_that_look_at_labels_leave_them_out_and_say_so():
    records = people()
    with pytest.raises(TableError, match="lack a label"):
        certify(Given(), records, records["label"], metric="equal_opportunity")
    certificate = certify(Given(), records, records["label"], metric="equal_opportunity", missing="drop")
    assert certificate.population == ("with a known label",)
    assert certificate.exclusions == (Exclusion("label missing", int(records["label"].isna().sum())),)
    assert "confidence among records with a known label (" in str(certificate)
    assert Certificate.from_dict(certificate.to_dict()) == certificate
    certificate.verify()


def test_records_that_are_left_out_take_no_part_in_a_draw():
    records = people()
    certificate = certify(
        Given(), records, records["label"], metric="equalized_odds", missing="drop", clusters=records["person"]
    )
    labelled = records[records["label"].notna()]
    assert certificate.counts.n_records == labelled["person"].nunique()
    assert certificate.population == ("with a known label", "drawn one at random from each cluster")


@pytest.mark.parametrize(
    ("options", "population"),
    [
        ({}, ()),
        ({"weights": "w"}, ("in proportion to their weights",)),
        ({"clusters": "person"}, ("drawn one at random from each cluster",)),
        ({"clusters": "person", "population": "records"}, ()),
        (
            {"clusters": "person", "weights": "w"},
            ("drawn one at random from each cluster", "in proportion to their weights"),
        ),
        ({"clusters": "person", "weights": "w", "population": "records"}, ("in proportion to their weights",)),
        ({"missing": "drop"}, ("with a known group",)),
        ({"missing": "unknown"}, ()),
    ],
)
def test_every_population(options, population):
    records = people().assign(w=np.tile([0.5, 1.0], 2000), group=lambda table: table["group"].astype(float))
    if "missing" in options:
        records.loc[:99, "group"] = np.nan
    given = {name: records[value] if value in ("w", "person") else value for name, value in options.items()}
    certificate = certify(Given(), records, **given)
    assert certificate.population == population
    certificate.verify()


def test_labelled_counts_that_left_records_out_cannot_stand_for_all():
    records = people()
    counts = CellCounts.from_cells(records["cell"], records["group"], records["label"], 2, missing="drop")
    with pytest.raises(ArgumentError, match="is about all records: count again without a label"):
        certify_counts(counts)
    of_labelled = certify_counts(counts.without_labels())
    assert of_labelled.population == ("with a known label",)
    assert of_labelled.bound < 0.2
    assert certify_counts(counts, "equalized_odds").population == ("with a known label",)


def test_a_certificate_cannot_forget_whom_it_is_about():
    counts = CellCounts([[400, 300], [300, 400]], groups="fm", exclusions=[Exclusion("group missing (before)", 9)])
    certificate = certify_counts(counts)
    assert certificate.population == ("with a known group",)
    with pytest.raises(DocumentError, match="does not say that it is about records with a known group"):
        msgspec.structs.replace(certificate, population=()).verify()
    document = certificate.to_dict()
    for wrong in (["with a known group"] * 2, ["all of them"], "with a known group"):
        with pytest.raises(DocumentError, match="Not a certificate"):
            Certificate.from_dict({**document, "population": wrong})


def test_a_group_that_no_record_was_drawn_of_is_refused_not_forgotten():
    records = people().assign(w=1.0)
    records["group"] = np.where(records.index < 3, 2, records["group"])
    records.loc[:2, "w"] = 0.0
    with pytest.raises(GroupError, match="Group '2' has no records"):
        certify(Given(), records, weights=records["w"])


def test_a_draw_is_said_in_the_order_of_the_phrases():
    assert draw_of(("with a known group", ONE_OF_CLUSTER, BY_WEIGHT)) == (ONE_OF_CLUSTER, BY_WEIGHT)
