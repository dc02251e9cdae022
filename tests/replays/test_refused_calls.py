"""Errors of replays: they name the argument, and leave the replay unchanged."""

import numpy as np
import pytest
import torch

from rlpyt.errors import ReplayNotReady, RlpytError
from rlpyt.replays.batch import FinalObservations
from rlpyt.replays.memory import FORCE, ReplayTooLarge
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.utils.collections import namedarraytuple

Step = namedarraytuple("Step", ["observation", "action", "reward", "done"])
EXAMPLE = Step(np.zeros(4, np.float32), np.int64(0), np.float32(0), np.bool_(False))
T, B = 10, 2


def empty(cls=PrioritizedReplayBuffer, size=100, **kwargs):
    return cls(example=EXAMPLE, size=size, B=B, **kwargs)


def steps():
    reward = np.arange(T * B, dtype=np.float32).reshape(T, B)
    done = np.ones((T, B), np.bool_)
    return Step(np.zeros((T, B, 4), np.float32), np.zeros((T, B), np.int64), reward, done)


def filled(cls=PrioritizedReplayBuffer):
    replay = empty(cls)
    replay.append_samples(steps())
    return replay


def seen(*shape):
    return np.zeros((*shape, 4), np.float32)


def test_a_uniform_replay_has_no_beta():
    with pytest.raises(TypeError, match="importance weights"):
        empty(UniformReplayBuffer).set_beta(0.5)


@pytest.mark.parametrize(
    "final,error,message",
    [
        (FinalObservations([1, 2], [0, 1], seen(1)), ValueError, r"T_idxs and .* got \[2\] and"),
        (FinalObservations([1], [0, 1], seen(1)), ValueError, r"B_idxs and .* got \[2\]"),
        (FinalObservations([-1], [0], seen(1)), ValueError, "T_idxs .*got -1"),
        (FinalObservations([10], [0], seen(1)), ValueError, "T_idxs .*got 10"),
        (FinalObservations([1], [2], seen(1)), ValueError, "B_idxs .*got 2"),
        (FinalObservations([1.5], [0], seen(1)), TypeError, "T_idxs .*integers"),
        (([1], [0], seen(1)), TypeError, "FinalObservations"),
    ],
)
def test_final_observations_of_other_steps_are_refused_before_rows_are_written(
    final, error, message
):
    replay = filled()
    before = replay.samples.reward.copy()
    samples = steps()
    samples.reward[:] = 100
    with pytest.raises(error, match=message):
        replay.append_samples(samples, final)
    np.testing.assert_array_equal(replay.samples.reward, before)
    assert replay.t == T


@pytest.mark.parametrize("none", [[], np.zeros(0, np.int64), torch.zeros(0, dtype=torch.int64)])
def test_there_may_be_no_final_observations(none):
    replay = empty()
    assert replay.append_samples(steps(), FinalObservations(none, none, seen(0)))[0] == T


@pytest.mark.parametrize("samples", [tuple(steps()), dict(steps().items())])
def test_samples_are_named_tuples(samples):
    with pytest.raises(TypeError, match="samples .*named tuple"):
        empty().append_samples(samples)


@pytest.mark.parametrize("cls", [UniformReplayBuffer, PrioritizedReplayBuffer])
def test_a_batch_has_rows(cls):
    for wrong, error in ((0, ValueError), (-1, ValueError), (2.5, TypeError)):
        with pytest.raises(error, match=f"batch_B={wrong}"):
            filled(cls).sample_batch(wrong)


def test_priorities_are_described_by_what_is_wrong():
    with pytest.raises(TypeError, match="uniform .*no priorities"):
        filled(UniformReplayBuffer).update_batch_priorities(np.ones(3))
    replay = filled()
    batch = replay.sample_batch(2000)
    priorities = np.ones(2000)
    priorities[3:5] = np.nan
    with pytest.raises(ValueError, match="2 of 2000 .*nan"):
        replay.update_batch_priorities(priorities, batch.ticket)
    for _ in range(5):
        batch = replay.sample_batch(50)
        replay.update_batch_priorities(np.zeros(50), batch.ticket)
        if not replay.priority_tree.leaves.any():
            break
    with pytest.raises(ReplayNotReady, match="priority zero"):
        replay.sample_batch(1)


def test_beta_lies_between_none_and_full():
    with pytest.raises(ValueError, match="beta=2"):
        empty(beta=2)
    with pytest.raises(ValueError, match="beta=5"):
        empty().set_beta(5)


def test_a_ticket_is_that_of_the_batch_as_it_was_drawn():
    batch = filled().sample_batch(8)
    for derived in (batch[0:3], batch._replace(done=batch.done)):
        with pytest.raises(AttributeError, match="'ticket'"):
            _ = derived.ticket
    assert filled(UniformReplayBuffer).sample_batch(8).ticket is None


def test_too_large_a_replay_names_a_size_that_fits(monkeypatch):
    monkeypatch.setattr("rlpyt.replays.memory.available_memory", lambda: 100_000)
    with pytest.raises(ReplayTooLarge, match=rf"a size of [\d,]+ .*\({FORCE}=1") as error:
        empty(UniformReplayBuffer, size=1_000_000)
    assert isinstance(error.value, RlpytError)
    size = int(str(error.value).split("a size of ")[1].split(" fits")[0].replace(",", ""))
    assert 50_000 < empty(UniformReplayBuffer, size=size).nbytes < 100_000
    monkeypatch.setenv(FORCE, "1")
    assert empty(UniformReplayBuffer, size=10_000).nbytes > 100_000


def test_loading_into_another_replay_names_only_what_differs():
    with pytest.raises(ValueError) as error:
        empty(size=200).load_state_dict(empty().state_dict())
    assert str(error.value) == (
        "the settings must be those of the saved replay, {'rows': '50 rows of 2'}, got "
        "{'rows': '100 rows of 2'}. Construct the replay with the saved settings."
    )
    empty(discount=0.5).load_state_dict(empty().state_dict())  # of single rewards
    two = dict(n_step_return=2)
    with pytest.raises(ValueError, match=r"\{'discount': [01][.\d]*\}, got \{'discount': 0.5\}"):
        empty(**two, discount=0.5).load_state_dict(empty(**two).state_dict())
    other = PrioritizedReplayBuffer(example=EXAMPLE._replace(action=np.int32(0)), size=100, B=B)
    with pytest.raises(ValueError, match="action") as error:
        other.load_state_dict(empty().state_dict())
    assert "observation" not in str(error.value)
