"""Policy and critic read different parts of an observation."""

import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.agents.pg.vector import CategoricalLstmAgent, CategoricalMlpAgent, agent_for
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.gym import make as gym_make
from rlpyt.models.pg.actor_critic import ActorCritic, ValueMlpModel
from rlpyt.models.pg.vector import CategoricalMlpModel
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.testing import check_agent
from rlpyt.utils.buffer import buffer_from_example, buffer_func, leaves_of, torchify_buffer
from tests.cases import product_of
from tests.groups_env import ACTIONS, GroupsEnv

T, B = 5, 4
SMALL_IMAGES = dict(channels=[4], kernel_sizes=[3], strides=[1], feature_size=8)
NARROW = dict(hidden_sizes=[16], encoder=SMALL_IMAGES)
POLICY, CRITIC = ["state", "extra.kind"], ["state", "privileged", "extra.image"]
GROUPS = dict(policy_observation=POLICY, critic_observation=CRITIC)
MEMORIES = [None, "shared", "own", "none"]  # of the critic; None: the agent has no memory


def make(**kwargs):
    return GymEnvWrapper(GroupsEnv(**kwargs))


def agent_of(memory=None, action="discrete", **kwargs):
    """Return an agent with different groups, given the critic's memory."""
    more = {} if memory is None else dict(critic_memory=memory)
    kwargs = {**GROUPS, "model_kwargs": NARROW, **more, **kwargs}
    return agent_for(make(action=action).spaces, memory is not None, **kwargs)


def initialized(agent, action="discrete", **kwargs):
    torch.manual_seed(0)
    agent.initialize(make(action=action, **kwargs).spaces)
    for parameter in agent.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    agent.sample_mode(0)
    return agent


def inputs_of(agent, lead=(T, B), seed=0):
    """Return random inputs [*lead, ...] as floats where the space has floats."""
    rng, (observation_space, action_space) = np.random.default_rng(seed), agent.env_spaces
    observation = buffer_from_example(observation_space.null_value(), lead)
    action = buffer_from_example(action_space.null_value(), lead)
    for index in np.ndindex(*lead):
        observation[index], action[index] = observation_space.sample(), action_space.sample()
    reward = rng.normal(size=lead).astype(np.float32)
    return torchify_buffer((observation, action, reward))


def changed(inputs, *names):
    """Return inputs with other values in these parts of the observation."""
    observation, *others = buffer_func(inputs, torch.clone)
    for name in names:
        part = observation
        for field in name.split("."):
            part = getattr(part, field)
        other = part.flip(0) + (1 if name == "privileged" else 0)
        assert not torch.equal(other, part)
        part[...] = other
    return observation, *others


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_outputs_depend_only_on_the_parts_of_the_group(memory, action):
    agent = initialized(agent_of(memory, action), action)
    inputs = inputs_of(agent)

    def outputs(inputs):
        dist_info, value = agent(*inputs)[:2]
        return torch.cat([x.reshape(T, B, -1) for x in leaves_of(dist_info)], -1), value

    pi, value = outputs(inputs)
    assert torch.equal(outputs(changed(inputs, "privileged", "extra.image"))[0], pi)
    assert not torch.equal(outputs(changed(inputs, "state"))[0], pi)
    assert not torch.equal(outputs(changed(inputs, "extra.kind"))[0], pi)
    for name in CRITIC:
        assert not torch.equal(outputs(changed(inputs, name))[1], value)
    # A shared memory tells the critic what the policy has seen.
    same = torch.equal(outputs(changed(inputs, "extra.kind"))[1], value)
    assert same is (memory != "shared")
    for leaf in (inputs[0].state, inputs[0].privileged):
        leaf.requires_grad_()
    pi, value = outputs(inputs)
    of_pi = torch.autograd.grad(pi.square().sum(), inputs[0].privileged, allow_unused=True)
    of_value = torch.autograd.grad(value.sum(), (inputs[0].privileged, inputs[0].state))
    assert of_pi == (None,) and all(x.any() for x in of_value)


