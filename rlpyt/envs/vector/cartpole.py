"""Adapter of Gymnasium's vector CartPole, with a random stream and a reset for each row.

``CartPoleVectorEnv`` has one generator for all rows and no partial reset. The adapter uses its
arithmetic, but draws initial states as ``gymnasium.make("CartPole-v1")`` does, so that row i with
seed s has the same episodes as a single environment with seed s.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.utils import seeding

from rlpyt.envs.state import pack_rng, set_rng
from rlpyt.envs.vector.base import Rows
from rlpyt.envs.vector.info import InfoKeys
from rlpyt.envs.vector.source import Array, SourceAdapter

if TYPE_CHECKING:
    from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

STARTS_AHEAD = 16  # initial states per row drawn in one call; same numbers as one by one
_largest = np.maximum.reduce


class CartPoleVector(SourceAdapter):
    """Adapter of ``gymnasium.envs.classic_control.cartpole.CartPoleVectorEnv``.

    Trajectories are those of single environments up to the rounding of the batched arithmetic.
    Initial states are uniform in [-0.05, 0.05], the environment's default.
    """

    def __init__(self, envs: "CartPoleVectorEnv", info_keys: InfoKeys = ()) -> None:
        space = envs.single_observation_space
        super().__init__(
            envs,
            envs.num_envs,
            space,
            envs.single_action_space,
            info_keys,
            horizon=envs.max_episode_steps,
        )
        self._low, self._high = envs.low, envs.high
        self._rngs: list[np.random.Generator] = []
        self._starts = np.zeros((self.n, STARTS_AHEAD, 4))
        self._used = np.zeros(self.n, np.int64)  # number of each row's initial states used

    def _source_reset(self, seeds: list[int] | None) -> tuple[Any, Mapping[str, Any]]:
        self.source.reset()  # allocates its arrays; initial states are replaced
        if seeds is not None or not self._rngs:
            self._rngs = [seeding.np_random(seed)[0] for seed in seeds or self.n * [None]]
            self._draw_ahead(np.arange(self.n))
        return self._source_reset_rows(np.arange(self.n))

    def _source_reset_rows(self, rows: Rows) -> tuple[Any, Mapping[str, Any]]:
        start = self._draw(rows)
        source = self.source
        source.state[:, rows] = start.T
        source.steps[rows] = 0
        source.prev_done[rows] = False  # else the next step would reset them again
        return start.astype(np.float32), {}

    def _draw(self, rows: Rows) -> Array:
        """Return the next initial state [len(rows), 4] from each row's random stream."""
        used = self._used[rows]
        start: Array = self._starts[rows, used]
        self._used[rows] = used = used + 1
        if _largest(used) == STARTS_AHEAD:
            self._draw_ahead(rows[used == STARTS_AHEAD])
        return start

    def _draw_ahead(self, rows: Rows) -> None:
        low, high, shape = self._low, self._high, self._starts[0].shape
        for i in rows:
            self._starts[i] = self._rngs[i].uniform(low=low, high=high, size=shape)
        self._used[rows] = 0

    def get_state(self) -> dict[str, Any] | None:
        """Return positions, counters and random streams of all rows; ``None`` before `reset`."""
        if not self._active_pid:
            return None
        return {
            "state": self.source.state.copy(),
            "steps": self.source.steps.copy(),
            "prev_done": self.source.prev_done.copy(),
            "waiting": self._waiting.mask.copy(),
            "rngs": [pack_rng(rng) for rng in self._rngs],
            "starts": self._starts.copy(),
            "used": self._used.copy(),
            "seeds": self._seeds,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of equally constructed environments."""
        seeds, self._seeds = state["seeds"], None
        self.reset()
        self.source.state[...] = state["state"]
        self.source.steps[...] = state["steps"]
        self.source.prev_done[...] = state["prev_done"]
        self._starts[...], self._used[...] = state["starts"], state["used"]
        self._waiting.remove()
        self._waiting.add(np.asarray(state["waiting"], bool))
        for rng, saved in zip(self._rngs, state["rngs"], strict=True):
            set_rng(rng, saved)
        self._seeds = seeds
