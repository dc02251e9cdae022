import math

import numpy as np
import pytest
import torch

from rlpyt.distributions.gaussian import DistInfo, DistInfoStd, Gaussian

T, B, A = 4, 3, 2


def make_info(*lead, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(*lead, A, generator=generator)
    return DistInfoStd(mean, 0.5 * torch.randn(*lead, A, generator=generator))


def as_torch(info):
    return torch.distributions.Independent(
        torch.distributions.Normal(info.mean, info.log_std.exp()), 1
    )


def test_formulas_agree_with_torch_distributions():
    old, new, distribution = make_info(T, B), make_info(T, B, seed=1), Gaussian(A)
    x = make_info(T, B, seed=2).mean
    close = dict(rtol=1e-4, atol=1e-5)
    p, q = as_torch(old), as_torch(new)
    torch.testing.assert_close(distribution.log_likelihood(x, old), p.log_prob(x), **close)
    torch.testing.assert_close(distribution.entropy(old), p.entropy(), **close)
    kl = torch.distributions.kl_divergence(p, q)
    torch.testing.assert_close(distribution.kl(old, new), kl, **close)
    torch.testing.assert_close(distribution.mean_kl(old, new), kl.mean(), **close)
    ratio = (q.log_prob(x) - p.log_prob(x)).exp()
    torch.testing.assert_close(
        distribution.likelihood_ratio(x, old, new), ratio, rtol=1e-3, atol=1e-4
    )
    assert (distribution.kl(old, old).abs() < 1e-6).all()


def test_a_fixed_std_replaces_the_recorded_one():
    std = [0.5, 2.0]
    info, distribution = make_info(T, B), Gaussian(A, std=std)
    same = DistInfoStd(info.mean, torch.tensor(std).log().expand(T, B, A))
    x = make_info(T, B, seed=2).mean
    other = DistInfo(make_info(T, B, seed=3).mean)
    only_mean, free = DistInfo(info.mean), Gaussian(A)
    torch.testing.assert_close(
        distribution.log_likelihood(x, only_mean), free.log_likelihood(x, same)
    )
    torch.testing.assert_close(distribution.entropy(only_mean), free.entropy(same))
    torch.testing.assert_close(
        distribution.kl(only_mean, other), free.kl(same, DistInfoStd(other.mean, same.log_std))
    )
    noise = torch.randn(T, B, A)
    distribution.set_noise(noise)
    expected = info.mean + torch.tensor(std) * noise
    torch.testing.assert_close(distribution.sample(only_mean), expected)
    distribution.set_std(None)
    distribution.set_noise(noise)
    expected = info.mean + info.log_std.exp() * noise
    torch.testing.assert_close(distribution.sample(info), expected)


def test_limits_of_std_hold_in_samples_and_formulas():
    wild = DistInfoStd(torch.zeros(B, A), torch.tensor([[-9.0, 9.0]]).expand(B, A))
    tame = DistInfoStd(wild.mean, torch.tensor([[0.5, 2.0]]).log().expand(B, A))
    limited, free = Gaussian(A, min_std=0.5, max_std=2.0), Gaussian(A)
    x = torch.randn(B, A)
    torch.testing.assert_close(limited.log_likelihood(x, wild), free.log_likelihood(x, tame))
    torch.testing.assert_close(limited.entropy(wild), free.entropy(tame))
    torch.testing.assert_close(limited.kl(wild, tame), torch.zeros(B))
    noise = torch.randn(B, A)
    limited.set_noise(noise)
    torch.testing.assert_close(limited.sample(wild), noise * torch.tensor([0.5, 2.0]))
    limited.set_std([0.1, 1.0])
    torch.testing.assert_close(limited.std, torch.tensor([0.5, 1.0]))


@pytest.mark.parametrize("limits", [dict(clip=0.8), dict(squash=0.8, min_std=0.1, max_std=2.0)])
def test_with_an_infinite_deviation_samples_are_uniform_within_the_bounds(limits):
    distribution, n = Gaussian(A, std=math.inf, **limits), 20_000
    mean = torch.full((n, A), 5.0)
    info = DistInfoStd(mean, torch.zeros(n, A))
    noise = torch.randn(n, A, generator=torch.Generator().manual_seed(0))
    distribution.set_noise(noise)
    x = distribution.sample(info)
    np.testing.assert_allclose(distribution.draw(info, noise.numpy()), x, rtol=1e-6)
    share = np.linspace(0, 1, 21)
    for i in range(A):  # 4.5 standard errors
        quantiles = np.quantile(x[:, i].numpy(), share)
        np.testing.assert_allclose(quantiles, 0.8 * (2 * share - 1), atol=1.6 * 4.5 * 0.5 / n**0.5)
    assert abs(np.corrcoef(x.numpy().T)[0, 1]) < 4.5 / n**0.5
    assert torch.equal(distribution.mode(info), Gaussian(A, **limits).mode(info))
    distribution.set_std(0.1)  # and back
    assert distribution.sample(info).mean() > 0.7


def test_an_infinite_deviation_needs_bounds_and_is_one_number():
    with pytest.raises(ValueError, match="std=inf.*clip or squash"):
        Gaussian(A, std=math.inf)
    with pytest.raises(ValueError, match=r"^std=\[inf, 1\.0\]"):
        Gaussian(A, clip=1, std=[math.inf, 1.0])
    distribution = Gaussian(A, clip=1, std=math.inf)
    with pytest.raises(ValueError, match="clip=None"):
        distribution.set_clip(None)


def test_samples_have_mean_and_deviation():
    torch.manual_seed(0)
    info = DistInfoStd(torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0]).log())
    sample = Gaussian(A).sample(DistInfoStd(*(x.expand(20000, A) for x in info)))
    torch.testing.assert_close(sample.mean(0), info.mean, atol=0.1, rtol=0)
    torch.testing.assert_close(sample.std(0), info.log_std.exp(), rtol=0.03, atol=0)