@pytest.mark.parametrize("memory", MEMORIES)
def test_evaluation_does_not_call_the_critic(memory, monkeypatch):
    agent = initialized(agent_of(memory))
    inputs = inputs_of(agent, (B,))
    expected = agent.step(*inputs)
    assert agent.value(*inputs).any() and expected.agent_info.value.any()
    seen = []
    monkeypatch.setattr(ValueMlpModel, "read", lambda *_: seen.append(1))
    monkeypatch.setattr(agent.model.critic, "forward", lambda *_: seen.append(1))
    agent.eval_mode(0)
    found = agent.step(*inputs)
    pi, _, _ = agent.greedy(*inputs)
    assert pi.shape == (B,) and not seen
    probs = [step.agent_info.dist_info.prob for step in (found, expected)]
    torch.testing.assert_close(*probs)
    assert found.agent_info.value.shape == (B,) and not found.agent_info.value.any()
    if memory is not None:  # states of the policy alone
        assert len(leaves_of(agent.prev_rnn_state)) == 2


def test_numpy_policies_read_the_groups(monkeypatch):
    kwargs = dict(policy_observation=["state"], critic_observation=["state", "privileged"])
    agent = initialized(agent_of(**kwargs))
    inputs = inputs_of(agent, (B,))
    noise = torch.rand(B, *agent.noise_spec.shape)
    observation = buffer_func(inputs[0], torch.Tensor.numpy)
    for mode in (agent.sample_mode, agent.eval_mode):
        mode(0)
        agent.set_noise(noise)
        action, info = agent.step(*inputs)
        own, (prob,), value = agent.fast_policy()(observation, noise.numpy())
        np.testing.assert_array_equal(own, action)
        np.testing.assert_allclose(prob, info.dist_info.prob, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(value, info.value, rtol=1e-4, atol=1e-5)
    assert not value.any()


def test_masks_apply_although_the_policy_does_not_list_them():
    agent = initialized(agent_of(), mask=True)
    inputs = inputs_of(agent, (B,))
    inputs[0].action_mask[...] = torch.tensor([0, 1])
    assert (agent.step(*inputs).action == 1).all()


def test_one_network_if_both_read_the_same():
    agent = initialized(agent_of(policy_observation=["state"], critic_observation=["state"]))
    assert isinstance(agent.model, CategoricalMlpModel) and agent.model.observation_size == 2
    agent = initialized(agent_of(policy_observation=None, critic_observation=None))
    assert isinstance(agent.model, CategoricalMlpModel)
    agent = initialized(agent_of(**dict.fromkeys(GROUPS), v_model_kwargs=dict(hidden_sizes=[7])))
    assert (
        isinstance(agent.model, ActorCritic) and agent.model.critic.value.model[0].out_features == 7
    )


@pytest.mark.parametrize("memory", MEMORIES)
def test_networks_have_the_sizes_of_their_groups(memory):
    model = initialized(agent_of(memory)).model
    assert model.policy.observation_size == 2 + 3 and not hasattr(model.policy, "images")
    assert model.critic.observation_size == 2 + 1 + 8 and len(model.critic.images) == 1
    assert model.policy.value is None


def test_each_network_normalizes_what_it_reads():
    kwargs = dict(model_kwargs=dict(NARROW, normalize_observation=True))
    agent = initialized(agent_of(**kwargs))
    observation = inputs_of(agent, (200,))[0]
    assert agent.has_obs_rms
    agent.update_obs_rms(observation)
    torch.testing.assert_close(agent.model.policy.obs_rms.mean, observation.state.mean(0))
    expected = torch.cat([observation.privileged, observation.state], -1).mean(0)
    torch.testing.assert_close(agent.model.critic.obs_rms.mean, expected)


@pytest.mark.parametrize(
    "kwargs,error,match",
    [
        (dict(critic_observation=["states"]), ValueError, "'state'.*extra.image"),
        (dict(policy_observation=[]), ValueError, "policy_observation"),
        (dict(policy_observation="state"), TypeError, "policy_observation.* got 'state'"),
        (dict(critic_memory="mine"), ValueError, "critic_memory 'mine'"),
        (dict(critic_memory="own"), ValueError, "critic_memory.*recurrent"),
        (dict(v_model_kwargs=dict(depth=3)), TypeError, "ValueMlpModel .*'depth'"),
        (dict(ModelCls=torch.nn.Linear), TypeError, "Linear .*with_value"),
    ],
)
def test_what_the_groups_cannot_be(kwargs, error, match):
    with pytest.raises(error, match=match):
        agent_of(**kwargs).initialize(make().spaces)


def test_groups_of_an_observation_without_parts():
    agent = CategoricalMlpAgent(critic_observation=["state"])
    with pytest.raises(ValueError, match="critic_observation=.*no parts"):
        agent.initialize(gym_make("CartPole-v1").spaces)


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_conformance_checks_pass(memory):
    assert check_agent(agent_of(memory), make().spaces).ok


def batches(SamplerCls, memory):
    """Return the leaves of two batches and of an evaluation between them."""
    torch.manual_seed(0)
    sampler = SamplerCls(
        EnvCls=make, env_kwargs={}, batch_T=T, batch_B=B, deterministic_acting=True,
        eval_n_envs=2, eval_max_steps=100, eval_env_kwargs={},
    )  # fmt: skip
    agent = agent_of(memory)
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=1, bootstrap_value=True)
    found = []
    try:
        for itr in range(2):
            agent.sample_mode(itr)
            samples, _ = sampler.obtain_samples(itr)
            found += [leaf.numpy().copy() for leaf in leaves_of(samples)]
            infos = sampler.evaluate_agent(itr)
            found += sorted(info.Return for info in infos)
    finally:
        sampler.shutdown()
    return found


