"""Asynchronous replays of the project: with other batches, other storage, and another tree."""

import numpy as np
import torch
from common import QModel, Walk

from rlpyt.agents.base import AgentInputs
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.algos.dqn.dqn import DQN, SamplesToBuffer
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.non_sequence.n_step import SamplesFromReplay
from rlpyt.replays.non_sequence.prioritized import (
    AsyncPrioritizedReplayBuffer,
    PrioritizedReplayBuffer,
    SamplesFromReplayPri,
)
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer, UniformReplayBuffer
from rlpyt.replays.sequence.prioritized import (
    AsyncPrioritizedSequenceReplayBuffer,
)
from rlpyt.replays.sequence.prioritized import SamplesFromReplayPri as SequencesPri
from rlpyt.replays.sum_tree import SumTree
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import (
    buffer_from_example,
    get_leading_dims,
    numpify_buffer,
    torchify_buffer,
)
from rlpyt.utils.collections import AttrDict, namedarraytuple
from rlpyt.utils.misc import extract_sequences

Extended = namedarraytuple("Extended", [*SamplesFromReplayPri._fields, "age"])
ExtendedSequences = namedarraytuple("ExtendedSequences", [*SequencesPri._fields, "positions"])


class AgedReplay(AsyncPrioritizedReplayBuffer):
    """Adds a field to batches that it draws and weighs itself, without a lock."""

    def sample_batch(self, batch_B):
        self._async_pull()
        (T_idxs, B_idxs), priorities = self.priority_tree.sample(batch_B, unique=self.unique)
        batch = self.extract_batch(T_idxs, B_idxs)
        is_weights = (1.0 / (priorities + 1e-5)) ** self.beta
        is_weights /= max(is_weights)
        age = torch.from_numpy((self.t - 1 - T_idxs) % self.T)
        batch = Extended(*batch, is_weights=torch.from_numpy(is_weights).float(), age=age)
        return self.sanitize(batch)

    def sanitize(self, batch):
        batch.return_[batch.age > 100] = 0
        return batch

    def update_batch_priorities(self, priorities):
        with self.rw_lock.write_lock:
            priorities = numpify_buffer(priorities)
            self.default_priority = max(priorities)
            self.priority_tree.update_batch_priorities(priorities**self.alpha)


class LockedReplay(AsyncUniformReplayBuffer):
    """Takes the lock itself around what it inherits, and counts what it stores."""

    def append_samples(self, samples):
        with self.rw_lock.write_lock:
            self._async_pull()
            returned = super().append_samples(samples)
            self._async_push()
        return returned

    def sample_batch(self, batch_B):
        with self.rw_lock:
            self._async_pull()
            batch = self.extract_batch(*self.sample_idxs(batch_B))
        return batch


class PlainRows(AsyncReplayBufferMixin):
    """Everything of its own but the lock and the cursor."""

    def __init__(self, example, size, B):
        super().__init__()
        self.T, self.B, self.t = size // B, B, 0
        self.samples = buffer_from_example(example, (self.T, B), share_memory=self.async_)

    def append_samples(self, samples):
        with self.rw_lock.write_lock:
            self._async_pull()
            T, _ = get_leading_dims(samples, n_dim=2)
            n = min(T, self.T - self.t)
            self.samples[self.t : self.t + n] = numpify_buffer(samples)[:n]
            self._buffer_full = self._buffer_full or self.t + n == self.T
            self.t = (self.t + n) % self.T
            self._async_push()

    def sample_batch(self, batch_B):
        with self.rw_lock:
            self._async_pull()
            high = self.T - 1 if self._buffer_full else self.t - 1
            T_idxs = np.random.randint(1, high, size=batch_B)
            B_idxs = np.random.randint(0, self.B, size=batch_B)
            s = self.samples
            batch = SamplesFromReplay(
                agent_inputs=AgentInputs(
                    s.observation[T_idxs, B_idxs],
                    s.action[T_idxs - 1, B_idxs],
                    s.reward[T_idxs - 1, B_idxs],
                ),
                action=s.action[T_idxs, B_idxs],
                return_=s.reward[T_idxs, B_idxs],
                done=s.done[T_idxs, B_idxs],
                done_n=s.done[T_idxs, B_idxs],
                target_inputs=AgentInputs(
                    s.observation[T_idxs + 1, B_idxs],
                    s.action[T_idxs, B_idxs],
                    s.reward[T_idxs, B_idxs],
                ),
            )
        return torchify_buffer(batch)


class WritingReplay(UniformReplayBuffer):
    """Writes its rows itself and moves the cursor."""

    def append_samples(self, samples):
        T, _ = get_leading_dims(samples, n_dim=2)
        t = self.t
        idxs = np.arange(t, t + T) % self.T
        self.samples[idxs] = numpify_buffer(samples)
        self.compute_returns(T)
        if not self._buffer_full and t + T >= self.T:
            self._buffer_full = True
        self.t = (t + T) % self.T
        return T, idxs


class SquaredTree(SumTree):
    def update_batch_priorities(self, priorities, *args):
        super().update_batch_priorities(priorities**2, *args)


class SquaredReplay(PrioritizedReplayBuffer):
    """Builds another tree in the hook that the constructor calls."""

    def init_priority_tree(self):
        self.priority_tree = SquaredTree(
            T=self.T,
            B=self.B,
            off_backward=self.off_backward,
            off_forward=self.off_forward,
            default_value=self.default_priority**self.alpha,
            enable_input_priorities=self.input_priorities,
            input_priority_shift=self.input_priority_shift,
        )


