"""Void rows are stored in line with the others, and never drawn."""

import numpy as np
import pytest

from rlpyt.errors import ReplayNotReady
from rlpyt.replays.batch import FinalObservations
from rlpyt.replays.non_sequence import frame, prioritized, uniform
from rlpyt.utils.buffer import numpify_buffer
from tests.oracles.plain_replay import Episodes, PlainReplay
from tests.replays.every_replay import LOCAL, SHARED, assert_same, update

B, C, ROWS, DISCOUNT = 2, 3, 48, 0.9


class PlainRows:
    """Every environment's rows in a list without the void ones, and where they were."""

    def __init__(self, n):
        self.lists = [PlainReplay(10**6, 1, n, DISCOUNT, 1) for _ in range(B)]
        self.where = [{} for _ in range(B)]
        self.void = []  # [B] bool of every row

    def append(self, samples, final):
        finals = {}
        if final is not None:
            keys = zip(final.T_idxs.tolist(), final.B_idxs.tolist())
            finals = dict(zip(keys, final.observation))
        for b, (rows, where) in enumerate(zip(self.lists, self.where)):
            if samples.void[0, b]:  # also what an open episode has recorded before
                while rows.rows and not rows.rows[-1][0]["done"]:
                    rows.rows.pop()
                    self.void[where_last(where)][b] = True
                    del where[where_last(where)]
            kept = (~samples.void[:, b]).nonzero()[0]
            at = np.array([i for i, t in enumerate(kept) if (t, b) in finals], int)
            own = FinalObservations(at, 0 * at, [finals[kept[i], b] for i in at])
            for t in kept:
                where[len(self.void) + int(t)] = len(where)
            rows.append(samples[kept][:, b : b + 1], own)
        self.void += list(samples.void.copy())

    def at(self, t, b):
        """The list of an environment, and the place in it of row t."""
        return self.lists[b], self.where[b][t]


def where_last(where):
    return next(reversed(where))


def make(cls, n, older="zeros", seed=3, p_break=0, **kwargs):
    name = cls.__name__
    sequence = "Sequence" in name
    void = dict(p_break=p_break) if p_break else dict(wait=True)
    episodes = Episodes(B, C, seed=3, rnn=sequence, timeout="Tl" in name, older=older, **void)
    if sequence:
        kwargs = dict(rnn_state_interval=2, batch_T=4) | kwargs
    settings = dict(size=ROWS * B, B=B, discount=DISCOUNT, n_step_return=n, seed=seed)
    return cls(example=episodes.example, **settings, **kwargs), episodes


def fill(replay, episodes, batch_T, rows=2 * ROWS):
    """Write batches, and draw from the replay between them; yields (plain rows, batch)."""
    plain, drawn = PlainRows(replay.n_step_return), None
    while len(plain.void) < rows:
        steps = episodes.steps(batch_T)
        replay.append_samples(*steps)
        plain.append(*steps)
        if drawn is not None:  # rows that were drawn may have become void
            update(replay, drawn)
        try:
            drawn = replay.sample_batch(16)
        except ReplayNotReady:
            continue
        yield plain, numpify_buffer(drawn)
    update(replay, drawn)


def place_of(stack):
    number = abs(int(stack[-1])) - 1
    return number // 100, number % 100


def check_target(batch, i, plain, t, b):
    rows, at = plain.at(t, b)
    target = rows.target(at, 0)
    assert np.isclose(batch.return_[i], target.return_, atol=1e-5)
    assert batch.done_n[i] == target.done_n
    assert np.isclose(batch.discount_n[i], target.discount_n)
    return target


def check_transitions(plain, batch):
    for i, stack in enumerate(batch.agent_inputs.observation):
        t, b = place_of(stack)
        rows, at = plain.at(t, b)
        step, (action, reward) = rows.rows[at][0], rows.prev(at, 0)
        assert np.array_equal(stack, step["observation"])
        assert np.array_equal(batch.action[i], step["action"])
        assert np.array_equal(batch.agent_inputs.prev_action[i], action)
        assert batch.agent_inputs.prev_reward[i] == reward
        target = check_target(batch, i, plain, t, b)
        if target.inputs is not None:
            for given, expected in zip(batch.target_inputs, target.inputs):
                assert np.array_equal(given[i], expected)


