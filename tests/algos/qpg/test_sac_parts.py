"""SAC for discrete actions and actions of several parts, against plain loops over choices."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.agents.qpg import parts as parts_module
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.qpg.base import frozen
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.models.qpg.mlp import JointPiMlpModel
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.spaces.elements import leaf_spaces
from rlpyt.utils.buffer import buffer_func, leaves_of
from tests.algos.qpg.parts_qpg import NARROW, SIZES, SMALL, perceptron, prepared, sampled
from tests.hybrid_env import ACTIONS, BOX, HybridEnv

N = 30
FORCE = spaces.Box(np.array([-2, -1], np.float32), np.array([4, 1], np.float32))
SPACES = dict(
    discrete=spaces.Discrete(4, start=1),
    several=spaces.MultiDiscrete([3, 2]),
    bits=spaces.MultiBinary(3),
    dict=ACTIONS["dict"],
    nested=spaces.Dict(
        arm=spaces.Dict(force=FORCE, grip=spaces.Discrete(2)),
        legs=spaces.Tuple([spaces.MultiDiscrete([2, 3]), BOX]),
    ),
    boxes=spaces.Tuple([BOX, FORCE]),
    drawn=spaces.Dict(force=FORCE, kind=spaces.MultiDiscrete([3, 2, 4]), last=spaces.Discrete(3)),
)
SETS = [(name, masked) for name in SPACES for masked in (False, True)]
SETS.remove(("boxes", True))


def make(action, **kwargs):
    return GymEnvWrapper(HybridEnv(SPACES[action], **kwargs))


def batch_of(algo, agent, action, masked, n=N):
    kwargs = dict(EnvCls=make, env_kwargs=dict(action=action, masked=masked))
    return sampled(algo, agent, n, **kwargs)


@pytest.fixture(autouse=True)
def few_combinations(monkeypatch):
    """Let critics enumerate at most 12 combinations: all but those of ``drawn``."""
    monkeypatch.setattr(parts_module, "MAX_COMBINATIONS", 12)


# Plain definitions, in float64, one row at a time.


def vector_of(inputs):
    return getattr(inputs.observation, "observation", inputs.observation)


def plain_policy(agent, inputs):
    """Return, for each row, probabilities of each component, and (mean, log_std) of each Box."""
    out = perceptron(agent.state_dict()["model"], vector_of(inputs).double())
    mask, rows = action_mask_of(inputs.observation), []
    n_outputs = sum(x if isinstance(x, int) else sum(x) for x in agent.parts.sizes)
    for b in range(len(out)):
        probs, boxes, first, n_choices, n_components = [], [], 0, 0, n_outputs
        for size in agent.parts.sizes:
            if isinstance(size, int):
                log_std = out[b, n_components : n_components + size].clamp(-20, 2)
                boxes.append((out[b, first : first + size], log_std))
                first, n_components = first + size, n_components + size
                continue
            for n in size:
                weights = out[b, first : first + n].exp()
                if mask is not None:
                    weights = weights * mask[b, n_choices : n_choices + n]
                probs.append(weights / weights.sum())
                first, n_choices = first + n, n_choices + n
        rows.append((probs, boxes))
    return rows


def plain_draws(agent, rows):
    """Return, for each row, Boxes with log-densities and drawn choices, from torch's generator."""
    B = len(rows)
    drawn = [[[], [], []] for _ in rows]  # components, log-densities, choices
    for i, size in enumerate([x for x in agent.parts.sizes if isinstance(x, int)]):
        noise = torch.randn(B, size).double()
        for b, (_, boxes) in enumerate(rows):
            mean, log_std = boxes[i]
            x = mean + log_std.exp() * noise[b]
            density = -0.5 * noise[b] ** 2 - log_std - 0.5 * math.log(2 * math.pi)
            drawn[b][0].append(torch.tanh(x))
            drawn[b][1].append((density - (1 - torch.tanh(x) ** 2).log()).sum())
    for i in range(len(agent.parts._enumerated), len(rows[0][0])):
        u = torch.rand(B)
        for b, (probs, _) in enumerate(rows):
            choice = int((probs[i].cumsum(0) <= float(u[b])).sum())
            drawn[b][2].append((choice, len(probs[i])))
    return drawn


def critic_row(observation, boxes, choices):
    onehots = [torch.eye(n).double()[choice] for choice, n in choices]
    return torch.cat([observation.double(), *boxes, *onehots])