def test_noise_clip_then_clip():
    info = DistInfo(torch.tensor([[0.9, -0.3], [0.0, 0.0]]))
    distribution = Gaussian(A, std=1, noise_clip=0.5, clip=1)
    distribution.set_noise(torch.tensor([[2.0, -2.0], [0.1, -0.2]]))
    expected = torch.tensor([[1.0, -0.8], [0.1, -0.2]])
    torch.testing.assert_close(distribution.sample(info), expected)
    distribution.set_clip(None)
    distribution.set_noise_clip(None)
    distribution.set_noise(torch.tensor([[2.0, -2.0], [0.1, -0.2]]))
    torch.testing.assert_close(distribution.sample(info)[0], torch.tensor([2.9, -2.3]))


def test_squashed_log_likelihood_is_the_density_of_the_squashed_sample():
    """Probabilities of intervals of squash * tanh(x), by the normal's cumulative distribution."""
    squash, mean, log_std = 2.0, 0.4, math.log(0.7)
    y = torch.linspace(-1.95, 1.95, 40001, dtype=torch.float64)
    x = torch.atanh(y / squash)
    info = DistInfoStd(*(torch.full((len(y), 1), v, dtype=torch.float64) for v in (mean, log_std)))
    distribution = Gaussian(1, squash=squash)
    density = distribution.log_likelihood(x.unsqueeze(-1), info).exp()
    for low, high in ((0, 40000), (100, 5000), (20000, 39000)):
        integral = torch.trapezoid(density[low : high + 1], y[low : high + 1])
        exact = torch.special.ndtr((x[[low, high]] - mean) / math.exp(log_std)).diff()
        torch.testing.assert_close(integral, exact.squeeze(), rtol=1e-5, atol=1e-7)


