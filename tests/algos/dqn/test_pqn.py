"""PQN: returns against a plain loop, the update against plain torch, runs and refusals."""

import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.agents.dqn.catdqn_agent import CatDqnAgent
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.envs.base import BatchSpec
from rlpyt.envs.toy import CountEnv, MaskEnv
from rlpyt.models.dqn.atari_dqn_model import AtariDqnModel
from rlpyt.models.dqn.vector import DqnMlpModel
from rlpyt.models.mlp import ChannelNorm
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.algos.dqn.parts_dqn import AGENTS, Tiny
from tests.runners.test_minibatch_rl import StopAfter

T, B = 8, 4
GAMMA, LAM, SCALE = 0.9, 0.7, 0.1
SMALL = dict(minibatches=4, epochs=2, eps_steps=200, discount=GAMMA, q_lambda=LAM)


def sampled(algo, agent, Sampler=SerialSampler, EnvCls=CountEnv, n_batches=3, **kwargs):
    """Return the last of some batches, with algorithm and agent initialized."""
    sampler = Sampler(EnvCls, {}, batch_T=T, batch_B=B, max_decorrelation_steps=0, **kwargs)
    torch.manual_seed(1)
    examples = sampler.initialize(
        agent, affinity=dict(n_workers=2), seed=5, bootstrap_value=algo.bootstrap_value
    )
    algo.initialize(agent, 100, sampler.batch_spec, sampler.mid_batch_reset, examples)
    try:
        for itr in range(n_batches):
            agent.sample_mode(itr)
            samples, _ = sampler.obtain_samples(itr)
        samples = type(samples)(*samples)
        agent.train_mode(n_batches)
        return samples, torch.as_tensor(samples.env.done).clone()
    finally:
        sampler.shutdown()


def plain_returns(reward, done, timeout, value, last_value, final_value, bootstraps=True):
    """Return the lambda returns of one environment, by the definition of each step."""
    returns = [0.0] * len(reward)
    for t in reversed(range(len(reward))):
        if done[t]:
            after = final_value[t] if timeout[t] and bootstraps else 0.0
        elif t + 1 == len(reward):
            after = last_value
        else:
            after = (1 - LAM) * value[t + 1] + LAM * returns[t + 1]
        returns[t] = SCALE * reward[t] + GAMMA * after
    return returns


@pytest.mark.parametrize("bootstraps", [True, False])
@pytest.mark.parametrize("Sampler", [SerialSampler, GpuSampler])
def test_returns_equal_plain_ones_with_ends_and_time_limits(Sampler, bootstraps):
    algo = PQN(reward_scale=SCALE, bootstrap_timelimit=bootstraps, **SMALL)
    agent = DqnAgent(ModelCls=Tiny)
    samples, done = sampled(algo, agent, Sampler)
    timeout = samples.env.env_info.timeout
    assert timeout.any() and (done & ~timeout).any() and not done[-1].all()
    returns = algo.targets_of(samples)
    with torch.no_grad():
        q = samples.agent.agent_info.q.amax(-1)
        # A CountEnv's state after step t of an episode is its state before it, one step later.
        final = samples.env.observation + torch.tensor([0.0, 0.0, 1.0])
        final_value = agent(final, samples.agent.action, samples.env.reward).amax(-1)
    for b in range(B):
        expected = plain_returns(
            *(x[:, b].tolist() for x in (samples.env.reward, done, timeout, q)),
            float(samples.agent.bootstrap_value[0, b]), final_value[:, b].tolist(), bootstraps,
        )  # fmt: skip
        assert returns[:, b].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_masked_actions_do_not_count_in_returns():
    algo, agent = PQN(**SMALL), DqnMlpAgent(model_kwargs=dict(hidden_sizes=[8]))
    samples, done = sampled(algo, agent, EnvCls=MaskEnv)
    mask = samples.env.observation.action_mask.bool()
    q = samples.agent.agent_info.q
    value = torch.where(mask, q, -torch.inf).amax(-1)
    assert not torch.equal(value, q.amax(-1))
    assert torch.equal(
        agent.recorded_value(samples.agent.agent_info, samples.env.observation), value
    )
    if not done[-1].any():
        assert torch.isfinite(samples.agent.bootstrap_value).all()
    assert torch.isfinite(algo.targets_of(samples)).all()


