"""Checks of numeric and boolean arguments."""

import dataclasses
import math
import numbers
from typing import Any

MOST = 2**64 - 1  # of any count; greater ones are mistakes


def whole_number(name: str, value: Any, least: int = -MOST) -> int:
    """Return an argument that counts something as an int; whole floats such as 1e6 are accepted.

    Raises:
        TypeError: `value` is not a whole number.
        ValueError: `value` is below `least`, or beyond 64 bits.
    """
    value = scalar(value)
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value != int(value):
        bound = f" of at least {least}" if least > -MOST else ""
        raise TypeError(f"{name}={value!r} must be a whole number{bound}.")
    if value < least:
        raise ValueError(f"{name}={value!r} must be at least {least}.")
    if value > MOST:
        raise ValueError(f"{name}={value!r} must be at most {MOST}.")
    return int(value)


def scalar(value: Any) -> Any:
    """Return the Python number in a numpy or torch scalar or 0-d array; others as they are."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


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
    value = scalar(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r} must be a number.")
    number = float(value)
    too_low = number <= low if open_low else number < low
    if math.isnan(number) or too_low or number > high:
        bracket = "(" if open_low else "["
        raise ValueError(f"{name}={value!r} must lie in {bracket}{low:g}, {high:g}].")
    if finite and math.isinf(number):
        raise ValueError(f"{name}={value!r} must be finite.")


def true_or_false(name: str, value: Any) -> bool:
    """Return a switch as a bool; 1 and 0 are accepted, and strings such as "false" are not.

    Raises:
        TypeError: `value` is none of True, False, 1 and 0.
    """
    value = scalar(value)
    if not isinstance(value, bool | int | float) or value not in (0, 1):
        raise TypeError(f"{name}={value!r} must be True or False.")
    return bool(value)


def check_switches(settings: Any) -> None:
    """Check the boolean fields of a dataclass, and store them as bools.

    Raises:
        TypeError: a field is none of True, False, 1 and 0.
    """
    for item in dataclasses.fields(settings):
        if item.type in (bool, "bool"):
            setattr(settings, item.name, true_or_false(item.name, getattr(settings, item.name)))
