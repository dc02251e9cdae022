"""Every sampler collects what the serial one does: same seed, same batch.

Bit for bit where arithmetic is exact, as that of the agents that echo, and with
``deterministic_acting``; see docs/sampling.md.
"""

import random
from itertools import product

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.atari import AtariFfAgent, AtariLstmAgent
from rlpyt.agents.pg.vector import agent_for
from rlpyt.envs.gym import make
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector, GpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.seed import set_seed
from tests.cases import product_of
from tests.parts import EchoAgent, ForgetfulEchoAgent, ShapedCountEnv, time_of

T, B = 7, 4
SAMPLERS = [CpuSampler, GpuSampler, AlternatingSampler, NoOverlapAlternatingSampler]
AGENTS = [ForgetfulEchoAgent, EchoAgent]
KINDS = ["box", "dict", "image"]
RESETS = [True, False]
ENDS = ["alternate", "both"]
MEMORIES = {
    "ff": None,
    "lstm": "lstm",
    "gru": "gru",
    "mingru": "mingru",
    "gtrxl": dict(kind="gtrxl", window=3),
}


def collector_of(SamplerCls, mid_batch_reset):
    served = SamplerCls.layout.agent == "served"
    if mid_batch_reset:
        return GpuResetCollector if served else CpuResetCollector
    return GpuWaitResetCollector if served else CpuWaitResetCollector


def start(
    SamplerCls, agent, mid_batch_reset=True, workers=2, method=None, EnvCls=ShapedCountEnv, **kwargs
):
    sampler = SamplerCls(
        EnvCls=EnvCls,
        batch_T=T,
        batch_B=B,
        CollectorCls=collector_of(SamplerCls, mid_batch_reset),
        **{"max_decorrelation_steps": 6, **kwargs},
    )
    sampler.start_method = method
    torch.manual_seed(5)
    sampler.initialize(agent, affinity=dict(n_workers=workers), seed=11, bootstrap_value=True)
    return sampler


def collect(SamplerCls, agent, n_batches=3, **kwargs):
    sampler = start(SamplerCls, agent, **kwargs)
    try:
        out = []
        for itr in range(n_batches):
            samples, infos = sampler.obtain_samples(itr)
            out.append((buffer_func(samples, lambda x: x.numpy().copy()), infos))
        return out
    finally:
        sampler.shutdown()
        assert sampler.workers == []


def assert_same(batches, others, exact=True):
    for (a, infos_a), (b, infos_b) in zip(batches, others, strict=True):
        for x, y in zip(leaves_of(a), leaves_of(b), strict=True):
            assert x.dtype == y.dtype
            if exact or x.dtype.kind != "f":
                assert np.array_equal(x, y)
            else:
                assert np.allclose(x, y, rtol=1e-5, atol=1e-6)
        assert len(infos_a) == len(infos_b)
        if exact:
            assert described(infos_a) == described(infos_b)


def described(infos):
    return sorted(sorted(info.items()) for info in infos)


@pytest.mark.parametrize(
    ("AgentCls", "kind", "mid_batch_reset"),
    [  # of the whole matrix below, with agents in turns
        (AGENTS[(i + j) % 2], kind, mid_batch_reset)
        for i, kind in enumerate(KINDS)
        for j, mid_batch_reset in enumerate(RESETS)
    ],
)
def test_deterministic_agents_collect_the_same_in_every_layout(AgentCls, kind, mid_batch_reset):
    kwargs = dict(env_kwargs=dict(kind=kind, life=3), mid_batch_reset=mid_batch_reset)
    serial = collect(SerialSampler, AgentCls(), **kwargs)
    for SamplerCls in SAMPLERS:
        assert_same(serial, collect(SamplerCls, AgentCls(), **kwargs))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_simultaneous_ends_and_episodes_of_one_step(SamplerCls, end):
    for length in (1, 3):
        kwargs = dict(env_kwargs=dict(length=length, fixed=True, end=end))
        serial = collect(SerialSampler, EchoAgent(), **kwargs)
        assert_same(serial, collect(SamplerCls, EchoAgent(), workers=4, **kwargs))


