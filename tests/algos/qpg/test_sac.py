"""SAC, with REDQ's and TQC's critics, and SAC with a value network, against plain definitions."""

import contextlib
import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent, R2d1LstmAgent
from rlpyt.agents.pg.vector import GaussianMlpAgent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.qpg.base import frozen
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.losses import categorical_target
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.errors import NonFiniteError
from rlpyt.models.qpg.mlp import QofMuMlpModel
from tests.algos.qpg.parts_qpg import (
    AGENTS,
    NARROW,
    SIZES,
    SMALL,
    A,
    assert_same_state,
    feed,
    fill,
    level,
    one_update,
    perceptron,
    pi_of,
    prepared,
    q_of,
    ranked,
    sampled,
    standalone,
    to_unit,
)

N = 30
ALGOS = {"ddpg": DDPG, "td3": TD3, "sac": SAC, "sac_v": SAC_V}


def prior_of(action, prior):
    """Logarithm of the prior of one action [A] in units of [-1, 1]."""
    if prior == "uniform":
        return 0.0
    return sum(-0.5 * float(a) ** 2 - 0.5 * math.log(2 * math.pi) for a in action)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("alpha", [None, 0.0, 0.3])
def test_critics_losses_are_their_definition(n_step, alpha):
    algo = SAC(
        discount=0.9, fixed_alpha=alpha, n_step_return=n_step, reward_scale=3,
        prioritized_replay=True, **SMALL,
    )  # fmt: skip
    agent = AGENTS["sac"]()
    batch = ranked(algo, sampled(algo, agent))
    level(agent, batch)
    if alpha is None:
        algo.log_alpha.data.fill_(math.log(0.2))
    seen, after = batch.agent_inputs.observation, batch.target_inputs.observation
    torch.manual_seed(4)
    losses, values, apart = algo.q_loss(batch)
    torch.manual_seed(4)
    next_action, log_pi = pi_of(agent, after, torch.randn(N, A))
    next_q = [q_of(agent, f"target_q{i}_model", after, next_action) for i in (1, 2)]
    q = [q_of(agent, f"q{i}_model", seen, to_unit(batch.action)) for i in (1, 2)]
    totals, mean_apart, lesser = [0.0, 0.0], [], set()
    for b in range(N):
        lesser.add(bool(next_q[0][b] < next_q[1][b]))
        worth = min(float(next_q[0][b]), float(next_q[1][b]))
        worth -= (0.2 if alpha is None else alpha) * float(log_pi[b])
        y = 3 * float(batch.return_[b]) + float(batch.discount_n[b]) * worth
        for i in range(2):
            totals[i] += float(batch.is_weights[b]) * 0.5 * (y - float(q[i][b])) ** 2 / N
        mean_apart.append(sum(abs(y - float(q[i][b])) for i in range(2)) / 2)
    assert losses.tolist() == pytest.approx(totals, rel=1e-4)
    assert apart.tolist() == pytest.approx(mean_apart, rel=1e-3, abs=1e-4)
    torch.testing.assert_close(values.double(), torch.stack(q), rtol=1e-4, atol=1e-4)
    assert lesser == {True, False} and losses.requires_grad
    assert len(set(batch.is_weights.tolist())) > 3
    assert not values.requires_grad and not apart.requires_grad


