"""Playing and comparing recordings of environments."""

import numpy as np
import pytest

from rlpyt.envs.toy import CountEnv
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.testing.env_runs import EnvRows, first_difference, play, start
from rlpyt.testing.trees import difference, equal, non_finite, stacked
from rlpyt.utils.collections import namedarraytuple

Pair = namedarraytuple("Pair", ["a", "b"])
ACTIONS = [[np.int64((b + t) % 3) for b in range(3)] for t in range(30)]


def batch(seeds):
    rows = EnvRows(SerialVectorEnv([CountEnv() for _ in seeds]))
    rows.seed(seeds)
    return rows


def played(rows, T=12, resets=None, n=3):
    return play(rows, start(rows), lambda t: ACTIONS[t][:n], T, resets)


def test_a_batch_is_played_as_its_single_environments_are():
    seeds = [3, 5, 6]
    run = played(batch(seeds))
    for b, seed in enumerate(seeds):
        row = EnvRows(CountEnv())
        row.seed([seed])
        own = play(row, start(row), lambda t, b=b: [ACTIONS[t][b]], 12)
        pairs = zip(own.steps, run.only([b]).steps, strict=True)
        for (mine,), (theirs,) in pairs:
            for name in ("observation", "reward", "done", "over", "first"):
                assert equal(getattr(mine, name), getattr(theirs, name))


def test_recorded_steps_have_observations_before_and_after():
    run = played(batch([1, 2, 3]), T=4)  # row b begins with an episode of 1 + seed % 5 steps
    # CountEnv of rank k: episode e lasts 1 + (e + k + 4) % 5 steps; observations are [k, e, t].
    assert [m.over for m in (at[0] for at in run.steps)] == [True, False, True, False]
    assert run.steps[0][0].observation.tolist() == [1, 0, 1]
    assert run.steps[0][0].first.tolist() == [1, 1, 0]
    assert run.steps[1][0].first is None
    assert run.before(0, 0).tolist() == [1, 0, 0]
    assert run.before(1, 0).tolist() == [1, 1, 0]
    assert run.before(2, 0).tolist() == [1, 1, 1]
    assert run.ends() == [(0, 0), (1, 1), (2, 0), (2, 2)]


def test_resets_come_when_asked_for():
    run = played(batch([3, 3, 3]), T=3, resets={0: [1], 2: [2]})
    assert [first.tolist() for first in run.first] == [[3, 0, 0], [3, 1, 0], [3, 0, 0]]
    assert run.steps[1][2].first.tolist() == [3, 1, 0] and not run.steps[1][2].over
    assert run.steps[1][0].first is None


def test_differences_are_located():
    a, b = played(batch([1, 2, 3])), played(batch([2, 3, 1]))
    assert first_difference(a, a) is None
    assert first_difference(a, b) == "the first observation of row 0: 1.0 and 2.0 at [0]"
    assert first_difference(a, b.only([2, 0, 1])) == "step 0 of row 0: 'info.action': 0 and 2"
    assert first_difference(a, b.only([2, 0, 1]), info=False) is None
    assert first_difference(a, b, order=[1, 2, 0], info=False) is None


@pytest.mark.parametrize(
    ("a", "b", "close", "said"),
    [
        (Pair(np.ones(2), None), Pair(np.ones(2), None), False, None),
        (Pair(np.ones(2), 1), Pair(np.ones(2), 2), False, "'b': 1 and 2"),
        (np.float32([1, np.nan]), np.float32([1, np.nan]), False, None),
        (np.float32([1, 2]), np.float32([1, 2.00001]), True, None),
        (np.float32([1, 2]), np.float32([1, 3]), True, "2.0 and 3.0 at [1]"),
        (np.float32([1]), np.float64([1]), True, "dtype float32 and float64"),
        (np.ones((2, 3)), np.ones((3, 2)), True, "shape (2, 3) and (3, 2)"),
        (Pair(1, 2), np.ones(2), True, "fields ('a', 'b') and None"),
    ],
)
def test_trees_are_compared_leaf_by_leaf(a, b, close, said):
    assert difference(a, b, close) == said


def test_rows_are_stacked_and_infinities_named():
    both = stacked([Pair(np.zeros(3), 1), Pair(np.ones(3), 2)])
    assert both.a.shape == (2, 3) and both.b.tolist() == [1, 2]
    assert non_finite(both) is None
    assert non_finite(Pair(np.zeros(1), np.array([np.inf]))) == "b"
