"""Trees against plain lists."""

import math
import operator
import random

import numpy as np
import pytest

from rlpyt.compat.segment_tree import MinTree, SegmentTree, SumTree


@pytest.mark.parametrize("capacity", [1, 8, 13])
def test_range_reductions_equal_those_of_a_list(capacity):
    rng = random.Random(capacity)
    sums, least = SumTree(capacity), MinTree(capacity)
    words = SegmentTree(capacity, operator.add, "")  # in order, which matters here
    plain, low, text = [0] * capacity, [float("inf")] * capacity, [""] * capacity
    for _ in range(60):
        i, value = rng.randrange(capacity), rng.randrange(100)
        sums[i] = least[i] = plain[i] = low[i] = value
        words[i] = text[i] = chr(97 + value % 26)
        start, end = sorted(rng.choices(range(capacity + 1), k=2))
        assert sums.sum(start, end) == sum(plain[start:end])
        assert least.min(start, end) == min(low[start:end], default=float("inf"))
        assert words.reduce(start, end) == "".join(text[start:end])
    assert sums.sum() == sum(plain) and sums.sum(0, -1) == sum(plain[:-1])
    assert [sums[i] for i in range(len(sums))] == plain


def test_prefix_sums_find_their_entry():
    tree = SumTree(5)
    for i, value in enumerate([0.0, 2.0, 0.0, 1.0, 0.0]):
        tree[i] = value
    found = [tree.find_prefixsum_index(x) for x in (0.0, 1.9, 2.0, 2.9)]
    assert found == [1, 1, 3, 3]
    for wrong in (-0.1, 3.0):
        with pytest.raises(ValueError, match="prefixsum"):
            tree.find_prefixsum_index(wrong)


def test_rounding_never_selects_a_zero_entry():
    tree = SumTree(8)
    for i, value in ((0, 0.6), (4, 0.3854688392128073), (5, 0.8857144165157882)):
        tree[i] = value
    below = math.nextafter(tree.sum(), 0)  # less what entries 0 and 4 have, it is entry 5's value
    assert tree.find_prefixsum_index(below) == 5


def test_draws_are_in_proportion():
    tree, weights = SumTree(6), np.array([1.0, 0.0, 3.0, 0.5, 0.0, 5.5])
    for i, value in enumerate(weights):
        tree[i] = value
    rng = np.random.default_rng(0)
    found = [tree.find_prefixsum_index(x) for x in rng.random(5000) * tree.sum()]
    share = np.bincount(found, minlength=6) / 5000
    np.testing.assert_allclose(share, weights / 10, atol=0.03)
    assert share[1] == share[4] == 0


def test_invalid_arguments_are_refused():
    tree = SumTree(3)
    tree[-1] = 2.0
    assert tree[2] == 2.0
    for i in (3, -4):
        with pytest.raises(IndexError):
            tree[i] = 1.0
    with pytest.raises(ValueError, match="value"):
        tree[0] = -1.0
    with pytest.raises(ValueError, match="capacity"):
        MinTree(0)
