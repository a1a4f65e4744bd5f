"""Format numbers rounded to the safe side: bounds up, lower bounds and confidences down."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction


def round_up(value: float, digits: int = 4) -> str:
    """Return decimal text that is never below the value as it is written: 0.1 is shown as 0.1000.

    The nearest binary number may be above 0.1 by 10⁻¹⁷, which the margins of the bounds cover.
    """
    return str(Decimal(repr(float(value))).quantize(Decimal(10) ** -digits, ROUND_CEILING))


def round_down(value: float, digits: int = 4) -> str:
    """Return decimal text that is never above the value as it is written."""
    return str(Decimal(repr(float(value))).quantize(Decimal(10) ** -digits, ROUND_FLOOR))


def confidence_text(confidence: float) -> str:
    """Return a confidence such as "0.95", rounded down, with at least three digits of its distance from 1."""
    return f"{_shown(confidence):f}"


def percent(confidence: float) -> str:
    """Return a confidence such as "95 %", rounded like :func:`confidence_text`."""
    return f"{(100 * _shown(confidence)).normalize():f} %"


def percent_up(rate: float) -> str:
    """Return a share such as "13.3 %", rounded up."""
    return f"{(100 * Decimal(repr(float(rate)))).quantize(Decimal('0.1'), ROUND_CEILING).normalize():f} %"


def round_up_digits(number: float, digits: int) -> int:
    """Round a number up to some leading digits, with zeros behind them.

    >>> round_up_digits(5834, 3), round_up_digits(12.3, 2)
    (5840, 13)
    """
    whole = math.ceil(number)
    unit: int = 10 ** max(0, len(str(whole)) - digits)
    return -(-whole // unit) * unit


def _shown(confidence: float) -> Decimal:
    # The number as written, not the nearest binary number: 0.95, not 0.94999…
    value = Decimal(repr(float(confidence)))
    places = max(5 - value.adjusted(), 2 - (1 - value).adjusted())
    return value.quantize(Decimal(1).scaleb(-places), ROUND_FLOOR).normalize()


def written(value: float) -> Fraction:
    """Return a number as it is written: 0.8, not the nearest binary number. Margins of the bounds cover 10⁻¹⁶."""
    return Fraction(repr(float(value)))


def at_least(value: Fraction) -> float:
    """Return the smallest float that, as it is written, is not below the value."""
    nearest = float(value)
    return nearest if written(nearest) >= value else math.nextafter(nearest, math.inf)
