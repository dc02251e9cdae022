"""Priorities in a replay of sequences: intervals, shifts, late updates, interruptions."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.batch import PrioritiesSamplesToBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from tests.oracles.plain_replay import Episodes

DEFAULT = 3.0


class Table:
    """Priorities of rows at which sequences can begin, in lists: all rows ever, on or not."""

    def __init__(self, T, B, every, after, shift):
        self.T, self.B, self.every, self.after, self.shift = T, B, every, after, shift
        self.written, self.oldest, self.goes_on = 0, 0, False
        self.given, self.leaves = [], []  # [beginning][b]: what came with samples; what is drawn by

    def is_on(self, j):
        return self.oldest + 1 <= j * self.every < self.written - self.after

    def append(self, n, priorities):
        was_on = [self.is_on(j) for j in range(len(self.given))]
        rows = [t for t in range(self.written, self.written + n) if t % self.every == 0]
        self.given += [[DEFAULT] * self.B for _ in rows]
        self.leaves += [[None] * self.B for _ in rows]
        for t in rows if priorities is not None else ():
            j = t // self.every - self.shift
            if j >= 0:
                row = priorities if priorities.ndim == 1 else priorities[t - self.written]
                self.given[j] = list(row)
                if j < len(was_on) and was_on[j]:
                    self.leaves[j] = list(row)
        self.written, self.goes_on = self.written + n, True
        self.oldest = max(self.oldest, self.written - self.T)
        for j in range(len(self.given)):
            if self.is_on(j) and not (j < len(was_on) and was_on[j]):
                self.leaves[j] = list(self.given[j])

    def interrupt(self):
        if not self.goes_on:
            return
        self.goes_on = False
        self.written = (self.written - 1) // self.every * self.every
        stop = self.written // self.every
        del self.given[stop:], self.leaves[stop:]

    def update(self, rows, B_idxs, values):
        for t, b, value in zip(rows, B_idxs, values):
            if self.is_on(t // self.every):
                self.leaves[t // self.every][b] = value

    def expected(self):
        table = np.zeros((self.T // self.every, self.B))
        for j in range(len(self.given)):
            if self.is_on(j):
                table[j % len(table)] = self.leaves[j]
        return table


@settings(max_examples=150, deadline=None)
@given(
    B=st.integers(1, 3),
    interval=st.integers(0, 4),
    batch_T=st.integers(1, 4),
    shift=st.integers(0, 3),
    steps=st.lists(st.sampled_from("aaasui"), min_size=1, max_size=25),
    seed=st.integers(0, 2**20),
)
@example(B=2, interval=2, batch_T=1, shift=0, steps=list("aaaaaiasau"), seed=543)
def test_priorities_are_those_of_a_plain_table(B, interval, batch_T, shift, steps, seed):
    rng = np.random.default_rng(seed)
    episodes = Episodes(B, p_done=0, p_cut=0, rnn=True)
    replay = PrioritizedSequenceReplayBuffer(
        example=episodes.example,
        size=16 * B,
        B=B,
        rnn_state_interval=interval,
        batch_T=batch_T,
        alpha=1.0,
        default_priority=DEFAULT,
        input_priorities=True,
        input_priority_shift=shift,
        seed=1,
    )
    table = Table(replay.T, B, max(1, interval), batch_T, shift)
    batches = []
    for step in steps:
        if step == "a":
            n = int(rng.integers(1, 7))
            shape = [None, (B,), (n, B)][rng.integers(3)]
            priorities = None if shape is None else rng.random(shape) + 0.1
            samples = episodes.steps(n)[0]
            if priorities is not None:
                samples = PrioritiesSamplesToBuffer(priorities, samples)
            replay.append_samples(samples)
            table.append(n, priorities)
        elif step == "s" and table.expected().any():
            ticket = replay.sample_batch(4).ticket
            j, b = np.divmod(ticket.leaves, B)
            newest = len(table.given) - 1
            batches.append((ticket, (newest - (newest - j) % (len(table.expected()))), b))
        elif step == "u" and batches:
            ticket, j, b = batches.pop(rng.integers(len(batches)))
            values = rng.random(4)
            replay.update_batch_priorities(values, ticket)
            table.update(j * table.every, b, values)
        elif step == "i" and not batches:
            replay.interrupt()
            table.interrupt()
        np.testing.assert_array_equal(replay.priority_tree.priorities, table.expected())
    if not table.expected().any():
        with pytest.raises(ReplayNotReady):
            replay.sample_batch(1)


def make(T=12, B=2, every=2, **kwargs):
    episodes = Episodes(B, p_done=0, p_cut=0, rnn=True)
    settings = dict(rnn_state_interval=every, batch_T=1, alpha=1.0, input_priorities=True, seed=0)
    replay = PrioritizedSequenceReplayBuffer(
        example=episodes.example, size=T * B, B=B, **settings | kwargs
    )
    return replay, episodes


def test_of_priorities_for_every_row_those_at_intervals_are_taken():
    replay, episodes = make()
    for start in (0, 3):  # the second batch begins between two intervals
        given = 10.0 * np.arange(start, start + 3)[:, None] + np.arange(2)
        replay.append_samples(PrioritiesSamplesToBuffer(given, episodes.steps(3)[0]))
    replay.append_samples(episodes.steps(2)[0])
    expected = np.zeros((6, 2))
    expected[1:3] = [[20, 21], [40, 41]]
    np.testing.assert_array_equal(replay.priority_tree.priorities[:3], expected[:3])


@pytest.mark.parametrize("shape", [(2, 2), (4, 1), (4,), (4, 2, 1)])
def test_priorities_of_another_shape_are_refused_before_anything_is_written(shape):
    replay, episodes = make()
    replay.append_samples(episodes.steps(4)[0])
    leaves = replay.priority_tree.leaves.copy()
    with pytest.raises(ValueError, match=r"\[4, 2\] or \[B\] = \[2\]"):
        replay.append_samples(PrioritiesSamplesToBuffer(np.ones(shape), episodes.steps(4)[0]))
    assert replay.t == 4
    np.testing.assert_array_equal(replay.priority_tree.leaves, leaves)


def test_priorities_can_be_levelled_in_the_middle_of_a_run():
    replay, episodes = make(default_priority=DEFAULT)
    for _ in range(5):
        replay.append_samples(PrioritiesSamplesToBuffer(np.ones(2), episodes.steps(4)[0]))
    batch = replay.sample_batch(4)
    on = replay.priority_tree.priorities > 0
    replay.init_priority_tree()
    np.testing.assert_array_equal(replay.priority_tree.priorities, np.where(on, DEFAULT, 0))
    replay.update_batch_priorities(np.full(4, 9.0), batch.ticket)  # rows have stayed in place
    assert (replay.priority_tree.leaves[batch.ticket.leaves] == 9).all()
    replay.append_samples(PrioritiesSamplesToBuffer(np.full(2, 5.0), episodes.steps(4)[0]))
    replay.append_samples(episodes.steps(4)[0])
    assert np.count_nonzero(replay.priority_tree.priorities == 5) == 4
