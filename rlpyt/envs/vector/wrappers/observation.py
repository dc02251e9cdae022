"""Observations: a field of several, several frames in one, the time beside the rest."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from rlpyt.envs.base import EnvStep
from rlpyt.envs.vector.base import Rows
from rlpyt.envs.vector.wrappers.base import VectorWrapper
from rlpyt.envs.vector.wrappers.spaces import bounds_of, box_of, parts_of
from rlpyt.spaces.composite import Composite
from rlpyt.spaces.float_box import FloatBox
from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import namedtuple_class


class ExtractField(VectorWrapper):
    """Keep one field of a composed (Dict) observation, or some.

    Args:
        key: a field's name gives its array, a list of names a smaller named tuple.

    Raises:
        ValueError: the observation is not composed, or has no such field.
    """

    def __init__(self, env: Any, key: str | Sequence[str]) -> None:
        super().__init__(env)
        composite = parts_of(self.env.observation_space)
        names = composite.names if composite is not None else ()
        keys = [key] if isinstance(key, str) else list(key)
        for wanted in keys:
            if wanted not in names:
                raise ValueError(f"no field '{wanted}' in the observation's: {list(names)}.")
        assert composite is not None
        self._places = [names.index(wanted) for wanted in keys]
        self._cls = None if isinstance(key, str) else namedtuple_class("obs", keys)
        spaces = [composite.spaces[i] for i in self._places]
        self._observation_space = spaces[0] if self._cls is None else Composite(spaces, self._cls)

    def _begin(self, observation: Any, rows: Rows) -> Any:
        return self._pick(observation)

    def _follow(self, step: EnvStep) -> EnvStep:
        return step._replace(observation=self._pick(step.observation))

    def _pick(self, observation: Any) -> Any:
        parts = tuple(observation)
        if self._cls is None:
            return parts[self._places[0]]
        return self._cls(*[parts[i] for i in self._places])


class FrameStack(VectorWrapper):
    """The last ``num_stack`` observations as one, oldest first.

    Args:
        num_stack: how many.
        new_axis: [num_stack, *shape]; otherwise joined along the first: [num_stack * C, ...].
        padding: what stands for frames before an episode's first: zeros, or the first repeated.

    Raises:
        ValueError: the observation is composed, or a scalar to be joined along its first axis.
    """

    def __init__(
        self,
        env: Any,
        num_stack: int = 4,
        new_axis: bool = False,
        padding: Literal["zero", "repeat"] = "zero",
    ) -> None:
        super().__init__(env)
        space = self.env.observation_space
        self.num_stack = whole_number("num_stack", num_stack, least=1)
        if padding not in ("zero", "repeat"):
            raise ValueError(f"padding={padding!r} must be 'zero' or 'repeat'.")
        if parts_of(space) is not None or (not space.shape and not new_axis):
            raise ValueError(f"{space} cannot be stacked: extract a field, or set new_axis=True.")
        self.padding, shape = padding, tuple(space.shape)
        stacked = (num_stack, *shape) if new_axis else (num_stack * shape[0], *shape[1:])
        low, high = (np.stack([bound] * num_stack) for bound in bounds_of(space))
        if padding == "zero":
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        low, high = low.reshape(stacked), high.reshape(stacked)
        self._observation_space = box_of(space, low, high, stacked)
        self._frames = np.zeros((self.n, num_stack, *shape), space.dtype)
        self._shown = self._frames.reshape(self.n, *stacked)  # the same memory

    def _begin(self, observation: Any, rows: Rows) -> Any:
        if self.padding == "zero":
            self._frames[rows, :-1] = 0
            self._frames[rows, -1] = observation
        else:
            self._frames[rows] = observation[:, None]
        return self._shown[rows]

    def _follow(self, step: EnvStep) -> EnvStep:
        self._frames[:, :-1] = self._frames[:, 1:]
        self._frames[:, -1] = step.observation
        return step._replace(observation=self._shown)

    def _get_own(self) -> dict[str, Any]:
        return {"frames": self._frames.copy()}

    def _set_own(self, state: Mapping[str, Any]) -> None:
        self._frames[...] = state["frames"]


class TimeAwareObservation(VectorWrapper):
    """Append the number of steps since the episode began to vector observations [d] -> [d + 1].

    For tasks whose time limit the agent should know (Pardo et al. 2018).

    Args:
        scale: factor of the number; 1 / horizon lets it run from 0 to 1.

    Raises:
        ValueError: observations are not vectors of floating-point numbers.
    """

    def __init__(self, env: Any, scale: float = 1.0) -> None:
        super().__init__(env)
        space = self.env.observation_space
        if parts_of(space) is not None or len(space.shape) != 1 or space.dtype.kind != "f":
            raise ValueError(f"{space} must be a vector of floating-point numbers.")
        low, high = bounds_of(space)
        low, high = np.append(low, 0.0), np.append(high, np.inf)
        self._observation_space = FloatBox(low, high, dtype=space.dtype)
        self.scale = float(scale)
        self._t = np.zeros(self.n, np.int64)

    def _begin(self, observation: Any, rows: Rows) -> Any:
        self._t[rows] = 0
        return self._append(observation, self._t[rows])

    def _follow(self, step: EnvStep) -> EnvStep:
        self._t += 1
        return step._replace(observation=self._append(step.observation, self._t))

    def _append(self, observation: Any, t: Any) -> Any:
        time = (self.scale * t[:, None]).astype(observation.dtype)
        return np.concatenate([observation, time], axis=1)

    def _get_own(self) -> dict[str, Any]:
        return {"t": self._t.copy()}

    def _set_own(self, state: Mapping[str, Any]) -> None:
        self._t[...] = state["t"]
