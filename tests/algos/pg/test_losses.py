import pytest
import torch

from rlpyt.algos.pg.losses import (
    clipped_surrogate_loss,
    normalize,
    policy_gradient_loss,
    value_loss,
)

T, B = 5, 3
LOSSES = ["policy", "weighted", "surrogate", "value"]


def samples(seed=0):
    """x and y [T, B], and a mask with about half of the samples."""
    g = torch.Generator().manual_seed(seed)
    x, y = torch.randn(2, T, B, generator=g, dtype=torch.float64)
    return x, y, (torch.rand(T, B, generator=g) < 0.5).double()


def loss_of(name, x, y, valid):
    if name == "policy":
        return policy_gradient_loss(x, y, valid)
    if name == "weighted":
        return policy_gradient_loss(x, y, valid, weight=y.exp())
    if name == "surrogate":
        return clipped_surrogate_loss(x.exp(), y, 0.2, valid)
    return value_loss(x, y, valid)


def by_loop(name, x, y, valid):
    total, n = 0.0, 0
    for t in range(T):
        for b in range(B):
            if valid is not None and not valid[t, b]:
                continue
            u, v = x[t, b], y[t, b]
            ratio = u.exp()
            total += {
                "policy": -u * v,
                "weighted": -u * v * v.exp(),
                "surrogate": -min(ratio * v, ratio.clamp(0.8, 1.2) * v),
                "value": (u - v) ** 2 / 2,
            }[name]
            n += 1
    return total / n


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_their_definition(name, masked):
    x, y, valid = samples()
    valid = valid if masked else None
    torch.testing.assert_close(loss_of(name, x, y, valid), by_loop(name, x, y, valid))


@pytest.mark.parametrize("name", LOSSES)
def test_invalid_samples_have_no_gradient(name):
    x, y, valid = samples()
    x.requires_grad_(True)
    loss_of(name, x, y, valid).backward()
    assert (x.grad[valid == 0] == 0).all() and (x.grad[valid > 0] != 0).any()


def test_beyond_the_clipping_range_the_surrogate_has_no_gradient():
    ratio = torch.tensor([1.3, 1.3, 0.7, 0.7], requires_grad=True)
    advantage = torch.tensor([1.0, -1.0, 1.0, -1.0])
    clipped_surrogate_loss(ratio, advantage, 0.2, None).backward()
    assert ratio.grad.tolist() == [0, 0.25, -0.25, 0]


def test_normalized_advantages_have_unit_scale_over_valid_samples():
    x = torch.tensor([[1.0, 5.0], [3.0, 100.0]])
    valid = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    y = normalize(x, valid)[valid > 0]
    assert y.mean().item() == pytest.approx(0, abs=1e-6)
    assert y.std().item() == pytest.approx(1, rel=1e-5)


def test_a_mask_of_ones_gives_the_advantages_without_a_mask():
    x = torch.tensor([[1.0, 5.0], [3.0, 100.0]])
    torch.testing.assert_close(normalize(x, torch.ones(2, 2)), normalize(x, None))


@pytest.mark.parametrize(
    "valid", [None, torch.tensor([[1.0], [0.0]])], ids=["all valid", "one valid"]
)
def test_a_single_valid_advantage_is_left_unscaled(valid):
    x = torch.tensor([[3.0], [7.0]]) if valid is not None else torch.tensor([[3.0]])
    assert torch.equal(normalize(x, valid), x)
