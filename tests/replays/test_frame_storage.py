"""Replays of frames: stacks are accepted, other observations refused."""

import numpy as np
import pytest

from rlpyt.replays import frame_storage
from rlpyt.replays.batch import FinalObservations
from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.replays.sequence.frame import UniformSequenceReplayFrameBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.collections import namedarraytuple
from tests.replays.every_replay import assert_same

Fields = namedarraytuple("SamplesToBuffer", ["observation", "action", "reward", "done"])
C, H, W, B = 3, 4, 5, 2


def samples_of(observation, done=None):
    """Samples [T, B] with these observations."""
    T = len(leaves_of(observation)[0])
    done = np.zeros((T, B), bool) if done is None else np.asarray(done, bool)
    return Fields(observation, np.zeros((T, B)), np.zeros((T, B), np.float32), done)


def pictures(T, seed=0):
    """[T, B, C, H, W] of which every channel is new."""
    return np.random.default_rng(seed).integers(1, 255, (T, B, C, H, W), np.uint8)


def stacks(T, seed=0):
    """[T, B, C, H, W] of which one frame is new in each row."""
    frames = np.random.default_rng(seed).integers(1, 255, (T + C - 1, B, H, W), np.uint8)
    return np.stack([frames[f : f + T] for f in range(C)], 2)


def make(T=40, cls=UniformReplayFrameBuffer):
    return cls(samples_of(pictures(1))[0, 0], T * B, B, seed=0)


def append_rows(replay, observation, done=None, batch_T=1):
    samples = samples_of(observation, done)
    for t in range(0, len(observation), batch_T):
        replay.append_samples(samples[t : t + batch_T])


@pytest.mark.parametrize("batch_T", [1, 2, 5])
def test_pictures_in_colours_are_refused_however_short_batches_are(batch_T):
    replay = make()
    with pytest.raises(ValueError, match="stacks of frames"):
        append_rows(replay, pictures(10), batch_T=batch_T)
    assert replay.ring.written < C + batch_T


@pytest.mark.parametrize("batch_T", [1, 4])
def test_a_uniform_beginning_proves_nothing(batch_T):
    replay = make()
    uniform = np.full((frame_storage.STEPS_TO_CHECK, B, C, H, W), 7, np.uint8)
    append_rows(replay, uniform, batch_T=batch_T)
    with pytest.raises(ValueError, match="stacks of frames"):
        append_rows(replay, pictures(8), batch_T=batch_T)


def test_a_still_picture_in_colours_is_refused():
    with pytest.raises(ValueError, match="stacks of frames"):
        append_rows(make(), np.repeat(pictures(1), 10, 0))


@pytest.mark.parametrize("batch_T", [1, 4])
def test_stacks_are_taken_and_given_back(batch_T):
    observation = stacks(100)
    done = np.random.default_rng(1).random((100, B)) < 0.1  # older frames go on after it
    full, frames = make(cls=UniformReplayBuffer), make()
    frames.off_forward = full.off_forward = 2
    for replay in (full, frames):
        append_rows(replay, observation, done, batch_T)
    assert_same(full.sample_batch(50), frames.sample_batch(50))


Masked = namedarraytuple("obs", ["observation", "action_mask"])


@pytest.mark.parametrize("batch_T", [1, 4])
@pytest.mark.parametrize("sequences", [False, True])
def test_a_mask_beside_the_stack_is_stored_with_its_rows(batch_T, sequences):
    rng, T = np.random.default_rng(1), 40
    observation = Masked(stacks(100), rng.integers(0, 2, (100, B, 6), np.int8))
    done = rng.random((100, B)) < 0.1
    classes = (UniformReplayBuffer, UniformReplayFrameBuffer)
    kwargs = {}
    if sequences:
        classes = (UniformSequenceReplayBuffer, UniformSequenceReplayFrameBuffer)
        kwargs = dict(batch_T=5, rnn_state_interval=0)
    example = samples_of(observation)[0, 0]
    full, frames = (cls(example, T * B, B, seed=0, n_step_return=2, **kwargs) for cls in classes)
    frames.off_forward = full.off_forward = 2
    assert frames.bytes_per_transition < full.bytes_per_transition
    finals = Masked(stacks(100, seed=3), 1 - observation.action_mask)
    # A final stack goes on from that of its step.
    finals.observation[:, :, :-1] = observation.observation[:, :, 1:]
    for t in range(0, 100, batch_T):
        rows = slice(t, t + batch_T)
        where = done[rows].nonzero()
        for replay in (full, frames):
            final = FinalObservations(*where, finals[rows][where])
            replay.append_samples(samples_of(observation[rows], done[rows]), final)
    assert_same(full.sample_batch(50), frames.sample_batch(50))
    restored = type(frames)(example, T * B, B, seed=0, n_step_return=2, **kwargs)
    restored.off_forward = 2
    restored.load_state_dict(frames.state_dict())
    assert_same(restored.sample_batch(20), frames.sample_batch(20))
    full.interrupt(), frames.interrupt()
    assert_same(
        *(
            replay.extract_batch(np.arange(10, 15), np.zeros(5, int), *([3] * sequences))
            for replay in (full, frames)
        )
    )


def test_checking_ends_once_it_is_proved():
    replay = make()
    append_rows(replay, stacks(frame_storage.STEPS_TO_CHECK // B + C))
    assert replay.storage._steps_checked >= frame_storage.STEPS_TO_CHECK
    append_rows(replay, pictures(1))  # nobody looks any more


def test_a_stack_held_over_rows_that_are_not_marked_void_is_refused():
    """A lost life ends an episode, the collector waits with it, and the game goes on."""
    observation, done = stacks(12), np.zeros((12, B), bool)
    observation[5:8, 0], done[4:8, 0] = 0, True
    replay = make()
    append_rows(replay, observation[:8], done[:8], batch_T=4)
    before = replay.storage.rows.block.copy()
    with pytest.raises(ValueError, match="zeros, .*copies"):
        append_rows(replay, observation[8:], done[8:], batch_T=4)
    assert replay.ring.written == 8
    np.testing.assert_array_equal(replay.storage.rows.block, before)


def test_older_frames_may_go_on_from_the_batch_before():
    observation, done = stacks(12), np.zeros((12, B), bool)
    done[7] = True
    replay = make()
    append_rows(replay, observation, done, batch_T=4)
    T_idxs, B_idxs = np.array([8, 9]), np.array([0, 1])
    given = replay.extract_observation(T_idxs, B_idxs)
    np.testing.assert_array_equal(given, observation[T_idxs, B_idxs])
