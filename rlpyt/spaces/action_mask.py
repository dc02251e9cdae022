"""Discrete choices of action spaces, and masks of valid ones.

The mask of an observation is its part ``action_mask``. It has one entry, 0 or 1 of any number type,
for each choice of each discrete component of the action, in order: n entries for Discrete(n),
sum(nvec) for MultiDiscrete, two for each bit (0, then 1) of MultiBinary. For Dict and Tuple action
spaces, the entries of all discrete parts are concatenated in order.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlpyt.spaces.base import Element, Space

FIELD = "action_mask"


def unwrapped(space: Space) -> Any:
    """Return the gymnasium space that this space wraps, or the space itself."""
    return getattr(space, "space", space)


def choices_of(action_space: Space) -> np.ndarray[Any, Any] | None:
    """Return the number of choices of each discrete component; ``None``: there are none.

    Its shape is () for Discrete, and the space's for MultiDiscrete and MultiBinary.
    """
    space = unwrapped(action_space)
    if type(space).__name__ == "MultiBinary":
        return np.full(action_space.shape, 2)
    choices = getattr(space, "nvec", None)
    if choices is None and not action_space.shape:
        choices = getattr(action_space, "n", None)
    return None if choices is None else np.reshape(choices, action_space.shape)


def mask_sizes(action_space: Space) -> tuple[int, ...]:
    """Return the number of choices of each discrete component, also of nested parts."""
    if hasattr(action_space.shape, "_fields"):
        return tuple(n for part in unwrapped(action_space).spaces for n in mask_sizes(part))
    choices = choices_of(action_space)
    return () if choices is None else tuple(int(n) for n in choices.ravel())


def has_mask(observation_space: Space) -> bool:
    """Return True if observations have a part ``action_mask``."""
    return FIELD in getattr(getattr(observation_space, "shape", ()), "_fields", ())


def action_mask_of(observation: object) -> Any:
    """Return the mask of an observation, [*lead, n] of any number type; ``None``: it has none."""
    return getattr(observation, FIELD, None) if isinstance(observation, tuple) else None


def checked_mask_sizes(observation_space: Space, action_space: Space) -> tuple[int, ...] | None:
    """Return the sizes of the mask's components; ``None`` if observations have no mask.

    Raises:
        ValueError: the part ``action_mask`` does not have the shape or dtype of a mask.
    """
    if not has_mask(observation_space):
        return None
    sizes = mask_sizes(action_space)
    shape, dtype = observation_space.shape.action_mask, observation_space.dtype.action_mask
    fits = shape == (sum(sizes),) and np.dtype(dtype).kind in "biuf"
    if fits and sizes:
        return sizes
    raise ValueError(
        f"the observation part {FIELD!r} must be a vector of {sum(sizes)} entries 0 or 1, one for "
        f"each choice of {unwrapped(action_space)}, got shape {shape} and dtype {dtype}. Correct "
        "its space, or rename the part if it is not a mask of valid actions."
    )


def valid_or_all(mask: Any) -> Any:
    """Return a mask as booleans, all True in rows without a valid action; arrays or tensors.

    Such rows are placeholders: void steps, final observations, padding.
    """
    valid = mask != 0
    return valid | ~valid.any(-1)[..., None]


def valid_at(mask: Any, u: Any) -> Any:
    """Return the valid choice [*lead] at the share ``u`` of all valid ones; arrays or tensors.

    Args:
        mask: [*lead, n], see `valid_or_all`.
        u: [*lead] float32 in [0, 1); uniform numbers give each valid choice the same probability.
    """
    valid = valid_or_all(mask)
    return (valid.cumsum(-1) <= (u * valid.sum(-1, dtype=u.dtype))[..., None]).sum(-1)


def sample_valid(action_space: Space, mask: NDArray[Any]) -> Any:
    """Return a random action of the space that a mask [n] allows; uniform for each component.

    Raises:
        ValueError: a discrete component has no valid choice.
    """

    def choose(space: Space, value: int, valid: np.ndarray[Any, Any]) -> int:
        # Called only if the sample is invalid, so that each valid choice is equally likely.
        if not len(valid):
            raise ValueError(no_valid_action(mask, mask_sizes(action_space)))
        rng = getattr(unwrapped(space), "np_random", None) or space.rng
        return int(rng.choice(valid))

    return _with_valid_choices(action_space, action_space.sample(), mask, choose)


def next_valid(action_space: Space, action: Element, mask: NDArray[Any]) -> Any:
    """Return an action in which invalid choices are replaced by the next valid ones, cyclically."""

    def choose(space: Space, value: int, valid: np.ndarray[Any, Any]) -> int:
        return int(valid[np.searchsorted(valid, value) % len(valid)]) if len(valid) else value

    return _with_valid_choices(action_space, action, mask, choose)


def _with_valid_choices(
    space: Space, action: Any, mask: NDArray[Any], choose: Callable[[Space, int, Any], int]
) -> Any:
    """Return an action with its invalid choices replaced by ``choose(space, choice, valid)``."""
    if hasattr(space.shape, "_fields"):
        parts, first = [], 0
        for part, value in zip(unwrapped(space).spaces, tuple(action), strict=True):
            n = sum(mask_sizes(part))
            parts.append(_with_valid_choices(part, value, mask[first : first + n], choose))
            first += n
        return type(action)(*parts)
    new, first = np.array(action), 0
    flat = new.reshape(-1)  # a view
    for i, n in enumerate(mask_sizes(space)):
        valid = np.flatnonzero(mask[first : first + n])
        first += n
        if flat[i] not in valid:
            flat[i] = choose(space, int(flat[i]), valid)
    return new[()]


def no_valid_action(mask: ArrayLike, sizes: tuple[int, ...]) -> str:
    """Return the message for a mask [n] without a valid choice in some component."""
    parts = np.split(np.asarray(mask) != 0, np.cumsum(sizes)[:-1])
    i = next(i for i, part in enumerate(parts) if not part.any())
    component = f"component {i} of the action has no valid choice" if len(sizes) > 1 else ""
    return (
        f"{FIELD} must allow an action, but {component or 'all its entries are 0'}. End the "
        "episode in the step before, or allow an action without effect."
    )


def _is_valid(mask: np.ndarray[Any, Any], sizes: tuple[int, ...]) -> bool:
    """Return True if every row of a mask [*lead, n] is valid; a fast check of whole batches."""
    if mask.dtype.itemsize != 1:
        return False
    numbers = mask.view(np.uint8)
    if not numbers.size or numbers.max() > 1:
        return False
    parts = np.split(numbers, np.cumsum(sizes)[:-1], -1)
    return all(part.any(-1).all() for part in parts)


def mask_error(
    mask: np.ndarray[Any, Any],
    sizes: tuple[int, ...],
    used: bool | NDArray[np.bool_] | Callable[[], NDArray[np.bool_]] = True,
) -> Any:
    """Find the first row of a recorded mask that is not a mask.

    Args:
        mask: [*lead, n].
        sizes: number of choices of each discrete component.
        used: [*lead] bool, rows in which an action was chosen, or a function that returns them.

    Returns:
        ``None``, or (index of the row, message).
    """
    if _is_valid(mask, sizes):
        return None
    used = used() if callable(used) else used
    starts = np.cumsum((0, *sizes[:-1]))
    n_valid = np.add.reduceat(mask, starts, -1, dtype=np.float32)
    empty = (n_valid == 0).any(-1) & used
    odd = np.zeros_like(empty)
    if mask.dtype != np.bool_:
        odd = ((mask != 0) & (mask != 1)).any(-1)
    found = empty | odd
    if not found.any():
        return None
    at = tuple(np.argwhere(found)[0].tolist())
    if odd[at]:
        value = mask[at][(mask[at] != 0) & (mask[at] != 1)][0]
        return at, f"{FIELD} must have entries 0 or 1, got {value}. Return booleans."
    return at, no_valid_action(mask[at], sizes)
