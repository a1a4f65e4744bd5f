import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare import CellCounts, certify_counts
from certifare.certificates.bounding import Evidence
from certifare.certificates.claims import Claim
from certifare.certificates.issuing import issue
from certifare.certificates.looks import Look
from certifare.certificates.wording import plain_claim

TWO = CellCounts([[1200, 800], [300, 600]], groups=["f", "m"])
LABELLED = CellCounts(np.full((2, 3, 2), 400), groups=["a", "b", "c"], labels=["0", "1"])


def test_the_claim_is_in_percentage_points_rounded_up():
    words = plain_claim(certify_counts(TWO))
    assert words.startswith("Selection rates of 'f' and 'm' differ by at most 25.9 percentage points")
    assert words.endswith("(95 % confidence).")


def test_the_confidence_is_that_of_all_looks_together():
    assert plain_claim(certify_counts(TWO).at_look(Look(number=2, spent=0.05))).endswith("(90 % confidence).")


@pytest.mark.parametrize(
    ("metric", "beginning"),
    [
        ("demographic_parity", "Selection rates of any two of 'a', 'b' and 'c' differ"),
        ("equal_opportunity", "Among records with the label '1', selection rates of any two of 'a', 'b' and 'c'"),
        ("equalized_odds", "On average over the labels, selection rates of any two of 'a', 'b' and 'c'"),
        ("equalized_odds_max", "Within each label, selection rates of any two of 'a', 'b' and 'c'"),
    ],
)
def test_every_metric_says_whom_it_is_about(metric, beginning):
    counts = LABELLED if metric != "demographic_parity" else CellCounts(LABELLED.table.sum(2), groups=["a", "b", "c"])
    assert plain_claim(certify_counts(counts, metric=metric)).startswith(beginning)


@pytest.mark.parametrize(
    ("few", "beginning"),
    [
        ([], "Within each value of 'product', selection rates of 'f' and 'm'"),
        (["b", "c"], "Within each value of 'product' except 'b' and 'c', selection rates"),
        (list("bcdefg"), "Within each value of 'product' except 6 small ones, selection rates"),
    ],
)
def test_values_that_are_not_claimed_are_excepted(few, beginning):
    counts = CellCounts(
        np.stack([np.full((2, 2), 400)] + [np.full((2, 2), 3)] * len(few), axis=2), ["f", "m"], ["a", *few]
    )
    certificate = issue(Evidence(counts), Claim(given="product"))
    assert plain_claim(certificate).startswith(beginning)
    assert ("each claimed value of" in str(certificate)) == bool(few)
    assert any("of one claimed value of 'product'" in words for words in certificate.what_follows()) == bool(few)


def test_no_bound_is_said_to_be_none():
    counts = CellCounts([[30, 0], [0, 30]], groups=["f", "m"])
    assert plain_claim(certify_counts(counts)).startswith("No limit on the difference of selection rates")


@given(first=st.integers(30, 400), second=st.integers(30, 400))
def test_the_percentage_points_are_never_below_t_star(first, second):
    certificate = certify_counts(CellCounts([[first, second], [430 - first, 430 - second]], groups=["a", "b"]))
    said = Decimal(re.search(r"at most ([\d.]+) percentage point", plain_claim(certificate))[1])
    assert certificate.bound <= float(said) / 100 <= certificate.bound + 0.0012


def test_long_names_and_many_groups_are_counted_instead_of_named():
    long = certify_counts(CellCounts([[900, 800], [300, 600]], groups=["a" * 50, "b"]))
    many = certify_counts(CellCounts(np.full((2, 6), 400), groups=list("abcdef")))
    assert plain_claim(long).startswith("Selection rates of the two groups differ")
    assert plain_claim(many).startswith("Selection rates of any two of the 6 groups differ")