def test_squashed_log_likelihood_is_stable_far_out():
    info = DistInfoStd(torch.zeros(1, 1), torch.zeros(1, 1))
    x = torch.tensor([[30.0]], requires_grad=True)  # 1 - tanh(x)^2 is zero in float32
    logli = Gaussian(1, squash=1.0).log_likelihood(x, info)
    expected = -0.5 * 30**2 - 0.5 * math.log(2 * math.pi) - 2 * (math.log(2) - 30)
    torch.testing.assert_close(logli.item(), expected, rtol=1e-6, atol=0)
    logli.backward()
    torch.testing.assert_close(x.grad.item(), -30 + 2.0, rtol=1e-6, atol=0)


def test_sample_loglikelihood_gives_both_with_gradient():
    info = DistInfoStd(*(x.requires_grad_() for x in make_info(B)))
    distribution = Gaussian(A, squash=3.0)
    noise = torch.randn(B, A)
    distribution.set_noise(noise)
    action, logli = distribution.sample_loglikelihood(info)
    before = info.mean + info.log_std.exp() * noise
    torch.testing.assert_close(action, 3 * torch.tanh(before))
    torch.testing.assert_close(logli, distribution.log_likelihood(before, info))
    (action.sum() + logli.sum()).backward()
    for leaf in info:
        assert leaf.grad.isfinite().all()
        assert (leaf.grad != 0).all()
    plain = Gaussian(A)
    plain.set_noise(noise)
    action, logli = plain.sample_loglikelihood(info)
    torch.testing.assert_close(logli, as_torch(info).log_prob(action), rtol=1e-4, atol=1e-5)


def test_squashing_cancels_in_ratio_and_kl_and_forbids_entropy():
    old, new, x = make_info(B), make_info(B, seed=1), torch.randn(B, A)
    squashed, free = Gaussian(A, squash=2.0), Gaussian(A)
    torch.testing.assert_close(
        squashed.likelihood_ratio(x, old, new), free.likelihood_ratio(x, old, new)
    )
    difference = squashed.log_likelihood(x, new) - squashed.log_likelihood(x, old)
    torch.testing.assert_close(difference.exp(), free.likelihood_ratio(x, old, new))
    torch.testing.assert_close(squashed.kl(old, new), free.kl(old, new))
    with pytest.raises(NotImplementedError, match="squashed"):
        squashed.entropy(old)


@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
def test_shapes_follow_leading_dimensions(lead):
    info, distribution = make_info(*lead), Gaussian(A)
    assert distribution.noise_spec == ("normal", (A,))
    action = distribution.sample(info)
    assert action.shape == (*lead, A)
    assert action.dtype == torch.float32
    for fixed in (None, 0.5):
        distribution.set_std(fixed)
        for result in (
            distribution.log_likelihood(action, info),
            distribution.likelihood_ratio(action, info, info),
            distribution.entropy(info),
            distribution.perplexity(info),
            distribution.kl(info, info),
        ):
            assert result.shape == lead


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"min_std": 0.5, "max_std": 1.5},
        {"min_std": 0.9},
        {"std": [0.5, 2.0], "clip": 1.0},
        {"noise_clip": 0.3, "squash": 2.0},
    ],
)
def test_numpy_draws_the_same_actions(settings):
    info, noise = make_info(50), torch.randn(50, A)
    distribution = Gaussian(A, **settings)
    distribution.set_noise(noise)
    expected = distribution.sample(info).numpy()
    action = distribution.draw(DistInfoStd(*(x.numpy() for x in info)), noise.numpy())
    assert action.dtype == np.float32
    np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-6)


def test_a_zero_std_is_deterministic():
    info, distribution = make_info(B), Gaussian(A, std=0)
    assert torch.equal(distribution.sample(info), info.mean)
    assert distribution.log_likelihood(info.mean, info).isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"std": -1.0}, "std="),
        ({"std": [1.0, 2.0, 3.0]}, "std="),
        ({"clip": 0.0}, "clip="),
        ({"min_std": 0.0}, "min_std .*got 0.0"),
        ({"min_std": 2.0, "max_std": 1.0}, "max_std="),
        ({"clip": 1.0, "squash": 1.0}, "^clip .*squash"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Gaussian(A, **settings)
