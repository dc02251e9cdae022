"""Vector environment that steps single environments in a loop: the reference for adapters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlpyt.envs.base import EnvStep
from rlpyt.envs.vector.actions import action_check
from rlpyt.envs.vector.base import Rows, VectorEnv, WaitingRows, vector_info
from rlpyt.envs.vector.reset_cache import put_rows, take_rows
from rlpyt.spaces.base import Element
from rlpyt.utils.buffer import buffer_from_example, buffer_func, keeps_numbers, leaves_of, shapes_of


class SerialVectorEnv(VectorEnv):
    """Single rlpyt environments as a vector environment, for example to use vector wrappers.

    Waiting rows are not stepped. ``env_info`` has ``timeout``, ``traj_done`` and the other fields
    of the first environment.

    Args:
        envs: rlpyt environments with equal spaces, e.g. from ``rlpyt.envs.gym.make``.

    Raises:
        ValueError: no environment is given, or their spaces differ; in ``reset`` and ``step``,
            an observation does not have the shape of its space.
    """

    def __init__(self, envs: Sequence[Any]) -> None:
        self.envs = list(envs)
        if not self.envs:
            raise ValueError("SerialVectorEnv needs at least one environment.")
        self.n = len(self.envs)
        self._observation_space = self.envs[0].observation_space
        self._action_space = self.envs[0].action_space
        self._known_horizon = getattr(self.envs[0], "horizon", None)
        for i, env in enumerate(self.envs):
            for own, other in zip(self.spaces, (env.observation_space, env.action_space)):
                if type(own) is not type(other) or own != other:
                    raise ValueError(f"environment {i} has space {other}, environment 0 has {own}.")
        self._check = action_check(self._action_space, self.n)
        self._observation = buffer_from_example(self._observation_space.null_value(), self.n)
        self._shape = shapes_of(self._observation, 1)
        self._dtypes = [leaf.dtype for leaf in leaves_of(self._observation)]
        self._waiting = WaitingRows(self.n)
        self._info: Any = None

    def reset(self) -> Any:
        """Reset every environment."""
        return self.reset_rows(np.arange(self.n))

    def reset_rows(self, rows: Rows) -> Any:
        """Reset the environments of these rows."""
        rows = self._checked_rows(rows)
        for i in rows:
            self._write(i, self.envs[i].reset())
        self._waiting.remove(rows)
        return take_rows(self._observation, rows)

    def step(self, action: Any) -> EnvStep:
        """Step every environment that is not waiting."""
        action = self._check(action)
        reward, done = np.zeros(self.n, np.float32), self._waiting.mask.copy()
        for i, env in enumerate(self.envs):
            if self._waiting.mask[i]:
                continue
            own = buffer_func(action, lambda leaf, i=i: leaf[i])
            observation, reward[i], done[i], info = env.step(own)
            self._write(i, observation)
            self._write_info(i, info, bool(done[i]))
        info = self._info
        if info is None:  # resumed with all rows waiting: other fields are unknown
            info = vector_info()(np.zeros(self.n, bool), np.zeros(self.n, bool))
        if self._waiting.n:
            info[self._waiting.mask] = 0
            info.traj_done[self._waiting.mask] = True
        self._waiting.add(info.traj_done)
        return EnvStep(self._observation, reward, done, info)

    def _write(self, i: int, observation: Element) -> None:
        """Write an environment's observation to the batch and check its shape."""
        if shapes_of(observation) != self._shape:
            shape = shapes_of(buffer_func(observation, np.asarray))
            if shape != self._shape:
                raise ValueError(
                    f"the observation of environment {i} must have shape {self._shape}, got "
                    f"{shape}. Return observations of the shape of the environment's space."
                )
        for leaf, dtype in zip(leaves_of(observation), self._dtypes, strict=True):
            array = np.asarray(leaf)
            if array.dtype != dtype and not keeps_numbers(array, dtype):
                raise ValueError(
                    f"the observation of environment {i} has dtype {array.dtype}, expected "
                    f"{dtype}; the conversion would lose digits."
                )
        put_rows(self._observation, i, observation)

    def _write_info(self, i: int, info: tuple[Any, ...], done: bool) -> None:
        fields = getattr(info, "_fields", ())
        if self._info is None:
            others = [name for name in fields if name not in ("timeout", "traj_done")]
            examples = [buffer_from_example(getattr(info, name), self.n) for name in others]
            flags = np.zeros((2, self.n), bool)
            self._info = vector_info(others)(flags[0], flags[1], *examples)
        for name in fields:
            put_rows(getattr(self._info, name), i, getattr(info, name))
        self._info.timeout[i] = getattr(info, "timeout", False)
        self._info.traj_done[i] = getattr(info, "traj_done", done)

    def _seed_rows(self, seeds: list[int]) -> None:
        for env, seed in zip(self.envs, seeds, strict=True):
            env.seed(seed)

    def get_state(self) -> dict[str, Any] | None:
        """Return the state of all environments; ``None`` if one does not support it."""
        states = [env.get_state() if hasattr(env, "get_state") else None for env in self.envs]
        if any(state is None for state in states):
            return None
        shown = [leaf.copy() for leaf in leaves_of(self._observation)]
        return {"envs": states, "waiting": self._waiting.mask.copy(), "shown": shown}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of equally constructed environments."""
        for env, own in zip(self.envs, state["envs"], strict=True):
            env.set_state(own)
        for leaf, saved in zip(leaves_of(self._observation), state["shown"], strict=True):
            leaf[...] = saved
        self._waiting.remove()
        self._waiting.add(np.asarray(state["waiting"], bool))

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()
