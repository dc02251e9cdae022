"""Checks of numeric and boolean arguments, at the door."""

import math
import numbers
from typing import Any

import numpy as np


def whole_number(name: str, value: Any, least: int) -> int:
    """Check an argument that counts something; whole floats such as 1e6 are fine.

    Raises:
        TypeError: it is not a whole number.
        ValueError: it is below ``least``.
    """
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value != int(value):
        raise TypeError(f"{name}={value!r} must be a whole number of at least {least}.")
    if value < least:
        raise ValueError(f"{name}={value!r} must be at least {least}.")
    return int(value)


def check_range(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    finite: bool = False,
) -> None:
    """Check a numeric hyperparameter.

    Raises:
        TypeError: it is not a number.
        ValueError: it lies outside [low, high] (or (low, high]), is NaN, or is infinite where it
            must be ``finite``.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r} must be a number.")
    number = float(value)
    too_low = number <= low if open_low else number < low
    if math.isnan(number) or too_low or number > high:
        bracket = "(" if open_low else "["
        raise ValueError(f"{name}={value!r} must lie in {bracket}{low:g}, {high:g}].")
    if finite and math.isinf(number):
        raise ValueError(f"{name}={value!r} must be finite.")


def true_or_false(name: str, value: Any) -> None:
    """Check a switch: a word such as "false" would turn it on.

    Raises:
        TypeError: it is neither.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}={value!r} must be True or False.")
