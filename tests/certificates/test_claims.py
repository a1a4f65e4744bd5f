"""A claim is checked once, and says what follows from it."""

import pytest

from certifare.certificates import CellCounts, Claim, certify_counts
from certifare.certificates.bounding import Evidence
from certifare.certificates.claims import METRICS
from certifare.certificates.issuing import issue
from certifare.errors import ArgumentError, GroupError

BY_LABEL = CellCounts([[[500, 90], [480, 60]], [[500, 60], [520, 90]]], ["f", "m"], ["no", "yes"])


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"metric": "parity"}, ArgumentError),
        ({"confidence": 95}, ArgumentError),
        ({"confidence": 0.3}, ArgumentError),
        ({"method": "guess"}, ArgumentError),
        ({"candidates": 0}, ArgumentError),
        ({"candidates": 1.5}, ArgumentError),
        ({"population": "towns"}, ArgumentError),
    ],
)
def test_a_claim_that_nobody_can_prove_is_refused(keywords, error):
    with pytest.raises(error):
        Claim(**keywords)


def test_a_claim_knows_its_strata_and_its_share_of_epsilon():
    assert Claim().strata(BY_LABEL) == (None,)
    assert not Claim().labelled
    odds = Claim(metric="equalized_odds", confidence=0.9, candidates=5)
    assert odds.strata(BY_LABEL) == ("no", "yes")
    assert odds.epsilon(("no", "yes")) == pytest.approx(0.01)
    assert Claim(metric="equalized_odds_max", confidence=0.9).epsilon(("no", "yes")) == pytest.approx(0.1)
    assert Claim(metric="equal_opportunity").strata(BY_LABEL) == ("yes",)
    assert Claim(metric="equal_opportunity", positive="no").strata(BY_LABEL) == ("no",)
    with pytest.raises(ArgumentError):
        odds.strata(BY_LABEL.without_labels())
    with pytest.raises(ArgumentError):
        Claim(metric="equal_opportunity", positive="perhaps").strata(BY_LABEL)


def test_the_positive_label_is_known_by_its_name():
    assert Claim(positive=1.0).positive == Claim(positive=1).positive == "1"


def test_groups_that_are_too_small_are_refused():
    assert Claim(min_group_size=1110).check(BY_LABEL.without_labels()) == (None,)
    with pytest.raises(GroupError):
        Claim(metric="equal_opportunity", min_group_size=151).check(BY_LABEL)
    with pytest.raises(GroupError):
        Claim(min_group_size=0).check(CellCounts([[3, 0]], ["f", "m"]))


@pytest.mark.parametrize("metric", METRICS)
def test_a_certificate_has_the_claim_that_made_it(metric):
    claim = Claim(metric=metric, confidence=0.9, candidates=3)
    certificate = issue(Evidence(BY_LABEL), claim)
    assert certificate == certify_counts(BY_LABEL, metric, 0.9, candidates=3)
    assert (certificate.claim.metric, certificate.claim.confidence, certificate.claim.candidates) == (metric, 0.9, 3)
    assert certificate.claim.labelled == (metric != "demographic_parity")
    assert certificate.verify() is certificate
