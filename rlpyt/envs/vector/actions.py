"""Check batches of actions and convert them for external vector environments.

Native code does not check: an action out of range makes ale_py's threads hang and EnvPool read
out of bounds, a wrong batch size kills the process, a NaN corrupts a simulator.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces as gym_spaces
from numpy.typing import DTypeLike, NDArray

from rlpyt.spaces.base import Space
from rlpyt.spaces.elements import composite_of
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox

Array = NDArray[Any]
Check = Callable[[Any], Any]

_UNSIGNED = {  # viewed as unsigned, negative numbers are out of range
    np.dtype(f"{kind}{size}"): np.dtype(f"u{size}") for kind in "iu" for size in (1, 2, 4, 8)
}
_largest, _smallest = np.maximum.reduce, np.minimum.reduce


def gym_action_check(gym_space: gym_spaces.Space[Any], n: int, name: str = "action") -> Check:
    """Return a function that checks actions [n, ...] and converts them to gymnasium's form.

    Args:
        gym_space: gymnasium space of one environment's actions.
        n: number of environments.
        name: name of the actions in messages.

    Returns:
        A function that raises ``ValueError`` for a wrong batch size, a value out of range, NaN or
        infinity, and ``TypeError`` for values of another kind; messages name the row.
    """
    if isinstance(gym_space, gym_spaces.Dict | gym_spaces.Tuple):
        as_dict, parts = isinstance(gym_space, gym_spaces.Dict), gym_space.spaces
        items = list(parts.items() if isinstance(parts, dict) else enumerate(parts))
        checks = [gym_action_check(part, n, f"{name}.{key}") for key, part in items]
        keys = [key for key, _ in items]
        make = (lambda values: dict(zip(keys, values, strict=True))) if as_dict else tuple
        return _Parts(checks, make, name)
    wrapped = GymSpaceWrapper(gym_space, name=name, flat=True)
    if isinstance(gym_space, gym_spaces.Discrete):
        return _Discrete(n, int(gym_space.n), gym_space.dtype, name, int(gym_space.start))
    finish = None if wrapped.revert_identity else partial(wrapped.revert, lead=(n,))
    return _Bounded(n, wrapped, wrapped.high, name, finish)


def action_check(space: Any, n: int, name: str = "action") -> Check:
    """Return a function that checks actions [n, ...] of an rlpyt space and casts their dtype.

    For spaces without bounds only the batch size is checked.
    """
    composite = composite_of(space)
    if composite is not None:
        parts = zip(composite.names, composite.spaces, strict=True)
        checks = [action_check(part, n, f"{name}.{key}") for key, part in parts]
        return _Parts(checks, composite.null_value()._make, name)
    if not all(hasattr(space, attribute) for attribute in ("low", "high", "shape", "dtype")):
        return _Sized(n, name)
    exclusive = isinstance(space, IntBox)
    if exclusive and space.shape == () and space.low == 0:
        return _Discrete(n, space.high, space.dtype, name)
    return _Bounded(n, space, space.high - 1 if exclusive else space.high, name)


class _Discrete:
    """Check for one integer per row, in [0, count)."""

    def __init__(self, n: int, count: int, dtype: DTypeLike, name: str, start: int = 0) -> None:
        self._shape, self._count, self._name = (n,), count, name
        self._dtype, self._start = np.dtype(dtype), start

    def __call__(self, action: Array) -> Any:
        unsigned = _UNSIGNED.get(action.dtype) if type(action) is np.ndarray else None
        if unsigned is None or action.shape != self._shape:
            action = _integers(_as_batch(action, self._shape, self._name), self._name)
            unsigned = _UNSIGNED[action.dtype]
        if _largest(action.view(unsigned)) >= self._count:
            wrong = (action < 0) | (action >= self._count)
            raise _out_of_range(self._name, action, wrong, f"[0, {self._count})")
        if action.dtype != self._dtype:
            action = action.astype(self._dtype)
        return action + self._start if self._start else action


class _Bounded:
    """Check for an array per row, within bounds."""

    def __init__(
        self,
        n: int,
        space: Space,
        high: Array | int,
        name: str,
        finish: Callable[[Array], Any] | None = None,
    ) -> None:
        self._shape, self._name, self._finish = (n, *space.shape), name, finish
        self._dtype = np.dtype(space.dtype)
        self._low = np.broadcast_to(space.low, space.shape)
        self._high = np.broadcast_to(high, space.shape)
        low, high = self._low, self._high
        if self._dtype.kind == "f":  # reject infinity
            limits = np.finfo(self._dtype)
            low, high = np.maximum(low, limits.min), np.minimum(high, limits.max)
        self._least, self._most = low, high
        uniform = low.size > 0 and bool((low == low.flat[0]).all() and (high == high.flat[0]).all())
        self._uniform_bounds = (low.flat[0], high.flat[0]) if uniform else None

    def __call__(self, action: Array) -> Any:
        if type(action) is not np.ndarray or action.shape != self._shape:
            action = _as_batch(action, self._shape, self._name)
        if action.dtype != self._dtype:
            action = self._convert(action)
        if self._uniform_bounds is not None:  # reductions propagate NaN, which fails the comparison
            least, most = self._uniform_bounds
            valid = _smallest(action, None) >= least and _largest(action, None) <= most
        else:
            valid = bool(((action >= self._least) & (action <= self._most)).all())
        if not valid:
            wrong = ~((action >= self._least) & (action <= self._most))
            raise _out_of_range(self._name, action, wrong, self._low, self._high)
        return action if self._finish is None else self._finish(action)

    def _convert(self, action: Array) -> Any:
        if self._dtype.kind != "f":
            wide = _integers(action, self._name)
            wrong = (wide < self._low) | (wide > self._high)
            if wrong.any():  # before a narrower dtype overflows
                raise _out_of_range(self._name, wide, wrong, self._low, self._high)
            return wide.astype(self._dtype)
        if action.dtype.kind not in "iufb":
            raise TypeError(f"{self._name} is of dtype {action.dtype}, expected numbers.")
        with np.errstate(over="ignore"):  # becomes infinite and is rejected
            return action.astype(self._dtype)


class _Sized:
    """Check for the number of rows only."""

    def __init__(self, n: int, name: str) -> None:
        self._n, self._name = n, name

    def __call__(self, action: Any) -> Any:
        if not hasattr(action, "__len__") or len(action) != self._n:
            raise ValueError(f"{self._name} must have {self._n} rows, got {action!r:.80}.")
        return action


class _Parts:
    """Check of several spaces; the batch is a (named) tuple."""

    def __init__(self, checks: list[Check], make: Callable[..., Any], name: str) -> None:
        self._checks, self._make, self._name = checks, make, name

    def __call__(self, action: Any) -> Any:
        if not isinstance(action, tuple) or len(tuple(action)) != len(self._checks):
            raise TypeError(
                f"{self._name} must be a named tuple of {len(self._checks)} arrays, got "
                f"{type(action).__name__}."
            )
        parts = zip(self._checks, tuple(action), strict=True)
        return self._make([check(part) for check, part in parts])


def _as_batch(action: object, shape: tuple[int, ...], name: str) -> Any:
    try:
        action = np.asarray(action)
    except ValueError:  # rows of different length
        action = np.asarray(action, object)
    if action.shape != shape:
        raise ValueError(
            f"{name} has shape {action.shape}, expected {shape}: one for each of the {shape[0]} "
            "environments."
        )
    return action


def _integers(action: Array, name: str) -> Any:
    if action.dtype.kind == "b":
        return action.astype(np.int8)
    if action.dtype.kind not in "iu":
        raise TypeError(f"{name} is of dtype {action.dtype}, expected integers: {action!r:.80}.")
    return action


def _out_of_range(
    name: str, action: Array, wrong: NDArray[np.bool_], low: Any, high: Array | None = None
) -> ValueError:
    """Return an error that names the first invalid row, its value and the valid range."""
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    if high is not None:
        low = f"[{low[where[1:]]}, {high[where[1:]]}]"
    entry = f" entry {list(where[1:])}" if where[1:] else ""
    return ValueError(f"{name} of row {where[0]}{entry} is {action[where]}, must be in {low}.")
