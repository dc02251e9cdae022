"""Training on a CUDA device with sampling on the CPU; run with ``make test-gpu``."""

import pytest
import torch

from rlpyt.agents.pg.vector import agent_for
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import DelayEnv, MemoryEnv
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("EnvCls,recurrent", [(DelayEnv, False), (MemoryEnv, True)])
@pytest.mark.parametrize("algo", [PPO(minibatches=2), A2C()], ids=["ppo", "a2c"])
def test_workers_act_with_what_the_device_learned(SamplerCls, EnvCls, recurrent, algo):
    agent = agent_for(EnvCls().spaces, recurrent=recurrent)
    sampler = SamplerCls(EnvCls=EnvCls, env_kwargs={}, batch_T=10, batch_B=4)
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=1, bootstrap_value=True)
    try:
        agent.to_device(0)
        algo.initialize(agent, 5, sampler.batch_spec, mid_batch_reset=True)
        for itr in range(3):
            samples, _ = sampler.obtain_samples(itr)
            inputs = algo.make_batch(samples)
            with torch.no_grad():
                if recurrent:
                    inputs, state = algo.cut_into_episodes(inputs, algo.initial_rnn_state(samples))
                    dist_info, _, _ = agent(*inputs.agent_inputs, state)
                else:
                    dist_info, _ = agent(*inputs.agent_inputs)
            old, new = inputs.old_dist_info.prob, dist_info.prob
            assert new.is_cuda and torch.allclose(old, new, atol=1e-4)
            agent.train_mode(itr)
            algo.optimize_agent(itr, samples)
    finally:
        sampler.shutdown()
