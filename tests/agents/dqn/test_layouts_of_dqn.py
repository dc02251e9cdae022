"""Agents of deep Q-learning collect the same batches in every layout."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "samplers"))
sys.path.insert(0, str(Path(__file__).parents[2]))
from parts import ShapedCountEnv
from test_matrix import SAMPLERS, B, T, assert_same

from rlpyt.agents.dqn.vector import (
    CatDqnMlpAgent,
    DqnMlpAgent,
    IqnMlpAgent,
    QrDqnMlpAgent,
    R2d1LstmAgent,
)
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func

EPSILON = dict(eps_final=0.5, eps_final_min=0.05, eps_itr_min=0, eps_itr_max=2)
NOISY = dict(noisy=True, dueling=True, hidden_sizes=[16, 16])
AGENTS = {
    "dqn": lambda: DqnMlpAgent(**EPSILON),
    "dqn in torch": lambda: DqnMlpAgent(fast_acting=False, **EPSILON),
    "cat": lambda: CatDqnMlpAgent(n_atoms=11, **EPSILON),
    "qr": lambda: QrDqnMlpAgent(n_quantiles=7, **EPSILON),
    "iqn": lambda: IqnMlpAgent(**EPSILON),
    "noisy": lambda: CatDqnMlpAgent(n_atoms=11, model_kwargs=NOISY, eps_init=0, eps_final=0),
    "r2d1": lambda: R2d1LstmAgent(model_kwargs=dict(lstm_size=8), **EPSILON),
}


def start(SamplerCls, agent, env_kwargs=None, **kwargs):
    sampler = SamplerCls(
        EnvCls=ShapedCountEnv, env_kwargs=env_kwargs or {}, batch_T=T, batch_B=B,
        max_decorrelation_steps=6, **kwargs,
    )  # fmt: skip
    torch.manual_seed(5)
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=11)
    return sampler


def collect(SamplerCls, agent, during=None, n_batches=3):
    sampler = start(SamplerCls, agent)
    try:
        if during is not None:
            during(agent)
        out = []
        for itr in range(n_batches):
            samples, infos = sampler.obtain_samples(itr)
            out.append((buffer_func(samples, lambda x: x.numpy().copy()), infos))
        return out
    finally:
        sampler.shutdown()


SELDOM = ("dqn in torch", "cat", "qr", "iqn")
ALL = [pytest.param(name, marks=[pytest.mark.slow] * (name in SELDOM)) for name in AGENTS]
SOME = [SerialSampler, CpuSampler, AlternatingSampler]


@pytest.mark.parametrize("name", ALL)
def test_same_batches_in_every_layout(name):
    serial = collect(SerialSampler, AGENTS[name]())
    actions = np.concatenate([samples.agent.action for samples, _ in serial])
    assert len(np.unique(actions)) > 1
    for SamplerCls in SAMPLERS:
        assert_same(serial, collect(SamplerCls, AGENTS[name]()), exact=False)


def test_numpy_and_torch_collect_the_same():
    fast, slow = (
        collect(SerialSampler, AGENTS["dqn"]()),
        collect(SerialSampler, AGENTS["dqn in torch"]()),
    )
    assert_same(fast, slow, exact=False)


@pytest.mark.parametrize("SamplerCls", SOME)
def test_each_environment_explores_by_its_own_epsilon(SamplerCls):
    """Epsilon 0 for some, near 1 for the last: who ever leaves the greedy action, and how often."""
    agent = DqnMlpAgent(eps_init=0.9, eps_final=0.9, eps_final_min=1e-9)
    sampler = start(SamplerCls, agent)
    try:
        agent.set_epsilon_itr_min_max(0, 1)  # after workers have started
        surprises = np.zeros(B)
        for itr in range(5, 25):
            samples, _ = sampler.obtain_samples(itr)
            greedy = samples.agent.agent_info.q.argmax(-1)
            surprises += (samples.agent.action != greedy).sum(0).numpy()
        assert (surprises[:-1] == 0).all() and surprises[-1] > 40
    finally:
        sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", SOME)
def test_deterministic_evaluation_is_greedy_in_every_layout(SamplerCls):
    agent = DqnMlpAgent(eps_eval=1.0)
    sampler = start(
        SamplerCls, agent, env_kwargs=dict(length=T, fixed=True),
        eval_n_envs=2, eval_max_steps=200, eval_max_trajectories=4, eval_deterministic=True,
        TrajInfoCls=Surprised,
    )  # fmt: skip
    try:
        infos = sampler.evaluate_agent(3)
        assert len(infos) == 4 and sum(info.Surprises for info in infos) == 0
    finally:
        sampler.shutdown()


class Surprised(TrajInfo):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.Surprises = 0

    def step(self, observation, action, reward, done, agent_info, env_info):
        super().step(observation, action, reward, done, agent_info, env_info)
        if agent_info is not None:
            self.Surprises += int(action != np.argmax(agent_info.q))


@pytest.mark.parametrize("SamplerCls", SOME[1:])
def test_what_the_algorithm_sets_reaches_those_who_act(SamplerCls):
    def during(agent):
        agent.set_epsilon_itr_min_max(0, 0)
        agent.give_V_min_max(-5, 9)

    agents = [CatDqnMlpAgent(n_atoms=11, eps_final=0.0) for _ in range(2)]
    serial = collect(SerialSampler, agents[0], during)
    assert_same(serial, collect(SamplerCls, agents[1], during), exact=False)
    z = np.linspace(-5, 9, 11, dtype=np.float32)
    for samples, _ in serial[1:]:  # epsilon is zero from iteration 1 on
        q = samples.agent.agent_info.p @ z
        assert np.array_equal(samples.agent.action, q.argmax(-1))
