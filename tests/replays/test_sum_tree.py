"""The sum tree, compared with a plain table of priorities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlpyt.errors import ReplayNotReady
from rlpyt.replays import sum_tree
from rlpyt.replays.sum_tree import AsyncSumTree, SumTree, loops


@pytest.fixture(scope="module", autouse=True, params=["compiled", "arrays"])
def form(request):
    """All tests hold for compiled loops and for array operations."""
    assert loops() is not None, "numba is missing; it is in rlpyt[fast]"
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "arrays":
            patch.setattr(sum_tree, "loops", lambda: None)
        yield request.param


class Table:
    """Plain definition of a tree's content, row by row, in lists."""

    def __init__(self, T, B, back, forward, default, shift):
        self.T, self.B, self.back, self.forward = T, B, back, forward
        self.default, self.shift = default, shift
        self.rows = []  # current values, whether on or not

    def advance(self, n, priorities):
        start = len(self.rows)
        self.rows += [[self.default] * self.B for _ in range(n)]
        if priorities is not None:
            for i, row in enumerate(np.broadcast_to(priorities, (n, self.B))):
                if start + i - self.shift >= 0:
                    self.rows[start + i - self.shift] = list(row)

    def is_on(self, row):
        written = len(self.rows)
        oldest = 0 if written < self.T else written - self.T + self.forward
        return oldest <= row < written - self.back

    def leaves(self):
        table = np.zeros((self.T, self.B))
        for row in range(max(0, len(self.rows) - self.T), len(self.rows)):
            table[row % self.T] = self.rows[row] if self.is_on(row) else 0
        return table


def assert_sums_are_right(tree):
    for children, parents in zip(tree._children, tree._parents):
        np.testing.assert_allclose(parents[: len(children)], children.sum(1), rtol=1e-15)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**20))
def test_leaves_and_draws_are_those_of_a_plain_table(data, seed):
    rng = np.random.default_rng(seed)
    T, B = data.draw(st.integers(3, 40)), data.draw(st.integers(1, 4))
    back, forward = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
    enabled, shift = data.draw(st.booleans()), data.draw(st.integers(0, 2))
    tree = SumTree(T, B, back, forward, 2.5, enabled, shift)
    table = Table(T, B, back, forward, 2.5, shift)
    for step in data.draw(st.lists(st.sampled_from("aasu"), min_size=1, max_size=25)):
        if step == "a":
            n = int(rng.integers(1, min(T, 5) + 1))
            shapes = [None, (), (B,), (n, B)] if enabled else [None]
            shape = shapes[rng.integers(len(shapes))]
            priorities = None if shape is None else rng.random(shape)
            tree.advance(n, priorities)
            table.advance(n, priorities)
        elif tree.total > 0:
            (T_idxs, B_idxs), priorities = tree.sample(6)
            np.testing.assert_array_equal(priorities, tree.priorities[T_idxs, B_idxs])
            assert (priorities > 0).all()
            if step == "u":
                values = rng.random(6) * (rng.random(6) < 0.8)
                tree.update_batch_priorities(values)
                newest = len(table.rows) - 1
                for t, b, value in zip(T_idxs, B_idxs, values):
                    table.rows[newest - (newest - t) % T][b] = value
        np.testing.assert_allclose(tree.priorities, table.leaves())
        assert_sums_are_right(tree)


def test_fractions_find_the_leaves_whose_share_they_fall_into(monkeypatch):
    monkeypatch.setattr(sum_tree, "TOP", 4)  # several levels with few leaves
    tree = SumTree(50, 3, 0, 0)
    tree.advance(50)
    assert len(tree._levels) == 2
    values = np.random.default_rng(0).random(150) ** 4
    values[::3] = 0
    tree.reconstruct(np.arange(150), values)
    fractions = np.linspace(0, 1, 4000, endpoint=False)
    found = tree.find(fractions)
    ends = np.cumsum(values)
    assert (values[found] > 0).all()
    assert (fractions * ends[-1] <= ends[found] + 1e-9).all()
    assert (fractions * ends[-1] >= ends[found] - values[found] - 1e-9).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e300])
