"""Two runs of one seed are equal bit for bit in every sampler, and so is a run that was resumed."""

import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.agents.pg.vector import CategoricalLstmAgent, CategoricalMlpAgent, agent_for
from rlpyt.envs.gym import make
from rlpyt.envs.toy import CountEnv
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, leaves_of
from tests.samplers.test_matrix import SAMPLERS

SIZES = dict(hidden_sizes=[64, 64])
AGENTS = {
    "lstm": lambda: CategoricalLstmAgent(model_kwargs=dict(SIZES, lstm_size=32)),
    "gtrxl": lambda: CategoricalLstmAgent(
        model_kwargs=dict(SIZES, lstm_size=32, memory=dict(kind="gtrxl", window=5))
    ),
    "numpy": lambda: CategoricalMlpAgent(model_kwargs=SIZES),
    "torch": lambda: CategoricalMlpAgent(model_kwargs=SIZES, fast_acting=False),
}


def collect(SamplerCls, agent, state=None, **kwargs):
    """Two batches from the beginning or from a state, and the state between them."""
    sampler = SamplerCls(
        EnvCls=make, env_kwargs=dict(id="CartPole-v1"), batch_T=12, batch_B=6, **kwargs
    )
    torch.manual_seed(2)
    seed = 9 if state is None else 1
    sampler.initialize(agent, dict(n_workers=2), seed=seed, bootstrap_value=True)
    try:
        if state is not None:
            assert sampler.load_state_dict(state)
        first = buffer_func(sampler.obtain_samples(0)[0], torch.clone)
        between = sampler.state_dict()
        return first, between, buffer_func(sampler.obtain_samples(1)[0], torch.clone)
    finally:
        sampler.shutdown()


def same(a, b):
    pairs = zip(leaves_of(a), leaves_of(b), strict=True)
    return all(x.numpy().tobytes() == y.numpy().tobytes() for x, y in pairs)


CASES = [
    *((SamplerCls, "lstm", False) for SamplerCls in (SerialSampler, *SAMPLERS)),
    *((SamplerCls, "lstm", True) for SamplerCls in (SerialSampler, CpuSampler, SAMPLERS[2])),
    (CpuSampler, "gtrxl", False),
    pytest.param(SAMPLERS[2], "gtrxl", True, marks=pytest.mark.slow),
    *((CpuSampler, "numpy", False), (CpuSampler, "torch", False), (SerialSampler, "numpy", True)),
]


@pytest.mark.parametrize("SamplerCls, name, tiles", CASES)
def test_repeated_and_resumed_sampling_gives_the_same_bits(SamplerCls, name, tiles):
    kwargs = dict(deterministic_acting=tiles)
    first, state, second = collect(SamplerCls, AGENTS[name](), **kwargs)
    again, _, second_again = collect(SamplerCls, AGENTS[name](), **kwargs)
    assert same(first, again) and same(second, second_again)
    assert not same(first.agent.action, second.agent.action)
    resumed, *_ = collect(SamplerCls, AGENTS[name](), state, **kwargs)
    assert same(resumed, second)


class Ends(CategoricalMlpAgent):
    """A feed-forward agent that remembers which ends it was told of before each step."""

    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        self.told, self.ends = [], set()

    def reset_one(self, idx):
        self.ends.add(idx)

    def step(self, *inputs):
        self.told.append(self.ends)
        self.ends = set()
        return super().step(*inputs)


def test_a_feed_forward_agent_is_told_of_every_end_before_its_next_step():
    def sampler_of(agent, lengths=(12, 5, 7)):
        sampler = SerialSampler(
            CountEnv, [dict(length=n) for n in lengths], batch_T=12, batch_B=3,
            max_decorrelation_steps=0,
        )  # fmt: skip
        sampler.initialize(agent, seed=9)
        return sampler

    agent = Ends(model_kwargs=SIZES)
    sampler, expected = sampler_of(agent), [set()]
    for itr in range(2):
        done = sampler.obtain_samples(itr)[0].env.done
        expected += [set(row.nonzero().flatten().tolist()) for row in done]
        if itr == 0:
            state = sampler.state_dict()
    assert expected[12] and agent.told[-24:] == expected[:-1]
    resumed = Ends(model_kwargs=SIZES)
    sampler = sampler_of(resumed)
    assert sampler.load_state_dict(state)
    sampler.obtain_samples(1)
    assert resumed.told[-12:] == expected[12:-1]


class OwnCollector(CpuResetCollector):
    pass