@pytest.mark.parametrize(
    ("memory", "samplers"),
    [
        (None, [GpuSampler, AlternatingSampler]),
        ("own", [CpuSampler, AlternatingSampler]),
        pytest.param(None, [CpuSampler], marks=pytest.mark.slow),
        pytest.param("own", [GpuSampler], marks=pytest.mark.slow),
    ],
)
def test_batches_are_the_same_in_every_layout(memory, samplers):
    expected = batches(SerialSampler, memory)
    for SamplerCls in samplers:
        for one, other in zip(expected, batches(SamplerCls, memory), strict=True):
            np.testing.assert_array_equal(one, other)


def ppo():
    return PPO(minibatches=2, epochs=2)


@pytest.mark.parametrize(
    ("memory", "make_algo"),
    product_of(
        MEMORIES,
        [ppo, A2C, VTrace],
        fast=[
            *(("shared", ppo), ("own", ppo)),
            *((None, A2C), ("none", A2C)),
            *((None, VTrace), ("own", VTrace)),
        ],
    ),
)
def test_algorithms_train_both_networks(make_algo, memory):
    agent = agent_of(memory)
    torch.manual_seed(0)
    sampler = SerialSampler(EnvCls=make, env_kwargs=dict(length=3), batch_T=T, batch_B=B)
    before = {}
    initialize = agent.initialize

    def remember(*args, **kwargs):
        initialize(*args, **kwargs)
        before.update({name: p.detach().clone() for name, p in agent.model.named_parameters()})

    agent.initialize = remember
    MinibatchRl(algo=make_algo(), agent=agent, sampler=sampler, n_steps=3 * T * B, seed=1).train()
    same = [name for name, p in agent.model.named_parameters() if torch.equal(p, before[name])]
    assert not same


@pytest.mark.parametrize("memory", ["gru", "mingru", "gtrxl"])
def test_every_memory_can_be_the_critics_own(memory):
    window = {"window": 3} if memory == "gtrxl" else {}
    kwargs = dict(memory=dict(kind=memory, **window), lstm_size=8)
    agent = agent_of("own", model_kwargs=dict(NARROW, **kwargs))
    sampler = SerialSampler(EnvCls=make, env_kwargs=dict(length=3), batch_T=T, batch_B=B)
    algo = PPO(minibatches=2, epochs=1)
    MinibatchRl(algo=algo, agent=agent, sampler=sampler, n_steps=2 * T * B, seed=1).train()
    assert agent.takes_starts is (memory != "gru")