def test_zero_leaves_are_never_found(scale):
    """Not even with fractions at the edges of shares, where rounding decides."""
    rng = np.random.default_rng(1)
    tree = SumTree(64, 8, 0, 0)
    tree.advance(64)
    for _ in range(200):
        values = rng.random(512) ** 20 * scale
        values[rng.random(512) < 0.9] = 0
        values[rng.integers(512)] = scale
        tree.reconstruct(np.arange(512), values)
        ends = np.cumsum(values) / values.sum()
        edges = np.concatenate([ends, np.nextafter(ends, 0), np.nextafter(ends, 2), [0.0]])
        found = tree.find(np.clip(edges, 0, np.nextafter(1, 0)))
        assert (values[found] > 0).all()


def test_draws_are_in_proportion_to_priorities():
    """chi-square, 49 degrees of freedom, 100 000 draws; the bound is at a probability of 1e-6."""
    tree = SumTree(25, 2, 0, 0)
    tree.rng = np.random.default_rng(3)
    tree.advance(25)
    values = np.random.default_rng(2).random(50) + 0.1
    tree.reconstruct(np.arange(50), values)
    (T_idxs, B_idxs), _ = tree.sample(100_000)
    counts = np.bincount(T_idxs * 2 + B_idxs, minlength=50)
    expected = 100_000 * values / values.sum()
    assert ((counts - expected) ** 2 / expected).sum() < 112


@pytest.mark.parametrize("crowded", [False, True])
def test_unique_draws_favour_nobody(crowded, form):
    """First-order inclusion, by the definition: one after the other, in proportion to the rest.

    ``crowded``: two leaves hold nearly everything, which takes the other way of drawing.
    """
    values = np.array([5000.0, 4000.0, 1, 2, 3, 4]) if crowded else np.arange(1.0, 7)
    tree = SumTree(6, 1, 0, 0)
    tree.rng = np.random.default_rng(4)
    tree.advance(6)
    tree.reconstruct(np.arange(6), values)
    rng = np.random.default_rng(5)
    counts, expected = np.zeros(6), np.zeros(6)
    n = 1500 if form == "arrays" else 3000  # arrays are slower, and draw the same
    for _ in range(n):
        (T_idxs, _), _ = tree.sample(4, unique=True)
        assert len(set(T_idxs)) == 4
        counts[T_idxs] += 1
        expected[rng.choice(6, 4, replace=False, p=values / values.sum())] += 1
    np.testing.assert_allclose(counts / n, expected / n, atol=0.055)


@pytest.mark.parametrize("form", ["compiled"], indirect=True)  # `find` is replaced
def test_unique_draws_have_exact_probabilities(monkeypatch):
    """Also where the draws that are found first settle nothing and the rest is raced for.

    Beside one leaf of .93 lie eight that share the rest. That it is not among the first two has
    the probability .07 * (.07 - .07 / 8) / (1 - .07 / 8) = .00433; sequences that are given up and
    begun anew (here: 16 draws of the same leaf, .93 ** 16 = .31) would make it .0057.
    """
    tree = SumTree(9, 1, 0, 0)
    tree.advance(9)
    tree.reconstruct(np.arange(9), np.array([0.93, *[0.07 / 8] * 8]))
    ends = np.cumsum(tree.leaves)
    monkeypatch.setattr(tree, "find", lambda fractions: ends.searchsorted(fractions, "right"))
    rng, n = np.random.default_rng(6), 40_000
    without = sum(0 not in tree._draw_unique(2, rng) for _ in range(n))
    small = 0.07 / 8
    exact = 0.07 * (0.07 - small) / (1 - small)
    deviation = (exact * (1 - exact) / n) ** 0.5
    assert abs(without / n - exact) < 2 * deviation < 0.5 * 0.31 * exact


def test_what_was_drawn_first_stays_drawn():
    class Stub:
        """All draws fall on the first leaf, which would lose any race."""

        def random(self, size):
            return np.zeros(size)

        def exponential(self, size):
            return np.arange(size, 0, -1.0) if size == 2 else np.array([9.0, 2.0, 1.0])

    tree = SumTree(3, 1, 0, 0)
    tree.advance(3)
    assert tree._draw_unique(2, Stub()).tolist() == [0, 2]


