"""ale_py's batched Atari, stepped by native threads, behind the contract."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlpyt.envs.vector.base import Rows, UnsupportedVectorEnv
from rlpyt.envs.vector.gymnasium_vector import SAME_STEP, autoreset_mode
from rlpyt.envs.vector.info import InfoKeys
from rlpyt.envs.vector.partial_reset import layers_of, masked_reset
from rlpyt.envs.vector.source import Array, SourceAdapter
from rlpyt.envs.vector.stash import ResetStash, take_rows
from rlpyt.spaces.base import draw_seed


class AtariVector(SourceAdapter):
    """``ale_py.vector_env.AtariVectorEnv`` in mode NEXT_STEP or SAME_STEP.

    Useful ``info_keys``: "lives", "frame_number", "episode_frame_number". In mode SAME_STEP the
    source reports those of the next episode where one has ended.

    Args:
        envs: the environments; ``episodic_life`` makes whole games of its lives (the emulator is
            reset after each), ``life_loss_info`` is refused: ``life_loss`` here is what papers do.
        info_keys: entries of info to keep, see `InfoReader`.
        life_loss: ``done`` (without ``traj_done``) where a life is lost and the game goes on.
        horizon: steps of the time limit, which the source does not tell.

    Raises:
        UnsupportedVectorEnv: batches smaller than the number of environments.
    """

    def __init__(
        self,
        envs: Any,
        info_keys: InfoKeys = (),
        life_loss: bool = False,
        horizon: int | None = None,
    ) -> None:
        base = layers_of(envs)[-1]
        if base.batch_size != base.num_envs:
            raise UnsupportedVectorEnv(
                f"batch_size={base.batch_size} of num_envs={base.num_envs}: such batches hold "
                "whichever environments were first. Build AtariVectorEnv without batch_size."
            )
        self.mode = autoreset_mode(envs)
        space, action_space = envs.single_observation_space, envs.single_action_space
        super().__init__(envs, envs.num_envs, space, action_space, info_keys, life_loss)
        self._lives_at_end = self.mode is not SAME_STEP
        self._stash = ResetStash(self.n)
        self._horizon = horizon

    @property
    def horizon(self) -> int | None:
        """Steps after which an episode is truncated, as the constructor was told."""
        return self._horizon

    def _source_reset(self, seeds: list[int] | None) -> tuple[Any, Mapping[str, Any]]:
        self._stash.forget()
        if seeds is None:  # left alone it would take them from the operating system
            seeds = [draw_seed() for _ in range(self.n)]
        numbers = np.array([seed % 2**31 for seed in seeds])  # it takes no longer ones
        result: tuple[Any, Mapping[str, Any]] = self.source.reset(seed=numbers)
        return result

    def _source_reset_rows(self, rows: Rows) -> tuple[Any, Mapping[str, Any]]:
        first = self._stash.take(rows)
        if first is not None:
            return first, {}
        mask = np.zeros(self.n, bool)
        mask[self._stash.missing(rows)] = True  # the others have just been reset, and show it
        observation, info = masked_reset(self.source, mask)
        return take_rows(self._as_ours(observation, "reset"), rows), info

    def _source_step(self, action: Any) -> Any:
        self._stash.forget()
        result = self.source.step(action)
        terminated, lives = result[2], result[4]["lives"]
        if (terminated & (lives > 0) & (lives == self._lives - 1)).any():
            raise UnsupportedVectorEnv(
                "AtariVectorEnv reports termination at a lost life: it was built with "
                "life_loss_info=True (or episodic_life=True), after which nothing tells whether "
                "it has reset. Build it without, and use make_atari_vec(game, life_loss=True) or "
                "AtariVector(envs, life_loss=True)."
            )
        return result

    def _final(self, observation: Any, ended: Array, info: Mapping[str, Any]) -> Any:
        if self.mode is not SAME_STEP or not ended.any():
            return observation
        rows = np.flatnonzero(ended)
        final = take_rows(self._as_ours(info["final_obs"], "final_obs of step"), rows)
        self._stash.keep(observation, rows)
        observation[rows] = final  # the other rows of final_obs are memory that nobody wrote
        return observation
