"""Squashed Gaussians: densities by numerical integration, samples with their likelihoods."""

import math

import numpy as np
import pytest
import torch

from rlpyt.distributions.gaussian import DistInfo, DistInfoStd, Gaussian

B, A = 40, 3


def double(mean, log_std, n):
    return DistInfoStd(
        *(torch.full((n, 1), value, dtype=torch.float64) for value in (mean, log_std))
    )


CASES = [(0.0, 0.0, 1.0), (0.7, -1.0, 1.0), (-1.5, 0.8, 1.0), (0.3, -2.0, 0.6), (2.0, -0.5, 3.0)]


@pytest.mark.parametrize("mean, log_std, squash", CASES)
def test_density_integrates_to_one_over_the_bounded_interval(mean, log_std, squash):
    # Points dense at the ends, where the density of a wide Gaussian rises.
    x = torch.linspace(-14, 14, 200001, dtype=torch.float64)
    y = squash * torch.tanh(x)
    density = Gaussian(1, squash=squash).log_likelihood(x[:, None], double(mean, log_std, len(x)))
    assert y.abs().max() <= squash
    total = torch.trapezoid(density.exp(), y)
    assert total.item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("mean, log_std, squash", CASES)
def test_log_likelihood_is_the_log_of_the_cdfs_derivative(mean, log_std, squash):
    y = squash * torch.linspace(-0.98, 0.98, 99, dtype=torch.float64)

    def cdf(y):
        return torch.special.ndtr((torch.atanh(y / squash) - mean) / math.exp(log_std))

    h = 1e-5 * squash
    slope = (cdf(y + h) - cdf(y - h)) / (2 * h)
    x = torch.atanh(y / squash)
    logli = Gaussian(1, squash=squash).log_likelihood(x[:, None], double(mean, log_std, len(y)))
    likely = slope > 1e-4
    assert likely.sum() > 20
    torch.testing.assert_close(logli[likely], slope[likely].log(), rtol=1e-4, atol=1e-4)


def test_components_multiply():
    info = DistInfoStd(torch.randn(B, A), 0.5 * torch.randn(B, A))
    x = torch.randn(B, A)
    whole = Gaussian(A, squash=1.0).log_likelihood(x, info)
    single = Gaussian(1, squash=1.0)
    parts = [
        single.log_likelihood(x[:, i : i + 1], DistInfoStd(*(p[:, i : i + 1] for p in info)))
        for i in range(A)
    ]
    torch.testing.assert_close(whole, sum(parts), rtol=1e-4, atol=1e-4)


def test_samples_fill_the_interval_as_their_density_says():
    torch.manual_seed(0)
    n = 200_000
    info = DistInfoStd(torch.full((n, 1), 0.4), torch.full((n, 1), -0.3))
    action, logli = Gaussian(1, squash=2.0).sample_loglikelihood(info)
    assert action.abs().max() <= 2
    edges = np.linspace(-2, 2, 9)
    counts, _ = np.histogram(action.numpy(), edges)
    inner = torch.tensor(np.arctanh(np.clip(edges / 2, -1 + 1e-12, 1 - 1e-12)))
    exact = torch.special.ndtr((inner - 0.4) / math.exp(-0.3)).diff().numpy()
    np.testing.assert_allclose(counts / n, exact, atol=5 * 0.5 / math.sqrt(n))
    # The mean of 1 / density over samples is the interval's length (importance sampling).
    within = action.abs() < 1.9
    mass = (torch.exp(-logli) * within[:, 0]).double().mean().item()
    assert mass == pytest.approx(3.8, rel=0.02)


LIMITS = [
    {},
    dict(squash=1.0),
    dict(squash=2.5),
    dict(noise_clip=0.3),
    dict(noise_clip=0.3, squash=1.0),
    dict(min_std=0.5, max_std=1.2, squash=1.0),
    dict(min_std=0.5, max_std=1.2, noise_clip=0.4),
    dict(std=0.7, squash=1.0),
    dict(std=[0.2, 0.7, 1.5]),
]


@pytest.mark.parametrize("reparameterize", [True, False])
@pytest.mark.parametrize("settings", LIMITS)
def test_sample_loglikelihood_is_sample_and_then_log_likelihood(settings, reparameterize):
    """Values and gradients; the slow way in float64, through the formulas one by one."""
    torch.manual_seed(0)
    mean = torch.randn(B, A, requires_grad=True)
    log_std = (0.8 * torch.randn(B, A)).requires_grad_()
    fixed = "std" in settings
    info = DistInfo(mean) if fixed else DistInfoStd(mean, log_std)
    leaves = [mean] if fixed else [mean, log_std]
    noise, weights = torch.randn(B, A), torch.randn(B, A)
    distribution = Gaussian(A, **settings)
    distribution.set_noise(noise)
    action, logli = distribution.sample_loglikelihood(info, reparameterize)
    distribution.set_noise(noise)
    torch.testing.assert_close(action, distribution.sample(info))
    assert action.requires_grad == reparameterize

    if fixed:
        std = torch.tensor(settings["std"]).double().expand(B, A)
    else:
        std = log_std.double().exp()
        std = std.clamp(settings.get("min_std", 0.0), settings.get("max_std", math.inf))
    shift = std * noise.double()
    if "noise_clip" in settings:
        shift = shift.clamp(-settings["noise_clip"], settings["noise_clip"])
    x = mean.double() + shift
    x = x if reparameterize else x.detach()
    squash = settings.get("squash")
    plain_action = x if squash is None else squash * torch.tanh(x)
    plain = torch.distributions.Normal(mean.double(), std).log_prob(x)
    if squash is not None:
        plain = plain - torch.log(squash * (1 - torch.tanh(x) ** 2))
    plain = plain.sum(-1)
    close = dict(rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(action.double(), plain_action, **close)
    torch.testing.assert_close(logli.double(), plain, **close)
    row_weights = torch.linspace(-1, 2, B)

    def gradients(action, logli):
        total = (logli * row_weights).sum()
        total = total + (action * weights).sum() if reparameterize else total
        return torch.autograd.grad(total, leaves, allow_unused=True)

    for own, expected in zip(gradients(action, logli), gradients(plain_action, plain)):
        torch.testing.assert_close(own, expected, **close)


def test_noise_limits_do_not_change_the_likelihood_of_given_actions():
    info = DistInfoStd(torch.randn(B, A), 0.3 * torch.randn(B, A))
    x = torch.randn(B, A)
    torch.testing.assert_close(
        Gaussian(A, squash=1.0, noise_clip=0.1).log_likelihood(x, info),
        Gaussian(A, squash=1.0).log_likelihood(x, info),
    )


def test_far_samples_have_finite_likelihoods_and_gradients():
    mean = torch.tensor([[40.0, -60.0, 0.0]], requires_grad=True)
    info = DistInfoStd(mean, torch.zeros(1, A))
    distribution = Gaussian(A, squash=1.0, min_std=math.exp(-20), max_std=math.exp(2))
    action, logli = distribution.sample_loglikelihood(info)
    assert action.abs().max() <= 1 and logli.isfinite().all()
    logli.sum().backward()
    assert mean.grad[0, :2].tolist() == pytest.approx([2, -2], abs=1e-4)  # of 2 |x|
