import numpy as np
import pytest
import torch

from rlpyt.distributions.categorical import Categorical, DistInfo
from rlpyt.distributions.multi_categorical import MultiCategorical

BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))
T, B, A = 4, 3, 5
DIMS = (3, 1, 4)


def probabilities(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(2 * torch.randn(*shape, generator=generator), dim=-1)


def parts_of(prob):
    return [torch.softmax(part.log(), dim=-1) for part in prob.split(DIMS, dim=-1)]


def joined(*shape, seed=0):
    return torch.cat(parts_of(probabilities(*shape, sum(DIMS), seed=seed)), dim=-1)


def test_sample_inverts_the_cumulative_distribution():
    prob = torch.tensor([0.25, 0.5, 0.25])
    cases = {0.0: 0, 0.2499: 0, 0.25: 1, 0.5: 1, 0.7499: 1, 0.75: 2, BELOW_ONE: 2}
    distribution = Categorical(3)
    distribution.set_noise(torch.tensor(list(cases)))
    action = distribution.sample(DistInfo(prob.expand(len(cases), 3)))
    assert action.tolist() == list(cases.values())
    assert action.dtype == torch.long


def test_sample_frequencies_are_the_probabilities():
    torch.manual_seed(0)
    prob = torch.tensor([0.1, 0.0, 0.6, 0.3])
    action = Categorical(4).sample(DistInfo(prob.expand(20000, 4)))
    frequency = torch.bincount(action, minlength=4) / 20000
    assert torch.allclose(frequency, prob, atol=0.015)  # four standard deviations
    assert frequency[1] == 0


@pytest.mark.parametrize("n", [3, 300])
def test_an_action_of_probability_zero_is_never_chosen(n):
    """Rows whose sums round, with zeros first, between and last, at the ends of every interval."""
    generator = np.random.default_rng(0)
    prob = generator.random((200, n)).astype(np.float32) * 10.0 ** generator.integers(
        -6, 1, (200, n)
    )
    prob[generator.random((200, n)) < 0.5] = 0
    prob[:, 0] = prob[:, -1] = 0
    prob[:, 1] += 1e-30
    prob = (prob / prob.sum(-1, keepdims=True)).astype(np.float32)
    cumulative = prob.cumsum(-1)
    edges = cumulative[np.arange(200), generator.integers(0, n, 200)]
    for u in (np.zeros(200), np.full(200, BELOW_ONE), np.minimum(edges, BELOW_ONE)):
        noise = u.astype(np.float32)
        distribution = Categorical(n)
        distribution.set_noise(torch.from_numpy(noise))
        action = distribution.sample(DistInfo(torch.from_numpy(prob))).numpy()
        assert (prob[np.arange(200), action] > 0).all()
        np.testing.assert_array_equal(distribution.draw(DistInfo(prob), noise), action, strict=True)


def test_probabilities_need_not_sum_to_one():
    distribution = Categorical(2)
    distribution.set_noise(torch.tensor([0.49, 0.51]))
    assert distribution.sample(DistInfo(torch.full((2, 2), 0.1))).tolist() == [0, 1]


def test_noise_is_used_once_and_then_torch_draws():
    distribution, info = Categorical(A), DistInfo(probabilities(50, A))
    noise = torch.rand(50)
    distribution.set_noise(noise)
    first = distribution.sample(info)
    torch.manual_seed(0)
    drawn = distribution.sample(info)
    torch.manual_seed(0)
    assert torch.equal(distribution.sample(info), drawn)
    assert not torch.equal(first, drawn)
    distribution.set_noise(noise)
    assert torch.equal(distribution.sample(info), first)


def test_noise_of_the_wrong_shape_is_refused_and_forgotten():
    distribution = Categorical(A)
    distribution.set_noise(torch.rand(B, 1))
    with pytest.raises(ValueError, match="noise .*shape"):
        distribution.sample(DistInfo(probabilities(B, A)))
    distribution.sample(DistInfo(probabilities(B, A)))
    distribution.set_noise(torch.rand(B, 1))
    distribution.set_noise(None)
    distribution.sample(DistInfo(probabilities(B, A)))


@pytest.mark.parametrize("lead", [(), (B,), (T, B)])
def test_shapes_follow_leading_dimensions(lead):
    for distribution, info, extra in (
        (Categorical(A), DistInfo(probabilities(*lead, A)), ()),
        (MultiCategorical(DIMS), DistInfo(joined(*lead)), (len(DIMS),)),
    ):
        assert distribution.noise_spec == ("uniform", extra)
        action = distribution.sample(info)
        assert action.shape == lead + extra
        for result in (
            distribution.log_likelihood(action, info),
            distribution.likelihood_ratio(action, info, info),
            distribution.entropy(info),
            distribution.perplexity(info),
            distribution.kl(info, info),
        ):
            assert result.shape == lead
        assert distribution.from_onehot(distribution.to_onehot(action)).equal(action)
        assert distribution.to_onehot(action).shape == (*lead, distribution.dim)
        assert distribution.to_onehot(action).dtype == torch.float


def test_formulas_agree_with_torch_distributions():
    p, q = probabilities(T, B, A, seed=1), probabilities(T, B, A, seed=2)
    distribution = Categorical(A)
    old, new = torch.distributions.Categorical(p), torch.distributions.Categorical(q)
    action = old.sample()
    close = dict(rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(distribution.entropy(DistInfo(p)), old.entropy(), **close)
    torch.testing.assert_close(distribution.perplexity(DistInfo(p)), old.entropy().exp(), **close)
    kl = torch.distributions.kl_divergence(old, new)
    torch.testing.assert_close(distribution.kl(DistInfo(p), DistInfo(q)), kl, **close)
    torch.testing.assert_close(distribution.mean_kl(DistInfo(p), DistInfo(q)), kl.mean(), **close)
    valid = torch.zeros(T, B)
    valid[1, 2] = 1
    torch.testing.assert_close(
        distribution.mean_kl(DistInfo(p), DistInfo(q), valid), kl[1, 2], **close
    )
    torch.testing.assert_close(
        distribution.mean_entropy(DistInfo(p), valid), old.entropy()[1, 2], **close
    )
    log_likelihood = distribution.log_likelihood(action, DistInfo(p))
    torch.testing.assert_close(log_likelihood, old.log_prob(action), **close)
    ratio = distribution.likelihood_ratio(action, DistInfo(p), DistInfo(q))
    torch.testing.assert_close(
        ratio, (new.log_prob(action) - old.log_prob(action)).exp(), rtol=1e-3, atol=1e-5
    )


def test_vanishing_probabilities_stay_finite_with_their_gradients():
    prob = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    other = DistInfo(torch.tensor([[0.0, 1.0], [0.5, 0.5]]))
    distribution, action = Categorical(2), torch.tensor([0, 0])
    total = (
        distribution.entropy(DistInfo(prob))
        + distribution.kl(DistInfo(prob), other)
        + distribution.log_likelihood(action, DistInfo(prob))
        + distribution.likelihood_ratio(action, other, DistInfo(prob))
    ).sum()
    total.backward()
    assert total.isfinite()
    assert prob.grad.isfinite().all()


def test_each_part_of_multi_categorical_is_a_categorical():
    info, noise = DistInfo(joined(500, seed=3)), torch.rand(500, len(DIMS))
    multi = MultiCategorical(DIMS)
    multi.set_noise(noise)
    action = multi.sample(info)
    other = DistInfo(joined(500, seed=4))
    log_likelihood, entropy, kl = torch.zeros(500), torch.zeros(500), torch.zeros(500)
    split = (x.prob.split(DIMS, dim=-1) for x in (info, other))
    for i, (n, prob, new) in enumerate(zip(DIMS, *split)):
        single, part = Categorical(n), DistInfo(prob)
        single.set_noise(noise[:, i])
        assert torch.equal(single.sample(part), action[:, i])
        log_likelihood += single.log_likelihood(action[:, i], part)
        entropy += single.entropy(part)
        kl += single.kl(part, DistInfo(new))
    torch.testing.assert_close(multi.log_likelihood(action, info), log_likelihood)
    torch.testing.assert_close(multi.entropy(info), entropy)
    torch.testing.assert_close(multi.kl(info, other), kl)
    ratio = torch.exp(multi.log_likelihood(action, other) - log_likelihood)
    torch.testing.assert_close(multi.likelihood_ratio(action, info, other), ratio)


@pytest.mark.parametrize("dims", [DIMS, (2, 2, 2)])
def test_multi_categorical_samples_alike_in_numpy_and_never_the_impossible(dims):
    generator = np.random.default_rng(1)
    parts = []
    for n in dims:
        part = generator.random((300, n)).astype(np.float32)
        part[:, : n - 1] *= generator.random((300, n - 1)) < 0.5
        parts.append(part / part.sum(-1, keepdims=True))
    prob = np.concatenate(parts, axis=1)
    noise = generator.random((300, len(dims)), dtype=np.float32)
    noise[0], noise[1] = 0, BELOW_ONE
    distribution = MultiCategorical(dims)
    distribution.set_noise(torch.from_numpy(noise))
    action = distribution.sample(DistInfo(torch.from_numpy(prob))).numpy()
    np.testing.assert_array_equal(distribution.draw(DistInfo(prob), noise), action)
    for i, part in enumerate(parts):
        assert (part[np.arange(300), action[:, i]] > 0).all()


def test_multi_categorical_onehot_by_hand():
    action = torch.tensor([[2, 0, 1], [0, 0, 3]])
    expected = torch.tensor([[0, 0, 1, 1, 0, 1, 0, 0], [1, 0, 0, 1, 0, 0, 0, 1]])
    assert torch.equal(MultiCategorical(DIMS).to_onehot(action), expected.float())


def test_dtypes_as_asked():
    distribution = Categorical(A, dtype=torch.int32, onehot_dtype=torch.float64)
    action = distribution.sample(DistInfo(probabilities(B, A)))
    assert action.dtype == torch.int32
    assert distribution.to_onehot(action).dtype == torch.float64
    assert distribution.to_onehot(action, dtype=torch.bool).dtype == torch.bool


def test_impossible_sizes_are_refused():
    with pytest.raises(ValueError, match="^dim .*got 0"):
        Categorical(0)
    with pytest.raises(ValueError, match="dims must hold"):
        MultiCategorical([2, 0])
