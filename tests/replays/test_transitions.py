"""Replays of single transitions against plain lists."""

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
from rlpyt.testing.plain_replay import Episodes, PlainReplay

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
    T=st.integers(4, 12),
    B=st.integers(1, 3),
    n=st.integers(1, 4),
    C=st.integers(1, 4),
    chunks=st.lists(st.integers(1, 4), min_size=1, max_size=10),
    p_cut=st.sampled_from([0.0, 0.2]),
    tell_finals=st.booleans(),
    older=st.sampled_from(["zeros", "copies", "goes on"]),
    seed=st.integers(0, 2**20),
)
def test_every_transition_is_that_of_plain_lists(
    cls, T, B, n, C, chunks, p_cut, tell_finals, older, seed
):
    episodes = Episodes(B, C, p_cut=p_cut, seed=seed, older=older, timeout="Tl" in cls.__name__)
    replay = cls(example=episodes.example, size=T * B, B=B, discount=0.9, n_step_return=n, seed=1)
    frames = "Frame" in cls.__name__
    plain = PlainReplay(T, B, n, 0.9, before=max(1, C - 1 if frames else 0))
    for chunk in chunks:
        samples, final = episodes.steps(chunk)
        final = final if tell_finals else None
        replay.append_samples(samples, final)
        plain.append(samples, final)
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
    for i, number in enumerate(batch.agent_inputs.observation[:, -1].tolist()):
        t, b = divmod(int(number) - 1, 100)
        assert (t, b) in valid
        assert_transition(batch, i, plain, t, b)


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
