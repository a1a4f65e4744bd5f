"""Numbers rounded to the safe side."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certifare.certificates.rounding import (
    at_least,
    confidence_text,
    percent,
    percent_up,
    round_down,
    round_up,
    round_up_digits,
    written,
)


@given(st.floats(0, 1), st.integers(1, 9))
def test_figures_are_rounded_to_the_safe_side_by_less_than_their_last_digit(value, digits):
    exact, unit = Fraction(repr(value)), Fraction(1, 10**digits)
    assert exact - unit < Fraction(round_down(value, digits)) <= exact
    assert exact <= Fraction(round_up(value, digits)) < exact + unit


def test_figures_have_four_digits_and_are_rounded_as_they_are_written():
    assert (round_down(0.1), round_up(0.1)) == ("0.1000", "0.1000")
    assert (round_down(0.12345), round_up(0.12341)) == ("0.1234", "0.1235")
    assert percent_up(0.1323001) == "13.3 %"
    assert (percent_up(0.1), percent_up(0.0001), percent_up(0.0)) == ("10 %", "0.1 %", "0 %")


@pytest.mark.parametrize(
    ("confidence", "text", "shown"),
    [
        (0.95, "0.95", "95 %"),
        (0.99999996, "0.99999996", "99.999996 %"),
        (1 - 2**-53, "0.9999999999999999", "99.99999999999999 %"),
        (1 - 0.05 / 3, "0.983333", "98.3333 %"),
        (0.9, "0.9", "90 %"),
        (0.99912345678, "0.999123", "99.9123 %"),
        (0.999912345, "0.9999123", "99.99123 %"),
        (0.09, "0.09", "9 %"),
        (0.0123456789, "0.0123456", "1.23456 %"),
    ],
)
def test_no_confidence_is_rounded_up(confidence, text, shown):
    assert (confidence_text(confidence), percent(confidence)) == (text, shown)


@given(st.floats(0.5, 1, exclude_max=True))
def test_confidence_in_words_is_never_above_it(confidence):
    exact = Decimal(repr(confidence))
    for shown in (Decimal(confidence_text(confidence)), Decimal(percent(confidence)[:-2]) / 100):
        assert exact - (1 - exact) / 100 <= shown <= exact


@given(st.fractions(-2, 2))
def test_the_smallest_float_that_is_not_below_a_value(value):
    found = at_least(value)
    assert written(math.nextafter(found, -math.inf)) < value <= written(found)


def test_numbers_of_records_are_rounded_up_to_three_digits():
    numbers = (0, 7, 998.2, 999.2, 1_000, 1_000.5, 1_001, 123_000, 123_001)
    rounded = [0, 7, 999, 1_000, 1_000, 1_010, 1_010, 123_000, 124_000]
    assert [round_up_digits(number, 3) for number in numbers] == rounded


def test_a_number_is_taken_as_it_is_written():
    assert written(0.8) == Fraction(4, 5)
    assert at_least(Fraction(4, 5)) == 0.8
