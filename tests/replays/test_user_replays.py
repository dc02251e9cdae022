"""Users' subclasses of replays: overridden methods and combined mixins."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

import rlpyt.replays
from rlpyt.errors import RlpytError
from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.buffer import BaseReplayBuffer
from rlpyt.replays.frame import FrameBufferMixin
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.replays.non_sequence.frame import (
    NStepFrameBuffer,
    PrioritizedReplayFrameBuffer,
    UniformReplayFrameBuffer,
)
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer, SamplesFromReplay
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay, PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import (
    AsyncUniformReplayBuffer,
    UniformReplay,
    UniformReplayBuffer,
)
from rlpyt.replays.selection import PrioritizedSelection, UniformSelection
from rlpyt.replays.sequence.n_step import SequenceNStepReturnBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplay, UniformSequenceReplayBuffer
from rlpyt.replays.sum_tree import SumTree
from rlpyt.utils.collections import namedarraytuple
from tests.oracles.plain_replay import Episodes
from tests.replays.every_replay import LOCAL, assert_same, make, update


def filled(cls, T=12, **kwargs):
    episodes = Episodes(B=2, C=3, seed=1)
    replay = cls(example=episodes.example, size=2 * T, B=2, **kwargs)
    replay.append_samples(*episodes.steps(12))
    return replay


def rows_of(batch):
    return (batch.agent_inputs.observation[:, -1].numpy().astype(int) - 1) // 100


def test_overridden_sample_idxs_chooses_the_rows():
    class Oldest(UniformReplayBuffer):
        def sample_idxs(self, batch_B):
            return np.full(batch_B, 3), np.arange(batch_B) % self.B

    batch = filled(Oldest).sample_batch(4)
    np.testing.assert_array_equal(batch.agent_inputs.observation[:, -1], [301, 302, 301, 302])


def test_a_base_that_would_not_be_used_is_refused():
    class Mine(BaseReplayBuffer):
        def append_samples(self, samples):
            raise AssertionError("not reached")

    with pytest.raises(TypeError, match=r"Both: .*methods of Mine"):
        type("Both", (UniformReplay, Mine), {})
    type("Both", (Mine, UniformReplay), {})


@pytest.mark.parametrize("cls", LOCAL)
def test_overrides_that_change_nothing_give_the_same_batches(cls):
    """The replay without overrides takes a shorter way."""

    class Own(cls):
        def extract_batch(self, T_idxs, B_idxs, *length):
            return super().extract_batch(T_idxs, B_idxs, *length)

        def extract_observation(self, T_idxs, B_idxs, *length):
            return super().extract_observation(T_idxs, B_idxs, *length)

    Own.__name__ = cls.__name__  # which `make` reads
    (own, episodes), (stock, _) = make(Own), make(cls)
    for _ in range(6):
        samples = episodes.steps(8)
        for replay in (own, stock):
            replay.append_samples(*samples)
        one, other = own.sample_batch(9), stock.sample_batch(9)
        assert_same(one, other)
        if one.ticket is not None:
            np.testing.assert_array_equal(one.ticket.leaves, other.ticket.leaves)
        update(own, one)
        update(stock, other)


@pytest.mark.parametrize("base", [UniformSelection, PrioritizedSelection])
def test_a_custom_selection_may_weigh_by_time_and_environment(base):
    seen = []

    class Noted(base):
        def weigh(self, batch, T_idxs, B_idxs):
            seen.append((T_idxs, B_idxs))
            return super().weigh(batch, T_idxs, B_idxs)

    class Own(PrioritizedReplayBuffer if base is PrioritizedSelection else UniformReplayBuffer):
        Selection = Noted

    batch = filled(Own).sample_batch(8)
    ((T_idxs, B_idxs),) = seen
    assert rows_of(batch).tolist() == T_idxs.tolist() and B_idxs.max() == 1


def test_leaves_drawn_beyond_the_ring_are_wrapped_in_the_ticket():
    class Last(PrioritizedSelection):
        def draw(self, n, valid, rng):
            return np.full(n, 3 * self.ring.B + 1) + self.ring.T * self.ring.B

    class Own(PrioritizedReplayBuffer):
        Selection = Last

    replay = filled(Own, alpha=1.0)
    batch = replay.sample_batch(2)
    assert rows_of(batch).tolist() == [3, 3]
    replay.update_batch_priorities(np.array([3.0, 3.0]), batch.ticket)
    assert replay.priority_tree.priorities[3, 1] == 3 and replay.priority_tree.total == 22


def test_overridden_observations_are_in_the_batch():
    class Negative(UniformReplay, NStepFrameBuffer):
        def extract_observation(self, T_idxs, B_idxs):
            return -super().extract_observation(T_idxs, B_idxs)

        def extract_final_observation(self, T_idxs, B_idxs):
            return 0 * super().extract_final_observation(T_idxs, B_idxs)

    class NegativeSequences(UniformSequenceReplayBuffer):
        def extract_observation(self, T_idxs, B_idxs, T):
            return -super().extract_observation(T_idxs, B_idxs, T)

    batch = filled(Negative, n_step_return=3).sample_batch(50)
    assert (batch.agent_inputs.observation <= 0).all()
    assert (batch.target_inputs.observation <= 0).all()
    same = filled(NegativeSequences, rnn_state_interval=0, batch_T=4, seed=1).sample_batch(5)
    plain = filled(UniformSequenceReplayBuffer, rnn_state_interval=0, batch_T=4, seed=1)
    assert torch.equal(same.all_observation, -plain.sample_batch(5).all_observation)


def test_overridden_extract_batch_can_add_a_field():
    """Code written for rlpyt names the fields of the stock batch, and one more."""
    Mine = namedarraytuple("Mine", (*SamplesFromReplay._fields, "age"))

    class Aged(PrioritizedReplayBuffer):
        def extract_batch(self, T_idxs, B_idxs):
            batch = super().extract_batch(T_idxs, B_idxs)
            return Mine(*batch, age=torch.as_tensor((self.t - T_idxs) % self.T))

    replay = filled(Aged)
    batch = replay.sample_batch(6)
    assert batch._fields == (*Mine._fields, "is_weights")
    assert batch.age.tolist() == (12 - rows_of(batch)).tolist()
    replay.update_batch_priorities(torch.ones(6))  # the latest batch


def test_a_selection_written_as_a_mixin():
    class NewestReplay:
        def sample_batch(self, batch_B):
            T_idxs = np.full(batch_B, self.t - 1 - self.n_step_return)
            return self.extract_batch(T_idxs, np.zeros(batch_B, int))

    class NewestReplayBuffer(NewestReplay, NStepReturnBuffer):
        pass

    assert set(rows_of(filled(NewestReplayBuffer, T=20, n_step_return=2).sample_batch(3))) == {9}


def test_mixins_set_their_part_wherever_they_are_combined():
    class Mine(PrioritizedReplay, FrameBufferMixin, NStepReturnBuffer):
        pass

    class MineShared(AsyncReplayBufferMixin, Mine):
        pass

    class MySequences(UniformSequenceReplay, SequenceNStepReturnBuffer):
        pass

    for cls in (Mine, MineShared):
        replay = filled(cls, alpha=1.0)
        assert replay.samples_frames.shape == (14, 2)
        assert "is_weights" in replay.sample_batch(4)._fields
        assert cls.async_ == (replay.rw_lock is not None)
    replay = filled(MySequences, rnn_state_interval=0, batch_T=2)
    assert replay.sample_batch(3).all_reward.shape == (3, 3)


def test_overridden_compute_returns_sets_the_returns():
    class Doubled(UniformReplayBuffer):
        def compute_returns(self, T):
            super().compute_returns(T)
            seen.append((self.t, T))
            self.samples_return_[:] *= 2

    seen = []
    replay = filled(Doubled, T=20, n_step_return=2)
    stock = filled(UniformReplayBuffer, T=20, n_step_return=2)
    assert seen == [(0, 12)]  # the cursor has not moved yet
    np.testing.assert_array_equal(replay.samples_return_[:11], 2 * stock.samples_return_[:11])


def test_wider_margins_around_the_cursor():
    class Cautious(UniformReplayBuffer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.off_backward += 3
            self.off_forward = 4

    assert set(rows_of(filled(Cautious).sample_batch(300))) == {4, 5, 6, 7}


def test_attributes_that_subclasses_read():
    replay = filled(UniformReplayFrameBuffer, T=20, n_step_return=2, discount=0.5)
    assert (replay.T, replay.B, replay.size, replay.t, replay._buffer_full) == (
        20,
        2,
        40,
        12,
        False,
    )
    assert (replay.off_backward, replay.off_forward, replay.n_frames) == (2, 2, 3)
    assert (replay.n_step_return, replay.discount, replay.async_) == (2, 0.5, False)
    np.testing.assert_array_equal(replay.samples_new_frames[3], [301, 302])
    np.testing.assert_array_equal(replay.samples_frames[5], [301, 302])
    assert replay.samples_return_.shape == replay.samples_done_n.shape == (20, 2)
    assert not hasattr(replay.samples, "observation")
    replay = filled(PrioritizedReplayBuffer, alpha=0.3, unique=True)
    assert (replay.alpha, replay.beta, replay.unique) == (0.3, 0.4, True)
    assert replay.priority_tree.T == 12
    replay.init_priority_tree()
    assert replay.priority_tree.total == 20  # ten rows that are on, with default priorities
    one_step = filled(UniformReplayBuffer)
    assert np.shares_memory(one_step.samples_return_, one_step.samples.reward)


def test_bases_are_those_of_the_documentation():
    assert issubclass(UniformReplayFrameBuffer, NStepFrameBuffer)
    assert issubclass(UniformReplayFrameBuffer, UniformReplay)
    assert issubclass(NStepFrameBuffer, FrameBufferMixin)
    assert issubclass(NStepReturnBuffer, BaseNStepReturnBuffer)
    assert issubclass(UniformSequenceReplayBuffer, UniformSequenceReplay)


def test_return_value_of_append_says_where_the_rows_went():
    episodes = Episodes(B=2)
    replay = UniformReplayBuffer(episodes.example, 16, 2)
    n, where = replay.append_samples(episodes.steps(6)[0])
    assert (n, where) == (6, slice(0, 6))
    n, where = replay.append_samples(episodes.steps(4)[0])
    assert (n, where.tolist()) == (4, [6, 7, 0, 1])


@pytest.mark.parametrize("batch_T", [1, 3])
def test_one_frame_and_one_step(batch_T):
    episodes = Episodes(B=2, C=1)
    replay = UniformReplayFrameBuffer(example=episodes.example, size=24, B=2)
    for _ in range(30):
        replay.append_samples(*episodes.steps(batch_T))
    batch = replay.sample_batch(40)
    assert batch.agent_inputs.observation.shape == (40, 1)
    alive = ~batch.done
    step = batch.target_inputs.observation[alive] - batch.agent_inputs.observation[alive]
    assert (step == 100).all()


def test_rows_chosen_by_a_subclass_have_weights_and_a_ticket():
    class Oldest(PrioritizedReplayBuffer):
        def sample_idxs(self, batch_B):
            return np.full(batch_B, 3), np.arange(batch_B) % self.B

    replay = filled(Oldest, alpha=1.0, beta=1.0)
    first = replay.sample_batch(2)
    assert first.is_weights.tolist() == [1, 1]
    replay.update_batch_priorities(np.array([1.0, 4.0]), first.ticket)
    assert replay.priority_tree.priorities[3].tolist() == [1, 4]
    assert replay.sample_batch(2).is_weights.tolist() == [1, 0.25]


def test_observations_can_be_asked_for_while_a_batch_is_extracted():
    """Of rows that the batch has read already, and of others."""

    class Differences(UniformReplayBuffer):
        def extract_observation(self, T_idxs, B_idxs):
            before = super().extract_observation((T_idxs - 1) % self.T, B_idxs)
            return super().extract_observation(T_idxs, B_idxs) - before

    batch = filled(Differences).sample_batch(50)
    assert (batch.agent_inputs.observation[:, -1] == 100).all()
    assert (batch.target_inputs.observation[~batch.done][:, -1] == 100).all()


def test_replays_count_as_subclasses_of_the_mixins_whose_parts_they_have():
    replay = filled(PrioritizedReplayFrameBuffer)
    for cls in (PrioritizedReplay, FrameBufferMixin, NStepFrameBuffer, NStepReturnBuffer):
        assert isinstance(replay, cls)
    for cls in (UniformReplay, AsyncReplayBufferMixin, SequenceNStepReturnBuffer):
        assert not isinstance(replay, cls)
    assert issubclass(AsyncUniformReplayBuffer, AsyncReplayBufferMixin)
    assert not issubclass(PrioritizedReplayFrameBuffer, UniformReplayFrameBuffer)
    assert not issubclass(PrioritizedReplayBuffer, FrameBufferMixin)
    assert not issubclass(dict, UniformReplay)

    class Mine(UniformReplay):
        pass

    assert not isinstance(filled(UniformReplayBuffer), Mine)


def test_a_mixin_locks_methods_that_do_not_call_the_replays():
    class Counting(UniformReplayBuffer):
        def sample_batch(self, batch_B):
            seen.append(self.rw_lock.acquire_write(timeout=0.0))
            return self.extract_batch(*self.sample_idxs(batch_B))

    class Shared(AsyncReplayBufferMixin, Counting):
        pass

    seen = []
    replay = filled(Shared)
    assert len(replay.sample_batch(3).done) == 3
    assert seen == [False]
    assert replay.rw_lock.acquire_write(timeout=0.0)  # nobody holds it any more


def test_a_method_that_samples_cannot_write():
    class Confused(AsyncUniformReplayBuffer):
        def extract_batch(self, T_idxs, B_idxs):
            self.append_samples(Episodes(B=2, C=3).steps(2)[0])

    replay = filled(Confused)
    with pytest.raises(RlpytError, match="cannot be written"):
        replay.sample_batch(3)
    replay.append_samples(Episodes(B=2, C=3).steps(2)[0])


def test_priorities_belong_to_sequences_of_one_length():
    kwargs = dict(rnn_state_interval=0, batch_T=2)
    with pytest.raises(TypeError, match="batch_T .*PrioritizedSequenceReplayBuffer"):
        filled(PrioritizedSequenceReplayBuffer, **kwargs).set_batch_T(3)
    with pytest.raises(ValueError, match="batch_T .* 2"):
        filled(PrioritizedSequenceReplayBuffer, **kwargs).sample_batch(4, 3)
    with pytest.raises(TypeError, match="batch_T .*UniformReplayBuffer"):
        filled(UniformReplayBuffer).set_batch_T(3)


def test_classes_have_one_parent_each():
    several = {
        cls.name
        for path in Path(rlpyt.replays.__file__).parent.rglob("*.py")
        for cls in ast.walk(ast.parse(path.read_text()))
        if isinstance(cls, ast.ClassDef) and len(cls.bases) > 1
    }
    assert several == {"ReplayTooLarge"}  # an error of rlpyt's, and a MemoryError


def test_a_subclass_that_writes_rows_itself_moves_the_cursor():
    class Writing(UniformReplayBuffer):
        def append_samples(self, samples, final=None):
            t, T = self.t, len(samples.reward)
            self.samples[np.arange(t, t + T) % self.T] = samples
            if not self._buffer_full and t + T >= self.T:
                self._buffer_full = True
            self.t = (t + T) % self.T

    own, stock = filled(Writing, T=16), filled(UniformReplayBuffer, T=16)
    for replay in (own, stock):
        replay.append_samples(Episodes(B=2, C=3).steps(6)[0])
        oldest, written = replay.ring.bounds
        assert (replay.t, replay._buffer_full, written - oldest) == (2, True, 16)
    own._buffer_full, own.t = False, 0
    assert own.ring.bounds == (0, 0)


def test_the_hook_for_a_priority_tree_is_called_and_its_tree_used():
    class Counting(SumTree):
        def update_batch_priorities(self, priorities, ticket=None):
            updates.append(priorities.tolist())
            super().update_batch_priorities(priorities, ticket)

    class Own(PrioritizedReplayBuffer):
        def init_priority_tree(self):
            self.priority_tree = Counting(self.T, self.B, self.off_backward, self.off_forward)

    updates = []
    replay = filled(Own, alpha=1.0)
    assert isinstance(replay.priority_tree, Counting) and replay.priority_tree.total == 20
    replay.update_batch_priorities(np.array([3.0, 2.0]), replay.sample_batch(2).ticket)
    assert updates == [[3.0, 2.0]]


def test_a_tree_with_the_methods_of_2019_is_used():
    class Tree:
        def __init__(self):
            self.advanced, self.updated = [], None

        def advance(self, T, priorities=None):
            self.advanced.append((T, priorities))

        def sample(self, n, unique=False):
            return (np.full(n, 5), np.arange(n) % 2), np.array([1.0, 4.0])

        def update_batch_priorities(self, priorities):
            self.updated = priorities

    class Own(PrioritizedReplayBuffer):
        def init_priority_tree(self):
            self.priority_tree = Tree()

    replay = filled(Own, alpha=0.5, beta=1.0)
    assert replay.priority_tree.advanced == [(12, None)]
    batch = replay.sample_batch(2)
    assert rows_of(batch).tolist() == [5, 5] and batch.is_weights.tolist() == [1, 0.25]
    replay.update_batch_priorities(torch.tensor([4.0, 9.0]))
    assert replay.priority_tree.updated.tolist() == [2, 3]


def test_blocks_of_a_users_lock_may_be_nested():
    replay = filled(AsyncUniformReplayBuffer)
    with replay.rw_lock.write_lock, replay.rw_lock.write_lock:
        replay.append_samples(Episodes(B=2, C=3).steps(2)[0])
        with replay.rw_lock:
            assert len(replay.sample_batch(3).done) == 3
    with replay.rw_lock, replay.rw_lock:
        assert len(replay.sample_batch(3).done) == 3
    assert replay.rw_lock.acquire_write(timeout=0.0)  # nobody holds it any more
