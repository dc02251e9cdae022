"""Replay buffers of several libraries with one interface, for `benchmarks.replay`.

Each class is built for a task, filled by `insert` with blocks of steps, and sampled as users of its
library would do. The contents of a batch depend on the library: rlpyt's also have the previous
action and reward, n-step return and bootstrap discount.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

N_ENVS = 8


class Task(NamedTuple):
    """Stored data and sampling of a replay."""

    frames: bool = False  # 84x84x4 uint8 instead of 4 floats
    prioritized: bool = False
    capacity: int = 1_000_000

    @property
    def shape(self) -> tuple[int, ...]:
        return (4, 84, 84) if self.frames else (4,)

    @property
    def dtype(self) -> Any:
        return np.uint8 if self.frames else np.float32


class Block(NamedTuple):
    """Steps [T, N_ENVS] of all environments."""

    observation: Any
    next_observation: Any
    action: Any
    reward: Any
    done: Any


def random_block(task: Task, T: int, seed: int = 0) -> Block:
    """Return random steps; frame stacks share frames, episodes last about 1000 steps."""
    rng = np.random.default_rng(seed)
    if task.frames:
        frames = rng.integers(1, 255, (T + 4, N_ENVS, 84, 84), np.uint8)
        stacks = np.stack([frames[i : i + T + 1] for i in range(4)], axis=2)
    else:
        stacks = rng.random((T + 1, N_ENVS, 4), np.float32)
    action = rng.integers(0, 4, (T, N_ENVS))
    reward = rng.random((T, N_ENVS), np.float32)
    done = np.zeros((T, N_ENVS), bool) if task.frames else rng.random((T, N_ENVS)) < 0.001
    return Block(stacks[:-1], stacks[1:], action, reward, done)


class Rlpyt:
    """Replay buffers of rlpyt, which store each frame once."""

    def __init__(self, task: Task) -> None:
        from rlpyt.replays.non_sequence import frame, prioritized, uniform
        from rlpyt.utils.collections import namedarraytuple

        self.Fields = namedarraytuple(
            "SamplesToBuffer", ["observation", "action", "reward", "done"]
        )
        cls = {
            (False, False): uniform.UniformReplayBuffer,
            (False, True): prioritized.PrioritizedReplayBuffer,
            (True, False): frame.UniformReplayFrameBuffer,
            (True, True): frame.PrioritizedReplayFrameBuffer,
        }[task.frames, task.prioritized]
        example = self.Fields(np.zeros(task.shape, task.dtype), 0, np.float32(0), False)
        self.replay = cls(example=example, size=task.capacity, B=N_ENVS, discount=0.99, seed=0)

    def insert(self, block: Block) -> None:
        samples = self.Fields(block.observation, block.action, block.reward, block.done)
        self.replay.append_samples(samples)

    def sample(self, n: int) -> Any:
        return self.replay.sample_batch(n)

    def update(self, batch: Any, priorities: Any) -> None:
        self.replay.update_batch_priorities(priorities, batch.ticket)


class StableBaselines3:
    """`ReplayBuffer`, which stores full observations and next observations, without priorities."""

    def __init__(self, task: Task) -> None:
        import gymnasium
        from stable_baselines3.common.buffers import ReplayBuffer

        if task.prioritized:
            raise NotImplementedError("Stable-Baselines3 has no prioritized replay")
        bounds = (0, 255) if task.frames else (-np.inf, np.inf)
        space = gymnasium.spaces.Box(*bounds, task.shape, task.dtype)
        actions = gymnasium.spaces.Discrete(4)
        self.replay = ReplayBuffer(task.capacity, space, actions, "cpu", n_envs=N_ENVS)

    def insert(self, block: Block) -> None:
        infos: list[dict[str, Any]] = [{}] * N_ENVS
        for observation, after, action, reward, done in zip(*block):
            self.replay.add(observation, after, action, reward, done, infos)

    def sample(self, n: int) -> Any:
        return self.replay.sample(n)


class Tianshou:
    """`VectorReplayBuffer`, which stores single frames, with next observations in later rows."""

    def __init__(self, task: Task) -> None:
        from tianshou.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer

        self.Batch, self.task = Batch, task
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


class TorchRl:
    """`TensorDictReplayBuffer` with `LazyTensorStorage`, which stores full next observations."""

    def __init__(self, task: Task) -> None:
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


class Cpprb:
    """`ReplayBuffer` in C++, which compresses frames by next_of and stack_compress."""

    def __init__(self, task: Task) -> None:
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


class SumTreeAlone:
    """Sum tree of rlpyt without a replay."""

    def __init__(self, task: Task) -> None:
        from rlpyt.replays.sum_tree import SumTree

        self.rng = np.random.default_rng(0)
        self.tree = SumTree(task.capacity // N_ENVS, N_ENVS, 1, 1)
        self.tree.advance(self.tree.T)
        self.tree.reconstruct(np.arange(task.capacity), self.rng.random(task.capacity))

    def sample(self, n: int) -> Any:
        return self.tree.ticket(self.tree.draw(n, False, self.rng))

    def update(self, batch: Any, priorities: Any) -> None:
        self.tree.update_batch_priorities(priorities, batch)


class PlainDescent:
    """Reference binary sum tree in numpy, one level at a time."""

    def __init__(self, task: Task) -> None:
        self.rng = np.random.default_rng(0)
        self.depth = (task.capacity - 1).bit_length()
        self.first = 1 << self.depth
        self.sums = np.zeros(2 * self.first)
        self.sums[self.first : self.first + task.capacity] = self.rng.random(task.capacity)
        for node in range(self.depth - 1, -1, -1):
            here, below = 1 << node, 1 << (node + 1)
            self.sums[here:below] = self.sums[below : 2 * below].reshape(-1, 2).sum(axis=1)

    def sample(self, n: int) -> Any:
        node, rest = np.ones(n, np.int64), self.rng.random(n) * self.sums[1]
        for _ in range(self.depth):
            node = 2 * node
            left = self.sums[node]
            beyond = rest >= left
            rest = np.where(beyond, rest - left, rest)
            node = node + beyond
        return node, self.sums[node]

    def update(self, batch: Any, priorities: Any) -> None:
        node = batch[0]
        self.sums[node] = priorities
        for _ in range(self.depth):
            node = node // 2
            self.sums[node] = self.sums[2 * node] + self.sums[2 * node + 1]
