"""The plain headline is never too small, and says whose rates are compared."""

import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certifare import CellCounts, certify_counts
from certifare.certificates.headline import plain_headline


@settings(max_examples=40)
@given(first=st.integers(30, 400), second=st.integers(30, 400))
def test_the_headline_is_never_below_t_star(first, second):
    certificate = certify_counts(CellCounts([[first, second], [430 - first, 430 - second]], groups=["a", "b"]))
    said = Decimal(re.search(r"at most ([\d.]+) percentage points", plain_headline(certificate))[1])
    assert certificate.bound <= float(said) / 100 <= certificate.bound + 0.0012


def labelled(metric):
    counts = CellCounts(np.arange(24).reshape(4, 3, 2) * 20 + 30, groups=["x", "y", "z"], labels=["no", "yes"])
    return certify_counts(counts, metric)


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        (certify_counts(CellCounts([[300, 0], [0, 300]], groups=["a", "b"])), "No bound could be certified"),
        (
            certify_counts(CellCounts([[900, 800], [300, 600]], groups=["a" * 50, "b"])),
            "rates of the two groups differ",
        ),
        (labelled("demographic_parity"), "Selection rates of any two of the 3 groups"),
        (labelled("equal_opportunity"), "Among records with the label yes, selection rates"),
        (labelled("equalized_odds"), "On average over the labels, selection rates"),
        (labelled("equalized_odds_max"), "Within each label, selection rates"),
    ],
)
def test_the_headline_says_whose_rates_are_compared(certificate, words):
    assert words in plain_headline(certificate)
