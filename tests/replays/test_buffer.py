"""Samples that replays accept and refuse, of all structures."""

import pickle
import warnings

import numpy as np
import pytest
import torch

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.batch import FinalObservations, PrioritiesSamplesToBuffer
from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.time_limit import (
    AsyncTlPrioritizedReplayBuffer,
    TlUniformReplayBuffer,
)
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer, UniformReplayBuffer
from rlpyt.replays.sequence.frame import PrioritizedSequenceReplayFrameBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer
from rlpyt.utils.collections import namedarraytuple, namedtuple_class
from tests.oracles.plain_replay import Episodes

Camera = namedtuple_class("Camera", ["image", "joints"])
Move = namedtuple_class("Move", ["turn", "push"])
Fields = namedarraytuple("SamplesToBuffer", ["observation", "action", "reward", "done"])


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_done_may_be_a_number(dtype, n):
    def samples(cls):
        done = np.zeros((10, 2), cls)
        done[4] = 1
        rows = np.arange(20, dtype=np.float32).reshape(10, 2)
        return torchify_buffer(Fields(rows, np.zeros((10, 2), np.int64), rows, done))

    batches = []
    for cls in (np.bool_, dtype):
        example = Fields(np.float32(0), np.int64(0), np.float32(0), cls(0))
        replay = UniformReplayBuffer(example, 40, 2, n_step_return=n)
        replay.set_seed(3)
        replay.append_samples(samples(cls))
        batches.append(replay.sample_batch(64))
    for name in ("return_", "done", "done_n"):
        assert torch.equal(*(getattr(batch, name) for batch in batches))


def composite(T, B, dtype=np.float32):
    """Samples of nested records, image leaves beyond what goes into a record."""
    example = Fields(
        Camera(np.zeros((3, 20, 20), np.uint8), np.zeros(7, np.float64)),
        Move(np.int32(0), np.zeros(2, np.float16)),
        dtype(0),
        np.bool_(False),
    )
    samples = buffer_from_example(example, (T, B))
    row = np.arange(T)[:, None] * 10 + np.arange(B)
    samples.observation.image[:] = row[..., None, None, None]
    samples.observation.joints[:] = row[..., None]
    samples.action.turn[:] = row
    samples.action.push[:] = row[..., None]
    samples.reward[:] = row
    samples.done[3, 1] = True
    return example, samples


@pytest.mark.parametrize("as_torch", [False, True])
def test_composite_observations_and_actions(as_torch):
    example, samples = composite(9, 2)
    replay = UniformReplayBuffer(example, 40, 2, n_step_return=2, seed=0)
    final = FinalObservations(np.array([3]), np.array([1]), samples.observation[5:6, 0])
    given = (samples, final)
    replay.append_samples(*(map(torchify_buffer, given) if as_torch else given))
    t, b = np.array([1, 2, 3, 4, 5]), np.array([0, 1, 1, 1, 0])
    batch = replay.extract_batch(t, b)
    inputs, target = batch.agent_inputs, batch.target_inputs
    row = torch.as_tensor(t * 10 + b)
    seen = torch.as_tensor([30, 50, 50, 61, 70])  # two steps later, or the final observation
    for leaf, expected in (
        (inputs.observation.image[:, 2, 19, 19], row),
        (inputs.observation.joints[:, 6], row),
        (batch.action.turn, row),
        (batch.action.push[:, 1], row),
        (inputs.prev_action.turn, torch.as_tensor([0, 11, 21, 0, 40])),  # nothing after the end
        (target.observation.image[:, 0, 0, 0], seen),
        (target.observation.joints[:, 0], seen),
        (target.prev_action.push[:, 0], torch.as_tensor([20, 31, 31, 51, 60])),
    ):
        assert torch.equal(leaf.long(), expected)
    assert (inputs.observation.image.dtype, batch.action.push.dtype) == (torch.uint8, torch.float16)
    assert batch.done.tolist() == [False, False, True, False, False]
    assert not batch.done_n.any()


def test_replays_of_different_fields_live_side_by_side():
    plain, timed = Episodes(B=2, seed=1), Episodes(B=2, seed=1, timeout=True)
    replays = [UniformReplayBuffer(e.example, 40, 2, seed=0) for e in (plain, timed)]
    for _ in range(3):
        for replay, episodes in zip(replays, (plain, timed)):
            replay.append_samples(*episodes.steps(4))
    first, second = (replay.sample_batch(5) for replay in replays)
    assert torch.equal(first.return_, second.return_)
    assert "timeout" in replays[1].samples
    assert "timeout" not in replays[0].samples


def test_final_observations_can_be_a_field_of_the_samples():
    one, other = Episodes(B=2, p_cut=0.4), Episodes(B=2, p_cut=0.4)
    replays = [UniformReplayBuffer(one.example, 40, 2, seed=0) for _ in range(2)]
    WithFinal = namedarraytuple("SamplesToBuffer", (*one.Samples._fields, "final"))
    for _ in range(4):
        replays[0].append_samples(*one.steps(5))
        samples, final = other.steps(5)
        replays[1].append_samples(WithFinal(*samples, final))
    first, second = (replay.sample_batch(20) for replay in replays)
    assert torch.equal(first.target_inputs.observation, second.target_inputs.observation)
    assert torch.equal(first.discount_n, second.discount_n)
    assert len(replays[0].storage.finals) > 3


