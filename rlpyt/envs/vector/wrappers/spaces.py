"""Spaces of what wrappers return, from those of what they are given."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox


def parts_of(space: Any) -> Composite | None:
    """Return the composed space that this is, or wraps; ``None`` if it is one of plain arrays."""
    for candidate in (space, getattr(space, "space", None)):
        if isinstance(candidate, Composite):
            return candidate
    return None


def map_leaves(space: Any, func: Callable[[Any], Any]) -> Any:
    """Return the space with ``func(part)`` for each part that is not composed, in order."""
    composite = parts_of(space)
    if composite is None:
        return func(space)
    mapped = [map_leaves(part, func) for part in composite.spaces]
    return Composite(mapped, type(composite.null_value()))


def box_of(space: Any, low: Any, high: Any, shape: tuple[int, ...]) -> Any:
    """Return a box of the space's dtype; bounds are inclusive, and one pair for integers."""
    dtype = np.dtype(space.dtype)
    if dtype.kind == "f":
        return FloatBox(low, high, shape, dtype=dtype)
    return IntBox(int(np.min(low)), int(np.max(high)) + 1, shape, dtype=dtype)


def bounds_of(space: Any) -> tuple[Any, Any]:
    """Return arrays of the inclusive bounds, of the space's shape."""
    high = space.high - 1 if isinstance(space, IntBox) else space.high
    return np.broadcast_to(space.low, space.shape), np.broadcast_to(high, space.shape)
