"""What a figure is, and ways to print it."""

from __future__ import annotations

import math

Figure = tuple[str, str, str]  # the system, its documented figure, the computed one


def percent(rate: float) -> str:
    """A rate in per cent with three digits and no exponent.

    >>> percent(0.0099999), percent(1.0), percent(0.0000123)
    ('1.00 %', '100 %', '0.00123 %')
    """
    if rate <= 0.0:
        return "0 %"
    rounded = float(f"{rate * 100:.2e}")
    digits = max(0, 2 - math.floor(math.log10(rounded)))
    return f"{rounded:.{digits}f} %"


def yes_and_no(answers: list[bool]) -> str:
    """How many of the answers were right."""
    return f"{sum(answers)} of {len(answers)}"