def test_final_observations_are_forgotten_with_their_rows():
    episodes = Episodes(B=2, p_done=0, p_cut=0.5)
    replay = UniformReplayBuffer(episodes.example, 20, 2)
    for _ in range(50):
        replay.append_samples(*episodes.steps(3))
        assert len(replay.storage.finals) == replay.storage.extra.truncated.sum() <= 20


def test_streams_of_other_seeds_and_ranks_differ():
    def drawn(*seed):
        episodes = Episodes(B=2)
        replay = UniformReplayBuffer(episodes.example, 400, 2, seed=1)
        replay.append_samples(episodes.steps(200)[0])
        replay.set_seed(*seed)
        return replay.sample_batch(10).action.tolist()

    assert drawn(3) == drawn(3, 0)
    assert drawn(3) != drawn(3, 1)
    assert drawn(3) != drawn(4)


def filled(cls=UniformReplayBuffer):
    episodes = Episodes(B=2, C=2)
    return cls(episodes.example, 20, 2), episodes.steps(4)[0]


def test_what_an_example_must_be():
    with pytest.raises(TypeError, match="no action, reward"):
        UniformReplayBuffer(namedarraytuple("X", ["observation", "done"])(0, 0), 10, 2)
    with pytest.raises(TypeError, match="numbers"):
        UniformReplayBuffer(Fields("text", 0, 0.0, False), 10, 2)
    with pytest.raises(TypeError, match="C frames"):
        UniformReplayFrameBuffer(Fields(np.float32(0), 0, 0.0, False), 10, 2)
    for name, value in dict(size=0, B=0, n_step_return=0, discount=1.5).items():
        settings = dict(size=10, B=2) | {name: value}
        with pytest.raises(ValueError, match=name):
            UniformReplayBuffer(example=Fields(0.0, 0, 0.0, False), **settings)


def test_samples_that_do_not_fit_are_refused_by_name():
    replay, samples = filled()
    with pytest.raises(ValueError, match=r"B=2\] .* got \[4, 1\]"):
        replay.append_samples(samples[:, :1])
    with pytest.raises(ValueError, match="at most 10 rows"):
        replay.append_samples(buffer_from_example(samples[0, 0], (11, 2)))
    with pytest.raises(TypeError, match="leaves"):
        replay.append_samples(namedarraytuple("X", samples._fields[1:])(*tuple(samples)[1:]))
    with pytest.raises(ValueError, match=r"samples.observation .*\['T', 'B', 2\]"):
        replay.append_samples(samples._replace(observation=samples.observation[..., :1]))
    with pytest.raises(TypeError, match="samples.action .* got complex"):
        replay.append_samples(samples._replace(action=samples.action.astype(np.complex64)))
    assert replay.t == 0
    replay.append_samples(samples)


def test_final_observations_belong_to_steps_that_are_done():
    replay, samples = filled()
    samples.done[:] = False
    final = FinalObservations(np.array([1]), np.array([0]), np.zeros((1, 2), np.float32))
    with pytest.raises(ValueError, match="not done"):
        replay.append_samples(samples, final)
    assert replay.t == 0


def test_final_observations_must_look_like_the_example():
    for cls in (UniformReplayBuffer, UniformReplayFrameBuffer):
        replay, samples = filled(cls)
        samples.done[1, 0] = True
        final = FinalObservations(np.array([1]), np.array([0]), np.zeros((1, 3), np.float32))
        with pytest.raises(ValueError, match=r"\['K', 2\], .*\['K', 3\]"):
            replay.append_samples(samples, final)
        assert replay.t == 0


