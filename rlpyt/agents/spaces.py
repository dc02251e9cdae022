"""Sizes and scales derived from an environment's spaces."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rlpyt.models.observation import IMAGE_DIM, is_composite, marked_shape
from rlpyt.spaces.action_mask import choices_of, unwrapped
from rlpyt.spaces.base import Space
from rlpyt.spaces.elements import leaf_spaces

UNBOUNDED = 1e6  # bounds beyond this are treated as missing
NO_BOUND = 1e30  # bounds beyond this are declared where there are none


class ActionScale:
    """Maps actions of a Box to [-1, 1] and back, per component; numpy arrays or tensors [.., A].

    Components without bounds are not changed.

    Args:
        action_space: continuous space, with ``low`` and ``high`` of A components.
        bounded: require bounds for all components.

    Attributes:
        size: A.
        log_half: [A], log of half the range of each component. Adding it to a log standard
            deviation in units of [-1, 1] converts it to the space's units.

    Raises:
        TypeError: the space is not a one-dimensional Box.
        ValueError: a component has no bounds although ``bounded`` is True, or an empty range.
    """

    def __init__(self, action_space: Space, bounded: bool = False) -> None:
        self.size = size = box_size(action_space)
        low = np.broadcast_to(np.asarray(action_space.low, np.float64), (size,))
        high = np.broadcast_to(np.asarray(action_space.high, np.float64), (size,))
        has_bounds = (np.abs(low) < UNBOUNDED) & (np.abs(high) < UNBOUNDED)
        if bounded and not has_bounds.all():
            i = int(np.flatnonzero(~has_bounds)[0])
            raise ValueError(
                f"component {i} of the action space must have bounds below {UNBOUNDED:,.0f}, got "
                f"[{low[i]:g}, {high[i]:g}]. Declare the range of useful actions "
                "(gymnasium.wrappers.RescaleAction does, or a custom space), or use ppo or "
                "a2c, which accept unbounded actions."
            )
        large = ~has_bounds & (np.abs([low, high]) < NO_BOUND).all(0)
        if large.any():
            i = int(np.flatnonzero(large)[0])
            warnings.warn(
                f"component {i} of the action space has the bounds [{low[i]:g}, {high[i]:g}]. "
                f"Those of {UNBOUNDED:,.0f} and more count as missing: actions start near 0, with "
                "a standard deviation near 1. Declare smaller units, such as [-1, 1], and scale in "
                "the environment (gymnasium.wrappers.RescaleAction does)."
            )
        low, high = np.where(has_bounds, low, -1.0), np.where(has_bounds, high, 1.0)
        half = ((high - low) / 2).astype(np.float32)
        if (half <= 0).any():
            raise ValueError(f"action space {action_space} has an empty range in some component.")
        center = ((high + low) / 2).astype(np.float32)
        self.log_half = np.log(half)
        self.is_identity = bool((half == 1).all() and (center == 0).all())
        self._constants = _Constants({"cpu": (half, center)})

    def to_space(self, unit: Any) -> Any:
        """Return actions in the space's units."""
        if self.is_identity:
            return unit
        half, center = self._constants[unit.device]
        return unit * half + center

    def to_unit(self, action: Any) -> Any:
        """Return actions in units where bounded components are [-1, 1]."""
        if self.is_identity:
            return action
        half, center = self._constants[action.device]
        return (action - center) / half


class _Constants(dict[Any, tuple[Any, Any]]):
    """Half range and center by the device of an action; numpy calls that of its arrays "cpu"."""

    def __missing__(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.inference_mode(False):  # also if acting comes first: losses use them too
            half, center = (torch.from_numpy(x).to(device) for x in self["cpu"])
        self[device] = (half, center)
        return half, center


def box_size(action_space: Space) -> int:
    """Return the number of components of a one-dimensional Box.

    Raises:
        TypeError: the space is not a continuous, one-dimensional Box.
    """
    shape = action_space.shape
    composite = is_composite(shape) or not isinstance(shape, tuple)
    integers = not composite and np.dtype(action_space.dtype).kind in "iu"
    if not composite and len(shape) > 1:
        remedy = f"Its shape is {shape}; declare a vector, and reshape it in step."
    elif integers and choices_of(action_space) is None:
        remedy = "For integers use MultiDiscrete, or a Box of floats that the environment rounds."
    elif composite or np.dtype(action_space.dtype).kind != "f":
        remedy = (
            "For discrete actions and actions of several parts use sac, ppo or a2c; for a single "
            "discrete action also deep Q-learning (dqn, ...)."
        )
    elif len(shape) != 1 or not shape[0]:
        remedy = f"Its shape is {shape}; declare a vector with at least one component."
    else:
        return int(shape[0])
    raise TypeError(
        f"this agent needs a continuous Box action space of one dimension, got "
        f"{unwrapped(action_space)}. {remedy}"
    )


def discrete_size(action_space: Space, agent: str = "a categorical agent") -> int:
    """Return the number of actions of a Discrete space.

    Args:
        action_space: the space.
        agent: name of the agent, for the error message.

    Raises:
        TypeError: the space is not Discrete.
    """
    choices = choices_of(action_space)
    if choices is None or choices.ndim:
        raise TypeError(
            f"{agent} needs a Discrete action space, got {action_space}. For continuous actions "
            "use ppo or a2c with a Gaussian agent, or sac, td3, ddpg; for several discrete actions "
            "or actions of several parts (Dict, Tuple) use ppo, a2c, vtrace or sac."
        )
    return int(choices)


def choice_counts(action_space: Space) -> list[int]:
    """Return the number of choices of each component of a MultiDiscrete or MultiBinary space.

    Raises:
        TypeError: the space is neither, or has several dimensions.
    """
    choices = choices_of(action_space)
    if choices is None or choices.ndim != 1:
        raise TypeError(
            "the action space must be MultiDiscrete or MultiBinary of one dimension for this "
            f"agent, got {action_space}."
        )
    return [int(n) for n in choices.ravel()]


def action_parts(action_space: Space) -> list[tuple[int, ...] | int]:
    """Return the number of choices of each component of discrete parts, or of components of Boxes.

    Raises:
        TypeError: a part is a Box of integers or not of one dimension, or has choices of several
            dimensions; the message names it.
    """
    parts: list[tuple[int, ...] | int] = []
    for path, space in leaf_spaces(action_space):
        choices = choices_of(space)
        if choices is not None and choices.ndim < 2:
            parts.append(tuple(int(n) for n in choices.ravel()))
            continue
        try:
            parts.append(box_size(space))
        except TypeError as error:
            raise TypeError(f"part 'action{path}' of the action space: {error}") from None
    return parts


# Arguments of models that are derived from the spaces, selected by ``agent.space_arguments``.
SPACE_ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "image_shape": lambda spaces: marked_shape(spaces.observation),
    "observation_shape": lambda spaces: marked_shape(spaces.observation),
    "output_size": lambda spaces: discrete_size(spaces.action),
    "action_size": lambda spaces: box_size(spaces.action),
    "dims": lambda spaces: choice_counts(spaces.action),
    "action_parts": lambda spaces: action_parts(spaces.action),
}


def is_image(observation_space: Space) -> bool:
    """Return True for observations [C, H, W], False for vectors and nested spaces."""
    shape = observation_space.shape
    return isinstance(shape, tuple) and not is_composite(shape) and len(shape) == IMAGE_DIM


def is_discrete(action_space: Space) -> bool:
    """Return True for a single discrete action."""
    choices = choices_of(action_space)
    return choices is not None and not choices.ndim
