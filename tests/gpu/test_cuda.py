"""Training on a CUDA device with sampling on the CPU; run with ``make test-gpu``."""

import pytest
import torch

from rlpyt.agents.dqn.vector import CatDqnMlpAgent, DqnMlpAgent, IqnMlpAgent, R2d1LstmAgent
from rlpyt.agents.pg.vector import agent_for
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_v_agent import SacAgent as SacVAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.qr_dqn import IQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.toy import DelayEnv, MemoryEnv, ReachEnv
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
            if inputs.valid is not None:  # sequences are padded
                old, new = old[inputs.valid > 0], new[inputs.valid > 0]
            assert new.is_cuda and torch.allclose(old, new, atol=1e-4)
            agent.train_mode(itr)
            algo.optimize_agent(itr, samples)
    finally:
        sampler.shutdown()


SMALL = dict(min_steps_learn=80, replay_size=2000, replay_ratio=4)
SINGLE = dict(batch_size=32, **SMALL)
SEQUENCES = dict(
    batch_T=10, batch_B=4, warmup_T=5, store_rnn_state_interval=5, n_step_return=2, **SMALL
)
SIZES = dict(model_kwargs=dict(hidden_sizes=[16]), q_model_kwargs=dict(hidden_sizes=[16]))
OFF_POLICY = {
    "dqn": (DQN(prioritized_replay=True, **SINGLE), DqnMlpAgent, DelayEnv, {}),
    "catdqn": (CategoricalDQN(**SINGLE), CatDqnMlpAgent, DelayEnv, {}),
    "iqn": (IQN(n_tau=4, n_tau_target=4, **SINGLE), IqnMlpAgent, DelayEnv, {}),
    "r2d1": (R2D1(**SEQUENCES), R2d1LstmAgent, MemoryEnv, {}),
    "ddpg": (DDPG(**SINGLE), DdpgAgent, ReachEnv, SIZES),
    "td3": (TD3(**SINGLE), Td3Agent, ReachEnv, SIZES),
    "sac": (SAC(prioritized_replay=True, **SINGLE), SacAgent, ReachEnv, SIZES),
    "sac_v": (SAC_V(**SINGLE), SacVAgent, ReachEnv, SIZES),
}


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
@pytest.mark.parametrize("name", OFF_POLICY)
def test_off_policy_algorithms_learn_on_the_device(SamplerCls, name):
    algo, Agent, EnvCls, kwargs = OFF_POLICY[name]
    agent = Agent(**kwargs)
    sampler = SamplerCls(EnvCls=EnvCls, env_kwargs={}, batch_T=10, batch_B=4)
    examples = sampler.initialize(agent, affinity=dict(n_workers=2), seed=1, final_observation=True)
    try:
        agent.to_device(0)
        algo.initialize(agent, 50, sampler.batch_spec, sampler.mid_batch_reset, examples)
        before = [p.detach().clone() for p in agent.parameters()]
        for itr in range(8):
            agent.sample_mode(itr)
            samples, _ = sampler.obtain_samples(itr)
            agent.train_mode(itr)
            algo.optimize_agent(itr, samples)
            agent.sync_shared_memory()
        assert algo.update_counter > 0
        after = list(agent.parameters())
        assert all(p.is_cuda and torch.isfinite(p).all() for p in after)
        assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
        state = agent.state_dict()
        agent.load_state_dict(state)
        algo.load_optim_state_dict(algo.optim_state_dict())
    finally:
        sampler.shutdown()
