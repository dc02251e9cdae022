"""CrossQ, SAC with batch renormalization, joint critics and no targets, by its definition."""

import copy
import math

import numpy as np
import pytest
import torch

from rlpyt.algos.qpg.losses import categorical_target
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.models.normalization import batch_norms
from rlpyt.models.unit_norm import unit_vectors
from tests.algos.qpg.parts_qpg import (
    AGENTS,
    NARROW,
    SMALL,
    A,
    assert_same_state,
    fill,
    one_update,
    prepared,
    ranked,
    sampled,
    to_unit,
)

N, ALPHA, MOMENTUM, EPS = 30, 0.3, 0.1, 0.01
RENORM = dict(kind="batch_renorm", momentum=MOMENTUM, eps=EPS, r_max=1.5, d_max=0.8, warmup=3)
NORMALIZED = dict(normalization=RENORM, **NARROW)
NETWORKS = dict(model_kwargs=NORMALIZED, q_model_kwargs=NORMALIZED)
UNIT = dict(kind="batch", unit_weights=True)
CROSSQ = dict(target_critics=False, **NETWORKS)


class Plain:
    """One network of CrossQ's code with a state of the agent, in float64."""

    def __init__(self, state):
        self.state = {k: x.double().clone() for k, x in state.items()}
        for name, x in self.state.items():
            x.requires_grad_("running" not in name and "n_batches" not in name)
        self.indices = sorted({int(k.split(".")[2]) for k in state})

    def parameters(self):
        return [x for x in self.state.values() if x.requires_grad]

    def __call__(self, x, train):
        for i in self.indices:
            own = {k.split(".")[3]: v for k, v in self.state.items() if k.split(".")[2] == str(i)}
            if "running_mean" not in own:  # a linear layer, with ReLU unless it is the last
                x = x @ own["weight"].T + own["bias"]
                x = x.clamp(min=0) if i < self.indices[-1] else x
                continue
            x = self.normalized(f"mlp.model.{i}", x, train, **own)
        return x

    def normalized(self, name, x, train, weight, bias, running_mean, running_var, n_batches):
        mean, var = running_mean, running_var
        if train:
            mean, var = batch_mean, batch_var = x.mean(0), x.var(0, correction=0)
            if n_batches >= RENORM["warmup"]:
                ra_std = (running_var + EPS).sqrt()
                r = ((var + EPS).sqrt() / ra_std).detach()
                r = r.clamp(1 / RENORM["r_max"], RENORM["r_max"])
                d = ((mean - running_mean) / ra_std).detach()
                d = d.clamp(-RENORM["d_max"], RENORM["d_max"])
                mean, var = batch_mean - d * batch_var.sqrt() / r, batch_var / r**2
            new = {"running_mean": batch_mean, "running_var": batch_var}
            for k, batch in new.items():
                own = self.state[f"{name}.{k}"]
                self.state[f"{name}.{k}"] = (1 - MOMENTUM) * own + MOMENTUM * batch.detach()
            self.state[f"{name}.n_batches"] = n_batches + 1
        return (x - mean) / (var + EPS).sqrt() * weight + bias


def draw(policy, observation, train, noise):
    """Actions in units of [-1, 1], and their log-likelihoods."""
    mean, log_std = policy(observation.double(), train).chunk(2, -1)
    log_std = log_std.clamp(-20, 2)
    x = mean + log_std.exp() * noise.double()
    log_pi = -0.5 * noise.double() ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    slope = 2 * (math.log(2) - x - torch.nn.functional.softplus(-2 * x))
    return torch.tanh(x), (log_pi - slope).sum(-1)


