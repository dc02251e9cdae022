"""Agents choose valid actions only, in torch and in numpy."""

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import dqn_agent_for
from rlpyt.agents.pg.vector import CategoricalMlpAgent, agent_for
from rlpyt.agents.random import RandomAgent
from rlpyt.distributions.epsilon_greedy import CategoricalEpsilonGreedy, EpsilonGreedy
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.es.agent import EsAgent
from rlpyt.models.pg.vector import CategoricalMlpModel
from rlpyt.testing import check_agent
from rlpyt.utils.buffer import buffer_from_example, buffer_func, numpify_buffer, torchify_buffer
from tests.masked_env import SIZES, MaskedEnv

B = 6
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
    observation.state[...] = rng.normal(size=observation.state.shape)
    mask = masks(agent.mask_sizes, seed)
    observation.action_mask[...] = mask
    action = buffer_from_example(spaces.action.null_value(), B)
    return torchify_buffer((observation, action, np.zeros(B, np.float32))), torch.from_numpy(mask)


def assert_valid(action, mask, sizes):
    columns = np.asarray(action).reshape(B, -1) + np.cumsum((0, *sizes[:-1]))
    assert np.take_along_axis(np.asarray(mask), columns, -1).all()


def initialized(agent, action="discrete"):
    torch.manual_seed(0)
    agent.initialize(spaces_of(action))
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
    with pytest.raises(ValueError, match="vector of 6 entries .* rename the part"):
        CategoricalMlpAgent().initialize(spaces)


@pytest.mark.parametrize(
    "make_agent", [CategoricalMlpAgent, lambda: dqn_agent_for("dqn", spaces_of())]
)
def test_masked_agents_keep_the_contract(make_agent):
    assert check_agent(make_agent(), spaces_of()).ok
