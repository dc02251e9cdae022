"""Losses and targets of critics as pure functions, against loops; steps of several networks."""

import copy
import math
import warnings

import pytest
import torch

from rlpyt.algos.optim import GradientStep, ParameterGroup
from rlpyt.algos.qpg.losses import (
    categorical_errors,
    categorical_target,
    min_over_critics,
    quantile_errors,
    soft_target,
    squared_errors,
    standard_normal_logli,
    truncated_target,
)
from rlpyt.errors import NonFiniteError

E, B, N, K = 3, 5, 4, 7


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(1)


def test_least_of_several_critics_or_the_only_one():
    q, like = torch.randn(E, B), torch.zeros(B)
    expected = [min(float(q[e, b]) for e in range(E)) for b in range(B)]
    assert min_over_critics(q, like).tolist() == pytest.approx(expected)
    assert torch.equal(min_over_critics(q[0], like), q[0])


def test_squared_errors():
    q, y = torch.randn(E, B, requires_grad=True), torch.randn(B)
    losses, apart = squared_errors(q, y)
    for b in range(B):
        deltas = [(y[b] - q[e, b]).item() for e in range(E)]
        assert losses[:, b].tolist() == pytest.approx([d * d / 2 for d in deltas], rel=1e-5)
        assert apart[b].item() == pytest.approx(sum(map(abs, deltas)) / E, rel=1e-5)
    losses.sum().backward()
    torch.testing.assert_close(q.grad, q.detach() - y)
    assert not apart.requires_grad
    one, apart = squared_errors(q[0], y)
    assert torch.equal(one, losses[0]) and torch.equal(apart, (y - q[0]).detach().abs())


def test_soft_target():
    next_q, log_pi, r, g = torch.randn(E, B), torch.randn(B), torch.randn(B), torch.rand(B)
    y = soft_target(next_q, None, 0.3 * log_pi, r, g)
    for b in range(B):
        value = min(float(next_q[e, b]) for e in range(E)) - 0.3 * float(log_pi[b])
        assert y[b].item() == pytest.approx(float(r[b]) + float(g[b]) * value, rel=1e-5)


@pytest.mark.parametrize("n_drop", [0, 1, 3])
def test_truncated_target_pools_and_sorts_the_quantiles_of_all_critics(n_drop):
    next_z, log_pi, r, g = torch.randn(E, B, N), torch.randn(B), torch.randn(B), torch.rand(B)
    y = truncated_target(next_z, n_drop, 0.3 * log_pi, r, g)
    assert y.shape == (B, E * (N - n_drop))
    for b in range(B):
        pooled = sorted(float(next_z[e, b, k]) for e in range(E) for k in range(N))
        kept = pooled[: E * (N - n_drop)]
        expected = [float(r[b]) + float(g[b]) * (z - 0.3 * float(log_pi[b])) for z in kept]
        assert y[b].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_quantile_errors_are_huber_losses_weighted_by_the_fraction():
    z, y = 2 * torch.randn(E, B, N), 2 * torch.randn(B, K)
    losses, apart = quantile_errors(z, y)
    assert losses.shape == (E, B)
    for b in range(B):
        for e in range(E):
            total = 0.0
            for i in range(N):
                for j in range(K):
                    u = float(y[b, j] - z[e, b, i])
                    huber = u * u / 2 if abs(u) <= 1 else abs(u) - 0.5
                    total += abs((i + 0.5) / N - (u < 0)) * huber / (N * K)
            assert losses[e, b].item() == pytest.approx(total, rel=1e-5)
        mean_z = sum(float(z[e, b].mean()) for e in range(E)) / E
        assert apart[b].item() == pytest.approx(abs(float(y[b].mean()) - mean_z), rel=1e-4)


def test_quantile_regression_finds_the_quantiles():
    """Of a uniform distribution on [0, 10]; the Huber part blurs the ends by less than 1."""
    torch.manual_seed(0)
    z = torch.zeros(1, 1, N, requires_grad=True)
    optimizer = torch.optim.Adam([z], lr=0.3)
    for _ in range(120):
        y = 10 * (torch.arange(64) + torch.rand(64)) / 64
        optimizer.zero_grad()
        quantile_errors(z, y[None])[0].sum().backward()
        optimizer.step()
    assert z.flatten().tolist() == pytest.approx([1.25, 3.75, 6.25, 8.75], abs=0.5)


