"""Agents for Dict and Tuple actions: acting, training, layouts, masks."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.agents.pg.vector import JointLstmAgent, JointMlpAgent, agent_for
from rlpyt.agents.spaces import action_parts
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.envs.base import EnvSpaces
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.models.pg.joint import JointMlpModel
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.testing import check_agent, check_env
from rlpyt.utils.buffer import buffer_func, leaves_of, torchify_buffer
from rlpyt.utils.seed import set_seed
from tests.cases import product_of
from tests.hybrid_env import ACTIONS, BOX, HybridEnv

T, B = 6, 4


def make(**kwargs):
    return GymEnvWrapper(HybridEnv(**kwargs))


def test_parts_of_a_space():
    parts = {name: action_parts(GymSpaceWrapper(space)) for name, space in ACTIONS.items()}
    assert parts["dict"] == [(3,), 2]
    assert parts["tuple"] == [(2,), 2, (2, 2)]
    assert parts["nested"] == [2, (2,), (2, 3), 2]


@pytest.mark.parametrize(
    "part, error",
    [
        (spaces.Box(0, 1, (2, 2)), r"'action.field_1' .*\(2, 2\)"),
        (spaces.Box(0, 5, (2,), np.int64), "'action.field_1' .*Box"),
    ],
)
def test_unsupported_parts_are_named(part, error):
    action = GymSpaceWrapper(spaces.Tuple([spaces.Discrete(2), part]), name="act")
    with pytest.raises(TypeError, match=error):
        agent_for(EnvSpaces(GymSpaceWrapper(BOX), action))


MASKED = [action for action in ACTIONS if action != "boxes"]


@pytest.mark.parametrize(
    ("action", "recurrent", "masked"),
    [
        ("boxes", False, False),
        ("boxes", True, False),
        *product_of(
            MASKED,
            [False, True],
            [False, True],
            fast=[
                (action, recurrent, (i + j) % 2 == 0)
                for i, action in enumerate(MASKED)
                for j, recurrent in enumerate([False, True])
            ],
        ),
    ],
)
def test_agents_keep_the_contract(action, recurrent, masked):
    env = make(action=action, masked=masked)
    agent = agent_for(env.spaces, recurrent)
    assert type(agent) is (JointLstmAgent if recurrent else JointMlpAgent)
    assert check_agent(agent, env).ok


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("action", ACTIONS)
def test_agents_act_in_numpy_as_in_torch(action, masked):
    if masked and action == "boxes":
        return
    env = make(action=action, masked=masked)
    agent = agent_for(env.spaces)
    agent.initialize(env.spaces)
    agent.sample_mode(0)
    policy, env_batch = agent.fast_policy(), [make(action=action, masked=masked) for _ in range(B)]
    for seed in range(5):
        for b, one in enumerate(env_batch):
            one.seed(seed * B + b)
        rows = [leaves_of(one.reset()) for one in env_batch]
        leaves = iter([np.stack(leaf) for leaf in zip(*rows)])
        observation = buffer_func(env.reset(), lambda _, leaves=leaves: next(leaves))
        noise = torch.randn(B, *agent.noise_spec.shape)
        agent.set_noise(noise)
        chosen, info = agent.step(torchify_buffer(observation), None, torch.zeros(B))
        own, parameters, value = policy(observation, noise.numpy())
        for a, b in zip(leaves_of(own), leaves_of(chosen), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
        for a, b in zip((*parameters, value), leaves_of(info), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("action", "recurrent", "algo"),
    product_of(
        ["nested", "tuple"],
        [False, True],
        [PPO, A2C, VTrace],
        fast=[
            ("nested", False, PPO),
            ("nested", True, PPO),
            ("tuple", True, PPO),
            ("tuple", False, A2C),
            ("nested", True, VTrace),
        ],
    ),
)
def test_algorithms_train_all_parameters(action, recurrent, algo):
    torch.manual_seed(0)
    algo, agent = algo(), agent_for(make(action=action).spaces, recurrent)
    sampler = SerialSampler(
        make, dict(action=action, masked=True), batch_T=T, batch_B=B, eval_n_envs=2,
        eval_max_steps=100, eval_max_trajectories=2,
    )  # fmt: skip
    sampler.initialize(agent, seed=1, bootstrap_value=True)
    algo.initialize(agent, 10, sampler.batch_spec, True, sampler.examples)
    before = [p.detach().clone() for p in agent.parameters()]
    for itr in range(2):
        agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        algo.optimize_agent(itr, samples)
    assert not any(map(torch.equal, before, agent.parameters()))
    agent.eval_mode(1)
    assert len(sampler.evaluate_agent(1)) == 2
    sampler.shutdown()


@pytest.mark.parametrize(
    ("SamplerCls", "recurrent"),
    product_of(
        [CpuSampler, GpuSampler, AlternatingSampler],
        [False, True],
        fast=[(CpuSampler, True), (GpuSampler, False), (AlternatingSampler, True)],
    ),
)
def test_batches_are_the_same_in_every_layout(SamplerCls, recurrent):
    batches = []
    kwargs = dict(action="nested", masked=True)
    for Cls in (SerialSampler, SamplerCls):
        torch.manual_seed(0)
        sampler = Cls(make, kwargs, batch_T=T, batch_B=B, deterministic_acting=True)
        agent = agent_for(make(**kwargs).spaces, recurrent)
        sampler.initialize(agent, affinity=dict(n_workers=2), seed=1, bootstrap_value=True)
        try:
            for itr in range(2):
                samples, _ = sampler.obtain_samples(itr)
            batches.append([leaf.numpy().copy() for leaf in leaves_of(samples)])
        finally:
            sampler.shutdown()
    for one, other in zip(*batches, strict=True):
        np.testing.assert_array_equal(one, other)


class Unmasked(JointMlpModel):
    """A user's model, which knows no masks."""

    def heads(self, features):
        return super().heads(features)