def test_a_state_of_another_collector_starts_new_episodes():
    def initialized(Collector):
        sampler = SerialSampler(
            make, dict(id="CartPole-v1"), batch_T=12, batch_B=2, CollectorCls=Collector
        )
        sampler.initialize(AGENTS["torch"](), seed=9)
        return sampler

    samplers = [initialized(Collector) for Collector in (CpuResetCollector, OwnCollector)]
    state = samplers[1].state_dict()
    assert not samplers[0].load_state_dict(state) and samplers[1].load_state_dict(state)
    for sampler in samplers:
        sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, *SAMPLERS[:2]])
def test_new_episodes_of_a_resumed_run_are_not_those_of_its_start(SamplerCls):
    """Else each part of a run that is stopped often would see the same first states and noise."""

    def batch(itr):
        sampler = SamplerCls(
            EnvCls=make,
            env_kwargs=dict(id="CartPole-v1"),
            batch_T=12,
            batch_B=6,
            max_decorrelation_steps=5,
        )
        torch.manual_seed(2)
        sampler.initialize(AGENTS["lstm"](), dict(n_workers=2), seed=9, bootstrap_value=True)
        try:
            if itr:
                assert not sampler.load_state_dict({})
                sampler.start_anew(itr)
            return buffer_func(sampler.obtain_samples(0)[0], torch.clone)
        finally:
            sampler.shutdown()

    start, part = batch(0), batch(3)
    if SamplerCls is SerialSampler:
        assert same(part, batch(3))  # two resumes from one checkpoint are equal
    assert not any(leaf[0].any() for leaf in leaves_of(part.agent.agent_info.prev_rnn_state))
    assert not (part.env.observation == start.env.observation).all(-1).any()
    assert (part.agent.action != start.agent.action).any()


class Stateless(CountEnv):
    """Remembers what its episodes draw; has no state."""

    drawn: list = []

    def get_state(self):
        return None

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.drawn.append(self.rng.random())
        return super().reset()


def test_a_resumed_run_draws_no_episode_again(tmp_path):
    settings = dict(batch_T=8, batch_B=2, max_decorrelation_steps=0, run_dir=tmp_path / "run")
    settings |= dict(sampler="serial", video=False, progress=False)
    rlpyt.train("a2c", Stateless, steps=160, **settings)
    first = set(Stateless.drawn)
    for steps in (320, 480):
        Stateless.drawn.clear()
        with pytest.warns(UserWarning, match="starts new episodes"):
            rlpyt.train("a2c", Stateless, steps=steps, resume=True, **settings)
        new = set(Stateless.drawn)
        assert len(new) > 20
        assert len(first & new) <= 3  # the first starts, before the checkpoint is loaded
        first |= new


class Forgetful(CountEnv):
    """A `CountEnv` that has a state unless it is told to lose it."""

    def __init__(self, saves=True, **kwargs):
        super().__init__(**kwargs)
        self.saves = saves

    def get_state(self):
        return super().get_state() if self.saves else None


def test_a_row_that_waited_for_its_reset_starts_anew_where_another_worker_has_no_state():
    def sampler():
        made = CpuSampler(
            Forgetful, [dict(saves=saves, length=5, fixed=True) for saves in (True, False)],
            batch_T=8, batch_B=2, max_decorrelation_steps=0, CollectorCls=CpuWaitResetCollector,
        )  # fmt: skip
        made.initialize(CategoricalMlpAgent(model_kwargs=SIZES), dict(n_workers=2), seed=0)
        return made

    first, resumed = sampler(), sampler()
    try:
        first.obtain_samples(0)
        assert not resumed.load_state_dict(first.state_dict())
        resumed.start_anew(1)
        for itr in range(1, 3):
            steps = resumed.obtain_samples(itr)[0].env.observation[..., 2]
            assert steps[:5].T.tolist() == [[0, 1, 2, 3, 4]] * 2
    finally:
        first.shutdown()
        resumed.shutdown()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
def test_evaluations_after_new_episodes_are_not_those_of_the_beginning(SamplerCls):
    first = []
    sampler = SamplerCls(
        make, dict(id="Pendulum-v1"), batch_T=8, batch_B=2, max_decorrelation_steps=0,
        eval_n_envs=2, eval_max_steps=400, eval_max_trajectories=2,
    )  # fmt: skip
    try:
        sampler.initialize(agent_for(make(id="Pendulum-v1").spaces), dict(n_workers=2), seed=0)
        first += [info.Return for info in sampler.evaluate_agent(0)]
        sampler.start_anew(1)
        second = [info.Return for info in sampler.evaluate_agent(1)]
    finally:
        sampler.shutdown()
    sampler.initialize(agent_for(make(id="Pendulum-v1").spaces), dict(n_workers=2), seed=0)
    sampler.start_anew(1)
    anew = [info.Return for info in sampler.evaluate_agent(0)]
    sampler.shutdown()
    assert len({*first, *second}) == 4 and not {*first} & {*anew}
