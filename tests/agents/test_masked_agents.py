"""Agents choose valid actions only, in torch and in numpy."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import dqn_agent_for
from rlpyt.agents.pg.vector import CategoricalMlpAgent, agent_for
from rlpyt.agents.qpg.base import NetworkInputs
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.random import RandomAgent
from rlpyt.distributions.epsilon_greedy import CategoricalEpsilonGreedy, EpsilonGreedy
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.es.agent import EsAgent
from rlpyt.models.pg.joint import output_sizes
from rlpyt.models.pg.vector import CategoricalMlpModel
from rlpyt.models.qpg.mlp import JointPiMlpModel
from rlpyt.testing import check_agent
from rlpyt.utils.buffer import (
    _named_leaves,
    buffer_from_example,
    buffer_func,
    leaves_of,
    numpify_buffer,
    torchify_buffer,
)
from tests.hybrid_env import HybridEnv
from tests.masked_env import SIZES, MaskedEnv

B = 6
HYBRID = ["dict", "tuple", "nested", "discrete"]
KINDS = ["dqn", "catdqn", "qrdqn", "iqn", "r2d1"]


def spaces_of(action="discrete", source="part"):
    return GymEnvWrapper(MaskedEnv(source, action)).spaces


def masks(sizes, seed=0, lead=(B,)):
    rng = np.random.default_rng(seed)
    parts = []
    for n in sizes:
        part = rng.random((*lead, n)) < 0.4
        np.put_along_axis(part, rng.integers(n, size=(*lead, 1)), True, -1)
        parts.append(part)
    return np.concatenate(parts, -1)


def inputs_of(agent, seed=0):
    """Inputs with random observations and masks, and the masks [B, n] bool."""
    spaces, rng = agent.env_spaces, np.random.default_rng(seed)
    observation = buffer_from_example(spaces.observation.null_value(), B)
    state = next(leaf for name, leaf in observation.items() if name != "action_mask")
    state[...] = rng.normal(size=state.shape)
    mask = masks(agent.mask_sizes, seed)
    observation.action_mask[...] = mask
    action = buffer_from_example(spaces.action.null_value(), B)
    return torchify_buffer((observation, action, np.zeros(B, np.float32))), torch.from_numpy(mask)


def assert_valid(action, mask, sizes):
    columns = np.asarray(action).reshape(B, -1) + np.cumsum((0, *sizes[:-1]))
    assert np.take_along_axis(np.asarray(mask), columns, -1).all()


def initialized(agent, action="discrete", spaces=None):
    torch.manual_seed(0)
    agent.initialize(spaces or spaces_of(action))
    for p in agent.parameters():
        p.data.add_(0.3 * torch.randn_like(p))
    return agent


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("action", SIZES)
def test_policies_sample_and_evaluate_valid_actions(action, recurrent):
    agent = initialized(agent_for(spaces_of(action), recurrent), action)
    for itr in range(8):
        agent.sample_mode(itr)
        inputs, mask = inputs_of(agent, itr)
        chosen, info = agent.step(*inputs)
        assert_valid(chosen, mask, agent.mask_sizes)
        assert (info.dist_info.prob[~mask] == 0).all()
        agent.eval_mode(itr)
        agent.deterministic = True
        assert_valid(agent.step(*inputs).action, mask, agent.mask_sizes)
        agent.deterministic = False
    if recurrent:
        inputs = buffer_func(inputs, lambda leaf: leaf[None])  # T = 1
    dist_info = agent(*inputs)[0]
    assert (dist_info.prob.reshape(B, -1)[~mask] == 0).all()


@pytest.mark.parametrize("action", SIZES)
def test_policies_act_in_numpy_as_in_torch(action):
    agent = initialized(agent_for(spaces_of(action)), action)
    agent.sample_mode(0)
    policy = agent.fast_policy()
    for itr in range(8):
        inputs, mask = inputs_of(agent, itr)
        noise = torch.rand(B, *agent.noise_spec.shape)
        agent.set_noise(noise)
        chosen, info = agent.step(*inputs)
        own, (prob,), value = policy(numpify_buffer(inputs[0]), noise.numpy())
        assert_valid(own, mask, agent.mask_sizes)
        np.testing.assert_array_equal(own, chosen)
        np.testing.assert_allclose(prob, info.dist_info.prob, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(value, info.value, rtol=1e-4, atol=1e-5)


LAYOUTS = {
    **{action: partial(MaskedEnv, "part", action) for action in SIZES},
    **{f"hybrid {action}": partial(HybridEnv, action, masked=True) for action in HYBRID},
}


def discrete_columns(agent, x):
    """The outputs [B, n] of a policy's last layer that are logits."""
    parts = getattr(agent.model, "action_parts", [agent.model.dims])
    outputs = x.split(output_sizes(parts), -1)
    return torch.cat([out for part, out in zip(parts, outputs) if isinstance(part, tuple)], -1)


