"""What the loops of a process know beside the documented arguments of a collector."""

import warnings
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


def fit_info(info: Any, example: Any) -> Any:
    """An ``env_info`` with the fields of the example: missing ones zero, others dropped.

    Environments whose info keys depend on what happens give records that differ between
    instances; memory is laid out for the one that was tried out first.
    """
    odd = sorted(set(example._fields) ^ set(info._fields))
    if odd:
        warnings.warn(
            f"env_info has other fields than in the first environment's first step: {odd}; "
            "missing ones are recorded as zero, others dropped. Give info_example to make it same."
        )
    filled = []
    for name, own in example.items():
        value = getattr(info, name, 0)
        nested = hasattr(own, "_fields") and hasattr(value, "_fields")
        filled.append(fit_info(value, own) if nested else value)
    return type(example)._make(filled)


def bounds_of(space: Any) -> tuple[Array, Array] | None:
    """(low, high) to which continuous actions are clipped for the environment, or ``None``."""
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    dtype = getattr(space, "dtype", None)
    if low is None or high is None or dtype is None or isinstance(low, tuple):
        return None
    if np.dtype(dtype).kind != "f" or not (np.isfinite(low).any() or np.isfinite(high).any()):
        return None
    return np.asarray(low, np.float32), np.asarray(high, np.float32)
