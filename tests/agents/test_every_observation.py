"""Ready agents act and learn on images, categories and vectors in one observation."""

import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import dqn_agent_for
from rlpyt.agents.pg.vector import agent_for
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.qr_dqn import IQN, QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import leaves_of
from tests.cases import product_of
from tests.parts_env import PartsEnv

T, B = 5, 4
SMALL_IMAGES = dict(channels=[4], kernel_sizes=[3], strides=[1], feature_size=8)
NARROW = dict(hidden_sizes=[16], encoder=SMALL_IMAGES)
REPLAY = dict(batch_size=8, min_steps_learn=2 * T * B, replay_size=10 * T * B, replay_ratio=1)
SEQUENCES = dict(
    batch_B=4, batch_T=2, warmup_T=2, n_step_return=1, store_rnn_state_interval=5, replay_ratio=1
) | dict(min_steps_learn=60, replay_size=400)


def make(**kwargs):
    return GymEnvWrapper(PartsEnv(**kwargs))


def pg_agent(action, recurrent=False, **kwargs):
    return agent_for(make(action=action, **kwargs).spaces, recurrent, model_kwargs=NARROW)


def q_agent(kind):
    return lambda **kwargs: dqn_agent_for(kind, make(**kwargs).spaces, model_kwargs=NARROW)


def control(Agent, **more):
    return lambda **_: Agent(model_kwargs=NARROW, q_model_kwargs=NARROW, **more)


def run(algo, agent, SamplerCls=SerialSampler, n_itr=8, sampler=None, **env_kwargs):
    runner = MinibatchRl(
        algo=algo,
        agent=agent,
        sampler=SamplerCls(
            EnvCls=make, env_kwargs=env_kwargs, batch_T=T, batch_B=B, **(sampler or {})
        ),
        n_steps=n_itr * T * B,
        seed=1,
        affinity=dict(n_workers=2),
    )
    runner.train()
    return runner


def ppo():
    return PPO(minibatches=2, epochs=2)


def recurrent(action, **kwargs):
    return pg_agent(action, recurrent=True, **kwargs)


CONTINUOUS = [
    (ppo, pg_agent, "box"),
    (A2C, pg_agent, "several"),
    (ppo, recurrent, "several"),
    (VTrace, recurrent, "box"),
    (lambda: SAC(**REPLAY), control(SacAgent, n_critics=2), "box"),
    (lambda: TD3(**REPLAY), control(Td3Agent), "box"),
    (lambda: DDPG(**REPLAY), control(DdpgAgent), "box"),
]
DISCRETE = [
    (ppo, pg_agent, "discrete"),
    (A2C, recurrent, "discrete"),
    (lambda: DQN(**REPLAY), q_agent("dqn"), "discrete"),
    (lambda: CategoricalDQN(**REPLAY), q_agent("catdqn"), "discrete"),
    (lambda: QRDQN(**REPLAY), q_agent("qrdqn"), "discrete"),
    (lambda: IQN(**REPLAY), q_agent("iqn"), "discrete"),
    (lambda: R2D1(**SEQUENCES), q_agent("r2d1"), "discrete"),
]
# A lone image with discrete actions has Atari's agents, which want [C, H, W].
CASES = [(*case, False) for case in CONTINUOUS + DISCRETE]
CASES += [(*case, True) for case in CONTINUOUS]


@pytest.mark.parametrize("make_algo,make_agent,action,image_alone", CASES)
def test_every_algorithm_trains_the_convolutions(make_algo, make_agent, action, image_alone):
    env_kwargs = dict(action=action, image_alone=image_alone)
    torch.manual_seed(0)
    algo, agent = make_algo(), make_agent(**env_kwargs)
    seen = []
    update = algo.update

    def watched(*batch):
        before = [p.detach().clone() for p in convolutions(agent)]
        result = update(*batch)
        seen.append([not torch.equal(a, b) for a, b in zip(before, convolutions(agent))])
        return result

    algo.update = watched
    run(algo, agent, **env_kwargs)
    assert len(seen) > 1 and np.any(seen, axis=0).all()


def convolutions(agent):
    networks = [agent.model, *([agent.q_model] if hasattr(agent, "q_model") else [])]
    found = [p for n in networks for m in n.modules() if isinstance(m, torch.nn.Conv2d)
             for p in m.parameters()]  # fmt: skip
    assert found
    return found


@pytest.mark.parametrize(
    ("make_agent", "SamplerCls"),
    product_of(
        [pg_agent, recurrent],
        [CpuSampler, GpuSampler, AlternatingSampler],
        fast=[(recurrent, CpuSampler), (pg_agent, GpuSampler), (recurrent, AlternatingSampler)],
    ),
)
def test_batches_are_the_same_in_every_layout(SamplerCls, make_agent):
    batches = []
    for Cls in (SerialSampler, SamplerCls):
        torch.manual_seed(0)
        sampler = Cls(EnvCls=make, env_kwargs={}, batch_T=T, batch_B=B, deterministic_acting=True)
        sampler.initialize(make_agent("discrete"), affinity=dict(n_workers=2), seed=1)
        try:
            for itr in range(2):
                samples, _ = sampler.obtain_samples(itr)
            batches.append([leaf.numpy().copy() for leaf in leaves_of(samples)])
        finally:
            sampler.shutdown()
    for one, other in zip(*batches, strict=True):
        np.testing.assert_array_equal(one, other)


def learn(**env_kwargs):
    """Train PPO in seconds; return the mean return of the last episodes."""
    returns = []
    torch.manual_seed(0)
    agent = agent_for(make().spaces, model_kwargs=dict(hidden_sizes=[32], encoder=SMALL_IMAGES))
    algo = PPO(learning_rate=1e-2, minibatches=4, epochs=4, normalize_advantage=True)
    sampler = SerialSampler(EnvCls=make, env_kwargs=env_kwargs, batch_T=16, batch_B=16)
    sampler.initialize(agent, seed=1, bootstrap_value=True)
    algo.initialize(agent, 30, sampler.batch_spec, mid_batch_reset=True, examples=sampler.examples)
    for itr in range(30):
        agent.sample_mode(itr)
        samples, infos = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        algo.optimize_agent(itr, samples)
        returns += [info.Return for info in infos]
    sampler.shutdown()
    return np.mean(returns[-200:])


def test_an_answer_in_image_and_category_is_learned():
    assert learn() > 2.8  # of 3; chance is 1.5


@pytest.mark.slow
@pytest.mark.parametrize("hidden", ["image", "kind"])
def test_an_answer_in_image_and_category_is_not_learned_without_either(hidden):
    assert learn(hide=hidden) < 2.0
