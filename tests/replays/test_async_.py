"""Replays in shared memory: equality with local ones, and use by several processes."""

import os
import pickle

import numpy as np
import pytest

from rlpyt.replays.non_sequence.prioritized import AsyncPrioritizedReplayBuffer
from rlpyt.utils.processes import start_context
from tests.replays.every_replay import LOCAL, SHARED, assert_same, make, update


@pytest.mark.parametrize("shared, local", list(zip(SHARED, LOCAL)), ids=lambda cls: cls.__name__)
def test_shared_memory_changes_nothing(shared, local):
    assert shared.__name__ == f"Async{local.__name__}"
    (one, episodes), (other, same_episodes) = make(shared), make(local)
    for _ in range(9):
        one.append_samples(*episodes.steps(4))
        other.append_samples(*same_episodes.steps(4))
        if one.ring.written > 8:
            batches = one.sample_batch(5), other.sample_batch(5)
            assert_same(*batches)
            update(one, batches[0])
            update(other, batches[1])
    assert one.async_t.value == one.t == other.t


def fill(replays, result):
    """Child: append to each, and sample."""
    returns = []
    for replay, episodes in replays:
        replay.set_seed(0, rank=1)
        for _ in range(6):
            replay.append_samples(*episodes.steps(5))
        returns.append(replay.sample_batch(4).return_.numpy())
    result.put((os.getpid(), returns))


def test_what_a_child_appends_is_sampled_here():
    replays = [make(cls) for cls in SHARED]
    context = start_context("forkserver")
    result = context.Queue()
    child = context.Process(target=fill, args=(replays, result))
    child.start()
    pid, returns = result.get(timeout=100)
    child.join(20)
    assert (child.exitcode, pid != os.getpid()) == (0, True)
    for cls, (replay, _), return_ in zip(SHARED, replays, returns):
        expected, episodes = make(cls)
        for _ in range(6):
            expected.append_samples(*episodes.steps(5))
        assert replay.ring.written == 30
        assert return_.shape[-1] == 4
        assert_same(replay.sample_batch(8), expected.sample_batch(8))


def write_marked(replay, rounds):
    """Child: rows whose every number is the same, so that a mixture can be told."""
    T, B = 4, replay.B
    for i in range(rounds):
        value = np.full((T, B), float(i + 1), np.float32)
        samples = type(replay.samples)(
            np.repeat(value[..., None], 2, -1),
            np.repeat(value[..., None], 2, -1),
            value,
            np.zeros((T, B), bool),
        )
        replay.append_samples(samples)


def test_readers_never_see_half_written_rows():
    """Every append replaces the whole ring, so a batch under the lock holds one number only."""
    replay, _ = make(AsyncPrioritizedReplayBuffer, T=4, B=64, n=1)
    write_marked(replay, 1)
    context = start_context("forkserver")
    child = context.Process(target=write_marked, args=(replay, 150))
    child.start()
    seen = set()
    while child.is_alive() or len(seen) < 1:
        batch = replay.sample_batch(32)
        values = {*batch.agent_inputs.observation.unique().tolist(), *batch.return_.tolist()}
        assert len(values) == 1
        seen |= values
        update(replay, batch)
    child.join()
    assert child.exitcode == 0
    assert len(seen) > 1


@pytest.mark.parametrize("cls", LOCAL, ids=lambda cls: cls.__name__)
def test_a_local_replay_can_be_pickled_whole(cls):
    replay, episodes = make(cls)
    for _ in range(6):
        replay.append_samples(*episodes.steps(5))
    copy, same_episodes = pickle.loads(pickle.dumps((replay, episodes)))
    for _ in range(3):
        batches = replay.sample_batch(6), copy.sample_batch(6)
        assert_same(*batches)
        update(replay, batches[0])
        update(copy, batches[1])
        replay.append_samples(*episodes.steps(5))
        copy.append_samples(*same_episodes.steps(5))
    assert not np.shares_memory(replay.samples.reward, copy.samples.reward)


def test_batches_can_be_pickled():
    replay, episodes = make(LOCAL[1])
    replay.append_samples(*episodes.steps(9))
    batch = replay.sample_batch(3)
    copy = pickle.loads(pickle.dumps(batch))
    assert type(copy) is type(batch)
    assert_same(copy, batch)
    np.testing.assert_array_equal(copy.ticket.leaves, batch.ticket.leaves)