def test_where_there_is_no_room_for_final_observations_steps_are_terminal():
    episodes = Episodes(B=2, p_done=0, p_cut=0)
    samples, _ = episodes.steps(10)
    samples.done[1::2] = True
    T_idxs, B_idxs = np.nonzero(samples.done)  # ten of them
    final = FinalObservations(T_idxs, B_idxs, -samples.observation[T_idxs, B_idxs])
    settings = dict(n_step_return=2, discount=0.5, final_capacity=6)
    replay = AsyncUniformReplayBuffer(episodes.example, 24, 2, **settings)
    with pytest.warns(UserWarning, match="final observations of 6"):
        replay.append_samples(samples, final)
    batch = replay.extract_batch(np.arange(1, 7), np.zeros(6, int))
    assert batch.done_n.tolist() == [False] * 5 + [True]  # steps 1, 3 and 5 found room, not 7
    assert batch.discount_n.tolist() == [0.5, 0.25, 0.5, 0.25, 0.5, 0]
    assert (batch.target_inputs.observation[:5] < 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(6):  # said once
            replay.append_samples(samples, final)
    assert len(replay.storage.finals) == replay.storage.extra.truncated.sum() == 6


def test_limits_of_forty_steps_fit_into_shared_memory():
    episodes = Episodes(B=16, p_done=0, p_cut=0)
    replay = AsyncUniformReplayBuffer(episodes.example, 16 * 999, 16)
    samples, _ = episodes.steps(40)
    samples.done[np.arange(16), np.arange(16)] = True  # in one row each
    final = FinalObservations(np.arange(16), np.arange(16), np.zeros((16, 1), np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(60):
            replay.append_samples(samples, final)
    assert len(replay.storage.finals) == replay.storage.extra.truncated.sum() >= 16 * 999 // 40


@pytest.mark.parametrize("cls", [TlUniformReplayBuffer, AsyncTlPrioritizedReplayBuffer])
def test_replays_with_time_limits_ask_for_the_field(cls):
    assert cls.time_limits
    assert not UniformReplayBuffer.time_limits
    with pytest.raises(TypeError, match="has no timeout"):
        cls(example=Episodes(B=2).example, size=20, B=2)


def held(replay):
    """Everything, but for how much is known of its frames."""
    replay.storage._steps_checked = 0
    return pickle.dumps(replay)


def test_what_cannot_be_appended_leaves_everything_as_it_was():
    """Of a full ring, in which each wrong sample would be in place of a valid row."""
    episodes = Episodes(B=2, C=2, rnn=True)
    kwargs = dict(rnn_state_interval=2, batch_T=2, alpha=1.0, input_priorities=True)
    replay = PrioritizedSequenceReplayFrameBuffer(
        example=episodes.example, size=20, B=2, seed=0, **kwargs
    )
    for _ in range(6):
        replay.append_samples(*episodes.steps(3))
    samples, _ = episodes.steps(4)
    samples.done[:] = False
    ends = samples.done.copy()
    ends[1] = True
    odd = samples.observation + np.arange(4)[:, None, None]
    final = FinalObservations(np.array([1]), np.array([0]), np.zeros((1, 2), np.float32))
    good = PrioritiesSamplesToBuffer(np.ones((4, 2)), samples)
    before = held(replay)
    for wrong, args in (
        (good._replace(samples=samples._replace(observation=odd)), ()),
        (good._replace(samples=samples._replace(observation=odd, done=ends)), ()),
        (good._replace(priorities=np.ones((2, 2))), ()),
        (good._replace(priorities=-np.ones(2)), ()),
        (good, (final,)),
    ):
        with pytest.raises(ValueError):
            replay.append_samples(wrong, *args)
        assert held(replay) == before


def test_observations_that_are_no_stacks_are_refused():
    replay, samples = filled(UniformReplayFrameBuffer)
    samples.observation[2, 0, 0] += 1
    samples.done[:] = False
    with pytest.raises(ValueError, match="stacks of frames"):
        replay.append_samples(samples)


def test_episodes_that_begin_unlike_any_stack_are_refused():
    replay, samples = filled(UniformReplayFrameBuffer)
    samples.done[1, 0] = True
    samples.observation[2, 0, 0] = 55
    samples.observation[3, 0, 0] = samples.observation[2, 0, 1]
    with pytest.raises(ValueError, match="zeros"):
        replay.append_samples(samples)


def test_the_newest_rows_are_returned_in_order_without_a_draw():
    example, samples = composite(9, 2)
    replay = UniformReplayBuffer(example, 24, 2, seed=0)
    with pytest.raises(ReplayNotReady):
        replay.newest(1)
    for _ in range(2):  # around the end of the ring
        replay.append_samples(samples)
    before = replay.rng.bit_generator.state
    batch = replay.newest(3)
    assert replay.rng.bit_generator.state == before
    # The last row's next observation is not stored yet.
    assert batch.return_.tolist() == [50, 51, 60, 61, 70, 71]
    assert batch.action.turn.tolist() == batch.return_.tolist()
    assert batch.target_inputs.observation.joints[:, 0].tolist() == [60, 61, 70, 71, 80, 81]
    assert len(replay.newest(100).return_) == 2 * (replay.valid()[1] - replay.valid()[0])
    with pytest.raises(ValueError, match="n"):
        replay.newest(0)


def test_the_newest_rows_leave_out_void_ones():
    example, samples = composite(6, 2)
    samples.done[3:, 1] = True
    void = np.zeros((6, 2), bool)
    void[4:, 1] = True
    replay = UniformReplayBuffer(example, 12, 2, seed=0)
    replay.append_batch(samples, void)
    assert replay.newest(3).return_.tolist() == [20, 21, 30, 31, 40]


def test_the_newest_sequences_start_at_stored_states():
    episodes = Episodes(B=2, rnn=True)
    replay = UniformSequenceReplayBuffer(
        episodes.example, 48, 2, rnn_state_interval=3, batch_T=3, seed=0
    )
    samples, final = episodes.steps(13)
    replay.append_samples(samples, final)
    # Rows 9 to 11 and the next observation in row 12; of one after the other environment.
    assert np.array_equal(replay.newest(1).all_reward[1:4].numpy(), samples.reward[9:12])
