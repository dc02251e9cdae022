import numpy as np
import pytest
import torch

from rlpyt.utils import array as A
from rlpyt.utils import tensor as P
from rlpyt.utils.collections import namedarraytuple

T, B = 5, 3


@pytest.mark.parametrize("trailing", [(), (2,)])
def test_select_at_indexes_equals_its_numpy_twin(trailing):
    q = torch.randn(T, B, 4, *trailing)
    a = torch.randint(4, (T, B), dtype=torch.int32)
    picked = P.select_at_indexes(a, q)
    np.testing.assert_array_equal(picked, A.select_at_indexes(a.numpy(), q.numpy()))
    last = P.select_at_indexes(torch.full((T, B), -1), q)
    np.testing.assert_array_equal(last, q[:, :, -1])


def test_select_lets_gradient_reach_only_what_was_selected():
    q = torch.zeros(2, 3, requires_grad=True)
    P.select_at_indexes(torch.tensor([2, 0]), q).sum().backward()
    assert q.grad.tolist() == [[0, 0, 1], [1, 0, 0]]


def test_select_refuses_leading_dimensions_that_do_not_match():
    with pytest.raises(ValueError, match=r"\(5, 3\) \+"):
        P.select_at_indexes(torch.zeros(T, B, dtype=torch.long), torch.zeros(B, T, 4))


def test_onehot_roundtrip():
    indexes = torch.tensor([[0, 2, 1], [1, 1, 3]], dtype=torch.uint8)
    onehot = P.to_onehot(indexes, 4)
    assert onehot.dtype == torch.uint8
    assert onehot[0].tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]]
    assert torch.equal(P.from_onehot(onehot, dtype=torch.uint8), indexes)
    assert P.from_onehot(onehot).dtype == torch.int64
    assert P.to_onehot(indexes, 4, dtype=torch.float32).dtype == torch.float32
    assert P.from_onehot(onehot, dim=0).shape == (3, 4)


def test_onehot_refuses_indexes_outside():
    with pytest.raises(RuntimeError):
        P.to_onehot(torch.tensor([0, 3]), 3)


@pytest.mark.parametrize("dim", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_valid_mean_equals_its_numpy_twin(dim, kind):
    x, valid = torch.randn(T, B, dtype=torch.float64), torch.rand(T, B) < 0.5
    mean = P.valid_mean(x, valid.to(kind), dim=dim)
    np.testing.assert_allclose(mean, A.valid_mean(x.numpy(), valid.numpy(), axis=dim), rtol=1e-5)
    np.testing.assert_allclose(P.valid_mean(x, dim=dim), x.numpy().mean(axis=dim), rtol=1e-5)


def test_valid_mean_takes_weights_and_aligns_with_leading_dimensions():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert P.valid_mean(x, torch.tensor([0.25, 0.5])).item() == pytest.approx(
        (3 * 0.25 + 7 * 0.5) / 1.5
    )
    with pytest.raises(ValueError, match="valid of shape"):
        P.valid_mean(torch.zeros(T, B, 2), torch.ones(B, T))


def test_valid_mean_of_nothing_is_zero_with_zero_gradient():
    x = torch.tensor([1.0, float("nan"), float("inf")], requires_grad=True)
    mean = P.valid_mean(x, torch.zeros(3, dtype=torch.bool))
    mean.backward()
    assert mean.item() == 0.0
    assert x.grad.tolist() == [0, 0, 0]


def test_invalid_nan_affects_neither_mean_nor_gradient():
    x = torch.tensor([1.0, float("nan"), 5.0], requires_grad=True)
    mean = P.valid_mean(x, torch.tensor([1.0, 0.0, 1.0]))
    mean.backward()
    assert mean.item() == 3.0
    assert x.grad.tolist() == [0.5, 0, 0.5]


@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
@pytest.mark.parametrize("data", [(), (4,), (2, 6, 7)])
def test_leading_dims_are_found_and_restored(lead, data):
    x = torch.randn((*lead, *data))
    lead_dim, t, b, shape = P.infer_leading_dims(x, len(data))
    assert (lead_dim, t, b) == (len(lead), T if len(lead) == 2 else 1, B if lead else 1)
    assert shape == data
    flat = x.reshape(t * b, *shape)
    assert torch.equal(P.restore_leading_dims(flat, lead_dim, t, b), x)


def test_restoring_keeps_the_structure():
    pair = namedarraytuple("Pair", ["pi", "v"])
    pi, v = torch.randn(T * B, 4), torch.randn(T * B)
    for outputs in ((pi, v), [pi, v], pair(pi, v)):
        restored = P.restore_leading_dims(outputs, 2, T, B)
        assert type(restored) is type(outputs)
        got_pi, got_v = tuple(restored)
        assert got_pi.shape == (T, B, 4)
        assert got_v.shape == (T, B)
        assert torch.equal(got_pi[1, 2], pi[B + 2])


def test_invalid_leading_dims_are_refused():
    for shape in [(6,), (1, T, B, 4, 6)]:
        with pytest.raises(ValueError, match="dim=2 "):
            P.infer_leading_dims(torch.zeros(shape), 2)
    with pytest.raises(ValueError, match="lead_dim .*got 0"):
        P.restore_leading_dims(torch.zeros(2, 4), 0)
    with pytest.raises(ValueError, match="lead_dim .*got 3"):
        P.restore_leading_dims(torch.zeros(1, 4), 3)
