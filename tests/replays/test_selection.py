"""Prioritized replay: weights, tickets, priorities of new samples."""

import numpy as np
import pytest
import torch

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.batch import PrioritiesSamplesToBuffer
from rlpyt.replays.non_sequence.prioritized import (
    AsyncPrioritizedReplayBuffer,
    PrioritizedReplayBuffer,
)
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.utils.buffer import buffer_to
from tests.oracles.plain_replay import Episodes


def make(T=12, B=2, **kwargs):
    episodes = Episodes(B, seed=3)
    settings = dict(alpha=0.5, beta=0.4, default_priority=4.0, seed=0) | kwargs
    replay = PrioritizedReplayBuffer(example=episodes.example, size=T * B, B=B, **settings)
    return replay, episodes


def row_and_column(batch):
    """(absolute row, column) of every sample, which its observation says."""
    return np.divmod(batch.agent_inputs.observation[:, -1].numpy().astype(int) - 1, 100)


def test_new_samples_have_the_default_priority_to_the_alpha():
    replay, episodes = make()
    replay.append_samples(episodes.steps(5)[0])
    expected = np.zeros((12, 2))
    expected[1:4] = 2.0  # 4 ** 0.5, of rows with one before and one after
    np.testing.assert_array_equal(replay.priority_tree.priorities, expected)


@pytest.mark.parametrize("Cls", [PrioritizedReplayBuffer, AsyncPrioritizedReplayBuffer])
def test_the_default_priority_can_be_changed_for_samples_to_come(Cls):
    episodes = Episodes(2, seed=3)
    replay = Cls(example=episodes.example, size=24, B=2, alpha=0.5, default_priority=4.0)
    replay.append_samples(episodes.steps(5)[0])
    replay.set_default_priority(25.0)
    replay.append_samples(episodes.steps(2)[0])
    assert replay.priority_tree.priorities[1:6, 0].tolist() == [2, 2, 2, 5, 5]
    with pytest.raises(ValueError, match="default_value"):
        replay.set_default_priority(0.0)


def test_updates_reach_the_rows_of_the_batch_and_weigh_the_next():
    replay, episodes = make()
    replay.append_samples(episodes.steps(12)[0])
    batch = replay.sample_batch(400)
    t, b = row_and_column(batch)
    replay.update_batch_priorities(torch.as_tensor((10 * t + b) ** 2.0), batch.ticket)
    expected = np.zeros((12, 2))
    expected[1:11] = 10 * np.arange(1, 11)[:, None] + np.arange(2)
    np.testing.assert_array_equal(replay.priority_tree.priorities, expected)
    batch = replay.sample_batch(500)
    t, b = row_and_column(batch)
    weights = (10.0 * t + b) ** -0.4
    np.testing.assert_allclose(batch.is_weights, weights / weights.max(), rtol=1e-6)
    assert batch.is_weights.dtype == torch.float32


def test_beta_can_be_annealed():
    replay, episodes = make(default_priority=1.0)
    replay.append_samples(episodes.steps(12)[0])
    batch = replay.sample_batch(100)
    replay.update_batch_priorities(np.arange(100.0), batch.ticket)
    replay.set_beta(0.0)
    assert (replay.sample_batch(50).is_weights == 1).all()
    replay.set_beta(1.0)
    assert replay.beta == 1.0
    batch = replay.sample_batch(50)
    leaves = replay.priority_tree.leaves[batch.ticket.leaves]
    np.testing.assert_allclose(batch.is_weights, leaves.min() / leaves, rtol=1e-6)


def test_two_samples_before_one_update_each_keep_their_rows():
    replay, episodes = make(alpha=1.0)
    replay.append_samples(episodes.steps(12)[0])
    first, second = replay.sample_batch(60), replay.sample_batch(60)
    for batch, value in ((first, 7.0), (second, 9.0)):
        replay.update_batch_priorities(np.full(60, value), batch.ticket)
    leaves = replay.priority_tree.leaves
    assert (leaves[second.ticket.leaves] == 9).all()
    only_first = np.setdiff1d(first.ticket.leaves, second.ticket.leaves)
    assert (leaves[only_first] == 7).all()


