import subprocess
import sys

import numpy as np
import pytest

from rlpyt.utils import array as A

T, B = 5, 3


def test_select_at_indexes_picks_along_the_dimension_behind_the_leading_ones():
    q = np.arange(T * B * 4 * 2).reshape(T, B, 4, 2)
    a = np.random.default_rng(0).integers(4, size=(T, B))
    for array, trailing in ((q[..., 0], ()), (q, (2,))):
        picked = A.select_at_indexes(a, array)
        assert picked.shape == (T, B, *trailing)
        for t in range(T):
            for b in range(B):
                np.testing.assert_array_equal(picked[t, b], array[t, b, a[t, b]])


def test_select_at_a_single_index():
    assert A.select_at_indexes(2, [10, 11, 12]) == 12


@pytest.mark.parametrize("shape", [(T, B), (B, T, 4)])
def test_select_refuses_leading_dimensions_that_do_not_match(shape):
    with pytest.raises(ValueError, match=r"array .*\(5, 3\) \+"):
        A.select_at_indexes(np.zeros((T, B), int), np.zeros(shape))


def test_onehot_roundtrip():
    indexes = np.array([[0, 2], [1, 1], [2, 0]], dtype=np.int32)
    onehot = A.to_onehot(indexes, 3)
    assert onehot.dtype == np.int32
    np.testing.assert_array_equal(
        onehot, [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [1, 0, 0]]]
    )
    back = A.from_onehot(onehot, dtype=np.int16)
    assert back.dtype == np.int16
    np.testing.assert_array_equal(back, indexes)
    assert A.from_onehot(onehot).dtype == np.int64
    assert A.to_onehot(indexes, 4, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("bad", [-1, 3])
def test_onehot_refuses_indexes_outside(bad):
    with pytest.raises(ValueError, match=r"\[0, dim=3\)"):
        A.to_onehot([0, bad], 3)


def test_valid_mean_averages_only_what_is_valid():
    x = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
    valid = np.array([[1, 0], [1, 0], [0, 1]])
    assert A.valid_mean(x, valid) == (1 + 3 + 6) / 3
    np.testing.assert_array_equal(A.valid_mean(x, valid.astype(bool), axis=0), [2.0, 6.0])
    np.testing.assert_array_equal(A.valid_mean(x, valid, axis=1), [1.0, 3.0, 6.0])
    assert A.valid_mean(np.array([1.0, 2.0, 6.0])) == 3.0


def test_valid_mean_of_nothing_is_zero():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert A.valid_mean(x, np.zeros((2, 2))) == 0.0
    np.testing.assert_array_equal(A.valid_mean(x, [[True, False], [True, False]], axis=0), [2, 0])


def test_valid_mean_aligns_the_mask_with_the_leading_dimensions():
    x = np.arange(12.0).reshape(2, 2, 3)  # a [2, 3] mask would broadcast the other way round
    assert A.valid_mean(x, [[True, False], [False, True]]) == (0 + 1 + 2 + 9 + 10 + 11) / 6
    with pytest.raises(ValueError, match="valid of shape"):
        A.valid_mean(x, np.ones((2, 3)))


def test_infer_leading_dims():
    assert A.infer_leading_dims(np.zeros((4, 6)), 2) == (1, 1, (4, 6), False, False)
    assert A.infer_leading_dims(np.zeros((B, 4, 6)), 2) == (1, B, (4, 6), False, True)
    assert A.infer_leading_dims(np.zeros((T, B, 4, 6)), 2) == (T, B, (4, 6), True, True)
    assert A.infer_leading_dims(np.zeros((T, B)), 0) == (T, B, (), True, True)
    for shape in [(6,), (1, T, B, 4, 6)]:
        with pytest.raises(ValueError, match="dim=2 data dimensions"):
            A.infer_leading_dims(np.zeros(shape), 2)


def test_light_modules_import_no_torch():
    code = (
        "import sys, rlpyt.utils.array, rlpyt.utils.seed, rlpyt.utils.quick_args, "
        "rlpyt.utils.synchronize, rlpyt.utils.prog_bar, rlpyt.spaces.composite, "
        "rlpyt.spaces.int_box, rlpyt.spaces.float_box; "
        "print([m for m in ('torch', 'gymnasium') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
