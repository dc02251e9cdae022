"""Agents of deep Q-learning collect the same batches in every layout."""

import numpy as np
import pytest
import torch

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
from tests.parts import ShapedCountEnv
from tests.samplers.test_matrix import SAMPLERS, B, T, assert_same

EPSILON = dict(eps_final=0.5, eps_final_min=0.05, eps_itr_min=0, eps_itr_max=2)
NOISY = dict(noisy=True, dueling=True, hidden_sizes=[16, 16])
GRU = dict(memory="gru", lstm_size=8)
AGENTS = {
    "dqn": lambda: DqnMlpAgent(**EPSILON),
    "dqn in torch": lambda: DqnMlpAgent(fast_acting=False, **EPSILON),
    "cat": lambda: CatDqnMlpAgent(n_atoms=11, **EPSILON),
    "qr": lambda: QrDqnMlpAgent(n_quantiles=7, **EPSILON),
    "iqn": lambda: IqnMlpAgent(**EPSILON),
    "noisy": lambda: CatDqnMlpAgent(n_atoms=11, model_kwargs=NOISY, eps_init=0, eps_final=0),
    "r2d1": lambda: R2d1LstmAgent(model_kwargs=dict(lstm_size=8), **EPSILON),
    "iqn, gru": lambda: IqnMlpAgent(model_kwargs=GRU, **EPSILON),
    "noisy, gru": lambda: CatDqnMlpAgent(model_kwargs={**NOISY, **GRU}, eps_init=0, eps_final=0),
}


def start(SamplerCls, agent, env_kwargs=None, **kwargs):
    sampler = SamplerCls(
        EnvCls=ShapedCountEnv, env_kwargs=env_kwargs or {}, batch_T=T, batch_B=B,
        max_decorrelation_steps=6, **kwargs,
    )  # fmt: skip
    torch.manual_seed(5)
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=11)
    return sampler


def collect(SamplerCls, agent, during=None, n_batches=3, **kwargs):
    sampler = start(SamplerCls, agent, **kwargs)
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


SOME = [SerialSampler, CpuSampler, AlternatingSampler]


@pytest.mark.parametrize(
    ("name", "samplers"),
    [
        *((name, SAMPLERS[::2]) for name in ("dqn", "r2d1")),
        *((name, SAMPLERS[1::2]) for name in ("noisy", "noisy, gru")),
        *(pytest.param(name, SAMPLERS, marks=pytest.mark.slow) for name in AGENTS),
    ],
)
def test_same_batches_in_every_layout(name, samplers):
    serial = collect(SerialSampler, AGENTS[name](), deterministic_acting=True)
    actions = np.concatenate([samples.agent.action for samples, _ in serial])
    assert len(np.unique(actions)) > 1
    for SamplerCls in samplers:
        assert_same(serial, collect(SamplerCls, AGENTS[name](), deterministic_acting=True))


def small_integers(agent):
    """Give the network weights with which float32 arithmetic is exact.

    Observations are integers below 2**20, and no sum exceeds 2**24: at most 4 x 3 x 2**20.
    """
    rng = np.random.default_rng(0)
    for parameter in agent.parameters():
        drawn = rng.integers(-1, 2, tuple(parameter.shape))
        parameter.data.copy_(torch.from_numpy(drawn))  # in place: workers share them


EXACT = dict(model_kwargs=dict(hidden_sizes=[4, 3]), **EPSILON)  # ReLU


@pytest.mark.parametrize("fast", [True, False], ids=["numpy", "torch"])
def test_exact_arithmetic_gives_the_same_bits_without_tiles(fast):
    collected = [
        collect(SamplerCls, DqnMlpAgent(fast_acting=fast, **EXACT), small_integers)
        for SamplerCls in [SerialSampler, *SAMPLERS]
    ]
    assert len(np.unique(collected[0][0][0].agent.action)) > 1
    for own in collected[1:]:
        assert_same(collected[0], own)


def test_numpy_and_torch_collect_the_same():
    fast, slow = (
        collect(SerialSampler, DqnMlpAgent(fast_acting=fast, **EXACT), small_integers)
        for fast in (True, False)
    )
    assert_same(fast, slow)


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
    serial = collect(SerialSampler, agents[0], during, deterministic_acting=True)
    assert_same(serial, collect(SamplerCls, agents[1], during, deterministic_acting=True))
    z = np.linspace(-5, 9, 11, dtype=np.float32)
    for samples, _ in serial[1:]:  # epsilon is zero from iteration 1 on
        q = samples.agent.agent_info.p @ z
        chosen = np.take_along_axis(q, samples.agent.action[..., None], -1)[..., 0]
        assert (chosen >= q.max(-1) - 1e-4).all()  # the best, or one equal to rounding
