"""Adapter of ale_py's vector Atari environments, stepped by native threads."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from rlpyt.envs.layers import wrappers_of
from rlpyt.envs.vector.base import Native, Rows, UnsupportedVectorEnv
from rlpyt.envs.vector.gymnasium_vector import SAME_STEP, autoreset_mode
from rlpyt.envs.vector.info import InfoKeys
from rlpyt.envs.vector.partial_reset import masked_reset
from rlpyt.envs.vector.reset_cache import ResetCache, take_rows
from rlpyt.envs.vector.source import Array, SourceAdapter
from rlpyt.spaces.base import draw_seed


class AtariVector(SourceAdapter):
    """Adapter of ``ale_py.vector_env.AtariVectorEnv`` in mode NEXT_STEP or SAME_STEP.

    Useful ``info_keys``: "lives", "frame_number", "episode_frame_number". In mode SAME_STEP the
    source reports those of the next episode where an episode has ended.

    Args:
        envs: the environments. Their option ``episodic_life`` resets the emulator after each
            life, and ``life_loss_info`` is not supported; use ``life_loss`` as in papers.
        info_keys: entries of info to keep, see `InfoReader`.
        life_loss: set ``done`` (without ``traj_done``) when a life is lost and the game continues.
        horizon: steps of the time limit, which the source does not report.

    Raises:
        UnsupportedVectorEnv: the batch size is smaller than the number of environments.
    """

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        info_keys: InfoKeys = (),
        life_loss: bool = False,
        horizon: int | None = None,
    ) -> None:
        base = wrappers_of(envs, VectorWrapper)[-1]
        if base.batch_size != base.num_envs:
            raise UnsupportedVectorEnv(
                f"batch_size={base.batch_size} must equal num_envs={base.num_envs}: smaller "
                "batches hold a varying subset of environments. Build AtariVectorEnv without "
                "batch_size."
            )
        self.mode = autoreset_mode(envs)
        space, action_space = envs.single_observation_space, envs.single_action_space
        super().__init__(envs, envs.num_envs, space, action_space, info_keys, life_loss, horizon)
        self._reads_lives = True
        self._lives_at_end = self.mode is not SAME_STEP
        self._reset_cache = ResetCache(self.n)

    def _source_reset(self, seeds: list[int] | None) -> tuple[Any, Mapping[str, Any]]:
        self._reset_cache.clear()
        if seeds is None:  # the default is entropy of the operating system
            seeds = [draw_seed() for _ in range(self.n)]
        numbers = np.array([seed % 2**31 for seed in seeds])  # ale_py accepts 31 bits
        result: tuple[Any, Mapping[str, Any]] = self.source.reset(seed=numbers)
        return result

    def _source_reset_rows(self, rows: Rows) -> tuple[Any, Mapping[str, Any]]:
        first = self._reset_cache.take(rows)
        if first is not None:
            return first, {}
        mask = self._reset_cache.missing(rows)  # the source has just reset the others
        observation, info = masked_reset(self.source, mask)
        return take_rows(self._checked_observation(observation, "reset"), rows), info

    def _source_step(self, action: Native) -> Any:
        self._reset_cache.clear()
        result = self.source.step(action)
        terminated, lives = result[2], result[4]["lives"]
        if (terminated & (lives > 0) & (lives == self._lives - 1)).any():
            raise UnsupportedVectorEnv(
                "AtariVectorEnv reports termination at a lost life: it was built with "
                "life_loss_info=True (or episodic_life=True), which hide whether it has reset. "
                "Build it without them, and use make_atari_vec(game, life_loss=True) or "
                "AtariVector(envs, life_loss=True)."
            )
        return result

    def _with_final_observations(
        self, observation: Array, ended: Array, info: Mapping[str, Any]
    ) -> Any:
        if self.mode is not SAME_STEP or not ended.any():
            return observation
        rows = np.flatnonzero(ended)
        final = take_rows(self._checked_observation(info["final_obs"], "final_obs of step"), rows)
        self._reset_cache.store(observation, rows)
        observation[rows] = final  # other rows of final_obs are uninitialized
        return observation
