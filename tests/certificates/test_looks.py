"""Looks at the same records: what each spends, and the confidence with which all hold together, to the last digit."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare import CellCounts, certify_counts
from certifare.certificates.looks import MAX_LOOKS, Look, confidence_of_look
from certifare.errors import ArgumentError, DocumentError

#: Confidences as people write them, with up to six digits.
confidences = st.integers(500_000, 999_999).map(lambda n: n / 10**6)


def written(number):
    """The number as it is written, without binary noise."""
    return Fraction(repr(number))


@given(confidences, st.integers(1, MAX_LOOKS))
def test_planned_looks_spend_what_was_asked_for_and_no_more(confidence, planned):
    """Each has its ε rounded down in the sixth digit, so all of them spend at most a 100,000th less."""
    share = 1 - written(confidence_of_look(confidence, planned))
    asked = 1 - written(confidence)
    assert asked * (1 - Fraction(1, 10**5)) < planned * share <= asked
    exact = asked / planned
    digits = Fraction(Decimal(1).scaleb(Decimal(float(exact)).adjusted() - 5))
    assert exact - digits < share <= exact


def test_shares_of_planned_looks_by_hand():
    assert confidence_of_look(0.95, 1) == 0.95
    assert confidence_of_look(0.95, 2) == 0.975
    assert confidence_of_look(0.95, 3) == 0.9833334  # ε = .0166666
    assert confidence_of_look(0.95, 7) == 0.99285715  # ε = .00714285
    assert confidence_of_look(0.95, MAX_LOOKS) == 0.99995
    assert confidence_of_look(0.9, None) == 0.9
    assert confidence_of_look(0.5, 3) == 0.833334


@pytest.mark.parametrize("planned", [0, -1, MAX_LOOKS + 1, True, 2.0, "2"])
def test_numbers_of_looks_that_nobody_plans_are_refused(planned):
    with pytest.raises(ArgumentError, match="from 1 to 1,000"):
        confidence_of_look(0.95, planned)


@given(confidences, st.integers(1, 40), st.data())
def test_a_planned_look_holds_together_with_all_that_are_planned(confidence, planned, data):
    """Whichever of them it is: what earlier ones spent, its own ε, and that of those to come are one sum."""
    number = data.draw(st.integers(1, planned))
    share = 1 - written(confidence)
    spent = float(share * (number - 1))
    joint = Look(number=number, spent=spent, planned=planned).joint(confidence)
    assert Fraction(joint) == pytest.approx(max(Fraction(0), 1 - planned * share), abs=1e-15)


@pytest.mark.parametrize("planned", [1, 2, 3, 12, 1000])
def test_all_planned_looks_together_have_the_confidence_that_was_asked_for(planned):
    each = confidence_of_look(0.95, planned)
    look = Look(number=1, planned=planned)
    for number in range(1, planned + 1):
        assert (look.number, look.planned) == (number, planned)
        assert 0.95 <= look.joint(each) <= 0.95 + 0.05 / 10**5
        following = look.next(each)
        assert following.number == number + 1
        assert written(following.spent) == number * (1 - written(each))
        look = Look(number=following.number, spent=following.spent, planned=planned)


def test_looks_by_hand():
    """A look of 95 %, one of 99 %, then one of 90 %."""
    assert Look(number=1).joint(0.95) == 0.95
    second = Look(number=1).next(0.95)
    assert second == Look(number=2, spent=0.05)
    assert second.joint(0.99) == 0.94
    third = second.next(0.99)
    assert third == Look(number=3, spent=0.06)
    assert third.joint(0.9) == 0.84
    # Two of three are still to come.
    assert Look(number=2, spent=0.05, planned=3).joint(0.99) == 0.93
    assert Look(number=3, spent=0.05, planned=3).joint(0.99) == 0.94


def test_many_looks_have_no_confidence_left_and_never_less_than_none():
    assert Look(number=20, spent=0.95).joint(0.95) == 0.0
    assert Look(number=20, spent=0.94).joint(0.95) == 0.01
    assert Look(number=40, spent=1.95).joint(0.95) == 0.0
    with pytest.raises(ArgumentError):
        Look(number=1).joint(0.4)


def test_a_certificate_has_the_joint_confidence_of_its_look():
    certificate = certify_counts(CellCounts([[1200, 800], [300, 600]], groups=["f", "m"]), confidence=0.98)
    assert certificate.joint_confidence == 0.98
    assert certificate.at_look(Look(number=1)).joint_confidence == 0.98
    assert certificate.at_look(Look(number=3, spent=0.07)).joint_confidence == 0.91
    assert certificate.at_look(Look(number=1, planned=5)).joint_confidence == 0.9
    assert certificate.at_look(Look(number=4, spent=0.06, planned=5)).joint_confidence == 0.9


@pytest.mark.parametrize(
    ("look", "words"),
    [
        ({"number": 0}, "numbered from 1"),
        ({"number": 2, "spent": -0.01}, "numbered from 1"),
        ({"number": 2, "spent": float("inf")}, "numbered from 1"),
        ({"number": 2, "spent": float("nan")}, "numbered from 1"),
        ({"number": 1, "spent": 0.01}, "earlier looks spent"),
        ({"number": 2}, "earlier looks spent"),
        ({"number": 3, "spent": 0.1, "planned": 2}, "look 3 of 2"),
        ({"number": 1, "planned": 0}, "look 1 of 0"),
        ({"number": 1, "planned": MAX_LOOKS + 1}, "look 1 of 1001"),
    ],
)
def test_looks_that_contradict_themselves_are_refused(look, words):
    with pytest.raises(DocumentError, match=words):
        Look(**look).check(0.95)


@pytest.mark.parametrize(
    "look",
    [
        {"number": 1},
        {"number": 1, "planned": 1},
        {"number": 2, "spent": 1e-6},
        {"number": 2, "spent": 0.05, "planned": 2},
        {"number": 1, "planned": MAX_LOOKS},
        {"number": 90, "spent": 4.5},
    ],
)
def test_looks_that_are_possible_are_accepted(look):
    Look(**look).check(0.95)


@pytest.mark.parametrize(
    ("confidence", "least"), [(0.95, 1e-6), (0.5, 1e-6), (0.999999, 1e-6), (0.99999999, 1e-8), (0.9999999, 1e-7)]
)
def test_an_earlier_look_counts_with_a_millionth_at_least_unless_this_one_is_surer(confidence, least):
    for number in (2, 3, 100):
        look = Look(number=number, spent=0.1)
        assert look.least_spent(confidence) == pytest.approx((number - 1) * least, rel=1e-12, abs=0.0)
        for share, accepted in ((1.0, True), (1 - 0.9e-9, True), (1 - 1.1e-9, False), (0.5, False)):
            look = Look(number=number, spent=(number - 1) * least * share)
            if accepted:
                look.check(confidence)
            else:
                with pytest.raises(DocumentError, match="earlier looks spent no more"):
                    look.check(confidence)
    assert Look(number=1).least_spent(confidence) == 0.0
