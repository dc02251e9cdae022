"""SAC's agent for discrete actions and actions of several parts: acting in every sampler."""

import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_v_agent import SacAgent as SacVAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.qpg.mlp import QofMuMlpModel
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.testing import check_agent
from rlpyt.utils.buffer import buffer_func, leaves_of, numpify_buffer
from rlpyt.utils.seed import set_seed
from tests.algos.qpg.parts_qpg import NARROW, SIZES
from tests.algos.qpg.test_sac_parts import SPACES, make
from tests.hybrid_env import BOX

T, B = 6, 4


def initialized(action, masked=True, **kwargs):
    torch.manual_seed(0)
    agent = SacAgent(**{**SIZES, **kwargs})
    agent.initialize(make(action, masked=masked).spaces)
    return agent


def test_first_noise_without_effect_is_named():
    with pytest.warns(UserWarning, match=r"pretrain_std=0\.1 has no effect without .*Box"):
        initialized("discrete", pretrain_std=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        initialized("discrete")
        initialized("dict", pretrain_std=0.1)


def inputs_of(agent, seed=1, n=B):
    """Return inputs of ``step``; random masks with a valid choice in each component."""
    set_seed(seed)
    observation_space, action_space = agent.env_spaces

    def rows(space):
        elements = [space.sample() for _ in range(n)]
        leaves = [np.stack(leaf) for leaf in zip(*map(leaves_of, elements))]
        leaves = iter(map(torch.from_numpy, leaves))
        return buffer_func(elements[0], lambda _: next(leaves))

    observation = rows(observation_space)
    if agent.mask_sizes:
        mask = observation.action_mask
        for part in torch.split(mask, agent.mask_sizes, -1):
            part[:, 0] |= (part == 0).all(-1)
    return observation, rows(action_space), torch.zeros(n)


def valid(action, mask, sizes):
    """Return True for each row whose choices are all valid."""
    leaves = [x for x in leaves_of(action) if not x.dtype.is_floating_point]
    choices = torch.cat([x.reshape(len(x), -1) for x in leaves], -1).long()
    parts = torch.split(mask, sizes, -1)
    return torch.stack(
        [part.gather(-1, c[:, None])[:, 0] for part, c in zip(parts, choices.T)]
    ).all(0)


@pytest.mark.parametrize("action", sorted(set(SPACES) - {"boxes"}))
def test_choices_are_valid_at_first_uniform_and_in_evaluation_the_most_likely(action):
    agent, n = initialized(action), 4000
    agent.give_min_itr_learn(2)
    with torch.no_grad():
        agent.model.mlp.model[-1].bias[0] += 3
        agent.model.mlp.model[-1].bias[2] += 3
    inputs = inputs_of(agent, n=1)
    inputs = buffer_func(inputs, lambda x: x.expand(n, *x.shape[1:]))
    mask = inputs[0].action_mask
    counts = []
    for mode, itr in ((agent.sample_mode, 0), (agent.sample_mode, 2), (agent.eval_mode, 2)):
        mode(itr)
        chosen, info = agent.step(*inputs)
        assert agent.env_spaces.action.contains(numpify_buffer(buffer_func(chosen, lambda x: x[0])))
        assert valid(chosen, mask, agent.mask_sizes).all()
        leaf = next(x for x in leaves_of(chosen) if not x.dtype.is_floating_point)
        counts.append(torch.bincount(leaf.reshape(n, -1)[:, 0].long()))
    part = mask[0, : agent.mask_sizes[0]]
    first, later, evaluated = (x / n for x in counts)
    expected = part / part.sum()
    assert torch.allclose(first, expected[: len(first)], atol=0.05)
    prob = next(x for x in leaves_of(info) if x.dim() == 2 and x.shape[1] >= len(part))
    assert (evaluated > 0).sum() == 1 and agent.deterministic is False
    if not action.startswith("nested") and action not in ("dict", "drawn"):
        assert torch.allclose(later, prob[0, : len(later)], atol=0.05)
        assert int(evaluated.argmax()) == int(prob[0, : len(part)].argmax())
    agent.set_deterministic(False, 2)
    chosen = agent.step(*inputs).action
    leaf = next(x for x in leaves_of(chosen) if not x.dtype.is_floating_point)
    assert len(leaf.unique()) > 1 or int(part.sum()) == 1


@pytest.mark.parametrize("action", sorted(SPACES))
@pytest.mark.parametrize("masked", [False, True])
def test_agents_act_in_numpy_as_in_torch(action, masked):
    if masked and action == "boxes":
        return
    agent = initialized(action, masked)
    agent.give_min_itr_learn(1)
    for itr in range(3):
        agent.sample_mode(itr)
        policy, inputs = agent.fast_policy(), inputs_of(agent, itr)
        noise = torch.rand(B, *agent.noise_spec.shape)
        agent.set_noise(noise)
        chosen, info = agent.step(*inputs)
        own, fields, last = policy(numpify_buffer(inputs[0]), noise.numpy())
        for a, b in zip(leaves_of(own), leaves_of(chosen), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        for a, b in zip((*fields, last), leaves_of(info), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    agent.eval_mode(1)
    assert agent.fast_policy() is None  # it has no ``mode``


def test_previous_actions_are_one_hot_and_in_units():
    agent = initialized("nested")
    action = agent.env_spaces.action.null_value()
    action = buffer_func(action, lambda x: torch.from_numpy(np.asarray(x))[None])
    action.arm.force[:] = torch.tensor([4.0, -1.0])
    action.legs.field_0[:] = torch.tensor([1, 2])
    expected = [1, -1, 0, 0, 1, 0, 0, 1, 0, 0, 1]  # Boxes, then grip, legs
    assert agent.action_input(action)[0].tolist() == expected


def test_models_of_critics_know_the_choices():
    agent = initialized("drawn")
    assert agent.env_model_kwargs["action_parts"] == [2, (3, 2, 4), (3,)]
    assert agent.env_critic_kwargs["n_choices"] == 24  # 3 * 2 * 4
    assert agent.env_critic_kwargs["action_size"] == 2 + 3
    inputs = inputs_of(agent)
    action = inputs[1]
    assert agent.q(*inputs, action).shape == (2, B)
    assert agent.target_q(*inputs, action).shape == (2, B)
    draw = agent.pi(*inputs)[0]
    assert agent.q(*inputs, draw).shape == (2, B, 24)
    ones = buffer_func(inputs, lambda x: torch.stack([x] * 3))  # [T, B]
    assert agent.q(*ones, agent.pi(*ones)[0]).shape == (2, 3, B, 24)
    assert agent.q(*ones, buffer_func(action, lambda x: torch.stack([x] * 3))).shape == (2, 3, B)


class OneByOne(QofMuMlpModel):
    """A critic that does not take ``n_critics``."""

    def __init__(self, observation_shape, action_size, n_choices, hidden_sizes=(8,)):
        super().__init__(observation_shape, hidden_sizes, action_size, n_choices=n_choices)


def test_critics_may_be_separate_models():
    agent = initialized("dict", QModelCls=OneByOne)
    inputs = inputs_of(agent)
    assert agent.q(*inputs, inputs[1]).shape == (2, B)
    assert agent.q(*inputs, agent.pi(*inputs)[0]).shape == (2, B, 3)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "SamplerCls, action",
    [
        *((CpuSampler, "nested"), slow(CpuSampler, "discrete")),
        *(slow(GpuSampler, "nested"), (GpuSampler, "discrete")),
        *((AlternatingSampler, "nested"), slow(AlternatingSampler, "discrete")),
    ],
)
def test_batches_are_the_same_in_every_layout(SamplerCls, action):
    batches = []
    kwargs = dict(action=action, masked=True)
    for Cls in (SerialSampler, SamplerCls):
        torch.manual_seed(0)
        sampler = Cls(make, kwargs, batch_T=T, batch_B=B, deterministic_acting=True)
        agent = SacAgent(**SIZES)
        sampler.initialize(agent, affinity=dict(n_workers=2), seed=1)
        agent.give_min_itr_learn(1)
        try:
            for itr in range(2):
                agent.sample_mode(itr)
                samples, _ = sampler.obtain_samples(itr)
            batches.append([leaf.numpy().copy() for leaf in leaves_of(samples)])
        finally:
            sampler.shutdown()
    for one, other in zip(*batches, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("action", ["several", "nested"])
def test_the_agent_keeps_the_contract(action):
    assert check_agent(SacAgent(**SIZES), make(action, masked=True)).ok


@pytest.mark.parametrize("Agent", [Td3Agent, SacVAgent])
def test_other_agents_name_those_for_the_space(Agent):
    with pytest.raises(TypeError, match="discrete .*sac, ppo or a2c"):
        Agent().initialize(make("dict").spaces)


def test_a_part_without_bounds_is_named():
    free = spaces.Box(-np.inf, np.inf, (2,))
    action = GymSpaceWrapper(spaces.Dict(kind=spaces.Discrete(2), force=free), name="act")
    with pytest.raises(ValueError, match="'action.force' .*bounds"):
        SacAgent().initialize(EnvSpaces(GymSpaceWrapper(BOX), action))


def test_a_box_has_the_model_of_before():
    agent = SacAgent(**SIZES)
    agent.initialize(EnvSpaces(GymSpaceWrapper(BOX), GymSpaceWrapper(BOX)))
    assert agent.parts is None
    assert agent.env_critic_kwargs == agent.env_model_kwargs
    assert [p.shape[-1] for p in agent.model.parameters()][-1] == 4
    assert NARROW["hidden_sizes"] == [8, 6]
