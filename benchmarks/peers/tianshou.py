"""Replays of Tianshou."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import N_ENVS, Block, ReplayTask


class Replay:
    """`VectorReplayBuffer`, which stores single frames, with next observations in later rows."""

    def __init__(self, task: ReplayTask) -> None:
        from tianshou.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer

        self.Batch = Batch
        kwargs: dict[str, Any] = {}
        if task.frames:
            kwargs = {"stack_num": 4, "ignore_obs_next": True, "save_only_last_obs": True}
        if task.prioritized:
            self.replay = PrioritizedVectorReplayBuffer(
                task.capacity, N_ENVS, alpha=0.6, beta=0.4, **kwargs
            )
        else:
            self.replay = VectorReplayBuffer(task.capacity, N_ENVS, **kwargs)

    def insert(self, block: Block) -> None:
        never = np.zeros(N_ENVS, bool)
        for observation, after, action, reward, done in zip(*block):
            self.replay.add(
                self.Batch(
                    obs=observation,
                    obs_next=after,
                    act=action,
                    rew=reward,
                    terminated=done,
                    truncated=never,
                    done=done,
                    info={},
                )
            )

    def sample(self, n: int) -> Any:
        return self.replay.sample(n)

    def update(self, batch: Any, priorities: Any) -> None:
        self.replay.update_weight(batch[1], priorities)
