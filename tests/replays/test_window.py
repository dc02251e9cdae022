"""Replays of single transitions, compared with plain lists."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.non_sequence.frame import (
    PrioritizedReplayFrameBuffer,
    UniformReplayFrameBuffer,
)
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.time_limit import TlPrioritizedReplayBuffer, TlUniformReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.utils.buffer import buffer_from_example
from rlpyt.utils.collections import namedarraytuple
from tests.oracles.plain_replay import Episodes, PlainReplay

REPLAYS = [
    UniformReplayBuffer,
    PrioritizedReplayBuffer,
    UniformReplayFrameBuffer,
    PrioritizedReplayFrameBuffer,
    TlUniformReplayBuffer,
    TlPrioritizedReplayBuffer,
]


def assert_transition(batch, i, plain, t, b):
    row = plain.rows[t][b]
    np.testing.assert_array_equal(batch.agent_inputs.observation[i], row["observation"])
    np.testing.assert_array_equal(batch.action[i], row["action"])
    prev_action, prev_reward = plain.prev(t, b)
    np.testing.assert_array_equal(batch.agent_inputs.prev_action[i], prev_action)
    assert batch.agent_inputs.prev_reward[i] == prev_reward
    return_, done_n, discount_n, timeout_n, last = plain.target(t, b)
    assert batch.return_[i] == pytest.approx(return_, rel=1e-5, abs=1e-5)
    assert batch.done[i] == row["done"]
    assert batch.done_n[i] == done_n
    assert batch.discount_n[i] == pytest.approx(discount_n, rel=1e-6)
    if "timeout" in batch._fields:
        assert (batch.timeout[i], batch.timeout_n[i]) == (row["timeout"], timeout_n)
    if last is not None:
        np.testing.assert_array_equal(batch.target_inputs.observation[i], last[0])
        np.testing.assert_array_equal(batch.target_inputs.prev_action[i], last[1])
        assert batch.target_inputs.prev_reward[i] == last[2]


@settings(max_examples=150, deadline=None)
@given(
    cls=st.sampled_from(REPLAYS),
    T=st.integers(2, 12),
    B=st.integers(1, 3),
    n=st.integers(1, 4),
    C=st.integers(1, 4),
    chunks=st.lists(st.integers(1, 4), min_size=1, max_size=10),
    interrupts=st.sets(st.integers(0, 9), max_size=3),
    p_cut=st.sampled_from([0.0, 0.2]),
    tell_finals=st.booleans(),
    older=st.sampled_from(["zeros", "copies", "continues"]),
    null_action=st.sampled_from([0, -1]),
    seed=st.integers(0, 2**20),
)
def test_every_transition_is_that_of_plain_lists(
    cls, T, B, n, C, chunks, interrupts, p_cut, tell_finals, older, null_action, seed
):
    episodes = Episodes(B, C, p_cut=p_cut, seed=seed, older=older, timeout="Tl" in cls.__name__)
    settings = dict(discount=0.9, n_step_return=n, null_action=null_action, seed=1)
    settings |= dict(example=episodes.example, size=T * B, B=B)
    before = max(1, C - 1 if "Frame" in cls.__name__ else 0)
    if before + n + 1 > T:
        with pytest.raises(
            ValueError, match=rf"^size .* {(before + n + 1) * B} \({before + n + 1} rows"
        ):
            cls(**settings)
        return
    replay = cls(**settings)
    plain = PlainReplay(T, B, n, 0.9, before, null_action)
    for i, chunk in enumerate(chunks):
        samples, final = episodes.steps(min(chunk, T))
        final = final if tell_finals else None
        replay.append_samples(samples, final)
        plain.append(samples, final)
        if i in interrupts:
            rows = len(plain.rows)
            plain.interrupt()
            assert replay.interrupt() == rows - len(plain.rows) <= 1
            episodes.restart()
    valid = [(t, b) for t in plain.valid(n) for b in range(B)]
    if not valid:
        with pytest.raises(ReplayNotReady):
            replay.sample_batch(2)
        return
    t, b = (np.array(x) for x in zip(*valid))
    batch = replay.extract_batch(t % T, b)
    for i, (t, b) in enumerate(valid):
        assert_transition(batch, i, plain, t, b)
    batch = replay.sample_batch(7)
    for i, observation in enumerate(batch.agent_inputs.observation):
        t, b = plain.place_of(observation)
        assert (t, b) in valid
        assert_transition(batch, i, plain, t, b)


def test_the_null_action_of_a_tree_has_a_value_for_each_leaf():
    Move = namedarraytuple("Move", ["turn", "push"])
    Fields = namedarraytuple("Samples", ["observation", "action", "reward", "done"])
    example = Fields(np.zeros(2), Move(np.int64(0), np.zeros(2, np.float32)), 0.0, False)
    samples = buffer_from_example(example, (5, 1))
    samples.action.push[:], samples.done[1] = 0.5, True
    for null, turn, push in ((-1, -1, [-1, -1]), (Move(7, np.array([1, 2])), 7, [1, 2])):
        replay = UniformReplayBuffer(example, 10, 1, null_action=null)
        replay.append_samples(samples)
        batch = replay.extract_batch(np.array([2, 3]), np.array([0, 0]))
        prev_action = batch.agent_inputs.prev_action
        assert prev_action.turn.tolist() == [turn, 0]
        assert prev_action.push.tolist() == [push, [0.5, 0.5]]
    for wrong in (np.zeros(3), Move(0, np.zeros(3)), Fields(0, 0, 0, 0)):
        with pytest.raises(ValueError, match="null_action"):
            UniformReplayBuffer(example, 10, 1, null_action=wrong)


@pytest.mark.parametrize("cls", REPLAYS)
def test_sampling_reaches_every_valid_row_as_often(cls):
    """chi-square of 6000 draws over 15 to 24 rows; bounds at a probability of 1e-6."""
    episodes = Episodes(B=3, C=2, timeout="Tl" in cls.__name__)
    replay = cls(example=episodes.example, size=30, B=3, n_step_return=2, seed=5)
    for _ in range(5):
        replay.append_samples(episodes.steps(5)[0])
    batch = replay.sample_batch(6000)
    numbers, counts = np.unique(batch.agent_inputs.observation[:, -1], return_counts=True)
    rows = set((numbers.astype(int) - 1) // 100)
    assert rows == set(range(16, 23))
    assert len(numbers) == 21
    expected = 6000 / len(numbers)
    assert ((counts - expected) ** 2 / expected).sum() < 70
    assert isinstance(batch.return_, torch.Tensor)
