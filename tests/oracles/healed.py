"""Batches of CountEnv and EchoAgent with void rows, against their definitions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.utils.buffer import leaves_of


class HealedRows:
    """Checks batch after batch of a sampler with ``on_fault``.

    A row is void or follows from the row before it; void rows are whole episodes (from their first
    row in the batch), zero and done; an episode that a fault has broken is never continued, nor
    counted as ended.

    Attributes:
        n_void: number of void rows so far.
    """

    def __init__(self, B: int) -> None:
        self._expected: list[Any] = [None] * B  # (rank, episode, t) of the next row
        self.n_void = 0

    def check(self, samples: Any, infos: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Check a batch and its trajectories; return the number of void rows by environment."""
        env, agent = samples.env, samples.agent
        T, B = env.done.shape
        returns = []
        zero = leaves_of((agent.action, env.observation, env.reward, env.env_info))
        for b in range(B):
            for t in range(T):
                if env.void[t, b]:
                    assert env.done[t, b]
                    assert not any(np.any(leaf[t, b]) for leaf in zero)
                    assert t == 0 or env.done[t - 1, b]
                    self._expected[b] = None
                    continue
                rank, episode, age = env.observation[t, b].tolist()
                assert self._expected[b] in (None, (rank, episode, age))
                assert self._expected[b] is not None or age == 0
                assert env.reward[t, b] == 100 * episode + age + 1
                assert agent.agent_info.memory[t, b] == age
                over = env.env_info.traj_done[t, b]
                assert over == env.done[t, b]
                self._expected[b] = None if over else (rank, episode, age + 1)
                if over:
                    returns.append(sum(100 * episode + k + 1 for k in range(int(age) + 1)))
        assert sorted(info.Return for info in infos) == sorted(returns)
        self.n_void += int(env.void.sum())
        by_env: np.ndarray[Any, Any] = env.void.sum(0)
        return by_env