@pytest.mark.parametrize("kind", ["dqn", "cat", "qr", "iqn"])
def test_values_of_all_agents_are_the_greatest_means(kind):
    agent = AGENTS[kind]()
    sampler = SerialSampler(CountEnv, {}, batch_T=T, batch_B=B, max_decorrelation_steps=0)
    sampler.initialize(agent, seed=5, bootstrap_value=True)
    agent.sample_mode(1)
    samples, _ = sampler.obtain_samples(1)
    env, (recorded, *_) = samples.env, samples.agent.agent_info
    atoms = torch.linspace(-1, 1, recorded.shape[-1])
    expected = (recorded @ atoms if kind == "cat" else recorded).amax(-1)
    value = agent.recorded_value(samples.agent.agent_info, env.observation)
    torch.testing.assert_close(value, expected)
    first = env.observation[0], samples.agent.prev_action[0], env.prev_reward[0]
    torch.testing.assert_close(agent.value(*first), expected[0])


def test_values_of_a_noisy_agent_are_those_of_its_mean_weights():
    algo, agent = PQN(**SMALL), DqnMlpAgent(model_kwargs=dict(hidden_sizes=[8], noisy=True))
    samples, _ = sampled(algo, agent)
    agent.sample_mode(3)
    inputs = samples.env.observation[0, :2], samples.agent.action[0, :2], samples.env.reward[0, :2]
    agent.step(*(x[:1] for x in inputs))  # draws noise for one row
    value = agent.value(*inputs)
    agent.eval_mode(3)
    with torch.no_grad():
        assert torch.equal(value, agent(*inputs).amax(-1))


def test_rows_that_wait_for_a_reset_do_not_count():
    algo, agent = PQN(**SMALL), DqnAgent(ModelCls=Tiny)
    samples, _ = sampled(algo, agent, CollectorCls=CpuWaitResetCollector)
    batch = algo.make_batch(samples)
    assert (batch.valid == 0).any()
    loss = algo.loss(batch)
    q = agent(*batch.agent_inputs).gather(-1, batch.action[..., None])[..., 0]
    expected = (0.5 * (q.detach() - batch.return_) ** 2)[batch.valid > 0].mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)


def test_an_update_is_that_of_plain_torch():
    algo = PQN(minibatches=1, epochs=1, clip_grad_norm=0.1, learning_rate=1e-2, discount=GAMMA)
    agent = DqnAgent(ModelCls=Tiny)
    samples, _ = sampled(algo, agent)
    batch = algo.make_batch(samples)
    inputs = batch.agent_inputs
    weights = [p.detach().clone().requires_grad_() for p in agent.parameters()]
    optimizer = torch.optim.RAdam(weights, lr=1e-2)
    q = torch.func.functional_call(
        agent.model,
        dict(zip((n for n, _ in agent.model.named_parameters()), weights, strict=True)),
        (inputs.observation, agent.action_input(inputs.prev_action), inputs.prev_reward),
    )
    loss = (q.gather(-1, batch.action[..., None])[..., 0] - batch.return_).square().mean() / 2
    loss.backward()
    torch.nn.utils.clip_grad_norm_(weights, 0.1)
    optimizer.step()
    info = algo.optimize_agent(0, samples)
    assert info.loss == pytest.approx([float(loss)], rel=1e-5)
    for p, expected in zip(agent.parameters(), weights, strict=True):
        torch.testing.assert_close(p.detach(), expected.detach(), rtol=1e-4, atol=1e-6)


def test_epsilon_decreases_over_eps_steps():
    algo, agent = PQN(**{**SMALL, "eps_steps": 5 * T * B}), DqnAgent(ModelCls=Tiny, eps_final=0.2)
    sampled(algo, agent)
    assert (agent.eps_itr_min, agent.eps_itr_max) == (0, 5)
    algo.apply_schedule(5)
    assert agent.statistics(algo._itr)["Epsilon"] == pytest.approx(0.2)