def expectation(agent, names, row, observation, drawn, reduce):
    """Return the sum over all combinations of probability times the reduced critics' values."""
    x = critic_row(observation, drawn[0], drawn[2])
    values = [perceptron(agent.state_dict()[name], x[None])[0] for name in names]
    enumerated = row[0][: len(agent.parts._enumerated)]
    total = 0.0
    for i, choice in enumerate(itertools.product(*(range(len(p)) for p in enumerated))):
        prob = math.prod(float(p[d]) for p, d in zip(enumerated, choice))
        total = total + prob * float(reduce([v[i] for v in values]))
    return total


def log_terms(agent, row, drawn):
    """Return the log-density of each Box, and minus the entropy of each discrete part."""
    probs, logs, terms = iter(row[0]), iter(drawn[1]), []
    for size in agent.parts.sizes:
        if isinstance(size, int):
            terms.append(float(next(logs)))
        else:
            each = [next(probs) for _ in size]
            terms.append(sum(float(q) * math.log(q) for p in each for q in p if q > 0))
    return terms


@pytest.mark.parametrize("action, masked", SETS)
def test_targets_are_expectations_over_choices(action, masked):
    algo, agent = SAC(discount=0.9, reward_scale=3, **SMALL), SacAgent(**SIZES)
    batch = batch_of(algo, agent, action, masked)
    algo.log_alpha.data = torch.linspace(-2, -1, agent.parts.n_parts)
    alpha = algo.log_alpha.exp().tolist()
    torch.manual_seed(4)
    y = algo.q_target(batch)
    torch.manual_seed(4)
    rows = plain_policy(agent, batch.target_inputs)
    draws = plain_draws(agent, rows)
    names = ["target_q1_model", "target_q2_model"]
    for b in range(N):
        seen = vector_of(batch.target_inputs)[b]
        value = expectation(agent, names, rows[b], seen, draws[b], min)
        terms = log_terms(agent, rows[b], draws[b])
        value -= sum(a * x for a, x in zip(alpha, terms, strict=True))
        expected = 3 * float(batch.return_[b]) + float(batch.discount_n[b]) * value
        assert float(y[b]) == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("action, masked", SETS)
def test_critics_learn_the_values_of_what_was_done(action, masked):
    algo, agent = SAC(discount=0.9, **SMALL), SacAgent(**SIZES)
    batch = batch_of(algo, agent, action, masked)
    y = algo.q_target(batch)
    algo.q_target = lambda samples: y
    losses, q, _ = algo.q_loss(batch)
    totals = [0.0, 0.0]
    named = leaf_spaces(agent.env_spaces.action)
    for b in range(N):
        boxes, choices = [], []
        for size, (_, space), leaf in zip(agent.parts.sizes, named, leaves_of(batch.action)):
            if isinstance(size, int):
                boxes.append(to_unit(leaf[b].double(), space))
            else:
                choices += list(zip(leaf[b].reshape(-1).tolist(), size))
        k = len(agent.parts._enumerated)
        x = critic_row(vector_of(batch.agent_inputs)[b], boxes, choices[k:])
        index = 0
        for choice, n in choices[:k]:
            index = index * n + choice
        for i in range(2):
            value = float(perceptron(agent.state_dict()[f"q{i + 1}_model"], x[None])[0, index])
            assert float(q[i, b]) == pytest.approx(value, rel=1e-4, abs=1e-4)
            totals[i] += 0.5 * (float(y[b]) - value) ** 2 / N
    assert losses.tolist() == pytest.approx(totals, rel=1e-4)
    assert losses.requires_grad


def to_unit(x, space):
    low, high = (torch.from_numpy(bound.astype(np.float64)) for bound in (space.low, space.high))
    return (2 * x - low - high) / (high - low)