def plain_losses(agent, batch):
    """Losses of critics and policy, gradients, and the networks with their new statistics."""
    state = agent.state_dict()
    names = ("model", "q1_model", "q2_model")
    policy, *critics = networks = [Plain(state[name]) for name in names]
    seen, after = batch.agent_inputs.observation, batch.target_inputs.observation
    with torch.no_grad():
        next_action, log_pi = draw(policy, after, False, torch.randn(N, A))
    both = torch.cat([torch.cat([seen, after]), torch.cat([to_unit(batch.action), next_action])], 1)
    q, next_q = torch.stack([critic(both, True).squeeze(-1) for critic in critics]).chunk(2, 1)
    soft = next_q.min(0).values - ALPHA * log_pi
    y = (batch.return_.double() + batch.discount_n.double() * soft).detach()
    q_losses = (batch.is_weights * 0.5 * (y - q) ** 2).mean(1)
    by_critic = [
        torch.autograd.grad(q_losses.sum(), c.parameters(), retain_graph=True) for c in critics
    ]
    action, log_pi = draw(policy, seen, True, torch.randn(N, A))
    own = [copy.deepcopy(critic.state) for critic in critics]
    # The running statistics that the critics' own loss has left, and no others.
    values = torch.stack([c(torch.cat([seen, action], 1), False).squeeze(-1) for c in critics])
    assert all(torch.equal(a[k], c.state[k]) for a, c in zip(own, critics) for k in a)
    pi_loss = (ALPHA * log_pi - values.min(0).values).mean()
    return (
        (q_losses, pi_loss),
        [torch.autograd.grad(pi_loss, policy.parameters()), *by_critic],
        networks,
    )


