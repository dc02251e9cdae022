"""Adapter of EnvPool's native environments.

Two properties of EnvPool remain. An episode that terminates exactly at its time limit is reported
as truncated, except in Atari, which reports both. And ``episodic_life=True`` makes each life an
episode (the game continues with the next): use ``life_loss`` here for ``done`` at lost lives
within one trajectory.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from rlpyt.envs.vector.base import Native, Rows, UnsupportedVectorEnv
from rlpyt.envs.vector.info import InfoKeys
from rlpyt.envs.vector.source import SourceAdapter


class EnvPoolVector(SourceAdapter):
    """Adapter of a synchronous EnvPool with Gymnasium's interface.

    EnvPool takes seeds only on construction, so `seed` rebuilds the pool from its settings at the
    next ``reset``. A pool that was built with one seed per row keeps the first episodes of these
    seeds.

    Args:
        pool: result of ``envpool.make_gymnasium``, without ``batch_size``.
        info_keys: entries of info to keep, e.g. "elapsed_step"; in Atari "lives", and "reward",
            the score before clipping.
        life_loss: set ``done`` (without ``traj_done``) when a life is lost and the game continues.

    Raises:
        UnsupportedVectorEnv: the pool is asynchronous, wrapped, has several players, or has the
            dm_env interface.
    """

    def __init__(self, pool: Any, info_keys: InfoKeys = (), life_loss: bool = False) -> None:
        if not hasattr(pool, "config") or not hasattr(pool, "single_action_space"):
            raise UnsupportedVectorEnv(
                f"{pool} is not an unwrapped pool with Gymnasium's interface. Use "
                "envpool.make_gymnasium(task, num_envs=...), and wrappers of "
                "rlpyt.envs.vector.wrappers around the adapter."
            )
        config = pool.config
        if pool.is_async:
            raise UnsupportedVectorEnv(
                f"batch_size={config['batch_size']} must equal num_envs={config['num_envs']}: an "
                "asynchronous pool returns a varying subset of environments. Leave out batch_size."
            )
        if config.get("max_num_players", 1) != 1:
            raise UnsupportedVectorEnv(
                f"EnvPool tasks must have one player, got {config['max_num_players']}."
            )
        self._pool_class, self._spec_class = type(pool), type(pool.spec)
        space, action_space = _spaces_of(pool)
        if not isinstance(space, gymnasium.Space) or not isinstance(action_space, gymnasium.Space):
            raise UnsupportedVectorEnv(
                f"{pool} must have spaces of a single environment, got {space}, {action_space}."
            )
        n, horizon = config["num_envs"], config.get("max_episode_steps")
        super().__init__(pool, n, space, action_space, info_keys, life_loss, horizon)
        self._config = config

    def _source_reset(self, seeds: list[int] | None) -> tuple[Any, Mapping[str, Any]]:
        if seeds is not None:
            self._remake(seeds)
        observation, info = self.source.reset()
        _check_order(info, np.arange(self.n))
        return observation, info

    def _remake(self, seeds: list[int]) -> None:
        seeds = [seed % 2**31 for seed in seeds]  # EnvPool accepts 31 bits
        if self._config["env_seed"] == seeds and not self._active_pid:
            return  # still unused, and built with these seeds
        self.source.close()
        self._config = {**self._config, "env_seed": seeds}
        values = self._spec_class.gen_config(**self._config)
        self.source = self._pool_class(self._spec_class(values))
        _spaces_of(self.source)

    def _source_reset_rows(self, rows: Rows) -> tuple[Any, Mapping[str, Any]]:
        observation, info = self.source.reset(rows.astype(np.int32))
        _check_order(info, rows)
        return observation if self._convert is None else self._convert(observation), info

    def _source_step(self, action: Native) -> Any:
        observation, reward, terminated, truncated, info = self.source.step(action)
        game_over = info.get("terminated")
        if game_over is not None and truncated.any():  # EnvPool reports both at once as truncation
            terminated = terminated | (truncated & (game_over != 0))
        return observation, reward, terminated, truncated, info

    def __repr__(self) -> str:
        return f"<{type(self).__name__} n={self.n} {self._pool_class.__name__}>"


def _spaces_of(pool: Any) -> tuple[Any, Any]:
    """Return observation and action space, which the pool builds on first access."""
    with warnings.catch_warnings():  # about the precision of bounds
        warnings.filterwarnings("ignore", message=".*precision lowered")
        return pool.observation_space, pool.action_space


def _check_order(info: Mapping[str, Any], rows: Rows) -> None:
    if not np.array_equal(info["env_id"], rows):
        raise UnsupportedVectorEnv(
            f"EnvPool must return environments {rows}, got {info['env_id']}."
        )