def test_categorical_target_is_that_of_the_critic_with_the_smallest_mean():
    """Its atoms are moved and divided among the two nearest ones, one after the other."""
    atoms = torch.linspace(-2, 3, N)
    logits, log_pi, r, g = 3 * torch.randn(E, B, N), torch.randn(B), torch.randn(B), torch.rand(B)
    y = categorical_target(logits, atoms, 0.3 * log_pi, r, g)
    smallest = set()
    for b in range(B):
        p = [[float(x) for x in logits[e, b].double().softmax(0)] for e in range(E)]
        means = [sum(x * float(z) for x, z in zip(p[e], atoms)) for e in range(E)]
        smallest.add(k := means.index(min(means)))
        expected = [0.0] * N
        for x, z in zip(p[k], atoms):
            moved = float(r[b]) + float(g[b]) * (float(z) - 0.3 * float(log_pi[b]))
            place = (min(max(moved, -2.0), 3.0) + 2) / 5 * (N - 1)
            low = min(int(place), N - 2)
            expected[low] += x * (low + 1 - place)
            expected[low + 1] += x * (place - low)
        assert y[b].tolist() == pytest.approx(expected, abs=1e-5)
    assert len(smallest) > 1


def test_categorical_errors_are_cross_entropies():
    atoms, logits, y = torch.linspace(-2, 3, N), torch.randn(E, B, N), torch.rand(B, N).softmax(-1)
    losses, apart = categorical_errors(logits, y, atoms)
    for b in range(B):
        p = [[float(x) for x in logits[e, b].double().softmax(0)] for e in range(E)]
        for e in range(E):
            expected = -sum(float(t) * math.log(x) for t, x in zip(y[b], p[e]))
            assert losses[e, b].item() == pytest.approx(expected, rel=1e-5)
        mean = sum(x * float(z) for e in range(E) for x, z in zip(p[e], atoms)) / E
        assert apart[b].item() == pytest.approx(abs(float(y[b] @ atoms) - mean), abs=1e-5)


def test_standard_normal_log_density():
    x = torch.randn(B, 2)
    for b in range(B):
        expected = sum(
            math.log(math.exp(-(float(v) ** 2) / 2) / math.sqrt(2 * math.pi)) for v in x[b]
        )
        assert standard_normal_logli(x)[b].item() == pytest.approx(expected, rel=1e-5)


# One optimizer of several networks.


def three_networks():
    """A layer, an ensemble of two, and a number."""
    torch.manual_seed(3)
    first = [torch.nn.Parameter(torch.randn(4, 3)), torch.nn.Parameter(torch.randn(4))]
    pair = [torch.nn.Parameter(torch.randn(2, 3, 2)), torch.nn.Parameter(torch.randn(2, 3))]
    number = [torch.nn.Parameter(torch.tensor(0.5))]
    return first, pair, number


def losses_of(first, pair, number, x):
    """Losses of each network and member: far apart in size, so that limits bind for some."""
    one = ((x @ first[0].T + first[1]) ** 2).mean()
    two = [0.1 * (pair[0][0] ** 2).sum() + pair[1][0].sum() * 0.01,
           100 * (pair[0][1] ** 2).sum() + pair[1][1].sum()]  # fmt: skip
    return [one, *two, number[0] * x.mean()]


@pytest.mark.parametrize("limit", [None, 0.5])
@pytest.mark.parametrize("OptimCls", [torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop])
def test_one_step_is_that_of_separate_optimizers(OptimCls, limit):
    first, pair, number = three_networks()
    networks = [
        ParameterGroup("first", first),
        ParameterGroup("pair", pair, 2),
        ParameterGroup("number", number),
    ]
    step = GradientStep(networks, OptimCls, 0.05, None, limit)
    plain, whole_pair, plain_number = three_networks()
    members = [[torch.nn.Parameter(p[i].detach().clone()) for p in whole_pair] for i in range(2)]
    groups = [plain, *members, plain_number]
    optimizers = [OptimCls(group, lr=0.05) for group in groups]
    clipped = []
    for n in range(4):
        x = torch.randn(6, 3)
        resting = n == 2  # in which the first network has no gradient
        own = losses_of(first, pair, number, x)
        norms = list(step(sum(own[1:] if resting else own)).values())
        stacked = [torch.stack(p) for p in zip(*members)]
        theirs = losses_of(plain, stacked, plain_number, x)
        expected = []
        for k, (group, optimizer) in enumerate(zip(groups, optimizers)):
            if k == 0 and resting:
                continue
            optimizer.zero_grad()
            gradients = torch.autograd.grad(theirs[k], group, retain_graph=True)
            for p, g in zip(group, gradients):
                p.grad = g
            norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
            expected.append(norm)
            if limit is not None:
                torch.nn.utils.clip_grad_norm_(group, limit)
            clipped.append(limit is not None and norm > limit)
            optimizer.step()
        assert [len(x) for x in norms] == [0 if resting else 1, 2, 1]
        assert torch.cat(norms).tolist() == pytest.approx(expected, rel=1e-4)
    close = dict(rtol=1e-4, atol=1e-6)
    for a, b in zip([*first, *number], [*plain, *plain_number]):
        torch.testing.assert_close(a, b, **close)
    for a, *parts in zip(pair, *members):
        torch.testing.assert_close(a, torch.stack(parts), **close)
    assert set(clipped) == ({False} if limit is None else {True, False})


