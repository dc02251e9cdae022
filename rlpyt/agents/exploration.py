"""Schedules of exploration over iterations, and its distribution over environments."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def ramp(itr: int, begin: float, end: float) -> float:
    """Return progress, linear from 0 at ``begin`` to 1 at ``end``, constant outside.

    If ``end`` is not after ``begin``, it is 0 up to ``begin`` and 1 afterwards.
    """
    if end <= begin:
        return float(itr > begin)
    return min(1.0, max(0.0, (itr - begin) / (end - begin)))


def annealed(itr: int, begin: float, end: float, first: Any, last: Any) -> Any:
    """Interpolate numbers or arrays between ``first`` at ``begin`` and ``last`` at ``end``."""
    progress = ramp(itr, begin, end)
    return progress * last + (1 - progress) * first


def log_spaced(low: float, high: float, n: int) -> NDArray[np.float64]:
    """Return n numbers from ``low`` to ``high``, evenly spaced in the logarithm; n = 1: ``low``.

    Epsilons spaced like this cover all scales of exploration (Horgan et al. 2018, Ape-X).

    Raises:
        ValueError: 0 < low <= high does not hold.
    """
    if not 0 < low <= high:
        raise ValueError(
            f"low and high must satisfy 0 < low <= high, got low={low} and high={high}."
        )
    return np.geomspace(low, high, n)