def test_targets_value_what_the_policy_climbs():
    """With a prior too: the policy's loss is minus the value of the next state in targets."""
    algo = SAC(discount=0.9, fixed_alpha=0.3, action_prior="gaussian", **SMALL)
    agent = AGENTS["sac"]()
    batch = sampled(algo, agent)
    agent.target_q_model.load_state_dict(agent.q_model.state_dict())
    torch.manual_seed(4)
    y = algo.q_target(batch)
    value = ((y - batch.return_) / batch.discount_n)[batch.discount_n > 0]
    going_on = SimpleNamespace(agent_inputs=batch.target_inputs)
    torch.manual_seed(4)
    action, log_pi = agent.pi(*going_on.agent_inputs)[:2]
    cost = algo._policy_cost(going_on.agent_inputs, action, log_pi)
    torch.testing.assert_close(value, -cost[batch.discount_n > 0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("prior", ["uniform", "gaussian"])
@pytest.mark.parametrize("squash", [1.0, 0.8])
def test_policy_and_temperature_losses_are_their_definition(prior, squash):
    algo = SAC(action_prior=prior, target_entropy=-1.3, **SMALL)
    agent = AGENTS["sac"](action_squash=squash)
    batch = sampled(algo, agent)
    level(agent, batch)
    algo.log_alpha.data.fill_(math.log(0.2))
    algo.q_loss = lambda samples: (None, None, None)
    torch.manual_seed(4)
    (_, loss, alpha_loss), (_, mean, log_std, _) = algo.loss(batch)
    torch.manual_seed(4)
    seen = batch.agent_inputs.observation
    action, log_pi = pi_of(agent, seen, torch.randn(N, A))
    action, log_pi = squash * action, log_pi - A * math.log(squash)
    q = [q_of(agent, f"q{i}_model", seen, action) for i in (1, 2)]
    total, entropy, lesser = 0.0, 0.0, set()
    for b in range(N):
        lesser.add(bool(q[0][b] < q[1][b]))
        least = min(float(q[0][b]), float(q[1][b]))
        total += (0.2 * float(log_pi[b]) - prior_of(action[b], prior) - least) / N
        entropy -= float(log_pi[b]) / N
    assert loss.item() == pytest.approx(total, rel=1e-4)
    assert alpha_loss.item() == pytest.approx(math.log(0.2) * (entropy + 1.3), rel=1e-4)
    assert lesser == {True, False}
    out = perceptron(agent.state_dict()["model"], seen.double())
    torch.testing.assert_close(torch.cat([mean, log_std], -1).double(), out, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target, up", [(5.0, True), (-30.0, False)])
def test_temperature_rises_where_entropy_is_below_its_target(target, up):
    algo = SAC(target_entropy=target, **SMALL)
    agent = AGENTS["sac"]()
    fill(algo, prepared(algo, agent))
    assert float(algo.alpha) == 1
    info = [one_update(algo) for itr in range(5)]
    alphas = [x.alpha[0] for x in info]
    assert (sorted(alphas) == alphas) == up and (sorted(alphas, reverse=True) == alphas) != up
    assert len(set(alphas)) == 5 and float(algo.alpha) == alphas[-1]


@pytest.mark.parametrize("per_component", [-1.0, -0.5])
def test_target_entropy_is_that_of_each_component(per_component):
    algo = SAC(**SMALL) if per_component == -1 else SAC(box_entropy=per_component, **SMALL)
    prepared(algo, AGENTS["sac"]())
    assert algo._target_entropy == per_component * A
    with pytest.raises(AttributeError, match="box_entropy"):
        algo.box_entropy = -2.0


def test_the_first_temperature_is_as_chosen():
    algo = SAC(initial_alpha=0.01, learning_rate=0.1, **SMALL)
    fill(algo, prepared(algo, AGENTS["sac"]()))
    assert float(algo.alpha) == pytest.approx(0.01)
    assert one_update(algo).alpha[0] == pytest.approx(0.01 * math.exp(-0.1))  # a step of Adam


@pytest.mark.parametrize(
    "settings", [dict(OptimCls=torch.optim.AdamW), dict(optim_kwargs=dict(weight_decay=0.5))]
)
def test_weight_decay_spares_the_temperature(settings):
    algo = SAC(initial_alpha=0.01, **settings, **SMALL)
    fill(algo, prepared(algo, AGENTS["sac"]()))
    network, temperature = algo.steps["all"].optimizer.param_groups
    assert network["weight_decay"] > 0 == temperature["weight_decay"]
    assert temperature["params"] == [algo.log_alpha]


def test_without_weight_decay_all_parameters_are_one_group():
    algo = SAC(**SMALL)
    prepared(algo, AGENTS["sac"]())
    assert len(algo.steps["all"].optimizer.param_groups) == 1


def test_fixed_alpha_stays():
    algo = SAC(fixed_alpha=0.37, **SMALL)
    fill(algo, prepared(algo, AGENTS["sac"]()))
    assert [one_update(algo).alpha[0] for i in range(3)] == pytest.approx([0.37] * 3)


def evaluated(algo, agent):
    """Batch, results of ``q_loss``, outputs of critics and targets, log pi of the next actions."""
    batch = sampled(algo, agent)
    level(agent, batch)
    seen, after = batch.agent_inputs.observation, batch.target_inputs.observation
    torch.manual_seed(4)
    found = algo.q_loss(batch)
    torch.manual_seed(4)
    next_action, log_pi = pi_of(agent, after, torch.randn(N, A))
    names = [f"q{i + 1}_model" for i in range(agent.n_critics)]
    q = [q_of(agent, name, seen, to_unit(batch.action)) for name in names]
    return batch, found, q, [q_of(agent, f"target_{x}", after, next_action) for x in names], log_pi


def policy_evaluated(algo, agent, batch):
    """Policy loss, and of its actions log pi and the critics' outputs."""
    seen = batch.agent_inputs.observation
    torch.manual_seed(5)
    loss = algo.pi_loss(batch)[0]
    torch.manual_seed(5)
    action, log_pi = pi_of(agent, seen, torch.randn(N, A))
    names = [f"q{i + 1}_model" for i in range(agent.n_critics)]
    return loss, log_pi, torch.stack([q_of(agent, name, seen, action) for name in names])


@pytest.mark.parametrize("drop", [0, 1, 3])
def test_truncated_quantile_losses_are_their_definition(drop):
    E, K = 3, 4
    algo = SAC(discount=0.9, fixed_alpha=0.3, n_drop_quantiles=drop, n_step_return=2, **SMALL)
    agent = AGENTS["sac"](n_critics=E, q_model_kwargs=dict(n_quantiles=K, **NARROW))
    batch, (losses, values, apart), z, next_z, log_pi = evaluated(algo, agent)
    totals, mean_apart = [0.0] * E, []
    for b in range(N):
        pooled = sorted(float(next_z[i][b, k]) for i in range(E) for k in range(K))
        kept = pooled[: E * K - E * drop]
        y = [
            float(batch.return_[b]) + float(batch.discount_n[b]) * (value - 0.3 * float(log_pi[b]))
            for value in kept
        ]
        for i in range(E):
            for k in range(K):
                tau = (2 * k + 1) / (2 * K)
                for target in y:
                    u = target - float(z[i][b, k])
                    huber = 0.5 * u * u if abs(u) <= 1 else abs(u) - 0.5
                    totals[i] += abs(tau - (u < 0)) * huber / (len(y) * K * N)
        mean_y = sum(y) / len(y)
        mean_z = sum(float(z[i][b].mean()) for i in range(E)) / E
        mean_apart.append(abs(mean_y - mean_z))
    assert losses.tolist() == pytest.approx(totals, rel=1e-4)
    assert apart.tolist() == pytest.approx(mean_apart, rel=1e-3, abs=1e-4)
    torch.testing.assert_close(values.double(), torch.stack(z).mean(-1), rtol=1e-4, atol=1e-4)
    loss, log_pi, q = policy_evaluated(algo, agent, batch)
    assert loss.item() == pytest.approx(float((0.3 * log_pi - q.mean((0, 2))).mean()), rel=1e-4)


@pytest.mark.parametrize("mean", [False, True])
def test_categorical_critics_learn_distributions_of_scaled_returns(mean):
    E, K = 3, 11
    settings = dict(discount=0.9, fixed_alpha=0.3, reward_scale=0.5, n_step_return=2, **SMALL)
    algo = SAC(normalize_reward=True, V_max=4.0, n_target_critics=E if mean else None, **settings)
    agent = AGENTS["sac"](n_critics=E, q_model_kwargs=dict(n_atoms=K, **NARROW))
    batch, (losses, values, apart), logits, next_logits, log_pi = evaluated(algo, agent)
    atoms = torch.linspace(-5, 4, K).double()
    assert float(algo.divisor) > 2
    return_ = 0.5 * batch.return_.double() / float(algo.divisor)
    terms = 0.3 * log_pi, return_, batch.discount_n.double()
    y = categorical_target(torch.stack(next_logits), atoms, *terms)
    for i in range(E):
        expected = -(y * logits[i].log_softmax(-1)).sum(-1).mean()
        assert losses[i].item() == pytest.approx(float(expected), rel=1e-5)
    means = torch.stack(logits).softmax(-1) @ atoms
    torch.testing.assert_close(values.double(), means, rtol=1e-4, atol=1e-5)
    expected = (y @ atoms - means.mean(0)).abs()
    torch.testing.assert_close(apart.double(), expected, rtol=1e-3, atol=1e-4)
    loss, log_pi, q = policy_evaluated(algo, agent, batch)
    q = q.softmax(-1) @ atoms
    expected = (0.3 * log_pi - (q.mean(0) if mean else q.amin(0))).mean()
    assert loss.item() == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("low, high", [(-5.0, 2.0), (-0.5, 9.0), (-0.5, 0.0), (0.0, 1.5)])
def test_the_scale_of_rewards_is_saved_and_bounds_returns(low, high):
    """max(std, min R / V_min, max R / V_max) of discounted returns, by a loop over the steps."""
    settings = dict(discount=0.9, normalize_reward=True, V_min=low, V_max=high, **SMALL)
    algo = SAC(**settings)
    sampler = prepared(algo, AGENTS["sac"]())
    fill(algo, sampler)
    batch = sampler.obtain_samples(6)[0]
    env = batch.env._replace(reward=100 * torch.randn_like(batch.env.reward))
    batch = batch._replace(env=env)
    returns, running = [], algo.reward_normalizer.state_dict()
    total = running["return"].copy()
    for t in range(len(batch.env.reward)):
        total = 0.9 * total + batch.env.reward[t].numpy()
        returns.append(total.copy())
        total[batch.env.done[t].numpy() > 0] = 0
    lowest = min(running["range"][0], np.min(returns))
    highest = max(running["range"][1], np.max(returns))
    algo.update_obs_rms(batch)
    std = math.sqrt(float(algo.reward_normalizer.moments.state_dict()["var"]) + 1e-8)
    bounds = [r / limit for r, limit in ((lowest, low), (highest, high)) if limit]
    assert float(algo.divisor) == pytest.approx(max(std, *bounds), rel=1e-6)
    assert lowest < 0 < highest and max(bounds) > std
    free = SAC(fit_returns=False, **settings)
    prepared(free, AGENTS["sac"]())
    free.load_state_dict(algo.state_dict())
    assert float(free.divisor) == pytest.approx(std, rel=1e-6)
    other = SAC(**settings)
    prepared(other, AGENTS["sac"]())
    other.load_state_dict(algo.state_dict())
    assert float(other.divisor) == float(algo.divisor)
    assert np.array_equal(other.reward_normalizer._return, total)
    other.interrupt()
    assert not other.reward_normalizer._return.any()


def test_redq_draws_some_critics_for_targets_and_asks_all_for_the_policy():
    E, M = 5, 2
    algo = SAC(discount=0.9, fixed_alpha=0.3, n_target_critics=M, **SMALL)
    agent = AGENTS["sac"](n_critics=E)
    batch = sampled(algo, agent)
    level(agent, batch)
    after, subsets = batch.target_inputs.observation, set()
    for seed in range(40):
        torch.manual_seed(seed)
        y = algo.q_target(batch)
        torch.manual_seed(seed)
        next_action, log_pi = pi_of(agent, after, torch.randn(N, A))
        next_q = [q_of(agent, f"target_q{i + 1}_model", after, next_action) for i in range(E)]
        found = []
        for i in range(E):
            for j in range(i):
                least = torch.minimum(next_q[i], next_q[j])
                plain = batch.return_ + batch.discount_n * (least - 0.3 * log_pi)
                if torch.allclose(plain.float(), y, rtol=1e-4, atol=1e-4):
                    found.append((j, i))
        assert len(found) == 1  # the least of exactly these two
        subsets.add(found[0])
    assert len(subsets) > 6  # of 10
    seen = batch.agent_inputs.observation
    torch.manual_seed(5)
    loss = algo.pi_loss(batch)[0]
    torch.manual_seed(5)
    action, log_pi = pi_of(agent, seen, torch.randn(N, A))
    q = torch.stack([q_of(agent, f"q{i + 1}_model", seen, action) for i in range(E)])
    assert loss.item() == pytest.approx(float((0.3 * log_pi - q.mean(0)).mean()), rel=1e-4)


@pytest.mark.parametrize("interval", [1, 2])
def test_updates_are_those_of_separate_optimizers(interval):
    algo = SAC(
        discount=0.9, learning_rate=1e-2, clip_grad_norm=0.5, target_update_tau=0.1,
        policy_update_interval=interval, prioritized_replay=True, **SMALL,
    )  # fmt: skip
    agent = AGENTS["sac"]()
    sampler = prepared(algo, agent)
    fill(algo, sampler)
    batches = [algo.replay_buffer.sample_batch(16) for _ in range(5)]
    pi = standalone(agent.model)
    states = agent.state_dict()
    alone = {}
    for name in ("q1_model", "q2_model", "target_q1_model", "target_q2_model"):
        alone[name] = QofMuMlpModel((3,), action_size=A, **NARROW)
        alone[name].load_state_dict({k: v.clone() for k, v in states[name].items()})
    q, target_q = [[alone[f"{p}q{i}_model"] for i in (1, 2)] for p in ("", "target_")]
    log_alpha = torch.nn.Parameter(torch.zeros(()))
    trained = [[*pi.parameters()], *([*n.parameters()] for n in q), [log_alpha]]
    optimizers = [torch.optim.Adam(parameters, lr=1e-2) for parameters in trained]

    def draw(observation):
        mean, log_std = pi(observation)
        log_std = log_std.clamp(-20, 2)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x = mean + log_std.exp() * torch.randn_like(mean)
        slope = 2 * (math.log(2) - x - torch.nn.functional.softplus(-2 * x))
        return torch.tanh(x), (normal.log_prob(x) - slope).sum(-1)

    norms = []  # of the first critic's gradients
    torch.manual_seed(0)
    for n, batch in enumerate(batches, start=1):
        seen, after = batch.agent_inputs.observation, batch.target_inputs.observation
        with torch.no_grad():
            action, log_pi = draw(after)
            next_q = torch.minimum(*(network(after, None, None, action) for network in target_q))
            soft = next_q - log_alpha.exp() * log_pi
            y = batch.return_ + batch.discount_n * soft
        unit = to_unit(batch.action).float()
        losses = [
            (batch.is_weights * 0.5 * (y - network(seen, None, None, unit)) ** 2).mean()
            for network in q
        ]
        gradients = [torch.autograd.grad(losses[i], trained[1 + i]) for i in range(2)]
        if n % interval == 0:
            action, log_pi = draw(seen)
            least = torch.minimum(*(network(seen, None, None, action) for network in q))
            pi_loss = (log_alpha.detach().exp() * log_pi - least).mean()
            alpha_loss = -log_alpha * (log_pi.detach().mean() - A)
            pi_gradient = torch.autograd.grad(pi_loss, trained[0])
            gradients = [pi_gradient, *gradients, torch.autograd.grad(alpha_loss, trained[3])]
            moving = [0, 1, 2, 3]
        else:
            moving = [1, 2]
        for k, gradient in zip(moving, gradients, strict=True):
            for p, g in zip(trained[k], gradient, strict=True):
                p.grad = g
            norm = torch.nn.utils.clip_grad_norm_(trained[k], 0.5)
            norms += [norm.item()] if k == 1 else []
            optimizers[k].step()
        with torch.no_grad():
            for target, network in zip(target_q, q):
                for a, b in zip(target.parameters(), network.parameters()):
                    a.copy_(0.9 * a + 0.1 * b)
    feed(algo, batches)
    algo.replay_buffer.update_batch_priorities = lambda *args: None
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that the policy rests now and then is no mistake
        own_norms = [one_update(algo).q1GradNorm[0] for _ in range(5)]
    assert own_norms == pytest.approx(norms, rel=1e-3)
    close = dict(rtol=1e-4, atol=2e-5)
    own = agent.state_dict()
    assert_same_state(own["model"], dict(pi.state_dict()), **close)
    for name, network in alone.items():
        assert_same_state(own[name], dict(network.state_dict()), **close)
    assert algo.log_alpha.item() == pytest.approx(log_alpha.item(), rel=1e-4)
    assert all(p.requires_grad for p in agent.q_model.parameters())


def test_policys_loss_moves_neither_critics_nor_temperature():
    algo = SAC(**SMALL)
    agent = AGENTS["sac"]()
    batch = sampled(algo, agent)
    (_, pi_loss, alpha_loss), _ = algo.loss(batch)
    pi_loss.backward()
    assert all(p.grad is None for p in [algo.log_alpha, *agent.q_model.parameters()])
    assert all(p.grad.abs().sum() > 0 for p in agent.model.parameters())
    agent.model.zero_grad()
    alpha_loss.backward()
    assert algo.log_alpha.grad != 0 and all(p.grad is None for p in agent.model.parameters())
    q_losses, _, _ = algo.q_loss(batch)
    q_losses.sum().backward()
    assert all((p.grad.abs().flatten(1).sum(-1) > 0).any() for p in agent.q_model.parameters())
    assert all(p.grad is None for p in agent.target_q_model.parameters())
    assert all(p.grad is None or (p.grad == 0).all() for p in agent.model.parameters())


# The likelihood-ratio gradient.


def gradients_of(loss, parameters):
    grads = torch.autograd.grad(loss, parameters)
    return torch.cat([g.flatten() for g in grads]).double()


@pytest.mark.parametrize("prior", ["uniform", "gaussian"])
@pytest.mark.parametrize("kind", ["sac", "sac_v"])
def test_both_gradients_of_the_policy_agree_in_expectation(kind, prior):
    linear = dict(hidden_sizes=[])
    ways = {}
    for way in (True, False):
        kwargs = dict(fixed_alpha=0.3) if kind == "sac" else {}
        algo = (SAC if kind == "sac" else SAC_V)(
            reparameterize=way, action_prior=prior, **kwargs, **SMALL
        )
        agent = AGENTS[kind](model_kwargs=linear)
        prepared(algo, agent)
        with torch.no_grad():
            for p in agent.q_model.parameters():
                p.mul_(3)
        seen = torch.tensor([0.4, 0.2, 0.6]).expand(8000, 3)
        inputs = (seen, torch.zeros(8000, A), torch.zeros(8000))
        samples = SimpleNamespace(agent_inputs=inputs)
        torch.manual_seed(way)
        draws = []
        for _ in range(25):
            loss = algo.pi_loss(samples)[0] if kind == "sac" else algo.v_and_pi_loss(samples)[2]
            draws.append(gradients_of(loss, [*agent.model.parameters()]))
        draws = torch.stack(draws)
        ways[way] = draws.mean(0), draws.std(0) / 5
    (mean, error), (other_mean, other_error) = ways[True], ways[False]
    assert ((mean - other_mean).abs() < 5 * (error**2 + other_error**2).sqrt() + 1e-5).all()
    assert (other_mean.abs() > 6 * other_error).sum() > len(other_mean) / 2


# With a value network.


@pytest.mark.parametrize("prior", ["uniform", "gaussian"])
@pytest.mark.parametrize("reparameterize", [True, False])
def test_losses_with_a_value_network_are_their_definition(prior, reparameterize):
    algo = SAC_V(
        discount=0.9, action_prior=prior, reward_scale=2, policy_output_regularization=0.1,
        n_step_return=2, reparameterize=reparameterize, **SMALL,
    )  # fmt: skip
    agent = AGENTS["sac_v"]()
    batch = sampled(algo, agent)
    with torch.no_grad():
        agent.q_model.mlp.model[-1].bias += torch.tensor([[0.01], [0.0]])
    seen, after = batch.agent_inputs.observation, batch.target_inputs.observation
    torch.manual_seed(4)
    (q_losses, v_loss, pi_loss), (_, v_values, mean, log_std, _) = algo.loss(batch)
    torch.manual_seed(4)
    states = agent.state_dict()
    action, log_pi = pi_of(agent, seen, torch.randn(N, A))
    at_pi = [q_of(agent, f"q{i}_model", seen, action) for i in (1, 2)]
    q = [q_of(agent, f"q{i}_model", seen, to_unit(batch.action)) for i in (1, 2)]
    v = perceptron(states["v_model"], seen.double())[:, 0]
    next_v = perceptron(states["target_v_model"], after.double())[:, 0]
    totals, v_total, pi_total = [0.0, 0.0], 0.0, 0.0
    for b in range(N):
        y = 2 * float(batch.return_[b]) + float(batch.discount_n[b]) * float(next_v[b])
        for i in range(2):
            totals[i] += 0.5 * (y - float(q[i][b])) ** 2 / N
        worth = min(float(at_pi[0][b]), float(at_pi[1][b]))
        worth += prior_of(action[b], prior) - float(log_pi[b])
        v_total += 0.5 * (float(v[b]) - worth) ** 2 / N
        pi_total -= worth / N if reparameterize else float(log_pi[b]) * (worth - float(v[b])) / N
    squares = float((mean.double() ** 2).mean() + (log_std.double() ** 2).mean())
    assert q_losses.tolist() == pytest.approx(totals, rel=1e-4)
    assert v_loss.item() == pytest.approx(v_total, rel=1e-4)
    assert pi_loss.item() == pytest.approx(pi_total + 0.1 * 0.5 * squares, rel=1e-3)
    torch.testing.assert_close(v_values.double(), v, rtol=1e-4, atol=1e-5)
    pi_loss.backward()
    assert all(p.grad is None for p in [*agent.q_model.parameters(), *agent.v_model.parameters()])
    agent.model.zero_grad()
    v_loss.backward()
    assert all(p.grad is None for p in [*agent.q_model.parameters(), *agent.model.parameters()])
    info = one_update(algo)
    assert len(info) == len(algo.opt_info_fields) and all(len(column) for column in info)


def test_a_value_networks_targets_follow_it():
    algo = SAC_V(target_update_tau=0.25, **SMALL)
    agent = AGENTS["sac_v"]()
    fill(algo, prepared(algo, agent))
    before = {k: v.clone() for k, v in agent.target_v_model.state_dict().items()}
    one_update(algo)
    for k, v in agent.v_model.state_dict().items():
        expected = 0.75 * before[k] + 0.25 * v
        torch.testing.assert_close(agent.target_v_model.state_dict()[k], expected)
    assert agent.target_q_model is None


def test_a_value_networks_policy_may_rest_too():
    """``policy_update_interval`` is an argument of this algorithm as well."""
    algo = SAC_V(policy_update_interval=2, **SMALL)
    agent = AGENTS["sac_v"]()
    fill(algo, prepared(algo, agent))
    before = [p.detach().clone() for p in agent.model.parameters()]
    one_update(algo)
    assert all(torch.equal(a, b) for a, b in zip(before, agent.model.parameters()))


# Parts that do not fit.


@pytest.mark.parametrize(
    "bad, message",
    [
        (dict(fixed_alpha=-0.1), "fixed_alpha=-0.1"),
        (dict(fixed_alpha="auto"), "fixed_alpha"),
        (dict(action_prior="normal"), "action_prior='normal'"),
        (dict(reward_scale=0), "reward_scale=0"),
        (dict(target_entropy="none"), "target_entropy"),
        (dict(target_entropy=float("nan")), "target_entropy"),
        (dict(target_entropy=-math.inf), "target_entropy=-inf"),
        (dict(fixed_alpha=math.inf), "fixed_alpha=inf"),
        (dict(reward_scale=math.inf), "reward_scale=inf"),
        (dict(reparameterize="no"), "reparameterize='no'"),
        (dict(n_target_critics=0), "n_target_critics=0"),
        (dict(n_drop_quantiles=-1), "n_drop_quantiles=-1"),
    ],
)
def test_bad_settings_are_refused(bad, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SAC(**bad)


def test_value_networks_regularization_is_checked():
    with pytest.raises(ValueError, match="policy_output_regularization"):
        SAC_V(policy_output_regularization=-1)


@pytest.mark.parametrize(
    "Algo, make, message",
    [
        (SAC, DqnMlpAgent, "^SAC .*DqnMlpAgent .*SacAgent"),
        (SAC, AGENTS["ddpg"], "^SAC .*DdpgAgent"),
        (
            SAC,
            AGENTS["sac_v"],
            r"SacAgent of rlpyt.agents.qpg.sac_v_agent .*SacAgent of "
            r"rlpyt.agents.qpg.sac_agent .*SAC_V",
        ),
        (SAC, GaussianMlpAgent, "provides none"),
        (SAC_V, AGENTS["sac"], "sac_v_agent"),
        (DDPG, AGENTS["sac"], "^DDPG .*SacAgent "),
        (DDPG, AGENTS["td3"], "Use DdpgAgent"),
        (DDPG, DqnMlpAgent, "action values"),
        (TD3, AGENTS["ddpg"], "Use Td3Agent"),
        (TD3, R2d1LstmAgent, "TD3"),
        (SAC, lambda: AGENTS["sac"](n_critics=2), "n_target_critics .*n_critics=2"),
    ],
)
def test_other_agents_are_refused(Algo, make, message):
    more = dict(n_target_critics=3) if "n_target_critics" in message else {}
    with pytest.raises(ValueError, match=message):
        Algo(**SMALL, **more).check_parts(make())


@pytest.mark.parametrize("n_quantiles", [None, 2])
def test_as_many_quantiles_dropped_as_there_are_is_refused(n_quantiles):
    agent = AGENTS["sac"](q_model_kwargs=dict(n_quantiles=n_quantiles))
    with pytest.raises(ValueError, match="n_drop_quantiles=2"):
        SAC(n_drop_quantiles=2, **SMALL).check_parts(agent)


@pytest.mark.parametrize(
    "settings, why",
    [
        (dict(V_max=50.0), "the critics return no atoms"),
        (dict(V_max=50.0, normalize_reward=True, fit_returns=False), "the critics return no atoms"),
        (dict(fit_returns=False), "normalize_reward is False"),
        (dict(target_entropy=-1.0, fixed_alpha=0.2), "fixed_alpha is given"),
        (dict(alpha_learning_rate=1e-4, fixed_alpha=0.2), "fixed_alpha is given"),
        (dict(box_entropy=-0.5, target_entropy=-1.0), "target_entropy is given"),
        (dict(entropy_share=0.7), "the action has no discrete part"),
    ],
)
def test_settings_that_these_critics_do_not_need_are_named(settings, why):
    (name, value), *_ = settings.items()
    with pytest.warns(UserWarning, match=f"{name}={value} of SAC has no effect, since {why}"):
        SAC(**SMALL, **settings).check_parts(AGENTS["sac"]())


def test_settings_of_target_networks_need_them():
    with pytest.warns(UserWarning, match="target_update_tau=0.1 .* no target networks"):
        agent = AGENTS["sac"](target_critics=False)
        SAC(joint_critics=True, target_update_tau=0.1, **SMALL).check_parts(agent)
    with pytest.warns(UserWarning, match="delta_clip=2.0 of CategoricalDQN has no effect"):
        CategoricalDQN(delta_clip=2.0)


def test_atoms_and_normalized_rewards_need_their_bounds(recwarn):
    SAC(**SMALL, V_max=50.0, normalize_reward=True).check_parts(AGENTS["sac"]())
    SAC(**SMALL, V_max=50.0).check_parts(AGENTS["sac"](q_model_kwargs=dict(n_atoms=11)))
    assert not [w for w in recwarn if "no effect" in str(w.message)]


@pytest.mark.parametrize("kind", ["sac", "sac_v"])
def test_no_dimension_for_critics_is_refused(kind):
    with pytest.raises((TypeError, ValueError), match="n_critics"):
        AGENTS[kind](n_critics=None)


@pytest.mark.parametrize("network,of", [("q_model", "critics"), ("target_q_model", "critics")])
def test_what_is_not_finite_names_the_loss(network, of):
    algo = SAC(**SMALL)
    agent = AGENTS["sac"]()
    fill(algo, prepared(algo, agent))
    with torch.no_grad():
        getattr(agent, network).mlp.model[0].weight[1, 0, 0] = float("nan")
    before = [p.detach().clone() for p in agent.model.parameters()]
    message = rf"^the loss is nan \({of}"
    with pytest.raises(NonFiniteError, match=message):
        one_update(algo)
    assert all(torch.equal(a, b) for a, b in zip(before, agent.model.parameters()))


# Forms that all share.


def losses_of(algo, kind, batch):
    """All losses, from the same random numbers."""
    torch.manual_seed(3)
    if kind in ("ddpg", "td3"):
        q_loss = algo.compiled(algo.q_loss)(batch)
        with frozen(algo.agent.q_model):
            return [q_loss, algo.compiled(algo.mu_loss)(batch)]
    return [loss for loss in algo.loss(batch)[0] if loss is not None]


def with_gradients(algo, kind, batch):
    losses = losses_of(algo, kind, batch)
    sum(loss.sum() for loss in losses).backward()
    networks = (algo.agent.model, algo.agent.q_model)
    return losses, [p.grad for network in networks for p in network.parameters()]


@pytest.mark.parametrize("kind", ALGOS)
def test_mixed_precision_is_close(kind):
    found = []
    for mixed in (False, True):
        algo = ALGOS[kind](mixed_precision=mixed, discount=0.9, **SMALL)
        losses = losses_of(algo, kind, sampled(algo, AGENTS[kind]()))
        assert all(loss.dtype == torch.float32 for loss in losses)
        found.append(torch.cat([loss.detach().flatten() for loss in losses]))
    assert not torch.equal(*found)
    torch.testing.assert_close(*found, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("kind", ["td3", "sac", "sac_v"])
def test_one_critic_is_enough(kind):
    algo, agent = ALGOS[kind](**SMALL), AGENTS[kind](n_critics=1)
    fill(algo, prepared(algo, agent))
    info = one_update(algo)
    assert kind == "td3" or info.q1Loss == info.q2Loss
    assert agent.state_dict().keys() > {"model", "q1_model"}


@pytest.mark.parametrize("kind", ["sac", "sac_v"])
def test_statistics_of_all_critics_are_logged(kind):
    algo, agent = ALGOS[kind](**SMALL), AGENTS[kind](n_critics=5)
    samples = sampled(algo, agent)
    q = agent.q(*samples.agent_inputs, samples.action).detach().double()  # [E, B]
    numbers = algo.critic_statistics(torch.zeros(5), q, {"q": torch.zeros(5)})
    assert set(numbers) < set(algo.opt_info_fields)
    rows = q.T.tolist()  # a list of E values for each sample
    means = [sum(row) / 5 for row in rows]
    deviations = [
        math.sqrt(sum((x - mean) ** 2 for x in row) / 5)
        for row, mean in zip(rows, means, strict=True)
    ]
    B = len(rows)
    assert numbers["qEnsembleMean"].item() == pytest.approx(sum(means) / B)
    assert numbers["qEnsembleMin"].item() == pytest.approx(sum(map(min, rows)) / B)
    assert numbers["qEnsembleStd"].item() == pytest.approx(sum(deviations) / B)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, kwargs",
    [
        ("sac", {}),
        ("sac", dict(n_target_critics=1, reparameterize=False)),
        ("sac", dict(n_target_critics=2)),  # of two
        ("td3", {}),
        ("sac_v", {}),
    ],
)
def test_compiled_losses_are_the_plain_ones(kind, kwargs):
    found = []
    for compiled in (None, "loss"):
        algo = ALGOS[kind](compile=compiled, discount=0.9, **kwargs, **SMALL)
        batch = sampled(algo, AGENTS[kind]())
        losses, gradients = with_gradients(algo, kind, batch)
        found.append([*losses, *gradients])
        torch.compiler.reset()
    for plain, own in zip(*found, strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-4, atol=1e-5)


def test_a_replay_ratio_that_gives_no_update_is_warned_of():
    with pytest.warns(UserWarning, match="never learns.*replay_ratio"):
        prepared(SAC(**{**SMALL, "replay_ratio": 1e-6}), AGENTS["sac"]())
    with pytest.raises(ValueError, match="replay_ratio"):
        SAC(**{**SMALL, "replay_ratio": float("inf")})


class Wide(QofMuMlpModel):
    """Gives what an algorithm of the user's interprets."""

    def forward(self, *inputs, **kwargs):
        return super().forward(*inputs, **kwargs).unsqueeze(-1).expand(-1, 6)


class Summed(DDPG):
    def q_loss(self, samples, valid=None):
        q = self.agent.q(*samples.agent_inputs, samples.action).sum(-1)
        return ((samples.return_ - q) ** 2).mean()


@pytest.mark.parametrize("Algo", [DDPG, Summed])
def test_values_are_checked_where_they_are_used_and_not_before(Algo):
    algo = Algo(**SMALL)
    sampler = prepared(algo, AGENTS["ddpg"](QModelCls=Wide))
    wrong = pytest.raises(ValueError, match=r"critics .*\[16\].*got \[16, 6\]")
    with wrong if Algo is DDPG else contextlib.nullcontext():
        for itr in range(4):
            algo.optimize_agent(itr, sampler.obtain_samples(itr)[0])
    assert (algo.update_counter > 0) == (Algo is Summed)


def test_priorities_need_recorded_errors():
    algo = Summed(prioritized_replay=True, **SMALL)
    fill(algo, prepared(algo, AGENTS["ddpg"](QModelCls=Wide)))
    with pytest.raises(ValueError, match="prioritized_replay .*Summed"):
        one_update(algo)


class Doubling(DdpgAgent):
    """Shows its networks each observation twice."""

    def make_env_to_model_kwargs(self, env_spaces):
        size = 2 * int(np.prod(env_spaces.observation.shape))
        return {**super().make_env_to_model_kwargs(env_spaces), "observation_shape": (size,)}

    def _inputs(self, observation, prev_action, prev_reward):
        return super()._inputs(torch.cat([observation] * 2, -1), prev_action, prev_reward)


def test_an_agent_may_change_observations_before_its_networks_see_them():
    algo = DDPG(**SMALL)
    sampler = prepared(algo, Doubling(**SIZES))
    for itr in range(4):
        algo.optimize_agent(itr, sampler.obtain_samples(itr)[0])
    assert algo.update_counter > 0
