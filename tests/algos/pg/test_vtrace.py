"""VTrace: A2C on-policy, the paper's definition off-policy, learning from samples of the past."""

import copy

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.categorical import CategoricalPgAgent, RecurrentCategoricalPgAgent
from rlpyt.agents.pg.vector import GaussianMlpAgent, agent_for
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.envs.toy import DelayEnv, MemoryEnv, ReachEnv, TruncationEnv
from rlpyt.errors import NonFiniteError
from rlpyt.experiments.build import build_algo
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.presets.families import FAMILIES, layers
from rlpyt.samplers.collections import BatchSpec
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.seed import set_seed
from tests.algos.pg.test_base import (
    AGENTS,
    GAMMA,
    B,
    ConstantValueModel,
    T,
    TinyModel,
    TinyRnn,
    sample,
)
from tests.algos.plain_vtrace import slow_vtrace

SETTINGS = dict(discount=GAMMA, value_loss_coeff=0.3, entropy_loss_coeff=0.07)


def change(agent, scale=0.4):
    """Move every parameter of the agent, after it has sampled."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.add_(scale * torch.randn_like(parameter))


def gradients(algo, loss):
    return torch.autograd.grad(loss, list(algo.agent.parameters()))


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("Collector", [CpuResetCollector, CpuWaitResetCollector])
@pytest.mark.parametrize("gae_lambda", [1, 0.95, 0])
def test_time_limits_are_bootstrapped_exactly(SamplerCls, Collector, gae_lambda):
    algo = VTrace(discount=GAMMA, gae_lambda=gae_lambda)
    sampler, samples = sample(
        CategoricalPgAgent,
        ConstantValueModel,
        algo,
        SamplerCls,
        TruncationEnv,
        env_kwargs=dict(horizon=5),
        CollectorCls=Collector,
    )
    try:
        assert samples.env.done.any()
        log_ratio = torch.randn(T, B, generator=torch.Generator().manual_seed(0))
        return_, advantage, valid = algo.process_returns(samples, log_ratio=log_ratio)
        mask = torch.ones(T, B) if valid is None else valid
        truth = TruncationEnv.value(GAMMA)
        assert torch.allclose(return_[mask > 0], torch.tensor(truth), rtol=1e-5)
        assert advantage[mask > 0].abs().max() < 1e-4
        assert (valid is None) == sampler.mid_batch_reset
    finally:
        sampler.shutdown()


@pytest.mark.parametrize("Collector", [CpuResetCollector, CpuWaitResetCollector])
@pytest.mark.parametrize("normalize_advantage", [False, True])
@pytest.mark.parametrize("gae_lambda", [1, 0.8])
@pytest.mark.parametrize("Agent,Model", AGENTS)
def test_on_policy_it_is_a2c(Agent, Model, gae_lambda, normalize_advantage, Collector):
    settings = SETTINGS | dict(gae_lambda=gae_lambda, normalize_advantage=normalize_advantage)
    a2c, vtrace = A2C(**settings), VTrace(**settings)
    sampler, samples = sample(Agent, Model, a2c, CollectorCls=Collector)
    vtrace.initialize(sampler.agent, 10, sampler.batch_spec, sampler.mid_batch_reset)
    expected, found = a2c.loss(samples), vtrace.loss(samples)
    for one, other in zip(expected, found[:3]):
        assert other.item() == pytest.approx(one.item(), rel=1e-5)
    for one, other in zip(gradients(a2c, expected[0]), gradients(vtrace, found[0])):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)
    assert found[3].item() == pytest.approx(1, rel=1e-5)


def plain_rows(model, samples, b):
    """Log-probability, entropy and value, with gradient, of each valid step of an environment."""
    done, recurrent, state = samples.env.done, isinstance(model, TinyRnn), None
    if recurrent:
        state = samples.agent.agent_info.prev_rnn_state[0, b].unsqueeze(1)  # [N, 1, H]
    for t in range(T):
        a, r = samples.agent.prev_action[t, b], samples.env.prev_reward[t, b]
        if t > 0 and done[t - 1, b]:
            a, r = torch.zeros_like(a), torch.zeros_like(r)
            state = None if state is None else torch.zeros_like(state)
        inputs = samples.env.observation[t, b], torch.nn.functional.one_hot(a, 3).float(), r
        if recurrent:
            p, v, state = model(*(x.unsqueeze(0) for x in inputs), state)
        else:
            p, v = model(*(x.unsqueeze(0) for x in inputs))
        log_p = torch.log(p[0])
        yield t, log_p[samples.agent.action[t, b]], -(p[0] * log_p).sum(), v[0]


def plain_loss(algo, samples, waits):
    """Section 4.2, step by step, with targets by the double sum."""
    model, info = algo.agent.model, samples.agent.agent_info
    done = samples.env.done.numpy()
    steps = {}
    for b in range(B):
        for t, *row in plain_rows(model, samples, b):
            if not (waits and done[:t, b].any()):
                steps[t, b] = row
    ratio, value = np.ones((T, B)), np.zeros((T, B))
    for (t, b), (log_pi, _, v) in steps.items():
        mu = info.dist_info.prob[t, b, samples.agent.action[t, b]]
        ratio[t, b] = log_pi.exp().item() / mu.item()
        value[t, b] = v.item()
    v, advantage = slow_vtrace(
        ratio,
        samples.env.reward.numpy(),
        value,
        done,
        samples.agent.bootstrap_value.numpy(),
        GAMMA,
        algo.clip_rho_threshold,
        algo.gae_lambda,
        samples.agent.timeout_value.numpy(),
    )
    weight = np.minimum(ratio, algo.clip_pg_rho_threshold)
    terms = [
        -weight[t, b] * advantage[t, b] * log_pi
        + algo.value_loss_coeff * (value_ - v[t, b]) ** 2 / 2
        - algo.entropy_loss_coeff * H
        for (t, b), (log_pi, H, value_) in steps.items()
    ]
    rho = np.mean([min(ratio[at], algo.clip_rho_threshold) for at in steps])
    return sum(terms) / len(terms), rho, ratio


@pytest.mark.parametrize("Collector", [CpuResetCollector, CpuWaitResetCollector])
@pytest.mark.parametrize("gae_lambda", [1, 0.8])
@pytest.mark.parametrize("Agent,Model", AGENTS)
def test_off_policy_loss_and_gradient_are_their_definition(Agent, Model, gae_lambda, Collector):
    clips = dict(clip_rho_threshold=1.1, clip_pg_rho_threshold=0.9)
    algo = VTrace(gae_lambda=gae_lambda, **clips, **SETTINGS)
    sampler, samples = sample(Agent, Model, algo, CollectorCls=Collector)
    change(sampler.agent)
    loss, _, _, rho = algo.loss(samples)
    waits = Collector is CpuWaitResetCollector
    expected, expected_rho, ratio = plain_loss(algo, samples, waits)
    assert (ratio < 0.9).any() and (ratio > 1.1).any()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert rho.item() == pytest.approx(expected_rho, rel=1e-4)
    for one, other in zip(gradients(algo, expected), gradients(algo, loss)):
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-4)


def test_a_gaussian_policy_is_weighted_by_its_density():
    algo = VTrace(discount=GAMMA, clip_rho_threshold=None, clip_pg_rho_threshold=None)
    sampler = SerialSampler(EnvCls=ReachEnv, env_kwargs={}, batch_T=T, batch_B=B)
    agent = GaussianMlpAgent(model_kwargs=dict(hidden_sizes=[8]))
    sampler.initialize(agent, seed=0, bootstrap_value=True)
    algo.initialize(agent, 10, sampler.batch_spec, mid_batch_reset=True)
    samples, _ = sampler.obtain_samples(0)
    assert algo.loss(samples)[3].item() == pytest.approx(1, rel=1e-5)
    change(agent, 0.1)
    new, _ = algo.forward(samples)
    old, action = samples.agent.agent_info.dist_info, samples.agent.action.double()

    def density(mean, log_std):
        std = log_std.detach().double().exp()
        z = (action - mean.detach().double()) / std
        return (torch.exp(-0.5 * z**2) / (std * np.sqrt(2 * np.pi))).prod(-1)

    ratio = density(new.mean, new.log_std) / density(old.mean, old.log_std)
    assert ratio.std() > 0.05
    assert algo.loss(samples)[3].item() == pytest.approx(ratio.mean().item(), rel=1e-4)


def test_what_follows_a_done_before_the_reset_is_not_looked_at():
    algo = VTrace(clip_rho_threshold=None, clip_pg_rho_threshold=None, **SETTINGS)
    Agent, Model = RecurrentCategoricalPgAgent, TinyRnn
    sampler, samples = sample(Agent, Model, algo, CollectorCls=CpuWaitResetCollector)
    change(sampler.agent)
    before = algo.loss(samples)[0].item()
    *_, valid = algo.process_returns(samples)
    assert not valid.all()
    samples.env.reward[valid == 0] = 1e6
    samples.env.observation[valid == 0] = 1e3
    samples.agent.agent_info.dist_info.prob[valid == 0] = -1e-8  # its weight is infinite
    loss = algo.loss(samples)[0]
    assert loss.item() == pytest.approx(before, rel=1e-6)
    assert all(g.isfinite().all() for g in gradients(algo, loss))


def test_optimizing_reports_how_far_policies_are_apart():
    algo = VTrace(**SETTINGS)
    sampler, samples = sample(CategoricalPgAgent, TinyModel, algo)
    assert algo.optimize_agent(0, samples).rho == [pytest.approx(1, rel=1e-5)]
    change(sampler.agent)
    info = algo.optimize_agent(1, samples)
    assert info._fields == algo.opt_info_fields and 0.1 < info.rho[0] < 0.95
    assert algo.update_counter == 2 and algo.batch_size == T * B


def test_observation_statistics_take_in_what_was_trained_on():
    algo = VTrace()
    sampler = SerialSampler(EnvCls=ReachEnv, env_kwargs={}, batch_T=T, batch_B=B)
    agent = GaussianMlpAgent(model_kwargs=dict(normalize_observation=True))
    sampler.initialize(agent, seed=0, bootstrap_value=True)
    algo.initialize(agent, 10, sampler.batch_spec, mid_batch_reset=True)
    samples, _ = sampler.obtain_samples(0)
    assert algo.optimize_agent(0, samples).rho == [pytest.approx(1, rel=1e-5)]
    assert agent.model.obs_rms.count == T * B


def test_an_asynchronous_runner_initializes_in_two_steps():
    algo = VTrace(learning_rate=0.01, linear_lr_schedule=True)
    sampler, samples = sample(CategoricalPgAgent, TinyModel, VTrace())
    begun = algo.async_initialize(
        agent=sampler.agent,
        sampler_n_itr=20,
        batch_spec=sampler.batch_spec,
        mid_batch_reset=True,
        examples=None,
        world_size=2,
    )
    assert begun is None and algo.optimizer is None and algo.batch_size == T * B
    algo.optim_initialize(rank=0)
    for sampler_itr, share in ((5, 0.75), (20, 0.0), (22, 0.0)):  # rows may be left over
        algo.optimize_agent(99, samples, sampler_itr)
        assert algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * share)
    algo.optimize_agent(10, samples)
    assert algo.optimizer.param_groups[0]["lr"] == pytest.approx(0.005)


@pytest.mark.parametrize("algo", [A2C(), PPO()], ids=["a2c", "ppo"])
def test_what_does_not_correct_for_older_policies_stays_synchronous(algo):
    with pytest.raises(NotImplementedError, match=type(algo).__name__):
        algo.async_initialize(None, 20, BatchSpec(T, B), True, None)


def test_agents_without_values_of_states_are_refused():
    for method in (VTrace().initialize, VTrace().async_initialize):
        with pytest.raises(TypeError, match="value.* VTrace, got DqnMlpAgent"):
            method(DqnMlpAgent(), 10, BatchSpec(T, B), True, None)


@pytest.mark.parametrize(
    "kwargs,error,message",
    [
        (dict(clip_rho_threshold=0), ValueError, "clip_rho_threshold=0"),
        (dict(clip_rho_threshold=-1.0), ValueError, "clip_rho_threshold=-1.0"),
        (dict(clip_pg_rho_threshold=float("nan")), ValueError, "clip_pg_rho_threshold=nan"),
        (dict(clip_pg_rho_threshold="1"), TypeError, "clip_pg_rho_threshold='1'"),
        (dict(gae_lambda=1.1), ValueError, "gae_lambda=1.1"),
        (dict(learning_rate=0), ValueError, "learning_rate=0"),
    ],
)
def test_bad_hyperparameters_are_refused(kwargs, error, message):
    with pytest.raises(error, match=message):
        VTrace(**kwargs)


def test_a_loss_that_is_not_finite_moves_nothing():
    algo = VTrace()
    sampler, samples = sample(CategoricalPgAgent, TinyModel, algo)
    before = [p.detach().clone() for p in sampler.agent.parameters()]
    samples.env.reward[2, 1] = float("nan")
    with pytest.raises(NonFiniteError, match="^the loss is nan"):
        algo.optimize_agent(3, samples)
    assert all(torch.equal(a, b) for a, b in zip(before, sampler.agent.parameters()))


def learn(EnvCls, algo, n_steps, lag=0, recurrent=False, batch_T=20, batch_B=16):
    """Train on what was sampled ``lag`` updates ago; the mean return of the last fifth."""
    set_seed(3)
    torch.set_num_threads(1)
    sampler = SerialSampler(EnvCls=EnvCls, env_kwargs={}, batch_T=batch_T, batch_B=batch_B)
    agent = agent_for(EnvCls().spaces, recurrent=recurrent)
    sampler.initialize(agent, seed=3, bootstrap_value=True)
    n_itr = n_steps // (batch_T * batch_B)
    algo.initialize(agent, n_itr, sampler.batch_spec, mid_batch_reset=True)
    returns, waiting = [], []
    for itr in range(n_itr):
        agent.sample_mode(itr)
        samples, infos = sampler.obtain_samples(itr)
        returns += [info.Return for info in infos]
        waiting.append(copy.deepcopy(samples))
        if len(waiting) > lag:
            agent.train_mode(itr)
            algo.optimize_agent(itr, waiting.pop(0))
    return float(np.mean(returns[-len(returns) // 5 :]))


def test_learns_from_samples_of_older_policies():
    algo = VTrace(learning_rate=1e-2, gae_lambda=0.95, normalize_advantage=True)
    assert learn(DelayEnv, algo, 20_000, lag=4) > 0.8


@pytest.mark.slow
def test_remembers_by_a_recurrent_agent():
    """Chance is 0.5."""
    algo = VTrace(learning_rate=1e-2, gae_lambda=0.95, normalize_advantage=True)
    assert learn(MemoryEnv, algo, 30_000, lag=2, recurrent=True, batch_T=10) > 0.9


@pytest.mark.parametrize("algo_name", ["vtrace", "impala"])
@pytest.mark.parametrize("family", FAMILIES)
def test_presets_are_made_of_options_and_settings(family, algo_name):
    for env in ("any", "toy/memory"):
        options = RunOptions(algo_name=algo_name, env=env)
        for layer in layers(algo_name, env, family):
            options = options.updated(layer)
        algo = build_algo(options)
        assert type(algo) is VTrace and algo.learning_rate == options.algo["learning_rate"]


@pytest.mark.gpu
@pytest.mark.parametrize("Agent,Model", AGENTS)
def test_the_device_changes_no_number(Agent, Model):
    algo = VTrace(**SETTINGS)
    sampler, samples = sample(Agent, Model, algo)
    change(sampler.agent)
    expected = [x.item() for x in algo.loss(samples)]
    sampler.agent.to_device(0)
    assert [x.item() for x in algo.loss(samples)] == pytest.approx(expected, rel=1e-4)
    algo.initialize(sampler.agent, 10, sampler.batch_spec, mid_batch_reset=True)
    sampler.agent.train_mode(0)  # as runners do; cuDNN's networks with memory need it
    assert np.isfinite(algo.optimize_agent(0, samples).loss[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_preset_solves_cartpole(seed, tmp_path):
    from rlpyt.cli.main import main
    from rlpyt.experiments.run import load

    run_dir = tmp_path / "run"
    command = ["train", "vtrace", "CartPole-v1", "--steps", "300000", "--seed", str(seed)]
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--no-video", "--run-dir", str(run_dir)])
    assert not stopped.value.code
    assert np.mean(load(run_dir).evaluate(20).returns) >= 475
