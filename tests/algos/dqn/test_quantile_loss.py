"""The loss of quantiles is its definition, by loops, by pairs and by sums over sorted targets."""

import pytest
import torch

from rlpyt.algos.dqn.quantile_loss import (
    FEW_PAIRS,
    by_pairs,
    by_sums,
    quantile_huber_loss,
    quantile_huber_losses,
)

T, B = 3, 4


def quantile_loss_by_loops(quantiles, tau, target, clip):
    total = 0.0
    for q, fraction in zip(quantiles.tolist(), tau.tolist()):
        row = 0.0
        for y in target.tolist():
            u = y - q
            size = abs(u)
            if clip is not None:
                size = 0.5 * u * u if size <= clip else clip * (size - 0.5 * clip)
                size /= clip
            row += abs(fraction - (1.0 if u < 0 else 0.0)) * size
        total += row / len(target)
    return total


@pytest.mark.parametrize("clip", [None, 1.0, 0.3])
def test_quantile_loss_is_its_definition(clip):
    torch.manual_seed(0)
    quantiles, target, tau = torch.randn(B, 6), torch.randn(B, 4), torch.rand(B, 6)
    out = quantile_huber_loss(quantiles, tau, target, clip)
    for b in range(B):
        expected = quantile_loss_by_loops(quantiles[b], tau[b], target[b], clip)
        assert out[b].item() == pytest.approx(expected, rel=1e-5)
    shared = quantile_huber_loss(quantiles, tau[0], target, clip)
    assert shared[0].item() == pytest.approx(out[0].item())
    stacked = quantile_huber_loss(*(x.expand(T, *x.shape) for x in (quantiles, tau, target)), clip)
    assert torch.allclose(stacked, out.expand(T, B))


def test_quantile_regression_finds_quantiles():
    samples = torch.linspace(0, 1, 101)[None]
    tau = torch.tensor([0.1, 0.5, 0.9])
    quantiles = torch.zeros(1, 3, requires_grad=True)
    optimizer = torch.optim.Adam([quantiles], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        quantile_huber_loss(quantiles, tau, samples, None).sum().backward()
        optimizer.step()
    assert torch.allclose(quantiles[0], tau, atol=0.06)


def values_and_gradients(function, quantiles, *args):
    quantiles = quantiles.clone().requires_grad_()
    losses = function(quantiles, *args)
    weights = torch.linspace(0.5, 2, losses.numel()).reshape(losses.shape)
    return losses.detach(), *torch.autograd.grad((losses * weights).sum(), quantiles)


@pytest.mark.parametrize("shift", [0.0, 5e3])
@pytest.mark.parametrize("spread", [0.2, 1.0, 50.0])
@pytest.mark.parametrize(
    "lead, n, m", [((B,), 60, 70), ((T, B), 7, 5), ((B,), 1, 1), ((), 40, 3), ((2,), 3, 90)]
)
def test_sums_over_sorted_targets_are_all_pairs(lead, n, m, spread, shift):
    torch.manual_seed(1)
    quantiles = spread * torch.randn(*lead, n) + shift
    target = spread * torch.randn(*lead, m) + shift
    for tau in (torch.rand(*lead, n), torch.rand(n)):
        for clip in (1.0, 0.3):
            by_definition = values_and_gradients(by_pairs, quantiles, tau, target, clip)
            found = values_and_gradients(by_sums, quantiles, tau, target, clip)
            torch.testing.assert_close(found, by_definition, rtol=2e-5, atol=1e-5)


def test_equal_targets_and_targets_on_a_quantile():
    quantiles, target = torch.tensor([[0.0, 1.0, 2.0, 5.0]]), torch.tensor([[1.0, 1.0, 2.0, 4.0]])
    tau = torch.tensor([0.1, 0.4, 0.5, 0.8])
    by_definition = values_and_gradients(by_pairs, quantiles, tau, target, 1.0)
    found = values_and_gradients(by_sums, quantiles, tau, target, 1.0)
    torch.testing.assert_close(found, by_definition)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["target", "quantiles"])
def test_what_is_not_finite_stays_so(bad, where):
    quantiles, target, tau = torch.randn(2, 4), torch.randn(2, 5), torch.rand(4)
    (target if where == "target" else quantiles)[0, 1] = bad
    loss = by_sums(quantiles, tau, target, 1.0).sum(-1)
    assert not loss[0].isfinite() and loss[1].isfinite()


def test_many_pairs_are_taken_by_sums(monkeypatch):
    taken = []
    for name, function in (("by_pairs", by_pairs), ("by_sums", by_sums)):

        def noted(*args, name=name, function=function):
            taken.append(name)
            return function(*args)

        monkeypatch.setattr(f"rlpyt.algos.dqn.quantile_loss.{name}", noted)
    side = int((FEW_PAIRS / 2) ** 0.5)
    tau, y = torch.rand(side), torch.randn(3, side)
    for n, clip in ((2, 1.0), (3, 1.0), (3, None)):
        quantile_huber_losses(torch.randn(n, side), tau, y[:n], clip)
    assert taken == ["by_pairs", "by_sums", "by_pairs"]