def test_the_agent_masks_the_probabilities_of_a_model_that_does_not():
    env = make(action="nested", masked=True)
    agents = JointMlpAgent(), JointMlpAgent(ModelCls=Unmasked)
    for agent in agents:
        agent.initialize(env.spaces)
    agents[1].load_state_dict(agents[0].state_dict())
    observation = buffer_func(env.reset(), lambda x: torch.as_tensor(x)[None])
    results = [agent(observation, None, torch.zeros(1))[0] for agent in agents]
    for a, b in zip(*map(leaves_of, results), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    invalid = observation.action_mask == 0
    found = torch.cat([results[1].arm_grip.prob, results[1].legs_field_0.prob], -1)
    assert (found[invalid] == 0).all()


def test_actions_are_clipped_for_the_environment_and_recorded_as_drawn():
    sampler = SerialSampler(make, dict(action="dict"), batch_T=20, batch_B=B)
    agent = agent_for(make(action="dict").spaces, model_kwargs=dict(init_log_std=1.0))
    sampler.initialize(agent, seed=1, bootstrap_value=True)
    samples, _ = sampler.obtain_samples(0)  # the environment refuses actions out of bounds
    assert samples.agent.action.force.abs().max() > 1
    sampler.shutdown()


def test_hybrid_environments_pass_the_conformance_check():
    assert check_env(HybridEnv, dict(action="nested", masked=True), skip=["gymnasium"]).ok


@pytest.mark.parametrize(
    "action, masked, least",
    [pytest.param("dict", False, 0.9, marks=pytest.mark.slow), ("nested", True, 0.8)],
)
def test_every_part_is_learned(action, masked, least):
    set_seed(0)
    kwargs, n_itr = dict(action=action, masked=masked), 30
    agent = agent_for(make(**kwargs).spaces, model_kwargs=dict(init_log_std=-0.5))
    algo = PPO(
        learning_rate=1e-2, discount=0.0, minibatches=2, epochs=8, normalize_advantage=True,
        entropy_loss_coeff=0.0,
    )  # fmt: skip
    sampler = SerialSampler(
        make, kwargs, batch_T=16, batch_B=16, eval_n_envs=4, eval_max_steps=200,
        eval_max_trajectories=20, eval_deterministic=True,
    )  # fmt: skip
    sampler.initialize(agent, seed=1, bootstrap_value=True)
    algo.initialize(agent, n_itr, sampler.batch_spec, True, sampler.examples)
    before = score(sampler.evaluate_agent(1))
    for itr in range(n_itr):
        agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        algo.optimize_agent(itr, samples)
    after = score(sampler.evaluate_agent(n_itr))
    assert after > least and before < 0.6, (before, after)
    sampler.shutdown()


def score(infos):
    return np.mean([info.Return / info.Length for info in infos])
