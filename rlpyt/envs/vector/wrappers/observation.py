"""Observation wrappers: select fields, stack frames, append the time."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlpyt.envs.base import EnvStep
from rlpyt.envs.layers import EnvLike
from rlpyt.envs.vector.base import Rows
from rlpyt.envs.vector.wrappers.base import VectorWrapper
from rlpyt.spaces.base import Space
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.elements import composite_of
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import namedtuple_class


class ExtractField(VectorWrapper):
    """Wrapper that keeps one or several fields of a composite (Dict) observation.

    Args:
        env: as for `VectorWrapper`.
        key: name of a field, to return its array, or list of names, to return a named tuple.

    Raises:
        ValueError: the observation is not composite, or has no such field.
    """

    def __init__(self, env: EnvLike, key: str | Sequence[str]) -> None:
        super().__init__(env)
        composite = composite_of(self.env.observation_space)
        names = composite.names if composite is not None else ()
        keys = [key] if isinstance(key, str) else list(key)
        for name in keys:
            if name not in names:
                raise ValueError(f"key='{name}' must be a field of the observation: {list(names)}.")
        assert composite is not None
        self._indices = [names.index(name) for name in keys]
        self._cls = None if isinstance(key, str) else namedtuple_class("obs", keys)
        spaces = [composite.spaces[i] for i in self._indices]
        self._observation_space = spaces[0] if self._cls is None else Composite(spaces, self._cls)

    def _begin(self, observation: tuple[Any, ...], rows: Rows) -> Any:
        return self._pick(observation)

    def _follow(self, step: EnvStep) -> EnvStep:
        return step._replace(observation=self._pick(step.observation))

    def _pick(self, observation: tuple[Any, ...]) -> Any:
        parts = tuple(observation)
        if self._cls is None:
            return parts[self._indices[0]]
        return self._cls(*[parts[i] for i in self._indices])


class FrameStack(VectorWrapper):
    """Wrapper that stacks the last ``num_stack`` observations, oldest first.

    Args:
        env: as for `VectorWrapper`.
        num_stack: number of observations.
        new_axis: stack to [num_stack, *shape]; otherwise concatenate along the first axis to
            [num_stack * C, ...].
        padding: frames before an episode's first one: zeros, or the first one repeated.

    Raises:
        ValueError: the observation is composite, or a scalar without ``new_axis``.
    """

    def __init__(
        self,
        env: EnvLike,
        num_stack: int = 4,
        new_axis: bool = False,
        padding: Literal["zero", "repeat"] = "zero",
    ) -> None:
        super().__init__(env)
        space = self.env.observation_space
        self.num_stack = num_stack = whole_number("num_stack", num_stack, least=1)
        if padding not in ("zero", "repeat"):
            raise ValueError(f"padding={padding!r} must be 'zero' or 'repeat'.")
        if composite_of(space) is not None or (not space.shape and not new_axis):
            raise ValueError(f"{space} cannot be stacked. Extract a field, or set new_axis=True.")
        self.padding, shape = padding, tuple(space.shape)
        stacked = (num_stack, *shape) if new_axis else (num_stack * shape[0], *shape[1:])
        low, high = (np.stack([bound] * num_stack) for bound in _bounds_of(space))
        if padding == "zero":
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        low, high = low.reshape(stacked), high.reshape(stacked)
        self._observation_space = _box_of(space, low, high, stacked)
        self._frames = np.zeros((self.n, num_stack, *shape), space.dtype)
        self._stacked = self._frames.reshape(self.n, *stacked)  # shares memory

    def _begin(self, observation: NDArray[Any], rows: Rows) -> Any:
        if self.padding == "zero":
            self._frames[rows, :-1] = 0
            self._frames[rows, -1] = observation
        else:
            self._frames[rows] = observation[:, None]
        return self._stacked[rows]

    def _follow(self, step: EnvStep) -> EnvStep:
        self._frames[:, :-1] = self._frames[:, 1:]
        self._frames[:, -1] = step.observation
        return step._replace(observation=self._stacked)

    def _get_own(self) -> dict[str, Any]:
        return {"frames": self._frames.copy()}

    def _set_own(self, state: Mapping[str, Any]) -> None:
        self._frames[...] = state["frames"]


class TimeAwareObservation(VectorWrapper):
    """Wrapper that appends the number of steps since the reset to observations [d] -> [d + 1].

    For tasks with a time limit that the agent should observe (Pardo et al. 2018).

    Args:
        env: as for `VectorWrapper`.
        scale: factor of the number of steps; 1 / horizon scales it to [0, 1].

    Raises:
        ValueError: observations are not vectors of floating-point numbers.
    """

    def __init__(self, env: EnvLike, scale: float = 1.0) -> None:
        super().__init__(env)
        space = self.env.observation_space
        if composite_of(space) is not None or len(space.shape) != 1 or space.dtype.kind != "f":
            raise ValueError(f"{space} must be a vector of floating-point numbers.")
        low, high = _bounds_of(space)
        low, high = np.append(low, 0.0), np.append(high, np.inf)
        self._observation_space = FloatBox(low, high, dtype=space.dtype)
        self.scale = float(scale)
        self._t = np.zeros(self.n, np.int64)

    def _begin(self, observation: NDArray[Any], rows: Rows) -> Any:
        self._t[rows] = 0
        return self._append(observation, self._t[rows])

    def _follow(self, step: EnvStep) -> EnvStep:
        self._t += 1
        return step._replace(observation=self._append(step.observation, self._t))

    def _append(self, observation: NDArray[Any], t: NDArray[np.int64]) -> Any:
        time = (self.scale * t[:, None]).astype(observation.dtype)
        return np.concatenate([observation, time], axis=1)

    def _get_own(self) -> dict[str, Any]:
        return {"t": self._t.copy()}

    def _set_own(self, state: Mapping[str, Any]) -> None:
        self._t[...] = state["t"]


def _box_of(space: Space, low: NDArray[Any], high: NDArray[Any], shape: tuple[int, ...]) -> Space:
    """Return a box of the space's dtype with inclusive bounds; one pair of them for integers."""
    dtype = np.dtype(space.dtype)
    if dtype.kind == "f":
        return FloatBox(low, high, shape, dtype=dtype)
    return IntBox(int(np.min(low)), int(np.max(high)) + 1, shape, dtype=dtype)


def _bounds_of(space: Space) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the inclusive bounds as arrays of the space's shape."""
    high = space.high - 1 if isinstance(space, IntBox) else space.high
    return np.broadcast_to(space.low, space.shape), np.broadcast_to(high, space.shape)