def test_networks_without_gradient_stay_as_they_are():
    first, pair, number = three_networks()
    networks = [
        ParameterGroup("first", first),
        ParameterGroup("pair", pair, 2),
        ParameterGroup("number", number),
    ]
    step = GradientStep(networks, torch.optim.Adam, 0.05)
    losses = losses_of(first, pair, number, torch.randn(6, 3))
    step(sum(losses))
    before = [p.detach().clone() for p in (*first, *number)]
    losses = losses_of(first, pair, number, torch.randn(6, 3))
    norms = list(step(losses[1] + losses[2]).values())
    # Momentum must not move the others either.
    assert all(torch.equal(a, b) for a, b in zip(before, (*first, *number)))
    assert [len(x) for x in norms] == [0, 2, 0]
    steps = [float(step.optimizer.state[p]["step"]) for p in step.parameters]
    assert steps == [1, 1, 2, 2, 1]


def test_states_are_by_network_and_go_on():
    def made():
        first, pair, number = three_networks()
        networks = [
            ParameterGroup("first", first),
            ParameterGroup("pair", pair, 2),
            ParameterGroup("number", number),
        ]
        return (first, pair, number), GradientStep(networks, torch.optim.Adam, 0.05)

    (parameters, step), (others, other) = made(), made()
    xs = torch.randn(4, 6, 3)
    for x in xs[:2]:
        step(sum(losses_of(*parameters, x)))
    states = step.state_dicts()
    assert list(states) == ["first", "pair", "number"]
    alone = torch.optim.Adam(three_networks()[1], lr=0.05)
    alone.load_state_dict(states["pair"])  # it is a state that an optimizer of its own takes
    assert torch.equal(
        alone.state_dict()["state"][0]["exp_avg"], states["pair"]["state"][0]["exp_avg"]
    )
    with torch.no_grad():
        for group, new in zip(others, parameters):
            for p, q in zip(group, new):
                p.copy_(q)
    other.load_state_dicts(copy.deepcopy({**states, "of another": {}}))
    for x in xs[2:]:
        for own, gradient_step in ((parameters, step), (others, other)):
            gradient_step(sum(losses_of(*own, x)))
    for group, new in zip(others, parameters):
        assert all(torch.equal(p, q) for p, q in zip(group, new))


def test_a_loss_of_other_parameters_is_refused():
    step = GradientStep(
        [ParameterGroup("pi", [torch.nn.Parameter(torch.ones(2))])], torch.optim.Adam, 0.1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="no parameter"):
            step(torch.nn.Parameter(torch.ones(2)).sum())


def test_what_is_not_finite_moves_nothing_and_is_named():
    first, pair, number = three_networks()
    names = {first[0]: "pi: weight", pair[0]: "q: weight"}
    networks = [
        ParameterGroup("pi", first, names=names),
        ParameterGroup("q", pair, 2, names),
        ParameterGroup("a", number),
    ]
    step = GradientStep(networks, torch.optim.Adam, 0.05)
    before = [p.detach().clone() for p in step.parameters]
    losses = losses_of(first, pair, number, torch.randn(6, 3))
    bad = torch.sqrt((pair[0][1] * 0).sum())  # 0, with an infinite gradient
    with pytest.raises(NonFiniteError, match="gradient .* q: weight"):
        step(sum(losses) + bad)
    assert all(torch.equal(a, b) for a, b in zip(before, step.parameters))