def test_unique_draws_need_enough_leaves():
    tree = SumTree(4, 2, 1, 0)
    tree.advance(3)
    with pytest.raises(ReplayNotReady, match="only 4 leaves"):
        tree.sample(5, unique=True)


def test_priorities_follow_their_ticket_after_wrap():
    tree = SumTree(8, 1, 1, 1)
    tree.advance(8)  # rows 1 to 6 are on, at places 1 to 6
    first = tree.ticket(np.array([1, 3, 6]))
    second = tree.ticket(np.array([4, 5]))
    tree.advance(2)  # rows 8, 9 in places 0, 1; rows 3 to 8 are on: 3 4 5 6 7 0
    tree.update_batch_priorities([10.0, 30.0, 60.0], first)  # row 1 is gone
    tree.update_batch_priorities([40.0, 50.0], second)
    np.testing.assert_array_equal(tree.priorities[:, 0], [1, 0, 0, 30, 40, 50, 60, 1])
    tree.advance(1)  # row 3 is now the oldest, and off for ever
    tree.update_batch_priorities([11.0, 33.0, 66.0], first)
    np.testing.assert_array_equal(tree.priorities[:, 0], [1, 1, 0, 0, 40, 50, 66, 1])
    tree.advance(8)  # everything is overwritten
    tree.update_batch_priorities([5.0, 5.0], second)
    np.testing.assert_array_equal(tree.priorities[:, 0], [1, 1, 0, 0, 1, 1, 1, 1])


def test_wrong_use_is_named():
    tree = SumTree(8, 2, 1, 1)
    with pytest.raises(ReplayNotReady, match="zero"):
        tree.sample(2)
    with pytest.raises(RuntimeError, match="sampled"):
        tree.update_batch_priorities([1.0])
    with pytest.raises(ValueError, match="ring of 8"):
        tree.advance(9)
    with pytest.raises(ValueError, match="enable_input_priorities"):
        tree.advance(1, 1.0)
    tree.advance(5)
    tree.sample(3)
    with pytest.raises(ValueError, match=r"\(2,\)"):
        tree.update_batch_priorities([1.0, 2.0])
    with pytest.raises(ValueError, match="below T=8"):
        SumTree(8, 2, 1, 1, input_priority_shift=8)


def test_reset_and_print(capsys):
    tree = AsyncSumTree(20, 2, 1, 1, enable_input_priorities=True)
    tree.advance(20, 3.0)
    tree.print_tree(0)
    assert capsys.readouterr().out == "0 [42. 48. 18.]\n"  # 18 rows of 2 leaves are on
    tree.reset()
    assert (tree.total, tree.t, tree.priorities.sum()) == (0, 0, 0)
    tree.advance(3)
    assert tree.total == 4


def test_rlpyts_inner_steps_still_do_something_sensible():
    tree = SumTree(8, 2, 0, 0)
    tree.reconstruct_advance(0, 4, 0, 1)
    assert tree.total == 6
    tree.propagate_diffs(np.array([2, 2, 3]), np.array([1.0, 1.0, 0.5]))
    assert tree.total == 8.5
    np.testing.assert_array_equal(tree.priorities[1], [3, 1.5])


@pytest.mark.parametrize("n_leaves", [1, 15, 1000, 100_000])
def test_both_forms_draw_the_same_leaves(n_leaves, form, monkeypatch):
    rng = np.random.default_rng(n_leaves)
    tree = SumTree(n_leaves, 1, 0, 0)
    tree.advance(n_leaves)
    tree.reconstruct(np.arange(n_leaves), rng.random(n_leaves) * (rng.random(n_leaves) < 0.5))
    tree.reconstruct(np.array([n_leaves // 2]), 1.0)  # so that one is above zero
    fractions = np.concatenate([rng.random(500), [0, 1 - 2**-53]])
    drawn = tree.find(fractions)
    other = None if form == "compiled" else sum_tree.loops
    monkeypatch.setattr(sum_tree, "loops", other or (lambda: None))
    np.testing.assert_array_equal(drawn, tree.find(fractions))
    assert (tree.leaves[drawn] > 0).all()
