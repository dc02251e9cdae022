"""Replays of cpprb."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import N_ENVS, Block, ReplayTask


class Replay:
    """`ReplayBuffer` in C++, which compresses frames by next_of and stack_compress."""

    def __init__(self, task: ReplayTask) -> None:
        import cpprb

        self.task = task
        shape = (84, 84, 4) if task.frames else task.shape
        env = {
            "obs": {"shape": shape, "dtype": task.dtype},
            "act": {"dtype": np.int64},
            "rew": {"dtype": np.float32},
            "done": {"dtype": np.bool_},
        }
        kwargs: dict[str, Any] = {"next_of": "obs"}
        if task.frames:
            kwargs["stack_compress"] = "obs"
        if task.prioritized:
            self.replay = cpprb.PrioritizedReplayBuffer(task.capacity, env, alpha=0.6, **kwargs)
        else:
            self.replay = cpprb.ReplayBuffer(task.capacity, env, **kwargs)

    def insert(self, block: Block) -> None:
        if not self.task.frames:
            b = [leaf.reshape(-1, *leaf.shape[2:]) for leaf in block]
            self.replay.add(obs=b[0], next_obs=b[1], act=b[2], rew=b[3], done=b[4])
            return
        for env in range(N_ENVS):  # compression requires consecutive rows of one environment
            stacks = [np.moveaxis(leaf[:, env], 1, -1) for leaf in block[:2]]
            self.replay.add(
                obs=stacks[0],
                next_obs=stacks[1],
                act=block.action[:, env],
                rew=block.reward[:, env],
                done=block.done[:, env],
            )

    def sample(self, n: int) -> Any:
        return self.replay.sample(n)

    def update(self, batch: Any, priorities: Any) -> None:
        self.replay.update_priorities(batch["indexes"], priorities)