def check_sequences(plain, batch):
    T = len(batch.return_)
    void = np.zeros(batch.all_done.shape, bool) if batch.void is None else batch.void
    for i in range(batch.return_.shape[1]):
        t, b = place_of(batch.all_observation[0, i])
        rows, at = plain.at(t, b)
        assert np.array_equal(batch.init_rnn_state[i], rows.rows[at][0]["prev_rnn_state"])
        action, reward = rows.prev(at, 0)
        assert np.array_equal(batch.all_action[0, i], action)
        assert batch.all_reward[0, i] == reward
        for k in range(len(void)):
            assert void[k, i] == plain.void[t + k][b]
            if not void[k, i]:
                rows, at = plain.at(t + k, b)
                assert np.array_equal(batch.all_observation[k, i], rows.rows[at][0]["observation"])
                if k < T:
                    check_target(batch, (k, i), plain, t + k, b)


SETTINGS = [
    (1, 2, "continues", 0),
    (3, 5, "continues", 0),
    (2, 7, "zeros", 0),
    (1, 3, "zeros", 0.1),
    (3, 5, "copies", 0.1),
]


@pytest.mark.parametrize(
    "cls,n,batch_T,older,p_break",
    [
        # Three settings for each class, in turns: kinds of classes have all of them.
        *((cls, *SETTINGS[(i + j) % 5]) for i, cls in enumerate(LOCAL) for j in (0, 1, 3)),
        *(
            pytest.param(cls, *SETTINGS[(i + j) % 5], marks=pytest.mark.slow)
            for i, cls in enumerate(LOCAL)
            for j in (2, 4)
        ),
        *((cls, *SETTINGS[-1]) for cls in SHARED),  # the same rows in shared memory
    ],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_samples_equal_those_of_lists_without_void_rows(cls, n, batch_T, older, p_break):
    sequences = "Sequence" in cls.__name__
    check = check_sequences if sequences else check_transitions
    replay, episodes = make(cls, n, older, p_break=p_break)
    for plain, batch in fill(replay, episodes, batch_T):
        check(plain, batch)
    drawn = set()
    for _ in range(20):
        batch = numpify_buffer(replay.sample_batch(64))
        check(plain, batch)
        stacks = batch.all_observation[0] if sequences else batch.agent_inputs.observation
        drawn |= {place_of(stack) for stack in stacks}
    low, high = replay.valid()
    rows = [t for t in range(low, high) if t % replay.row_stride == 0]
    assert drawn == {(t, b) for t in rows for b in range(B) if not plain.void[t][b]}
    assert np.mean(plain.void) > 0.1 and low - replay.ring.oldest <= max(2, 2 * batch_T)


@pytest.mark.parametrize("cls", LOCAL, ids=lambda cls: cls.__name__)
def test_a_loaded_replay_has_the_same_void_rows(cls):
    (one, episodes), (other, _) = (make(cls, 2, "continues", seed) for seed in (3, 4))
    list(fill(one, episodes, 3))
    other.load_state_dict(one.state_dict())
    for step in [episodes.steps(3) for _ in range(10)]:
        batches = []
        for replay in (one, other):
            replay.append_samples(*step)
            batches.append(replay.sample_batch(16))
            update(replay, batches[-1])
        assert_same(*batches)


def test_void_rows_have_priority_zero():
    replay, episodes = make(prioritized.PrioritizedReplayBuffer, 1)
    *_, (plain, _) = fill(replay, episodes, 5)
    rows = np.arange(*replay.valid())
    for _ in range(2):
        on = replay.priority_tree.priorities[rows % replay.T] > 0
        assert np.array_equal(on, ~np.array(plain.void)[rows])
        replay.init_priority_tree()


def test_the_few_rows_that_are_not_void_are_found_and_without_any_nothing_is_drawn():
    replay, _ = make(uniform.UniformReplayBuffer, 1)
    steps, _ = Episodes(B, C, p_done=1.0, p_cut=0.0, wait=True).steps(20)  # one row, then void
    replay.append_samples(steps)
    with pytest.raises(ReplayNotReady):
        replay.sample_batch(4)
    replay.append_samples(steps)
    drawn = np.unique(replay.sample_batch(100).action, axis=0)
    assert np.array_equal(drawn, np.unique(steps.action[0], axis=0))


def test_rows_that_do_not_follow_a_done_cannot_be_void():
    replay, _ = make(frame.UniformReplayFrameBuffer, 1)
    steps, _ = Episodes(B, C, p_done=0.0, p_cut=0.0, wait=True).steps(5)
    steps.done[3:], steps.void[3:] = True, True
    with pytest.raises(ValueError, match="environment's done"):
        replay.append_samples(steps)
    assert replay.ring.written == 0