def test_other_outputs_are_refused():
    for agent in (CatDqnAgent(), CategoricalMlpAgent()):
        with pytest.raises(TypeError, match="action values.* PQN"):
            PQN().initialize(agent, 10, BatchSpec(T, B))


@pytest.mark.parametrize("more", [{}, dict(dueling=True), dict(memory="gru"), dict(noisy=True)])
def test_layers_are_normalized_before_their_nonlinearity(more):
    model = DqnMlpModel((5,), 3, hidden_sizes=(16, 16), layer_norm=True, **more)
    norms = [x for x in model.modules() if isinstance(x, torch.nn.LayerNorm)]
    assert len(norms) == (3 if more.get("dueling") else 2)
    plain = DqnMlpModel((5,), 3, hidden_sizes=(16, 16), **more)
    n = sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in plain.parameters())
    assert n == 2 * 16 * len(norms)


def test_normalized_layers_equal_a_plain_definition():
    torch.manual_seed(0)
    model = DqnMlpModel((5,), 3, hidden_sizes=(16, 8), layer_norm=True)
    linear = [x for x in model.modules() if type(x) is torch.nn.Linear]
    x = observation = torch.randn(7, 5)
    for layer in linear[:-1]:
        x = layer(x)
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        x = x.relu()
    torch.testing.assert_close(model(observation), linear[-1](x))


def test_images_are_normalized_over_the_channels_of_each_pixel():
    model = AtariDqnModel((4, 10, 10), 3, fc_sizes=[16], channels=[8], kernel_sizes=[3],
                          strides=[1], paddings=[0], layer_norm=True)  # fmt: skip
    (norm,) = [x for x in model.modules() if isinstance(x, ChannelNorm)]
    y = norm(torch.randn(2, 8, 5, 6) + 3)
    torch.testing.assert_close(y.mean(1), torch.zeros(2, 5, 6), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.var(1, correction=0), torch.ones(2, 5, 6), atol=1e-3, rtol=0)
    assert model(torch.zeros(2, 4, 10, 10, dtype=torch.uint8)).shape == (2, 3)


SETTINGS = dict(
    steps=4 * T * B, video=False, eval_episodes=2, minibatches=2, epochs=2,
    sampler=dict(batch_T=T, batch_B=B), agent=dict(hidden_sizes=[8]),
)  # fmt: skip


@pytest.mark.parametrize("memory", [None, "gru"])
def test_a_resumed_run_is_the_uninterrupted_one(memory, tmp_path):
    settings = {**SETTINGS, "agent": dict(hidden_sizes=[8], memory=memory)}
    settings["sampler"] = dict(kind="serial", **SETTINGS["sampler"])
    whole = rlpyt.train("pqn", "CartPole-v1", run_dir=tmp_path / "whole", **settings)
    settings["run_dir"] = tmp_path / "run"
    rlpyt.train("pqn", "CartPole-v1", hooks=[StopAfter(1)], **settings)
    resumed = rlpyt.train("pqn", "CartPole-v1", resume=True, **settings)
    for p, q in zip(whole.agent.parameters(), resumed.agent.parameters(), strict=True):
        assert torch.equal(p, q)


def test_several_agents_train_as_one(tmp_path):
    settings = {**SETTINGS, "sampler": dict(kind="serial", **SETTINGS["sampler"])}
    alone = rlpyt.train("pqn", "CartPole-v1", run_dir=tmp_path / "one", seed=1, **settings)
    many = rlpyt.train("pqn", "CartPole-v1", run_dir=tmp_path / "all", seeds=range(2), **settings)
    assert len(many) == 2
    for p, q in zip(alone.agent.parameters(), many[1].agent.parameters(), strict=True):
        np.testing.assert_allclose(p.detach(), q.detach(), rtol=1e-4, atol=1e-5)


def test_asynchronous_runs_are_refused(tmp_path):
    settings = {**SETTINGS, "sampler": dict(asynchronous=True, **SETTINGS["sampler"])}
    with pytest.raises(ValueError, match="asynchronously"):
        rlpyt.train("pqn", "CartPole-v1", run_dir=tmp_path / "run", **settings)
