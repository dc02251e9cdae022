"""How much to explore: schedules over iterations, spreads over environments."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def ramp(itr: int, begin: float, end: float) -> float:
    """Progress from 0 at ``begin`` to 1 at ``end``, linear between, constant before and after.

    A ramp without length (``end`` not after ``begin``) is a step right after ``begin``.
    """
    if end <= begin:
        return float(itr > begin)
    return min(1.0, max(0.0, (itr - begin) / (end - begin)))


def annealed(itr: int, begin: float, end: float, first: Any, last: Any) -> Any:
    """From ``first`` at iteration ``begin`` to ``last`` at ``end``, linearly; numbers or arrays."""
    progress = ramp(itr, begin, end)
    return progress * last + (1 - progress) * first


def log_spaced(low: float, high: float, n: int) -> NDArray[np.float64]:
    """n numbers from ``low`` to ``high``, evenly spaced in their logarithm; n = 1: ``low``.

    Environments that differ so in their epsilon cover all scales (Horgan et al. 2018, Ape-X).

    Raises:
        ValueError: not 0 < low <= high.
    """
    if not 0 < low <= high:
        raise ValueError(f"log-spaced values need 0 < low <= high, got low={low} and high={high}.")
    return np.geomspace(low, high, n)
