"""Saving and loading of replays, and their memory."""

import numpy as np
import pytest

from rlpyt.replays.memory import ReplayTooLarge
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer, UniformReplayBuffer
from rlpyt.utils.checkpoint import load_checkpoint, save_checkpoint
from tests.replays.every_replay import LOCAL, SHARED, assert_same, make, update


def go_on(replay, episodes, rounds):
    batches = []
    for _ in range(rounds):
        replay.append_samples(*episodes.steps(3))
        batches.append(replay.sample_batch(5))
        update(replay, batches[-1])
    return batches


@pytest.mark.parametrize("rows", [12, 50], ids=["not full", "wrapped"])
@pytest.mark.parametrize("cls", LOCAL, ids=lambda cls: cls.__name__)
def test_a_checkpoint_resumes_bit_for_bit(cls, rows, tmp_path):
    (replay, episodes), (resumed, same_episodes) = make(cls, seed=3), make(cls, seed=99)
    while replay.ring.written < rows:
        replay.append_samples(*episodes.steps(5))
        same_episodes.steps(5)
    go_on(replay, episodes, 3)
    for _ in range(3):
        same_episodes.steps(3)
    save_checkpoint(tmp_path, {"replay": replay.state_dict()})
    resumed.load_state_dict(load_checkpoint(tmp_path).state["replay"])
    assert (resumed.t, resumed._buffer_full) == (replay.t, replay._buffer_full)
    for one, other in zip(go_on(replay, episodes, 8), go_on(resumed, same_episodes, 8)):
        assert_same(one, other)


def test_only_written_rows_are_saved_and_not_copied():
    replay, episodes = make(UniformReplayBuffer, T=1000)
    replay.append_samples(episodes.steps(10)[0])
    records = replay.state_dict()["storage"]["records"]
    assert len(records) == 20
    assert np.shares_memory(records, replay.storage.rows.block)


def test_a_shared_replay_loads_what_a_local_one_saved():
    (local, episodes), (shared, _) = make(LOCAL[1]), make(SHARED[1])
    local.append_samples(*episodes.steps(15))
    shared.load_state_dict(local.state_dict())
    assert_same(local.sample_batch(6), shared.sample_batch(6))


def test_a_state_of_another_replay_is_refused():
    replay, episodes = make(LOCAL[0])
    replay.append_samples(episodes.steps(5)[0])
    state = replay.state_dict()
    with pytest.raises(ValueError, match="timeout"):
        make(LOCAL[4])[0].load_state_dict(state)
    with pytest.raises(ValueError, match="20 rows"):
        make(LOCAL[0], T=10)[0].load_state_dict(state)
    with pytest.raises(ValueError, match="n_step_return"):
        make(LOCAL[0], n=1)[0].load_state_dict(state)
    with pytest.raises(ValueError, match="PrioritizedSelection"):
        make(LOCAL[1])[0].load_state_dict(state)
    state = make(LOCAL[1], alpha=0.5)[0].state_dict()
    make(LOCAL[1], alpha=0.5, beta=0.9)[0].load_state_dict(state)
    with pytest.raises(ValueError, match="'alpha': 0.5"):
        make(LOCAL[1], alpha=0.6)[0].load_state_dict(state)
    with pytest.raises(ValueError, match="input_priorities"):
        make(LOCAL[1], alpha=0.5, input_priorities=True)[0].load_state_dict(state)


@pytest.mark.parametrize("name, value", [("written", 1.5), ("oldest", -1)])
def test_a_cursor_that_is_no_number_of_rows_is_refused(name, value):
    replay, _ = make(LOCAL[0])
    with pytest.raises((TypeError, ValueError), match=name):
        replay.load_state_dict({**replay.state_dict(), name: value})


def test_a_state_of_too_many_final_observations_is_refused():
    replay, episodes = make(LOCAL[0])
    episodes.p_cut = 0.5
    replay.append_samples(*episodes.steps(15))
    with pytest.raises(ValueError, match="final_capacity"):
        make(SHARED[0], final_capacity=3)[0].load_state_dict(replay.state_dict())


def test_priorities_of_a_batch_from_before_loading_have_no_rows():
    replay, episodes = make(LOCAL[1])
    replay.append_samples(*episodes.steps(15))
    state = replay.state_dict()
    replay.sample_batch(4)
    replay.load_state_dict(state)
    with pytest.raises(RuntimeError, match="sampled"):
        replay.update_batch_priorities(np.ones(4))


@pytest.mark.parametrize("cls", [UniformReplayBuffer, AsyncUniformReplayBuffer])
def test_what_cannot_fit_is_refused_with_the_numbers(cls, monkeypatch):
    monkeypatch.setattr("rlpyt.replays.memory.available_memory", lambda: 50_000_000)
    with pytest.raises(ReplayTooLarge, match=r"25\d MB .* 50 MB"):
        make(cls, T=5_000_000, B=2, n=1)
    assert make(cls, T=500, B=2)[0].nbytes < 50_000


def test_the_refusal_can_be_overruled(monkeypatch):
    monkeypatch.setattr("rlpyt.replays.memory.available_memory", lambda: 1000)
    make(UniformReplayBuffer, T=500, force=True)
    monkeypatch.setenv("RLPYT_FORCE_REPLAY", "1")
    make(UniformReplayBuffer, T=500)


def test_memory_is_laid_out_by_cache_lines_and_counted():
    for shared in (False, True):
        replay, _ = make(AsyncUniformReplayBuffer if shared else UniformReplayBuffer)
        start = replay.storage.rows.block.__array_interface__["data"][0]
        assert start % 64 == 0
        assert replay.nbytes >= replay.storage.rows.block.nbytes


@pytest.mark.parametrize("cls", LOCAL, ids=lambda cls: cls.__name__)
def test_bytes_per_transition_are_what_the_memory_takes(cls):
    replay, _ = make(cls, T=1000)
    taken = replay.nbytes / replay.size
    assert taken == pytest.approx(replay.bytes_per_transition, rel=0.02)
