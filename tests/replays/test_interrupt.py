"""``interrupt``: episodes that the next samples do not continue."""

import numpy as np
import pytest

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.non_sequence.time_limit import TlUniformReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from tests.oracles.plain_replay import Episodes
from tests.replays.every_replay import LOCAL, SHARED, assert_same, make

ALL = [*LOCAL, SHARED[3]]


def counting(B, rows, start=0, timeout=False):
    """Rows of one long episode: observation, action and reward are the row's number."""
    samples = Episodes(B, p_done=0, p_cut=0, timeout=timeout).steps(rows)[0]
    number = np.arange(start, start + rows, dtype=np.float32)[:, None]
    samples.observation[...], samples.action[...] = number[..., None], number[..., None]
    samples.reward[:] = number
    return samples


def test_windows_end_with_what_is_known():
    replay = UniformReplayBuffer(counting(2, 1)[0, 0], 40, 2, discount=0.5, n_step_return=3)
    replay.append_samples(counting(2, 6))  # rows 0 to 5
    assert replay.interrupt() == 1  # how row 5 went on is unknown
    replay.append_samples(counting(2, 5, start=100))
    batch = replay.extract_batch(np.array([2, 3, 4, 5]), np.array([0, 1, 0, 1]))
    assert batch.return_.tolist() == [2 + 1.5 + 1, 3 + 2, 4, 100 + 50.5 + 25.5]
    assert batch.discount_n.tolist() == [0.125, 0.25, 0.5, 0.125]
    assert batch.target_inputs.observation[:, 0].tolist() == [5, 5, 5, 103]
    assert batch.target_inputs.prev_reward.tolist() == [4, 4, 4, 102]
    assert batch.agent_inputs.prev_reward.tolist() == [1, 2, 3, 0]
    assert batch.done.tolist() == [False, False, True, False]
    assert not batch.done_n.any()


def test_an_interruption_looks_like_a_time_limit():
    replay = TlUniformReplayBuffer(counting(2, 1, timeout=True)[0, 0], 40, 2)
    replay.append_samples(counting(2, 6, timeout=True))
    replay.interrupt()
    replay.append_samples(counting(2, 3, timeout=True))
    batch = replay.extract_batch(np.array([3, 4, 5]), np.array([0, 1, 0]))
    assert batch.timeout.tolist() == batch.timeout_n.tolist() == [False, True, False]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_it_comes_to_the_same_before_and_after_a_checkpoint(cls):
    (one, episodes), (other, _) = make(cls, seed=3), make(cls, seed=4)
    for _ in range(9):
        one.append_samples(*episodes.steps(5))
    one.interrupt()
    other.load_state_dict(one.state_dict())
    assert other.interrupt() == 0  # again: nothing goes on
    episodes.restart()
    for _ in range(9):
        steps = episodes.steps(5)
        for replay in (one, other):
            replay.append_samples(*steps)
        assert_same(one.sample_batch(5), other.sample_batch(5))


def test_episodes_that_have_ended_stay():
    replay = UniformReplayBuffer(counting(2, 1)[0, 0], 40, 2)
    assert replay.interrupt() == 0
    samples = counting(2, 6)
    samples.done[-1] = True
    replay.append_samples(samples)
    assert replay.interrupt() == 0
    assert replay.t == 6


def test_a_single_row_is_forgotten():
    replay = UniformReplayBuffer(counting(2, 1)[0, 0], 40, 2)
    replay.append_samples(counting(2, 1))
    assert (replay.interrupt(), replay.t) == (1, 0)
    with pytest.raises(ReplayNotReady):
        replay.sample_batch(1)


def test_sequences_go_back_to_the_last_stored_state():
    replay, episodes = make(LOCAL[7], T=40, rnn_state_interval=4, batch_T=3)
    episodes.p_done = episodes.p_cut = 0
    replay.append_samples(*episodes.steps(8))
    assert (replay.interrupt(), replay.t) == (4, 4)
    replay.append_samples(*episodes.steps(7))
    assert (replay.interrupt(), replay.t) == (3, 8)


def test_rows_overwritten_by_those_that_went_are_not_held():
    replay = UniformReplayBuffer(counting(1, 1)[0, 0], 10, 1)
    replay.append_samples(counting(1, 10))
    replay.append_samples(counting(1, 1, start=10))  # in place of row 0
    replay.interrupt()
    assert set(replay.sample_batch(200).action[:, 0].tolist()) == set(range(2, 9))