class ListTree:
    """A tree of the project, slow and plain."""

    def __init__(self, T, B, off):
        self.values, self.t, self.T, self.B, self.off = np.zeros((T, B)), 0, T, B, off

    def advance(self, T, priorities=None):
        new = np.arange(self.t - self.off, self.t - self.off + T) % self.T
        self.values[new] = 1.0
        self.t = (self.t + T) % self.T
        self.values[np.arange(self.t - self.off, self.t + 1) % self.T] = 0

    def sample(self, n, unique=False):
        flat = self.values.reshape(-1)
        self.drawn = np.random.choice(len(flat), n, p=flat / flat.sum())
        return np.divmod(self.drawn, self.B), flat[self.drawn]

    def update_batch_priorities(self, priorities):
        self.values.reshape(-1)[self.drawn] = priorities


class ListReplay(PrioritizedReplayBuffer):
    def init_priority_tree(self):
        self.priority_tree = ListTree(self.T, self.B, self.off_backward)


class PositionsReplay(AsyncPrioritizedSequenceReplayBuffer):
    def sample_batch(self, batch_B):
        self._async_pull()
        (T_idxs, B_idxs), priorities = self.priority_tree.sample(batch_B, unique=self.unique)
        if self.rnn_state_interval > 1:
            T_idxs = T_idxs * self.rnn_state_interval
        batch = list(self.extract_batch(T_idxs, B_idxs, self.batch_T))
        batch[2] = torch.from_numpy(
            extract_sequences(self.samples.reward, T_idxs - 1, B_idxs, self.batch_T)
        )
        weights = torchify_buffer((1.0 / priorities) ** self.beta).float()
        positions = torch.from_numpy(
            extract_sequences(self.samples.observation, T_idxs, B_idxs, self.batch_T)
        ).argmax(-1)
        return ExtendedSequences(*batch, is_weights=weights, positions=positions)


class Agent(DqnAgent):
    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


class ReplayDQN(DQN):
    """DQN that builds a replay of the project."""

    ReplayCls = None

    def initialize_replay_buffer(self, examples, batch_spec, async_=False):
        example = SamplesToBuffer(
            observation=examples["observation"], action=examples["action"],
            reward=examples["reward"], done=examples["done"],
        )  # fmt: skip
        kwargs = dict(example=example, size=self.replay_size, B=batch_spec.B)
        if issubclass(self.ReplayCls, PrioritizedReplayBuffer):
            kwargs.update(alpha=self.pri_alpha, beta=self.pri_beta_init, default_priority=1.0)
        if self.ReplayCls is not PlainRows:
            kwargs.update(discount=self.discount, n_step_return=self.n_step_return)
        self.replay_buffer = self.ReplayCls(**kwargs)

    def samples_to_buffer(self, samples):
        return SamplesToBuffer(
            observation=samples.env.observation, action=samples.agent.action,
            reward=samples.env.reward, done=samples.env.done,
        )  # fmt: skip


def train(ReplayCls, asynchronous):
    prioritized = issubclass(ReplayCls, PrioritizedReplayBuffer)
    algo = ReplayDQN(
        min_steps_learn=40, replay_size=200, batch_size=8, replay_ratio=4,
        prioritized_replay=prioritized, delta_clip=1.0,
    )  # fmt: skip
    algo.ReplayCls = ReplayCls
    kwargs = dict(algo=algo, agent=Agent(ModelCls=QModel), n_steps=240, log_interval_steps=80)
    if asynchronous:
        affinity = AttrDict(optimizer=[dict(cpus=None)], sampler={}, set_affinity=False)
        sampler = AsyncSerialSampler(Walk, {}, batch_T=5, batch_B=2)
        AsyncRl(sampler=sampler, affinity=affinity, **kwargs).train()
    else:
        MinibatchRl(sampler=SerialSampler(Walk, {}, batch_T=5, batch_B=2), **kwargs).train()
    assert algo.update_counter > 0
    return algo.replay_buffer


def sequences():
    example = SamplesToBuffer(
        observation=np.zeros(5, np.float32), action=np.int64(0), reward=np.float32(0), done=False
    )
    replay = PositionsReplay(
        example=example, size=48, B=2, rnn_state_interval=0, batch_T=4, n_step_return=1
    )
    observation = torch.eye(5)[torch.arange(20) % 5].unsqueeze(1).repeat(1, 2, 1)
    zeros = torch.zeros(20, 2)
    reward = torch.arange(20.0).unsqueeze(1).repeat(1, 2)
    replay.append_samples(SamplesToBuffer(observation, zeros.long(), reward, zeros.bool()))
    batch = replay.sample_batch(6)
    assert batch.positions.shape == batch.all_reward.shape == (4, 6)
    assert ((batch.positions[1:] - batch.positions[:-1]) % 5 == 1).all()
    assert torch.equal((batch.all_reward[0].long() + 1) % 5, batch.positions[0])
    replay.update_batch_priorities(np.ones(6))


if __name__ == "__main__":
    sequences()
    for ReplayCls in (AgedReplay, LockedReplay, PlainRows):
        replay = train(ReplayCls, asynchronous=True)
        replay._async_pull()
        assert (replay._buffer_full, replay.t) == (True, 240 // 2 % 100), (ReplayCls, replay.t)
    for ReplayCls in (WritingReplay, SquaredReplay, ListReplay):
        replay = train(ReplayCls, asynchronous=False)
        assert (replay._buffer_full, replay.t) == (True, 20)
    assert isinstance(replay.priority_tree, ListTree) and (replay.priority_tree.values != 1).any()