def plain_probabilities(logits, mask, sizes):
    """Softmax over the valid choices of each component, by loops."""
    p = np.zeros(mask.shape)
    for b in range(len(p)):
        first = 0
        for n in sizes:
            valid = [i for i in range(first, first + n) if mask[b, i]]
            weights = [math.exp(logits[b, i]) for i in valid]
            for i, weight in zip(valid, weights, strict=True):
                p[b, i] = weight / sum(weights)
            first += n
    return p


@pytest.mark.parametrize("recurrent", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_masks_is_that_of_a_plain_loop(layout, recurrent):
    spaces = GymEnvWrapper(LAYOUTS[layout]()).spaces
    agent = initialized(agent_for(spaces, recurrent), spaces=spaces)
    inputs, mask = inputs_of(agent)
    invalid, sizes, logits = ~mask, agent.mask_sizes, []
    agent.model.pi.register_forward_hook(lambda module, args, out: logits.append(out))
    lead = (lambda x: x[None]) if recurrent else (lambda x: x)
    dist_info = buffer_func(agent(*buffer_func(inputs, lead))[0], lambda x: x.reshape(B, -1))
    outputs = logits[0]
    own = discrete_columns(agent, outputs.detach().reshape(B, -1))

    probs = [x for name, x in _named_leaves(dist_info) if name.endswith("prob")]
    p = torch.cat(probs, -1).detach()
    expected = plain_probabilities(own.numpy(), mask.numpy(), sizes)
    np.testing.assert_allclose(p, expected, atol=1e-6)
    assert (p[invalid] == 0).all()

    n = 1_000_000 // B
    many = buffer_func(dist_info, lambda x: x.detach().expand(n, *x.shape))
    actions = agent.distribution.sample(many)
    discrete = [x.reshape(n, B, -1) for x in leaves_of(actions) if not x.is_floating_point()]
    columns = torch.cat(discrete, -1).long() + torch.tensor(np.cumsum((0, *sizes[:-1])))
    flat = columns + len(p[0]) * torch.arange(B)[:, None]
    counts = torch.bincount(flat.flatten(), minlength=p.numel()).reshape(p.shape)
    assert counts[invalid].sum() == 0
    np.testing.assert_allclose(counts / n, expected, atol=0.01)

    action = buffer_func(actions, lambda x: x[0])
    terms = agent.distribution.log_likelihood(action, dist_info)
    if len(discrete) == len(leaves_of(actions)):
        by_hand = np.log(np.take_along_axis(expected, columns[0].numpy(), -1)).sum(-1)
        np.testing.assert_allclose(terms.detach(), by_hand, atol=1e-4)
    terms = terms + agent.distribution.entropy(dist_info)
    (gradient,) = torch.autograd.grad(terms.sum(), outputs)
    gradient = discrete_columns(agent, gradient.reshape(B, -1))
    assert gradient.isfinite().all() and (gradient != 0).any()
    assert (gradient[invalid] == 0).all()


class Unmasked(CategoricalMlpModel):
    """A user's model, which knows no masks."""

    def heads(self, features):
        return super().heads(features)


def test_the_agent_masks_the_probabilities_of_a_model_that_does_not():
    masked = initialized(CategoricalMlpAgent())
    agent = initialized(CategoricalMlpAgent(ModelCls=Unmasked))
    assert masked.model.masks_actions and not agent.model.masks_actions
    agent.load_state_dict(masked.state_dict())
    assert agent.fast_policy() is None
    inputs, mask = inputs_of(agent)
    prob, expected = agent(*inputs)[0].prob, masked(*inputs)[0].prob
    assert (prob[~mask] == 0).all() and torch.allclose(prob, expected, atol=1e-6)
    prob.max().backward()
    agent.sample_mode(0)
    assert_valid(agent.step(*inputs).action, mask, agent.mask_sizes)


class UnmaskedJoint(JointPiMlpModel):
    """The same for soft actor-critic."""

    def heads(self, features):
        return super().heads(features)


@pytest.mark.parametrize("memory", [None, "gru"])
@pytest.mark.parametrize("action", SIZES)
def test_sac_masks_such_a_policy_in_training_too(action, memory):
    kwargs = dict(hidden_sizes=[8], **(dict(memory=memory, lstm_size=4) if memory else {}))
    masked = initialized(SacAgent(model_kwargs=kwargs), action)
    agent = initialized(SacAgent(ModelCls=UnmaskedJoint, model_kwargs=kwargs), action)
    agent.load_state_dict(masked.state_dict())
    inputs, mask = inputs_of(agent)
    sequence = inputs = tuple(buffer_func(inputs, lambda x: x[None]))  # [1, B, ...]
    probs = []
    for each in (agent, masked):
        if memory:
            heads = each.sequence_inputs("model", inputs, lambda run: run(*inputs, None)[0])
            sequence = (NetworkInputs(model=heads), None, None)
        _, _, dist_info = each.pi(*sequence)
        probs.append(dist_info.prob[0])
        assert torch.equal(each.mask_of(sequence[0]) != 0, mask[None])
    assert (probs[0][~mask] == 0).all() and torch.allclose(*probs, atol=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_q_learning_chooses_valid_actions(kind, epsilon):
    agent = initialized(dqn_agent_for(kind, spaces_of(), eps_init=epsilon, eps_final=epsilon))
    for itr in range(1, 6):
        agent.sample_mode(itr)
        inputs, mask = inputs_of(agent, itr)
        noise = torch.rand(B, 2)
        agent.set_noise(noise)
        chosen, info = agent.step(*inputs)
        assert_valid(chosen, mask, agent.mask_sizes)
        if epsilon == 0:
            values = info.get(0)
            if kind in ("catdqn",):
                values = values @ agent.distribution.z
            elif values.dim() == 3:
                values = values.mean(-1)
            expected = torch.where(mask, values, -torch.inf).argmax(-1)
            assert torch.equal(chosen, expected)
        policy = agent.fast_policy()
        if policy is not None:
            own, _, _ = policy(numpify_buffer(inputs[0]), noise.numpy())
            assert_valid(own, mask, agent.mask_sizes)
            np.testing.assert_array_equal(own, chosen)
        agent.eval_mode(itr)
        agent.deterministic = True
        assert_valid(agent.step(*inputs).action, mask, agent.mask_sizes)
        agent.deterministic = False


def test_noisy_networks_choose_valid_actions():
    model = dict(noisy=True, dueling=True)
    kwargs = dict(eps_init=0, eps_final=0, model_kwargs=model)
    agent = initialized(dqn_agent_for("catdqn", spaces_of(), **kwargs))
    agent.sample_mode(1)
    for seed in range(10):
        inputs, mask = inputs_of(agent, seed)
        assert_valid(agent.step(*inputs).action, mask, agent.mask_sizes)


@pytest.mark.parametrize("xp", ["torch", "numpy"])
def test_random_choices_are_uniform_over_valid_actions(xp):
    n, A = 1_000_000, 5
    mask = np.array([0, 1, 0, 1, 1], np.uint8)
    distribution = EpsilonGreedy(dim=A, epsilon=0.3)
    rng = np.random.default_rng(0)
    noise, q = rng.random((n, 2), np.float32), np.tile(np.float32([9, 1, 8, 2, 0]), (n, 1))
    mask = np.tile(mask, (n, 1))
    if xp == "torch":
        noise, q, mask = map(torch.from_numpy, (noise, q, mask))
    share = np.bincount(np.asarray(distribution.draw(q, noise, None, mask)), minlength=A) / n
    assert share[0] == share[2] == 0
    np.testing.assert_allclose(share[[1, 3, 4]], [0.1, 0.8, 0.1], atol=0.002)


def test_the_largest_noise_chooses_a_valid_action():
    for A in (1, 2, 3, 7, 100):
        mask = np.zeros((1, A), np.bool_)
        mask[0, A // 2 :] = True
        noise = np.full((1, 2), np.nextafter(np.float32(1), np.float32(0)))
        noise[0, 0] = 0
        q = np.zeros((1, A), np.float32)
        distribution = EpsilonGreedy(dim=A)
        assert distribution.draw(q, noise, np.float32(1), mask)[0] == A - 1
        tensors = map(torch.from_numpy, (q, noise, mask))
        q, noise, mask = tensors
        assert distribution.draw(q, noise, torch.tensor(1.0), mask).item() == A - 1


def test_rows_without_a_valid_action_are_no_error():
    q, mask = torch.tensor([[1.0, 2.0], [1.0, 2.0]]), torch.zeros(2, 2)
    for epsilon in (0.0, 1.0):
        assert EpsilonGreedy(dim=2, epsilon=epsilon).sample(q, mask).max() <= 1
    p = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    greedy = CategoricalEpsilonGreedy(dim=2, epsilon=0, z=torch.tensor([0.0, 1.0]))
    assert greedy.sample(p).item() == 0
    assert greedy.sample(p, mask=torch.tensor([[0, 1]])).item() == 1
    assert greedy.mode(p, torch.tensor([[0, 1]])).item() == 1


@pytest.mark.parametrize("action", SIZES)
def test_the_random_agent_draws_valid_actions_uniformly(action):
    agent = RandomAgent()
    agent.initialize(spaces_of(action))
    torch.manual_seed(0)
    inputs, mask = inputs_of(agent)
    counts = torch.zeros(mask.shape)
    starts = torch.tensor(np.cumsum((0, *agent.mask_sizes[:-1])))
    for _ in range(500):
        chosen = agent.step(*inputs).action
        assert_valid(chosen, mask, agent.mask_sizes)
        counts.scatter_add_(-1, chosen.reshape(B, -1) + starts, torch.ones(B, len(starts)))
    parts = zip(counts.split(agent.mask_sizes, -1), mask.split(agent.mask_sizes, -1), strict=True)
    share = torch.cat([n * m.sum(-1, keepdim=True) / 500 for n, m in parts], -1)
    assert torch.allclose(share, mask.float(), atol=0.35)


def test_evolved_policies_take_the_best_valid_action():
    agent = EsAgent()
    agent.initialize(spaces_of(), global_B=B, env_ranks=list(range(B)))
    agent.collector_initialize(B)
    for mode in (agent.sample_mode, agent.eval_mode):
        mode(0)
        for seed in range(5):
            inputs, mask = inputs_of(agent, seed)
            assert_valid(agent.step(*inputs).action, mask, agent.mask_sizes)


def test_agents_refuse_a_part_that_is_no_mask():
    spaces = spaces_of("several")._replace(action=spaces_of("discrete").action)
    with pytest.raises(ValueError, match="action_mask.* 6 "):
        CategoricalMlpAgent().initialize(spaces)


@pytest.mark.parametrize(
    "make_agent", [CategoricalMlpAgent, lambda: dqn_agent_for("dqn", spaces_of())]
)
def test_masked_agents_keep_the_contract(make_agent):
    assert check_agent(make_agent(), spaces_of()).ok
