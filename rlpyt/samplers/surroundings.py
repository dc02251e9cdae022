"""What the loops of a process know beside the documented arguments of a collector."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass
class Surroundings:
    """What a process knows beside the documented arguments of a collector."""

    seed: int = 0
    # Where the process stands: [environment (row), time step], read by the parent after a failure.
    progress: Any = field(default_factory=lambda: [-1, -1])


def bounds_of(space: Any) -> tuple[Array, Array] | None:
    """(low, high) to which continuous actions are clipped for the environment, or ``None``."""
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    dtype = getattr(space, "dtype", None)
    if low is None or high is None or dtype is None or isinstance(low, tuple):
        return None
    if np.dtype(dtype).kind != "f" or not (np.isfinite(low).any() or np.isfinite(high).any()):
        return None
    return np.asarray(low, np.float32), np.asarray(high, np.float32)