def test_without_a_ticket_the_latest_batch_is_meant():
    replay, episodes = make(alpha=1.0)
    replay.append_samples(episodes.steps(12)[0])
    replay.sample_batch(5)
    latest = replay.sample_batch(5)
    replay.update_batch_priorities(np.full(5, 9.0))
    assert set(np.flatnonzero(replay.priority_tree.leaves == 9)) == set(latest.ticket.leaves)


def test_rows_overwritten_since_are_passed_over():
    replay, episodes = make(alpha=1.0)
    replay.append_samples(episodes.steps(12)[0])
    batch = replay.sample_batch(200)  # all of rows 1 to 10
    replay.append_samples(episodes.steps(5)[0])  # rows 0 to 4 are gone, row 5 lost the row before
    replay.update_batch_priorities(np.full(200, 9.0), batch.ticket)
    expected = np.full((12, 2), 4.0)
    expected[6:11] = 9.0  # of rows 6 to 10
    expected[[4, 5]] = 0.0  # the newest and the oldest
    np.testing.assert_array_equal(replay.priority_tree.priorities, expected)


def test_samples_can_bring_priorities():
    replay, episodes = make(alpha=0.5, input_priorities=True)
    given = np.arange(10.0).reshape(5, 2)
    replay.append_samples(PrioritiesSamplesToBuffer(torch.as_tensor(given), episodes.steps(5)[0]))
    replay.append_samples(episodes.steps(1)[0])
    expected = np.zeros((12, 2))
    expected[1:5] = given[1:] ** 0.5
    np.testing.assert_allclose(replay.priority_tree.priorities, expected)


def test_rows_of_zero_priority_are_never_drawn():
    replay, episodes = make(alpha=1.0)
    replay.append_samples(episodes.steps(12)[0])
    batch = replay.sample_batch(300)
    t, _ = row_and_column(batch)
    replay.update_batch_priorities(np.where(t < 6, 0.0, 1.0), batch.ticket)
    t, _ = row_and_column(replay.sample_batch(2000))
    assert set(t) == {6, 7, 8, 9, 10}


def test_batches_without_repetition():
    replay, episodes = make(unique=True)
    replay.append_samples(episodes.steps(12)[0])
    t, b = row_and_column(replay.sample_batch(20))
    assert sorted(zip(t, b)) == [(t, b) for t in range(1, 11) for b in range(2)]
    with pytest.raises(ReplayNotReady, match="20"):
        replay.sample_batch(21)


@pytest.mark.parametrize("bad", [[-1.0, 1.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_bad_priorities_are_refused(bad):
    replay, episodes = make()
    replay.append_samples(episodes.steps(12)[0])
    replay.sample_batch(2)
    before = replay.priority_tree.leaves.copy()
    with pytest.raises(ValueError, match="finite"):
        replay.update_batch_priorities(bad)
    np.testing.assert_array_equal(replay.priority_tree.leaves, before)


def test_priorities_must_be_announced():
    replay, episodes = make()
    given = PrioritiesSamplesToBuffer(np.ones(2), episodes.steps(5)[0])
    with pytest.raises(TypeError, match="input_priorities=True"):
        replay.append_samples(given)
    uniform = UniformReplayBuffer(episodes.example, 24, 2)
    with pytest.raises(TypeError, match="uniform"):
        uniform.append_samples(given)
    for settings in (dict(alpha=-1), dict(beta=-0.1), dict(default_priority=0.0)):
        with pytest.raises(ValueError, match=next(iter(settings))):
            make(**settings)


def test_a_batch_unpacks_as_documented_and_moves_as_a_whole():
    replay, episodes = make(discount=0.5)
    replay.append_samples(episodes.steps(12)[0])
    batch = replay.sample_batch(3)
    _, action, _, _, _, _, is_weights = batch
    assert (action is batch.action, is_weights is batch.is_weights) == (True, True)
    assert batch._fields[:3] == ("agent_inputs", "action", "return_")
    assert batch._fields[3:] == ("done", "done_n", "target_inputs", "is_weights")
    moved = buffer_to(batch, torch.device("cpu"))
    assert moved.ticket is batch.ticket
    assert torch.equal(moved.discount_n, batch.discount_n)
    assert torch.equal(batch._replace(action=action).discount_n, batch.discount_n)
    with pytest.raises(AttributeError, match="sample_batch"):
        _ = batch[:2].discount_n
    with pytest.raises(AttributeError, match="'nonsense'"):
        _ = batch.nonsense