@pytest.mark.parametrize("action, masked", SETS)
def test_policy_and_temperature_losses_are_their_definition(action, masked):
    algo, agent = SAC(entropy_share=0.5, **SMALL), SacAgent(**SIZES)
    batch = batch_of(algo, agent, action, masked)
    P = agent.parts.n_parts
    algo.log_alpha.data = torch.linspace(-2, -1, P)
    alpha = algo.log_alpha.exp().tolist()
    algo.q_loss = lambda samples: (None, None, None)
    torch.manual_seed(4)
    (_, loss, alpha_loss), (_, mean, log_std, _) = algo.loss(batch)
    assert mean is log_std is None
    torch.manual_seed(4)
    rows = plain_policy(agent, batch.agent_inputs)
    costs, excess, scores = [[], []], torch.zeros(P).double(), []
    mask = action_mask_of(batch.agent_inputs.observation)
    for k in range(2):  # the second draw is the baseline of drawn choices
        draws = plain_draws(agent, rows)
        for b in range(N):
            seen = vector_of(batch.agent_inputs)[b]
            names = ["q1_model", "q2_model"]
            value = expectation(agent, names, rows[b], seen, draws[b], min)
            terms = log_terms(agent, rows[b], draws[b])
            costs[k].append(sum(a * x for a, x in zip(alpha, terms, strict=True)) - value)
            if k == 0:
                target = plain_targets(agent, 0.5, None if mask is None else mask[b])
                excess += torch.tensor(terms).double() + torch.tensor(target).double()
                pairs = zip(rows[b][0][len(agent.parts._enumerated) :], draws[b][2], strict=True)
                scores.append(sum(math.log(p[choice]) for p, (choice, _) in pairs))
    total = sum(costs[0]) / N
    assert (action == "drawn") == any(scores)
    if action == "drawn":
        total += sum(s * (x - y) for s, x, y in zip(scores, *costs, strict=True)) / N
    assert loss.item() == pytest.approx(total, rel=1e-4)
    expected = -(algo.log_alpha.detach().double() * excess / N).sum()
    assert alpha_loss.item() == pytest.approx(float(expected), rel=1e-4)
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in agent.model.parameters())


def plain_targets(agent, share, mask):
    """Return the target entropy of each part for one row."""
    targets, first = [], 0
    for size in agent.parts.sizes:
        if isinstance(size, int):
            targets.append(-float(size))
            continue
        total = 0.0
        for n in size:
            total += math.log(n if mask is None else int(mask[first : first + n].sum()))
            first += n
        targets.append(share * total)
    return targets


def test_the_score_function_has_the_gradient_of_the_exact_sum(monkeypatch):
    """The mean gradient of draws is that of the sum over all combinations."""
    torch.manual_seed(0)
    algo, agent = SAC(fixed_alpha=0.3, **SMALL), SacAgent(**SIZES)
    batch = batch_of(algo, agent, "several", False, n=8)
    other = SacAgent(**SIZES)
    monkeypatch.setattr(parts_module, "MAX_COMBINATIONS", 3)
    prepared(SAC(fixed_alpha=0.3, **SMALL), other, make, dict(action="several"))
    other.model.load_state_dict(agent.model.state_dict())
    values = agent.q_model
    assert (agent.parts.n_combinations, other.parts.n_combinations) == (6, 3)

    class Same(torch.nn.Module):
        """The first agent's critics, with the second component as an input."""

        def forward(self, observation, prev_action, prev_reward, action):
            q = values(observation, None, None, action[..., :0])
            q = q.unflatten(-1, (3, 2))
            return (q * action[..., None, :]).sum(-1)

    other.q_model = Same()

    def gradient(own, repeats):
        algo.agent = own
        inputs = buffer_func(batch.agent_inputs, lambda x: torch.cat([x] * repeats))
        with frozen(values):
            algo.pi_loss(SimpleNamespace(agent_inputs=inputs))[0].backward()
        return torch.cat([p.grad.flatten() for p in own.model.parameters()])

    exact, drawn = gradient(agent, 1), gradient(other, 3000)
    assert torch.nn.functional.cosine_similarity(exact, drawn, 0) > 0.97
    assert (exact - drawn).norm() < 0.25 * exact.norm()


def test_invalid_choices_get_no_gradient():
    algo, agent = SAC(**SMALL), SacAgent(**SIZES)
    batch = batch_of(algo, agent, "nested", True)
    mask = batch.agent_inputs.observation.action_mask
    logits = []
    heads = agent.model.mlp.forward

    def remember(features):
        logits.append(heads(features))
        logits[-1].retain_grad()
        return logits[-1]

    agent.model.mlp.forward = remember
    algo.pi_loss(batch)[0].backward()
    grad = logits[-1].grad[:, [2, 3, 4, 5, 6, 7, 8]]  # without the Boxes: 2, then 2; 2 + 3, 2
    assert mask.shape == grad.shape
    assert (grad[mask == 0] == 0).all() and (grad[mask != 0] != 0).any()


