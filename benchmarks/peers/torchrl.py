"""Replays of TorchRL."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Block, ReplayTask


class Replay:
    """`TensorDictReplayBuffer` with `LazyTensorStorage`, which stores full next observations."""

    def __init__(self, task: ReplayTask) -> None:
        import torch
        from tensordict import TensorDict
        from torchrl.data import (
            LazyTensorStorage,
            TensorDictPrioritizedReplayBuffer,
            TensorDictReplayBuffer,
        )

        self.torch, self.TensorDict = torch, TensorDict
        storage = LazyTensorStorage(task.capacity)
        if task.prioritized:
            self.replay: Any = TensorDictPrioritizedReplayBuffer(
                alpha=0.6, beta=0.4, storage=storage, batch_size=256
            )
        else:
            self.replay = TensorDictReplayBuffer(storage=storage, batch_size=256)

    def insert(self, block: Block) -> None:
        size = block.reward.size
        leaves = {
            name: self.torch.from_numpy(np.ascontiguousarray(leaf).reshape(size, *leaf.shape[2:]))
            for name, leaf in zip(Block._fields, block)
        }
        self.replay.extend(self.TensorDict(leaves, [size]))

    def sample(self, n: int) -> Any:
        return self.replay.sample(n)

    def update(self, batch: Any, priorities: Any) -> None:
        batch.set("td_error", self.torch.from_numpy(priorities).float())
        self.replay.update_tensordict_priority(batch)