@pytest.mark.parametrize("n_batches", [0, 3], ids=["warm-up", "corrected"])
@pytest.mark.parametrize("n_step", [1, 3])
def test_losses_gradients_and_statistics_are_their_definition(n_step, n_batches):
    algo = SAC(
        discount=0.9, fixed_alpha=ALPHA, n_step_return=n_step, prioritized_replay=True,
        joint_critics=True, **SMALL,
    )  # fmt: skip
    agent = AGENTS["sac"](**CROSSQ)
    batch = ranked(algo, sampled(algo, agent))
    with torch.no_grad():
        for norm in [*batch_norms(agent.model), *batch_norms(agent.q_model)]:
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.3, 3)
            norm.n_batches.fill_(n_batches)
    torch.manual_seed(4)
    expected, gradients, networks = plain_losses(agent, batch)
    torch.manual_seed(4)
    (q_losses, pi_loss, _), (q, *_) = algo.loss(batch)
    torch.testing.assert_close(q_losses.double(), expected[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(pi_loss.double(), expected[1], rtol=1e-5, atol=1e-5)
    (q_losses.sum() + pi_loss).backward()
    for p, right in zip(agent.model.parameters(), gradients[0], strict=True):
        torch.testing.assert_close(p.grad.double(), right, rtol=1e-4, atol=1e-5)
    for p, *each in zip(agent.q_model.parameters(), *gradients[1:], strict=True):
        torch.testing.assert_close(p.grad.double(), torch.stack(each), rtol=1e-4, atol=1e-5)
    state = agent.state_dict()
    assert state.keys() == {"model", "q1_model", "q2_model"}
    for name, network in zip(state, networks):
        for k, x in state[name].items():
            torch.testing.assert_close(x.double(), network.state[k].double(), rtol=1e-4, atol=1e-5)
    assert q.shape == (2, N)


def statistics(network):
    return torch.cat([m.running_mean.flatten() for m in batch_norms(network)])


def test_statistics_move_where_a_network_is_trained_and_nowhere_else():
    algo, agent = (
        SAC(joint_critics=True, policy_update_interval=2, **SMALL),
        AGENTS["sac"](**CROSSQ),
    )
    sampler = prepared(algo, agent)
    fill(algo, sampler)
    assert not statistics(agent.model).any() and not statistics(agent.q_model).any()
    counts = []
    for _ in range(3):
        one_update(algo)
        networks = (agent.model, agent.q_model)
        counts.append(tuple(int(batch_norms(n)[0].n_batches.max()) for n in networks))
    assert counts == [(0, 1), (1, 2), (1, 3)]
    before = statistics(agent.model)
    for mode in (agent.sample_mode, agent.eval_mode):
        mode(1)
        sampler.obtain_samples(1)
    assert torch.equal(statistics(agent.model), before)


@pytest.mark.parametrize("fast", [True, False])
def test_acting_uses_the_running_statistics(fast):
    algo, agent = SAC(joint_critics=True, **SMALL), AGENTS["sac"](fast_acting=fast, **CROSSQ)
    fill(algo, prepared(algo, agent))
    for _ in range(4):
        one_update(algo)
    agent.eval_mode(1)
    observation = torch.randn(5, 3)
    policy = Plain(agent.state_dict()["model"])
    expected = torch.tanh(policy(observation.double(), False).chunk(2, -1)[0])
    assert (agent.fast_policy() is not None) == fast
    if fast:
        action = torch.from_numpy(agent.fast_policy()(observation.numpy(), np.zeros((5, A)))[0])
    else:
        action = agent.step(observation, torch.zeros(5, A), torch.zeros(5)).action
    torch.testing.assert_close(to_unit(action), expected, rtol=1e-4, atol=1e-4)


def test_targets_are_normalized_by_the_statistics_of_the_joint_batch():
    """Their own running statistics are not used, in the code of XQC and FlashSAC neither."""
    algo = SAC(joint_critics=True, fixed_alpha=ALPHA, discount=0.9, **SMALL)
    agent = AGENTS["sac"](**NETWORKS)
    batch = sampled(algo, agent)
    with torch.no_grad():
        for p in agent.target_q_model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    state = agent.state_dict()
    policy = Plain(state["model"])
    targets = [Plain(state[f"target_q{i}_model"]) for i in (1, 2)]
    seen, after = batch.agent_inputs.observation, batch.target_inputs.observation
    for _ in range(2):
        torch.manual_seed(4)
        y, q = algo._evaluate(batch)
        torch.manual_seed(4)
        next_action, log_pi = draw(policy, after, False, torch.randn(N, A))
        actions = torch.cat([to_unit(batch.action), next_action])
        both = torch.cat([torch.cat([seen, after]), actions], 1)
        next_q = torch.stack([target(both, True).squeeze(-1)[N:] for target in targets])
        soft = next_q.min(0).values - ALPHA * log_pi
        expected = batch.return_.double() + batch.discount_n.double() * soft
        torch.testing.assert_close(y.double(), expected.detach(), rtol=1e-5, atol=1e-5)
        assert q.requires_grad and not y.requires_grad and len(agent.targets) == 1
        for layer in batch_norms(agent.target_q_model):
            layer.running_mean.normal_()


@pytest.mark.parametrize("n_step", [1, 3])
def test_losses_of_atoms_with_targets_are_their_definition(n_step):
    """The loss of XQC and FlashSAC; the projected distribution has a test of its own."""
    algo = SAC(
        discount=0.9, fixed_alpha=ALPHA, n_step_return=n_step, prioritized_replay=True,
        joint_critics=True, normalize_reward=True, fit_returns=False, **SMALL,
    )  # fmt: skip
    agent = AGENTS["sac"](**NETWORKS | dict(q_model_kwargs=dict(n_atoms=11, **NORMALIZED)))
    batch = ranked(algo, sampled(algo, agent))
    with torch.no_grad():
        for p in agent.target_q_model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    state = agent.state_dict()
    policy, *networks = [
        Plain(state[name])
        for name in ("model", "q1_model", "q2_model", "target_q1_model", "target_q2_model")
    ]
    seen, after = batch.agent_inputs.observation, batch.target_inputs.observation
    torch.manual_seed(4)
    next_action, log_pi = draw(policy, after, False, torch.randn(N, A))
    actions = torch.cat([to_unit(batch.action), next_action]).detach()
    both = torch.cat([torch.cat([seen, after]), actions], 1)
    logits, next_logits = torch.stack([net(both, True) for net in networks]).chunk(2, 1)
    return_ = batch.return_.double() / float(algo.divisor)
    atoms = torch.linspace(-5, 5, 11).double()
    terms = ALPHA * log_pi, return_, batch.discount_n.double()
    y = categorical_target(next_logits[2:], atoms, *terms).detach()
    cross_entropies = -(y * logits[:2].log_softmax(-1)).sum(-1)
    expected = (batch.is_weights * cross_entropies).mean(1)
    torch.manual_seed(4)
    q_losses, _, apart = algo.q_loss(batch)
    torch.testing.assert_close(q_losses.double(), expected, rtol=1e-5, atol=1e-5)
    means = (logits[:2].softmax(-1) @ atoms).mean(0)
    torch.testing.assert_close(apart.double(), (y @ atoms - means).abs(), rtol=1e-3, atol=1e-4)
    q_losses.sum().backward()
    gradients = [torch.autograd.grad(expected.sum(), net.parameters(), retain_graph=True)
                 for net in networks[:2]]  # fmt: skip
    for p, *each in zip(agent.q_model.parameters(), *gradients, strict=True):
        torch.testing.assert_close(p.grad.double(), torch.stack(each), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("networks", [CROSSQ, NETWORKS], ids=["no targets", "targets"])
def test_a_resumed_run_continues_as_it_would_have(networks):
    def ready():
        algo = SAC(joint_critics=True, policy_update_interval=2, **SMALL)
        agent = AGENTS["sac"](**networks)
        fill(algo, prepared(algo, agent))
        return algo

    algo, other = ready(), ready()
    for _ in range(4):
        one_update(algo)
    other.agent.load_state_dict(copy.deepcopy(algo.agent.state_dict()))
    other.load_state_dict(copy.deepcopy(algo.state_dict()))
    for one in (algo, other):
        torch.manual_seed(0)
        for _ in range(3):
            one_update(one)
    assert_same_state(other.agent.state_dict(), algo.agent.state_dict())


@pytest.mark.parametrize("form", [dict(residual="flashsac"), NORMALIZED | dict(normalization=UNIT)])
def test_weights_stay_at_their_length_where_adam_has_moved_them(form, monkeypatch):
    networks = form | dict(hidden_sizes=[8, 8])

    def ready():
        algo = SAC(joint_critics=True, learning_rate=0.01, **SMALL)
        torch.manual_seed(0)
        agent = AGENTS["sac"](model_kwargs=networks, q_model_kwargs=networks)
        fill(algo, prepared(algo, agent))
        torch.manual_seed(1)
        one_update(algo)
        return [*unit_vectors(agent.model), *unit_vectors(agent.q_model)]

    kept, changes = ready(), []
    monkeypatch.setattr("rlpyt.algos.optim.project", lambda vectors: None)
    for own, moved in zip(kept, ready(), strict=True):
        both = torch.cat([x.unsqueeze(-1) for x in moved.tensors], -1)
        right = both * moved.length / both.square().sum((-2, -1), keepdim=True).sqrt()
        torch.testing.assert_close(torch.stack(own.tensors, -1), right, rtol=1e-5, atol=1e-6)
        changes.append((both - right).abs().max().item())
    assert max(changes) > 1e-3


def test_mixed_precision_is_close():
    found = []
    for mixed in (False, True):
        algo = SAC(joint_critics=True, mixed_precision=mixed, discount=0.9, **SMALL)
        batch = sampled(algo, AGENTS["sac"](**CROSSQ))
        torch.manual_seed(3)
        found.append(torch.stack([x.sum() for x in algo.loss(batch)[0]]))
    assert not torch.equal(*found)
    torch.testing.assert_close(*found, rtol=0.05, atol=0.02)


@pytest.mark.parametrize(
    "algo,agent,message",
    [
        ({}, dict(target_critics=False), "target_critics=False"),
        (dict(joint_critics=True), dict(model_kwargs=dict(memory="gru")), "with memory"),
    ],
)
def test_what_does_not_fit_is_refused(algo, agent, message):
    with pytest.raises(ValueError, match=f"joint_critics must be .*{message}"):
        SAC(**SMALL, **algo).check_parts(AGENTS["sac"](**agent))


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_a_warning_names_critics_whose_targets_are_normalized_otherwise(name):
    agent = AGENTS[name](**NETWORKS)
    with pytest.warns(UserWarning, match="batch normalization .*joint_critics=True"):
        prepared((SAC if name == "sac" else TD3)(**SMALL), agent)