@pytest.mark.parametrize(
    "SamplerCls, method",
    [
        *((cls, "fork") for cls in SAMPLERS),
        (CpuSampler, "spawn"),
        *(
            pytest.param(cls, "spawn", marks=pytest.mark.slow)
            for cls in SAMPLERS
            if cls is not CpuSampler
        ),
    ],
)
def test_start_methods_change_nothing(SamplerCls, method):
    kwargs = dict(env_kwargs=dict(kind="dict"))
    serial = collect(SerialSampler, EchoAgent(), **kwargs)
    n = 1 if SamplerCls is CpuSampler and method == "spawn" else 2  # each imports torch
    assert_same(serial, collect(SamplerCls, EchoAgent(), method=method, workers=n, **kwargs))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
@pytest.mark.parametrize("mid_batch_reset", RESETS, ids=["reset", "wait"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("AgentCls", AGENTS)
def test_the_whole_matrix(AgentCls, kind, mid_batch_reset, method):
    kwargs = dict(env_kwargs=dict(kind=kind, life=3), mid_batch_reset=mid_batch_reset)
    serial = collect(SerialSampler, AgentCls(), **kwargs)
    for SamplerCls in SAMPLERS:
        assert_same(serial, collect(SamplerCls, AgentCls(), method=method, **kwargs))


def stochastic_agent(kind, memory="ff"):
    env = ShapedCountEnv(kind, length=4)
    recurrent = memory != "ff"
    kwargs = dict(memory=MEMORIES[memory], lstm_size=8) if recurrent else {}
    if kind == "image":
        convolutions = dict(channels=[4], kernel_sizes=[2], strides=[1], paddings=[0], fc_sizes=8)
        cls = AtariLstmAgent if recurrent else AtariFfAgent
        return cls(model_kwargs={**convolutions, **kwargs})
    return agent_for(env.spaces, recurrent=recurrent, model_kwargs=kwargs)


NETWORKS = [
    *((memory, kind) for memory in ("ff", "lstm") for kind in KINDS),
    *((memory, "box") for memory in ("gru", "mingru", "gtrxl")),
]
IN_TURNS = [  # each network with one layout; every process tries tiles, which takes a second
    (*network, RESETS[i // 2 % 2], [SAMPLERS[i % len(SAMPLERS)]])
    for i, network in enumerate(NETWORKS)
]
PRODUCT = [(*network, reset, SAMPLERS) for network in NETWORKS for reset in RESETS]


@pytest.mark.parametrize(
    ("memory", "kind", "mid_batch_reset", "samplers"),
    [*IN_TURNS, *(pytest.param(*case, marks=pytest.mark.slow) for case in PRODUCT)],
)
def test_networks_collect_the_same_bits_in_tiles(memory, kind, mid_batch_reset, samplers):
    kwargs = dict(
        env_kwargs=dict(kind=kind), mid_batch_reset=mid_batch_reset, deterministic_acting=True
    )
    serial = collect(SerialSampler, stochastic_agent(kind, memory), **kwargs)
    assert len(np.unique(serial[0][0].agent.action)) > 1
    for SamplerCls in samplers:
        assert_same(serial, collect(SamplerCls, stochastic_agent(kind, memory), **kwargs))


@pytest.mark.parametrize(
    ("memory", "SamplerCls"),
    product_of(
        MEMORIES,
        [SerialSampler, *SAMPLERS],
        fast=[
            *((memory, SerialSampler) for memory in MEMORIES),
            *((memory, SAMPLERS[i % len(SAMPLERS)]) for i, memory in enumerate(MEMORIES)),
        ],
    ),
)
def test_acting_row_by_row_is_training_over_the_batch(SamplerCls, memory):
    agent = stochastic_agent("box", memory)
    sampler = start(SamplerCls, agent, env_kwargs={}, max_decorrelation_steps=0)
    try:
        samples, _ = sampler.obtain_samples(0)
        rnn_state = None
        for t in range(T):
            inputs = [
                samples.env.observation[t],
                samples.agent.prev_action[t],
                samples.env.prev_reward[t],
            ]
            began = samples.env.done[t - 1] if t else torch.ones(B, dtype=torch.bool)
            inputs[1][began], inputs[2][began] = 0, 0
            if agent.recurrent:
                state = samples.agent.agent_info.prev_rnn_state[t]
                assert not leaves_of(state)[0][began].any()
                if t:
                    for own, new in zip(leaves_of(state), leaves_of(rnn_state), strict=True):
                        carried = new.transpose(0, 1)
                        assert torch.allclose(own[~began], carried[~began], atol=1e-6)
                state = buffer_func(state, lambda x: x.transpose(0, 1).contiguous())
                dist_info, value, rnn_state = agent(*[x[None] for x in inputs], state)
                value, prob = value[0], dist_info.prob[0]
            else:
                dist_info, value = agent(*inputs)
                prob = dist_info.prob
            recorded = samples.agent.agent_info
            assert torch.allclose(value, recorded.value[t], atol=1e-5)
            assert torch.allclose(prob, recorded.dist_info.prob[t], atol=1e-5)
    finally:
        sampler.shutdown()


class CountingInfo(TrajInfo):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.Actions = 0

    def step(self, observation, action, reward, done, agent_info, env_info):
        super().step(observation, action, reward, done, agent_info, env_info)
        assert env_info.action == action
        self.Actions += int(action) + 100 * int(observation[2])
        self.Actions += 0 if agent_info is None else int(agent_info.memory)


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_own_traj_infos_see_the_same_steps(SamplerCls):
    kwargs = dict(TrajInfoCls=CountingInfo, env_kwargs={}, max_decorrelation_steps=0)
    assert_same(
        collect(SerialSampler, EchoAgent(), **kwargs), collect(SamplerCls, EchoAgent(), **kwargs)
    )


EVALUATION = dict(eval_n_envs=4, eval_max_steps=4000, eval_max_trajectories=10)


def evaluated(SamplerCls, agent, evaluations=2, **kwargs):
    """Batches with evaluations between them: (trajectories of each, the batch after)."""
    sampler = start(SamplerCls, agent, env_kwargs={}, **kwargs)
    try:
        infos = []
        for itr in range(evaluations):
            sampler.obtain_samples(itr)
            infos.append(described(sampler.evaluate_agent(itr)) if kwargs else [])
        after = buffer_func(sampler.obtain_samples(evaluations)[0], lambda x: x.numpy().copy())
        return infos, after
    finally:
        sampler.shutdown()


@pytest.mark.parametrize(
    ("SamplerCls", "AgentCls"),
    product_of(SAMPLERS, AGENTS, fast=zip(SAMPLERS, 2 * AGENTS)),
)
def test_evaluation_in_the_middle_is_the_same_and_disturbs_nothing(SamplerCls, AgentCls):
    serial, _ = evaluated(SerialSampler, AgentCls(), TrajInfoCls=CountingInfo, **EVALUATION)
    own, after = evaluated(SamplerCls, AgentCls(), TrajInfoCls=CountingInfo, **EVALUATION)
    assert [len(infos) for infos in own] == [10, 10] and own[0] != own[1]
    assert own == serial
    _, undisturbed = evaluated(SamplerCls, AgentCls())
    for x, y in zip(leaves_of(after), leaves_of(undisturbed), strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("SamplerCls", [SerialSampler, *SAMPLERS])
def test_evaluation_ends_after_its_steps_and_can_be_ended_before(SamplerCls):
    def steps_of(stop, **kwargs):
        sampler = start(
            SamplerCls, EchoAgent(), env_kwargs=dict(length=1, fixed=True), eval_n_envs=4,
            **kwargs,
        )  # fmt: skip
        sampler.should_stop = stop
        try:
            infos = sampler.evaluate_agent(0)
            sampler.obtain_samples(0)  # all gates are shut again
            return len(infos)
        finally:
            sampler.shutdown()

    assert steps_of(lambda: False, eval_max_steps=4 * 100) == 4 * 100
    assert steps_of(lambda: True, eval_max_steps=4 * 1000) == 4 * 64


@pytest.mark.parametrize("SamplerCls", [SerialSampler, *SAMPLERS])
def test_deterministic_evaluation_takes_the_likeliest_action(SamplerCls):
    def actions(**kwargs):
        agent = stochastic_agent("box")
        sampler = start(
            SamplerCls, agent, env_kwargs=dict(length=4, fixed=True), TrajInfoCls=Surprises,
            eval_n_envs=2, eval_max_steps=1000, eval_max_trajectories=6, **kwargs,
        )  # fmt: skip
        try:
            return sum(info.Surprises for info in sampler.evaluate_agent(0))
        finally:
            sampler.shutdown()

    assert actions(eval_deterministic=True) == 0 < actions()


class Surprises(TrajInfo):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.Surprises = 0

    def step(self, observation, action, reward, done, agent_info, env_info):
        super().step(observation, action, reward, done, agent_info, env_info)
        if agent_info is not None:
            self.Surprises += int(action != np.argmax(agent_info.dist_info.prob))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("SamplerCls", [SerialSampler, *SAMPLERS])
def test_true_final_observations_are_recorded_where_episodes_end(SamplerCls, kind):
    sampler = SamplerCls(
        EnvCls=ShapedCountEnv, env_kwargs=dict(kind=kind, length=3, fixed=True), batch_T=T,
        batch_B=B, max_decorrelation_steps=0,
    )  # fmt: skip
    sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=3, final_observation=True)
    try:
        samples, _ = sampler.obtain_samples(0)
        at, timeout = samples.env.done, samples.env.env_info.timeout
        assert timeout.any() and (at & ~timeout).any() and not at.all()
        final = buffer_func(samples.env.final_observation, lambda x: x[at])
        last = buffer_func(samples.env.observation, lambda x: x[at])
        assert time_of(final).tolist() == [3] * int(at.sum())
        assert time_of(last).tolist() == [2] * int(at.sum())
    finally:
        sampler.shutdown()


@pytest.mark.parametrize(
    "SamplerCls, kind, batch_T",
    [(*case, (1, 4)[i % 2]) for i, case in enumerate(product([SerialSampler, *SAMPLERS], KINDS))],
)
def test_the_observation_after_a_batch_is_that_before_the_next_one(SamplerCls, batch_T, kind):
    sampler = SamplerCls(
        EnvCls=ShapedCountEnv, env_kwargs=dict(kind=kind, length=3, fixed=True), batch_T=batch_T,
        batch_B=B, max_decorrelation_steps=5,
    )  # fmt: skip
    sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=3, final_observation=True)
    try:
        after = done = None
        n_timeouts = n_terminated = 0
        for itr in range(5):
            samples, _ = sampler.obtain_samples(itr)
            first = buffer_func(samples.env.observation, lambda x: x[0].clone())
            if after is not None:
                for x, y in zip(leaves_of(first), leaves_of(after), strict=True):
                    assert torch.equal(x[~done], y[~done])
            done, timeout = samples.env.done[-1].clone(), samples.env.env_info.timeout[-1]
            after = buffer_func(samples.env.final_observation, lambda x: x[-1].clone())
            n_timeouts += int(timeout.sum())
            n_terminated += int((done & ~timeout).sum())
            assert (time_of(after)[done] == 3).all()
        assert n_timeouts and n_terminated
    finally:
        sampler.shutdown()


def test_the_generators_of_training_do_not_depend_on_where_environments_are_built():
    """Minibatches are shuffled by them, so parameters would differ between samplers."""
    agent = agent_for(make("CartPole-v1").spaces)

    def states_after(SamplerCls):
        set_seed(3)
        sampler = SamplerCls(make, dict(id="CartPole-v1"), batch_T=2, batch_B=2)
        sampler.initialize(agent, affinity=dict(n_workers=2), seed=3)
        sampler.obtain_samples(0)
        sampler.shutdown()
        return [np.random.random(), random.random(), torch.rand(()).item()]

    assert states_after(SerialSampler) == states_after(CpuSampler)
