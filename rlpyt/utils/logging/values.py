"""Conversion of Python, numpy and torch values to logged numbers, without importing torch."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

STATISTICS: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "Average": np.mean,
    "Std": np.std,
    "Median": np.median,
    "Min": np.min,
    "Max": np.max,
}


def statistics(name: str, values: Any) -> dict[str, float]:
    """Return the statistics of a set of numbers by name, all NaN for an empty set.

    Raises:
        TypeError: ``values`` are not numbers; the message contains ``name``.
    """
    numbers = _numbers(name, values)
    with np.errstate(invalid="ignore"):  # the standard deviation of infinities is NaN
        return {
            statistic: float(function(numbers)) if numbers.size else math.nan
            for statistic, function in STATISTICS.items()
        }


def plain_value(name: str, value: Any) -> int | float | str:
    """Return a Python number or string; None becomes NaN, a bool 0 or 1.

    Raises:
        TypeError: `value` is an array of several numbers; the message contains ``name``.
    """
    if value is None:
        return math.nan
    if hasattr(value, "item"):
        if math.prod(value.shape) != 1:
            raise TypeError(
                f"record_tabular({name!r}) got an array of shape {tuple(value.shape)}; expected "
                "one number (for several use record_tabular_misc_stat)."
            )
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, (int, float)) else str(value)


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    if isinstance(values, (list, tuple)):
        values = [_as_array(value) for value in values]
    try:
        return np.asarray(_as_array(values), dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"record_tabular_misc_stat({name!r}) expected numbers, got {values!r:.200}."
        ) from error


def _as_array(value: Any) -> Any:
    """Return a torch tensor of any device and dtype as a numpy array, other values unchanged."""
    return value.detach().double().cpu().numpy() if hasattr(value, "detach") else value
