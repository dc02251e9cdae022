"""Base class of adapters: checks, waiting rows, and the result of a step."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces as gym_spaces

from rlpyt.envs.base import EnvStep
from rlpyt.envs.layers import EnvLike
from rlpyt.envs.vector.actions import gym_action_check
from rlpyt.envs.vector.base import Elements, Rows, UnsupportedVectorEnv, VectorEnv, WaitingRows
from rlpyt.envs.vector.info import InfoKeys, InfoReader
from rlpyt.envs.vector.reset_cache import put_rows
from rlpyt.spaces.action_mask import action_mask_of, has_mask, next_valid
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.utils.buffer import buffer_from_example, buffer_func

Array = np.ndarray[Any, Any]

_new_tuple = tuple.__new__  # twice as fast as calling the named tuple


class SourceAdapter(VectorEnv):
    """Base class of adapters, which override the hooks at the end of the class.

    Args:
        source: the adapted environments, whose ``step`` and ``reset`` are called.
        n: number of rows.
        observation_space, action_space: gymnasium spaces of one environment.
        info_keys: see `InfoReader`.
        life_loss: report ``done``, without ``traj_done``, where "lives" of info decrease.
        horizon: steps after which an episode is truncated; ``None`` if unlimited or unknown.
    """

    def __init__(
        self,
        source: EnvLike,
        n: int,
        observation_space: gym_spaces.Space[Any],
        action_space: gym_spaces.Space[Any],
        info_keys: InfoKeys = (),
        life_loss: bool = False,
        horizon: int | None = None,
    ) -> None:
        self.source: Any = source
        self._known_horizon = horizon
        self.n = int(n)
        self._observation_space = GymSpaceWrapper(observation_space, name="obs")
        self._action_space = GymSpaceWrapper(action_space, name="act", flat=True)
        self._check: Callable[[Any], Any] = gym_action_check(action_space, self.n)
        convert = self._observation_space.convert
        self._convert = None if self._observation_space.identity else convert
        self._waiting = WaitingRows(self.n)
        self._masked = has_mask(self._observation_space)
        self._source_masks: Any = None  # [n, ...] of the source's observations while rows wait
        self._infos = InfoReader(self.n, info_keys)
        self._all_false = np.zeros(self.n, bool)
        self._all_false.setflags(write=False)
        self._default_info = self._infos.cls(*[self._all_false] * 2, *self._infos.read({}))
        self._life_loss, self._lives = life_loss, np.zeros(self.n, np.int64)
        self._reads_lives = life_loss  # "lives" of info are numbers, one for each row
        self._lives_at_end = True  # at an episode's end, info has that episode's lives
        self._seeds: list[int] | None = None
        self._created_pid = os.getpid()
        self._active_pid = 0  # the same, from the first reset until close
        self._checked_step = False

    def reset(self) -> Any:
        """Start an episode in every row, with the pending seeds if any."""
        if self._seeds is None and self._active_pid:
            return self.reset_rows(np.arange(self.n))
        if self._created_pid != os.getpid():
            self._raise_unusable()
        seeds, self._seeds = self._seeds, None
        observation, info = self._source_reset(seeds)
        observation = self._checked_observation(observation, "reset")
        self._waiting.remove()
        self._store_lives(info, slice(None))
        self._active_pid = self._created_pid
        return observation

    def reset_rows(self, rows: Rows) -> Any:
        """Start an episode in these rows; see `VectorEnv`."""
        if self._active_pid != os.getpid():
            self._raise_unusable()
        rows = self._checked_rows(rows)
        if not len(rows):
            return buffer_from_example(self.observation_space.null_value(), 0)
        observation, info = self._source_reset_rows(rows)
        self._waiting.remove(rows)
        self._store_lives(info, rows)
        return observation

    def step(self, action: Any) -> EnvStep:
        """Step every row; see `VectorEnv`."""
        if self._active_pid != os.getpid():
            self._raise_unusable()
        native = self._check(action)
        if self._waiting.n:
            self._before_waiting_step()
            if self._masked:
                native = self._check(self._valid_while_waiting(action))
        result = self._source_step(native)
        observation, reward, terminated, truncated, info = result
        flags = self._checked_step and terminated.dtype == truncated.dtype == np.bool_
        if not flags:
            self._check_first_step(*result)
        if self._convert is not None:
            observation = self._convert(observation)
        if reward.dtype != np.float32:
            reward = reward.astype(np.float32)
        traj_done = terminated | truncated
        try:
            has_lives = "lives" in info and self._reads_lives
        except TypeError:
            raise self._info_error(info) from None
        lost = self._lost_lives(info, traj_done) if has_lives else None
        if not self._waiting.n and lost is None and not np.count_nonzero(traj_done):
            env_info = self._default_info
            if self._infos.keys:
                values = self._infos.read(info)
                env_info = _new_tuple(self._infos.cls, (self._all_false, self._all_false, *values))
            return _new_tuple(EnvStep, (observation, reward, traj_done, env_info))
        return self._finish_step(observation, reward, terminated, traj_done, lost, info)

    def _finish_step(
        self,
        observation: Elements,
        reward: Array,
        terminated: Array,
        traj_done: Array,
        lost: Array | None,
        info: Mapping[str, Any],
    ) -> EnvStep:
        """Return a step in which episodes or lives end, or rows are waiting."""
        if self._masked:
            self._source_masks = np.array(action_mask_of(observation))
        observation = self._with_final_observations(observation, traj_done, info)
        values = self._infos.read(info, ended=traj_done) if self._infos.keys else ()
        done = traj_done if lost is None else traj_done | lost
        timeout = traj_done & ~terminated
        if lost is not None:
            timeout &= ~lost
        if self._waiting.n:
            waiting = self._waiting.mask
            reward = np.where(waiting, np.float32(0), reward)
            done, traj_done = done | waiting, traj_done | waiting
            timeout &= ~waiting
        self._waiting.add(traj_done)
        env_info = _new_tuple(self._infos.cls, (timeout, traj_done, *values))
        return _new_tuple(EnvStep, (observation, reward, done, env_info))

    def _valid_while_waiting(self, action: Elements) -> Any:
        """Return actions with valid choices in waiting rows, since the source steps them, too."""
        action = buffer_func(action, np.array)
        for i in np.flatnonzero(self._waiting.mask):
            row = buffer_func(action, lambda leaf, i=i: leaf[i])
            put_rows(action, i, next_valid(self._action_space, row, self._source_masks[i]))
        return action

    def _seed_rows(self, seeds: list[int]) -> None:
        self._seeds = seeds

    def close(self) -> None:
        """Close the source."""
        self._active_pid = 0
        self.source.close()

    def _store_lives(self, info: Mapping[str, Any], rows: Rows | slice) -> None:
        """Store the initial lives of these rows from the info of their reset."""
        if not isinstance(info, Mapping):
            raise self._info_error(info)
        lives = info.get("lives") if self._reads_lives else None
        if lives is not None:
            lives = np.asarray(lives)
            self._lives[rows] = lives[rows] if len(lives) == self.n else lives

    def _lost_lives(self, info: Mapping[str, Any], traj_done: Array) -> Array | None:
        """Return the mask of lost lives that were not the last; ``None`` if empty or disabled."""
        lives, before = np.asarray(info["lives"]), self._lives
        self._lives = lives.astype(np.int64)
        if not self._life_loss:
            return None
        lost: Array = (lives < before) & (lives > 0)
        if not self._lives_at_end:
            lost &= ~traj_done
        return lost if lost.any() else None

    def _checked_observation(self, observation: object, where: str) -> Any:
        """Check a batch of observations and return it in rlpyt's form.

        Raises:
            UnsupportedVectorEnv: the batch does not match the space and ``n`` environments.
        """
        own = self.observation_space
        try:
            converted = observation if self._convert is None else self._convert(observation)
            _check_leaves(converted, own.shape, self.n)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise UnsupportedVectorEnv(
                f"{where}() of {self.source} must return {self.n} observations of {own}: {error}"
            ) from error
        return converted

    def _check_first_step(self, observation: object, *others: object) -> None:
        """Check the types of the first step's results, so that later steps need no checks."""
        self._checked_observation(observation, "step")
        *arrays, info = others
        kinds_of = (("reward", "fiu"), ("terminated", "b"), ("truncated", "b"))
        for (name, kinds), value in zip(kinds_of, arrays, strict=True):
            if not isinstance(value, np.ndarray) or value.shape != (self.n,):
                raise UnsupportedVectorEnv(
                    f"{self.source} returned {name} {value!r:.80}, expected an array [{self.n}]."
                )
            if value.dtype.kind not in kinds:
                raise UnsupportedVectorEnv(
                    f"{self.source} returned {name} of dtype {value.dtype}, expected "
                    f"{'bool' if kinds == 'b' else 'numbers'}."
                )
        if not isinstance(info, Mapping):
            raise self._info_error(info)
        self._checked_step = True

    def _info_error(self, info: object) -> UnsupportedVectorEnv:
        return UnsupportedVectorEnv(
            f"{self.source} returned info of type {type(info).__name__}, expected a dict of "
            "arrays. Leave out wrappers such as DictInfoToList."
        )

    def _raise_unusable(self) -> None:
        if self._created_pid == os.getpid():
            raise RuntimeError(f"{self!r} has not been reset (or was closed). Call reset() first.")
        raise RuntimeError(
            f"{self!r} was built in process {self._created_pid} and cannot be used in its child "
            f"{os.getpid()}, which lacks its threads and workers. Build it in the child."
        )

    def _source_reset(self, seeds: list[int] | None) -> tuple[Any, Mapping[str, Any]]:
        """Reset all rows; return observation and info of the source."""
        raise NotImplementedError

    def _source_reset_rows(self, rows: Rows) -> tuple[Any, Mapping[str, Any]]:
        """Reset these rows; return observations in rlpyt's form, and info of them or of all."""
        raise NotImplementedError

    def _source_step(self, action: Any) -> Any:
        """Step all rows; return observation, reward, terminated, truncated, info."""
        return self.source.step(action)

    def _before_waiting_step(self) -> None:
        """Prepare the source for a step while rows are waiting."""

    def _with_final_observations(
        self, observation: Any, ended: Array, info: Mapping[str, Any]
    ) -> Any:
        """Return the batch with the true final observations where episodes have just ended."""
        return observation

    def __repr__(self) -> str:
        return f"<{type(self).__name__} n={self.n} {self.source}>"


def _check_leaves(observation: object, shape: tuple[Any, ...], n: int) -> None:
    if isinstance(observation, tuple):
        for leaf, leaf_shape in zip(tuple(observation), tuple(shape), strict=True):
            _check_leaves(leaf, leaf_shape, n)
    elif not isinstance(observation, np.ndarray):
        raise TypeError(f"got a {type(observation).__name__}, expected a numpy array")
    elif observation.shape != (n, *shape):
        raise ValueError(f"got shape {observation.shape}, expected {(n, *shape)}")
