"""Build the observation spaces of wrappers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.spaces.base import Space
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox


def parts_of(space: Space) -> Composite | None:
    """Return the composite space that ``space`` is or wraps; ``None`` for a space of arrays."""
    for candidate in (space, getattr(space, "space", None)):
        if isinstance(candidate, Composite):
            return candidate
    return None


def map_leaves(space: Space, func: Callable[[Space], Space]) -> Space:
    """Return the space with ``func`` applied to each part that is not composite, in order."""
    composite = parts_of(space)
    if composite is None:
        return func(space)
    mapped = [map_leaves(part, func) for part in composite.spaces]
    return Composite(mapped, type(composite.null_value()))


def box_of(space: Space, low: NDArray[Any], high: NDArray[Any], shape: tuple[int, ...]) -> Space:
    """Return a box of the space's dtype with inclusive bounds; one pair of them for integers."""
    dtype = np.dtype(space.dtype)
    if dtype.kind == "f":
        return FloatBox(low, high, shape, dtype=dtype)
    return IntBox(int(np.min(low)), int(np.max(high)) + 1, shape, dtype=dtype)


def bounds_of(space: Space) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the inclusive bounds as arrays of the space's shape."""
    high = space.high - 1 if isinstance(space, IntBox) else space.high
    return np.broadcast_to(space.low, space.shape), np.broadcast_to(high, space.shape)
