"""Observation statistics through a whole iteration: acting, training, acting with what was seen."""

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.vector import agent_for
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

T, B, N_BATCHES = 7, 4, 3


def one_step(**kwargs):
    """PPO with a single update a batch, whose loss is the surrogate alone."""
    quiet = dict(value_loss_coeff=0.0, entropy_loss_coeff=0.0, linear_lr_schedule=False)
    return PPO(minibatches=1, epochs=1, learning_rate=0.01, **quiet, **kwargs)


def run(algo, SamplerCls=SerialSampler, Collector=CpuResetCollector, recurrent=False, fast=True):
    """Yields (samples, observations that count, agent) of each iteration."""
    torch.manual_seed(0)
    agent = agent_for(
        CountEnv().spaces,
        recurrent=recurrent,
        model_kwargs=dict(normalize_observation=True),
        fast_acting=fast,
    )
    sampler = SamplerCls(
        EnvCls=CountEnv, env_kwargs=dict(length=5), batch_T=T, batch_B=B, CollectorCls=Collector
    )
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=5, bootstrap_value=True)
    with torch.no_grad():  # a decided policy, which shows what it sees
        for parameter in agent.model.pi.parameters():
            parameter.mul_(50)
    try:
        algo.initialize(agent, 10, sampler.batch_spec, mid_batch_reset=sampler.mid_batch_reset)
        for itr in range(N_BATCHES):
            agent.sample_mode(itr)
            samples, _ = sampler.obtain_samples(itr)
            agent.train_mode(itr)
            counts = samples.env.done.long().cumsum(0) - samples.env.done.long() == 0
            if sampler.mid_batch_reset:
                counts = torch.ones_like(counts)
            seen = samples.env.observation[counts].double().numpy().copy()
            yield samples, seen, agent
    finally:
        sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("Collector", [CpuResetCollector, CpuWaitResetCollector])
@pytest.mark.parametrize("make_algo", [one_step, A2C])
def test_statistics_are_those_of_all_valid_observations_once(SamplerCls, Collector, make_algo):
    algo, seen = make_algo(), []
    for itr, (samples, observation, agent) in enumerate(run(algo, SamplerCls, Collector)):
        seen.append(observation)
        algo.optimize_agent(itr, samples)
        rms, data = agent.model.obs_rms, np.concatenate(seen)
        assert rms.count == len(data)
        kept = rms.state_dict()
        np.testing.assert_allclose(kept["mean"], data.mean(0), rtol=1e-12)
        np.testing.assert_allclose(kept["var"], data.var(0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("recurrent", [False, True])
def test_training_sees_the_batch_as_acting_did_and_ratios_begin_at_one(SamplerCls, fast, recurrent):
    algo = one_step(gae_lambda=0.9)
    for itr, (samples, _, _) in enumerate(run(algo, SamplerCls, recurrent=recurrent, fast=fast)):
        _, advantage, _ = algo.process_returns(samples)
        (loss,) = algo.optimize_agent(itr, samples).loss
        assert loss == pytest.approx(-advantage.mean().item(), rel=1e-4)


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("fast", [True, False])
def test_acting_follows_the_statistics_in_every_process(SamplerCls, fast):
    algo = one_step()
    for itr, (samples, _, agent) in enumerate(run(algo, SamplerCls, fast=fast)):
        kept = agent.model.obs_rms.state_dict()
        x = (samples.env.observation - kept["mean"]) / kept["var"].clamp(min=1e-6).sqrt()
        x = x.clamp(-10, 10).float()
        with torch.no_grad():
            pi = torch.softmax(agent.model.pi(x), -1)
        torch.testing.assert_close(
            samples.agent.agent_info.dist_info.prob, pi, rtol=1e-4, atol=1e-6
        )
        assert (itr == 0) == (kept["count"] == 0)
        algo.optimize_agent(itr, samples)