def explained(agent, n_itr=25):
    """Train PPO in seconds; return explained variance and share of right actions at the end."""
    torch.manual_seed(0)
    algo = PPO(learning_rate=1e-2, discount=0, minibatches=2, epochs=4, entropy_loss_coeff=0)
    sampler = SerialSampler(EnvCls=make, env_kwargs={}, batch_T=16, batch_B=16)
    sampler.initialize(agent, seed=1, bootstrap_value=True)
    algo.initialize(agent, n_itr, sampler.batch_spec, True, examples=sampler.examples)
    variances, rights = [], []
    for itr in range(n_itr):
        agent.sample_mode(itr)
        samples, _ = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        opt_info = algo.optimize_agent(itr, samples)
        variances += opt_info.explainedVariance
        rights.append((samples.env.reward - samples.env.observation.privileged[..., 0]).mean())
    sampler.shutdown()
    return np.mean(variances[-5:]), np.mean(rights[-5:])


@pytest.mark.parametrize("recurrent", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_critic_that_sees_more_predicts_values_which_a_blind_one_cannot(recurrent):
    Agent = CategoricalLstmAgent if recurrent else CategoricalMlpAgent
    more = dict(critic_memory="none") if recurrent else {}
    blind = dict(policy_observation=["state"], model_kwargs=dict(hidden_sizes=[32]))
    seeing = explained(Agent(**blind, critic_observation=["state", "privileged"], **more))
    control = explained(Agent(**blind, critic_observation=["state"], **more))
    assert seeing[0] > 0.9 and seeing[1] > 0.9
    assert control[0] < 0.1


SERIAL = dict(kind="serial", batch_T=8, batch_B=2, max_decorrelation_steps=0)


def trained(run_dir, steps, resume=False, **agent):
    """Train by options; groups are those of the command line."""
    agent = {"model": dict(encoder=SMALL_IMAGES), "hidden_sizes": [8], **GROUPS, **agent}
    torch.manual_seed(0)
    return rlpyt.train(
        "ppo", "tests.groups_env:GroupsEnv", steps=steps, run_dir=run_dir, agent=agent,
        sampler=SERIAL, minibatches=1, video=False, eval_episodes=0, progress=False, resume=resume,
        linear_lr_schedule=False,
    )  # fmt: skip


@pytest.mark.parametrize("memory", [None, pytest.param("own", marks=pytest.mark.slow)])
def test_a_resumed_run_equals_an_uninterrupted_one(memory, tmp_path):
    agent = {} if memory is None else dict(memory="gru", critic_memory=memory)
    whole = trained(tmp_path / "whole", 64, **agent)
    trained(tmp_path / "parts", 32, **agent)
    resumed = trained(tmp_path / "parts", 64, resume=True, **agent)
    states = [run.agent.state_dict() for run in (whole, resumed)]
    assert states[0].keys() == states[1].keys()
    assert any(name.startswith("critic.") for name in states[0])
    for name, x in states[0].items():
        assert torch.equal(x, states[1][name]), name


@pytest.mark.parametrize("memory", [None, pytest.param("own", marks=pytest.mark.slow)])
@pytest.mark.parametrize("to", ["pt2", pytest.param("onnx", marks=pytest.mark.slow)])
def test_exported_policies_take_the_parts_of_the_policy(to, memory, tmp_path):
    if to == "onnx":
        pytest.importorskip("onnxscript")
    agent = {} if memory is None else dict(memory="gru", critic_memory=memory)
    run = trained(tmp_path / "run", 32, **agent)
    path = tmp_path / f"policy.{to}"
    run.export(path, steps=12)
    policy = rlpyt.load_policy(path)
    inputs = [entry["name"] for entry in policy.metadata["inputs"]]
    groups = ["observation.extra.kind", "observation.state"]
    memories = [] if memory is None else ["reward", "state.action", "state"]
    assert inputs == groups + memories
    seen = dict(state=np.array([0.5, -0.5], np.float32), extra=dict(kind=1))
    action, _ = policy.act(seen)  # without the other parts
    assert action in (0, 1)