def test_a_temperature_for_each_part_moves_to_its_target():
    algo, agent = SAC(learning_rate=0.01, **SMALL), SacAgent(**SIZES)
    batch = batch_of(algo, agent, "dict", False)
    assert algo.alpha.tolist() == [1, 1]
    bias = agent.model.mlp.model[-1].bias
    with torch.no_grad():
        bias[:3] = torch.tensor([9.0, 0, 0])  # nearly deterministic: below its target
        bias[5:] = 0.0  # nearly uniform: above -2
    algo.update(batch)
    kind, force = algo.alpha.tolist()
    assert kind > 1 > force
    columns = algo.statistics()
    assert list(columns) == ["LearningRate", "Alpha.kind", "Alpha.force"]
    assert [columns["Alpha.kind"], columns["Alpha.force"]] == [kind, force]


def test_default_targets_of_entropies():
    agent = SacAgent(**SIZES)
    agent.initialize(make("nested").spaces)
    found = agent.parts.target_entropies(0.98).tolist()
    assert found == pytest.approx([-2, 0.98 * math.log(2), 0.98 * math.log(6), -2])
    assert agent.parts.target_entropies(0.98, None, -0.5).tolist() == [-1, *found[1:3], -1]
    mask = torch.tensor([[1, 0, 0, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0]])
    found = agent.parts.target_entropies(0.5, mask)
    halves = [[-2, 0, 0.5 * math.log(2), -2], [-2, 0.5 * math.log(2), 0.5 * math.log(6), -2]]
    torch.testing.assert_close(found, torch.tensor([*halves, halves[1]]))


@pytest.mark.parametrize(
    "algo, agent, action, error",
    [
        (dict(action_prior="gaussian"), {}, "discrete", "action_prior"),
        (dict(target_entropy=-1.0), {}, "dict", "target_entropy"),
        ({}, dict(q_model_kwargs=dict(n_quantiles=5)), "discrete", "n_quantiles"),
    ],
)
def test_settings_that_do_not_fit_are_refused(algo, agent, action, error):
    with pytest.raises(ValueError, match=error):
        prepared(SAC(**SMALL, **algo), SacAgent(**agent), make, dict(action=action))


def test_a_number_is_the_target_of_a_single_discrete_action():
    algo, agent = SAC(target_entropy=0.3, **SMALL), SacAgent(**SIZES)
    batch = batch_of(algo, agent, "discrete", True)
    algo.log_alpha.data.fill_(1.0)
    (_, _, alpha_loss), _ = algo.loss(batch)
    entropy = algo.recorded.current["entropy"].mean()
    assert alpha_loss.item() == pytest.approx(float(entropy) - 0.3, rel=1e-4)


class Plain(JointPiMlpModel):
    """A user's model, which knows no masks."""

    def heads(self, features):
        return super().heads(features)


@pytest.mark.parametrize("action", ["discrete", "nested"])
def test_a_model_that_knows_no_masks_is_masked_by_the_agent(action):
    torch.manual_seed(0)
    plain = SacAgent(ModelCls=Plain, **SIZES)
    algo = SAC(**SMALL)
    batch = batch_of(algo, plain, action, True)
    masked = SacAgent(**SIZES)
    masked.initialize(plain.env_spaces)
    masked.load_state_dict(plain.state_dict())
    for a, b in zip(
        leaves_of(plain.pi(*batch.agent_inputs)[2]), leaves_of(masked.pi(*batch.agent_inputs)[2])
    ):
        torch.testing.assert_close(a, b)


def test_further_settings_of_critics_and_updates_work_with_choices():
    algo = SAC(n_target_critics=2, policy_update_interval=2, prioritized_replay=True, **SMALL)
    kwargs = dict(layer_norm=True, dropout=0.1, **NARROW)
    agent = SacAgent(n_critics=3, q_model_kwargs=kwargs, model_kwargs=NARROW)
    batch = batch_of(algo, agent, "drawn", True)
    assert agent.q(*batch.agent_inputs, batch.action).shape == (3, N)
    for _ in range(2):
        algo.update(batch)
        algo.update_counter += 1
    state = algo.optim_state_dict()
    assert state["log_alpha"].shape == (3,)
    algo.log_alpha.data.zero_()
    algo.load_optim_state_dict(state)
    assert torch.equal(algo.log_alpha.data, state["log_alpha"])
