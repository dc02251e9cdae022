import numpy as np
import pytest
import torch

from rlpyt.utils.misc import empty, extract_sequences, iterate_mb_idxs, zeros


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last, sizes", [(True, [3, 3, 3]), (False, [3, 3, 3, 2])])
def test_minibatches_cover_the_data_once(shuffle, drop_last, sizes):
    data = np.arange(11)
    parts = [data[idxs] for idxs in iterate_mb_idxs(11, 3, shuffle=shuffle, drop_last=drop_last)]
    assert [len(part) for part in parts] == sizes
    seen = np.concatenate(parts)
    assert len(set(seen)) == sum(sizes)
    assert shuffle or seen.tolist() == list(range(sum(sizes)))


def test_no_remainder_no_extra_minibatch():
    assert len(list(iterate_mb_idxs(12, 4, drop_last=False))) == 3
    assert len(list(iterate_mb_idxs(12, 12))) == 1


def test_shuffling_follows_numpys_global_seed():
    def order(seed):
        np.random.seed(seed)
        return np.concatenate(list(iterate_mb_idxs(50, 5, shuffle=True))).tolist()

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == list(range(50))


@pytest.mark.parametrize("size", [0, -1, 12])
def test_minibatch_size_is_checked_before_the_first_minibatch(size):
    with pytest.raises(ValueError, match=r"minibatch_size=.* \[1, data_length=11\]"):
        iterate_mb_idxs(11, size)


@pytest.mark.parametrize("make", [zeros, empty])
def test_allocation_follows_the_dtype(make):
    for dtype in (np.float32, "int8", np.dtype(bool), float):
        array = make((2, 3), dtype)
        assert isinstance(array, np.ndarray)
        assert (array.shape, array.dtype) == ((2, 3), np.dtype(dtype))
    tensor = make((2, 3), torch.int64)
    assert (tuple(tensor.shape), tensor.dtype) == ((2, 3), torch.int64)
    assert torch.is_tensor(make(4, None))
    assert not zeros(5, torch.float32).any()
    assert not zeros(5, np.float32).any()


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_sequences_are_cut_out_with_wrap(kind):
    T_max, B_max, T = 6, 4, 5
    x = np.arange(T_max * B_max * 2).reshape(T_max, B_max, 2)
    T_idxs, B_idxs = [0, 1, 4], [3, 0, 3]
    expected = np.empty((T, 3, 2), int)
    for i, (t, b) in enumerate(zip(T_idxs, B_idxs, strict=True)):
        for k in range(T):
            expected[k, i] = x[(t + k) % T_max, b]
    sequences = extract_sequences(kind(x), T_idxs, kind(B_idxs), T)
    assert type(sequences) is type(kind(x))
    np.testing.assert_array_equal(sequences, expected)


def test_a_sequence_longer_than_the_buffer_is_refused():
    with pytest.raises(ValueError, match="^T .* 6 .* got 7"):
        extract_sequences(np.zeros((6, 2)), [0], [0], 7)
