"""Between a box of actions, with bounds of its own, and the units in which models speak."""

from typing import Any

import numpy as np
import torch

UNBOUNDED = 1e6  # a bound beyond this is no scale to go by


class ActionScale:
    """Maps the box to [-1, 1] and back, component by component; numpy arrays or tensors [.., A].

    Components without bounds pass unchanged.

    Args:
        action_space: continuous, with ``low`` and ``high`` of A components.
        bounded: whether all components must have bounds.

    Attributes:
        size: A.
        log_half: [A], logarithm of half the range of each component: what a logarithm of a
            deviation grows by on the way to the space's units.

    Raises:
        TypeError: the space is no box of one dimension.
        ValueError: a component has no bounds where it must, or an empty range.
    """

    def __init__(self, action_space: Any, bounded: bool = False) -> None:
        self.size = size = box_size(action_space)
        low = np.broadcast_to(np.asarray(action_space.low, np.float64), (size,))
        high = np.broadcast_to(np.asarray(action_space.high, np.float64), (size,))
        has_bounds = (np.abs(low) < UNBOUNDED) & (np.abs(high) < UNBOUNDED)
        if bounded and not has_bounds.all():
            i = int(np.flatnonzero(~has_bounds)[0])
            raise ValueError(
                f"component {i} of the action space has the bounds [{low[i]:g}, {high[i]:g}], and "
                "this policy needs finite ones, to fill with a hyperbolic tangent. Declare the "
                "range of useful actions (gymnasium.wrappers.RescaleAction does, or a space of the "
                "environment's own), or use ppo or a2c, which take unbounded actions."
            )
        low, high = np.where(has_bounds, low, -1.0), np.where(has_bounds, high, 1.0)
        half = ((high - low) / 2).astype(np.float32)
        if (half <= 0).any():
            raise ValueError(f"action space {action_space} has an empty range in some component.")
        center = ((high + low) / 2).astype(np.float32)
        self.log_half = np.log(half)
        self.is_identity = bool((half == 1).all() and (center == 0).all())
        self._numpy = (half, center)
        self._torch: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}

    def _of(self, x: Any) -> tuple[Any, Any]:
        """Half range and center, of the same kind and on the same device as ``x``."""
        if isinstance(x, np.ndarray):
            return self._numpy
        if x.device not in self._torch:
            half, center = (torch.from_numpy(a).to(x.device) for a in self._numpy)
            self._torch[x.device] = (half, center)
        return self._torch[x.device]

    def to_space(self, unit: Any) -> Any:
        """Actions in the space's units."""
        if self.is_identity:
            return unit
        half, center = self._of(unit)
        return unit * half + center

    def to_unit(self, action: Any) -> Any:
        """Actions in units where bounded components are [-1, 1]."""
        if self.is_identity:
            return action
        half, center = self._of(action)
        return (action - center) / half


def box_size(action_space: Any) -> int:
    """Number of components of a continuous space.

    Raises:
        TypeError: the space is not a continuous box; the message says what fits.
    """
    space = getattr(action_space, "space", action_space)  # gymnasium's own, where it is wrapped
    shape, dtype = getattr(action_space, "shape", None), getattr(action_space, "dtype", None)
    simple = isinstance(shape, tuple) and not hasattr(shape, "_fields")
    if not simple or np.dtype(dtype).kind != "f":
        remedy = (
            "for discrete actions use ppo or a2c, or for one of them deep Q-learning (dqn, ...); "
            "of several spaces make one Box."
        )
    elif len(shape) != 1 or not shape[0]:  # type: ignore[arg-type, index]
        remedy = f"its shape is {shape}; flatten it (gymnasium.wrappers.TransformAction)."
    else:
        return int(shape[0])  # type: ignore[index]
    raise TypeError(
        f"this agent needs a continuous Box action space of one dimension, got {space}; {remedy}"
    )
