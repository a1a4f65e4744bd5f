"""A claim is checked once, and says what follows from it."""

import pytest

from certifare.certificates import CellCounts, Claim, Witness, certify_counts
from certifare.certificates.bounding import Evidence
from certifare.certificates.claims import METRICS, choose_witnesses, stratum_table
from certifare.certificates.issuing import issue
from certifare.errors import ArgumentError, CountsError, GroupError

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
        ({"candidates": True}, ArgumentError),
        ({"population": "towns"}, ArgumentError),
    ],
)
def test_a_claim_that_nobody_can_prove_is_refused(keywords, error):
    with pytest.raises(error):
        Claim(**keywords)


@pytest.mark.parametrize("population", ["clusters", "records"])
def test_a_claim_is_about_clusters_or_about_records(population):
    assert Claim(population=population).population == population


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


def test_records_of_one_label_are_those_of_the_counts_with_it():
    for label in ("no", "yes"):
        assert stratum_table(BY_LABEL, label).tolist() == BY_LABEL.given_label(label).table.tolist()
    assert stratum_table(BY_LABEL, None).tolist() == [[590, 540], [560, 610]]
    with pytest.raises(CountsError, match="No label 'perhaps'"):
        stratum_table(BY_LABEL, "perhaps")
    with pytest.raises(ArgumentError, match="no labels"):
        stratum_table(BY_LABEL.without_labels(), "yes")


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


def test_witnesses_are_the_cells_of_the_worst_pair_in_other_records():
    """A cell that both groups visit equally often is none of them; of equal pairs the first is chosen."""
    counts = CellCounts([[40, 40, 40]] * 3, "abc")
    other = CellCounts([[30, 20, 60], [20, 20, 40], [10, 20, 20]], "abc")
    assert choose_witnesses(Claim(), counts, other) == (Witness(groups=("a", "b"), label=None, cells=(0,)),)
    # The groups' own order is that of the counts.
    assert choose_witnesses(Claim(), counts, other.of_groups("c", "b", "a"))[0].groups == ("a", "b")


def test_witnesses_need_records_of_both_groups_and_of_the_label():
    counts = CellCounts([[40, 40, 40]] * 2, "abc")
    other = CellCounts([[30, 0, 20], [20, 0, 30]], "abc")
    assert choose_witnesses(Claim(), counts, other) == (Witness(groups=("a", "c"), label=None, cells=(0,)),)
    odds = Claim(metric="equalized_odds")
    assert choose_witnesses(odds, BY_LABEL, BY_LABEL.without_labels()) == ()
    (found,) = choose_witnesses(odds, BY_LABEL, CellCounts([[[90], [60]], [[60], [90]]], ["f", "m"], ["yes"]))
    assert found == Witness(groups=("f", "m"), label="yes", cells=(0,))


def test_a_witness_may_name_its_groups_in_either_order():
    """Cells that the second group visits more often, with the groups exchanged."""
    counts = CellCounts([[400, 100], [100, 500], [50, 60]], "fm")
    exchanged = counts.of_groups("m", "f")
    witness = [Witness(groups=("m", "f"), label=None, cells=(1, 2))]
    found = certify_counts(counts, witness=witness).lower
    assert found == certify_counts(exchanged, witness=witness).lower > 0.4
    assert certify_counts(counts, witness=[Witness(groups=("f", "m"), label=None, cells=(1, 2))]).lower == 0.0


@pytest.mark.parametrize("cells", [(-1,), (3,), (0, 9), (0, 1, 1), (0, 2, 1)])
def test_a_witness_names_cells_that_exist_once_each_and_in_order(cells):
    counts = CellCounts([[40, 50]] * 3, "fm")
    with pytest.raises(ArgumentError, match="once each, in order, from 0 to 2"):
        certify_counts(counts, witness=[Witness(groups=("f", "m"), label=None, cells=cells)])
