"""Replays of sequences, compared with plain lists."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.sequence.frame import (
    PrioritizedSequenceReplayFrameBuffer,
    UniformSequenceReplayFrameBuffer,
)
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from tests.oracles.plain_replay import Episodes, PlainReplay

REPLAYS = [
    UniformSequenceReplayBuffer,
    PrioritizedSequenceReplayBuffer,
    UniformSequenceReplayFrameBuffer,
    PrioritizedSequenceReplayFrameBuffer,
]


def assert_sequence(batch, i, plain, t, b, batch_T):
    n = plain.n
    for k in range(batch_T + n):
        row = plain.rows[t + k][b]
        np.testing.assert_array_equal(batch.all_observation[k, i], row["observation"])
        assert batch.all_done[k, i] == row["done"]
        before = plain.rows[t + k - 1][b]
        action, reward = plain.prev(t, b) if k == 0 else (before["action"], before["reward"])
        np.testing.assert_array_equal(batch.all_action[k, i], action)
        assert batch.all_reward[k, i] == reward
    finals = {}
    if batch.final is not None:
        for k, j, observation in zip(*batch.final):
            if j == i:
                finals[int(k)] = observation.numpy()
    for k in range(batch_T):
        return_, done_n, discount_n, _, last = plain.target(t + k, b)
        assert batch.return_[k, i] == pytest.approx(return_, rel=1e-5, abs=1e-5)
        assert batch.done[k, i] == plain.rows[t + k][b]["done"]
        assert batch.done_n[k, i] == done_n
        assert batch.discount_n[k, i] == pytest.approx(discount_n, rel=1e-6)
        ends = [j for j in range(n) if batch.all_done[k + j, i]]
        if ends and not done_n:
            np.testing.assert_array_equal(finals[k + ends[0]], last[0])
    if batch.init_rnn_state is not None:
        np.testing.assert_array_equal(batch.init_rnn_state[i], plain.rows[t][b]["prev_rnn_state"])


@settings(max_examples=150, deadline=None)
@given(
    cls=st.sampled_from(REPLAYS),
    size_T=st.integers(2, 20),
    B=st.integers(1, 3),
    n=st.integers(1, 3),
    C=st.integers(1, 3),
    interval=st.integers(0, 4),
    batch_T=st.integers(1, 4),
    chunks=st.lists(st.integers(1, 7), min_size=1, max_size=9),
    interrupts=st.sets(st.integers(0, 8), max_size=3),
    p_cut=st.sampled_from([0.0, 0.2]),
    older=st.sampled_from(["zeros", "copies", "continues"]),
    null_action=st.sampled_from([0, -1]),
    seed=st.integers(0, 2**20),
)
def test_every_sequence_is_that_of_plain_lists(
    cls, size_T, B, n, C, interval, batch_T, chunks, interrupts, p_cut, older, null_action, seed
):
    episodes = Episodes(B, C, p_cut=p_cut, seed=seed, older=older, rnn=True)
    settings = dict(
        example=episodes.example,
        size=size_T * B,
        B=B,
        rnn_state_interval=interval,
        batch_T=batch_T,
        discount=0.9,
        n_step_return=n,
        null_action=null_action,
        seed=1,
    )
    before, every = max(1, C - 1 if "Frame" in cls.__name__ else 0), max(1, interval)
    T = -(-size_T // every) * every
    if before + batch_T + n - 1 + every > T:
        with pytest.raises(ValueError, match="^size "):
            cls(**settings)
        return
    replay = cls(**settings)
    assert replay.T == T
    plain = PlainReplay(T, B, n, 0.9, before, null_action)
    for i, chunk in enumerate(chunks):
        samples, final = episodes.steps(min(chunk, T))
        replay.append_samples(samples, final)
        plain.append(samples, final)
        if i in interrupts:
            rows = len(plain.rows)
            plain.interrupt(every)
            assert replay.interrupt() == rows - len(plain.rows) <= every
            episodes.restart()
    starts = [t for t in plain.valid(batch_T + n - 1) if t % every == 0]
    valid = [(t, b) for t in starts for b in range(B)]
    if not valid:
        with pytest.raises(ReplayNotReady):
            replay.sample_batch(2)
        return
    t, b = (np.array(x) for x in zip(*valid))
    batch = replay.extract_batch(t % replay.T, b, batch_T)
    for i, (t, b) in enumerate(valid):
        assert_sequence(batch, i, plain, t, b, batch_T)
    assert (batch.init_rnn_state is None) == (interval == 0)
    batch = replay.sample_batch(7)
    assert batch.return_.shape == (batch_T, 7)
    for i, observation in enumerate(batch.all_observation[0]):
        t, b = plain.place_of(observation)
        assert (t, b) in valid
        assert_sequence(batch, i, plain, t, b, batch_T)


@pytest.mark.parametrize("cls", REPLAYS)
@pytest.mark.parametrize("interval", [0, 3])
def test_sampling_reaches_every_beginning_as_often(cls, interval):
    """chi-square of 6000 draws over 21 or 57 beginnings; bounds at a probability of 1e-6."""
    episodes = Episodes(B=3, C=2, rnn=True)
    settings = dict(rnn_state_interval=interval, batch_T=4, n_step_return=2, seed=5)
    replay = cls(example=episodes.example, size=75, B=3, **settings)
    for _ in range(6):
        replay.append_samples(episodes.steps(7)[0])  # rows 0 to 41
    numbers = replay.sample_batch(6000).all_observation[0, :, -1]
    numbers, counts = np.unique(numbers, return_counts=True)
    rows = (numbers.astype(int) - 1) // 100
    low = 42 - replay.T + 1
    assert set(rows) == {t for t in range(low, 37) if t % max(1, interval) == 0}
    assert len(numbers) == 3 * len(set(rows)) == (21 if interval else 57)
    expected = 6000 / len(numbers)
    assert ((counts - expected) ** 2 / expected).sum() < (70 if interval else 124)


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("cls", REPLAYS)
def test_sizes_that_could_never_be_sampled_are_refused_and_one_more_interval_is_enough(cls, n):
    """Wherever the cursor stands: appends of 1 row, and of a whole interval."""
    episodes = Episodes(B=2, C=4, rnn=True)
    before = 3 if "Frame" in cls.__name__ else 1
    need = before + 120 + n - 1 + 40  # rows before, of the sequence and its targets, and to begin
    T = -(-need // 40) * 40
    settings = dict(example=episodes.example, rnn_state_interval=40, batch_T=120, n_step_return=n)
    with pytest.raises(ValueError, match=rf"^size .* {2 * T} \({T} rows .*\({T - 40} rows\)"):
        cls(size=2 * (T - 40), B=2, **settings)
    replay = cls(size=2 * (T - 40) + 1, B=2, **settings)
    assert replay.T == T
    for rows in [40] * (T // 40) + [1] * 45 + [35] + [40] * 3:
        replay.append_samples(*episodes.steps(rows))
        if replay.ring.full:
            replay.sample_batch(1)


def test_the_border_is_exact():
    """With one row less, there are places of the cursor at which nothing can be sampled."""
    for T, ready in ((8, False), (12, True)):
        episodes = Episodes(B=1, rnn=True)
        settings = dict(rnn_state_interval=4, batch_T=5 if ready else 3)
        replay = UniformSequenceReplayBuffer(episodes.example, T, 1, **settings)
        assert replay.T == T
        with pytest.raises(ValueError, match="^size "):
            replay.set_batch_T(8 if ready else 4)
        replay.set_batch_T(7 if ready else 3)


def test_length_of_uniform_sequences_can_change():
    episodes = Episodes(B=2, seed=3)
    replay = UniformSequenceReplayBuffer(episodes.example, 40, 2, 0)
    replay.append_samples(episodes.steps(20)[0])
    with pytest.raises(ValueError, match="batch_T"):
        replay.sample_batch(3)
    assert replay.sample_batch(3, 5).all_observation.shape == (6, 3, 1)
    replay.set_batch_T(4)
    assert replay.sample_batch(3).all_observation.shape == (5, 3, 1)
    with pytest.raises(ReplayNotReady):
        replay.sample_batch(3, 20)


def test_prioritized_sequences_have_one_length():
    episodes = Episodes(B=2)
    with pytest.raises(ValueError, match="batch_T"):
        PrioritizedSequenceReplayBuffer(
            example=episodes.example, size=40, B=2, rnn_state_interval=0
        )
    replay = PrioritizedSequenceReplayBuffer(
        example=episodes.example, size=40, B=2, rnn_state_interval=0, batch_T=3
    )
    replay.append_samples(episodes.steps(20)[0])
    with pytest.raises(ValueError, match="batch_T"):
        replay.sample_batch(2, 4)


def test_sequences_begin_where_states_are_stored():
    episodes = Episodes(B=1, rnn=True)
    replay = UniformSequenceReplayBuffer(episodes.example, 40, 1, rnn_state_interval=5, batch_T=2)
    replay.append_samples(episodes.steps(20)[0])
    with pytest.raises(ValueError, match="rnn_state_interval=5"):
        replay.extract_batch([7], [0], 2)
    del episodes
    plain = Episodes(B=1)
    with pytest.raises(TypeError, match="prev_rnn_state"):
        UniformSequenceReplayBuffer(plain.example, 40, 1, rnn_state_interval=5)


def test_input_priorities_with_shift_are_those_of_older_rows():
    """R2D1: batches of 2 rows, states every 2, priorities belong to the start one batch before."""
    episodes = Episodes(B=2, rnn=True)
    replay = PrioritizedSequenceReplayBuffer(
        alpha=1.0,
        default_priority=50.0,
        input_priorities=True,
        input_priority_shift=1,
        example=episodes.example,
        size=24,
        B=2,
        rnn_state_interval=2,
        batch_T=3,
    )
    add = replay.append_samples
    from rlpyt.replays.sequence.prioritized import PrioritiesSamplesToBuffer

    for i in range(5):
        priorities = np.array([10.0 * i + 1, 10.0 * i + 2])
        add(PrioritiesSamplesToBuffer(priorities, episodes.steps(2)[0]))
    # Starts at rows 0 2 4 6 8. A window needs 1 row before and 3 after: rows 2, 4, 6 are on.
    expected = np.zeros((6, 2))
    expected[1:4] = [[21, 22], [31, 32], [41, 42]]
    np.testing.assert_array_equal(replay.priority_tree.priorities, expected)
