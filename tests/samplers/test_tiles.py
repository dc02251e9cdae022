"""With ``deterministic_acting`` real networks give the same bits in every layout on the CPU."""

import numpy as np
import pytest
import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.dqn.vector import CatDqnMlpAgent, DqnMlpAgent, R2d1LstmAgent
from rlpyt.agents.pg.atari import AtariFfAgent, AtariLstmAgent
from rlpyt.agents.pg.vector import (
    CategoricalLstmAgent,
    CategoricalMlpAgent,
    GaussianMlpAgent,
)
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.envs.gym import make
from rlpyt.samplers import tiles
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.tiles import TILE, TiledAgent
from rlpyt.utils.buffer import buffer_func, leaves_of
from tests.parts import ShapedCountEnv
from tests.samplers.test_matrix import collector_of

T, B = 6, 12
WIDE = dict(hidden_sizes=[256, 256])
EPSILON = dict(eps_final=0.5, eps_final_min=0.05, eps_itr_min=0, eps_itr_max=2)
CONVOLUTIONS = dict(channels=[8], kernel_sizes=[2], strides=[1], paddings=[0], fc_sizes=64)
PENDULUM = dict(EnvCls=make, env_kwargs=dict(id="Pendulum-v1"))
IMAGES = dict(env_kwargs=dict(kind="image", length=4))
AGENTS = {
    "numpy": (lambda: CategoricalMlpAgent(model_kwargs=WIDE), {}),
    "torch": (lambda: CategoricalMlpAgent(model_kwargs=WIDE, fast_acting=False), {}),
    "lstm": (lambda: CategoricalLstmAgent(model_kwargs=dict(WIDE, lstm_size=64)), {}),
    "gaussian": (lambda: GaussianMlpAgent(model_kwargs=WIDE), PENDULUM),
    "sac": (SacAgent, PENDULUM),
    "conv": (lambda: AtariFfAgent(model_kwargs=CONVOLUTIONS), IMAGES),
    "conv lstm": (lambda: AtariLstmAgent(model_kwargs=dict(CONVOLUTIONS, lstm_size=32)), IMAGES),
    "dqn": (lambda: DqnMlpAgent(model_kwargs=WIDE, **EPSILON), {}),
    "noisy": (lambda: CatDqnMlpAgent(n_atoms=11, model_kwargs=dict(noisy=True, dueling=True)), {}),
    "r2d1": (lambda: R2d1LstmAgent(model_kwargs=dict(lstm_size=64), **EPSILON), {}),
}
LAYOUTS = [(CpuSampler, 4), (AlternatingSampler, 2)]
EVALUATION = dict(eval_n_envs=12, eval_max_steps=1200, eval_max_trajectories=20)


def collect(SamplerCls, agent, workers=1, evaluate=True, **kwargs):
    """Two batches, an evaluation after each, and the bits of everything."""
    given = dict(EnvCls=ShapedCountEnv, env_kwargs=dict(length=5), max_decorrelation_steps=3)
    sampler = SamplerCls(
        batch_T=T, batch_B=B, CollectorCls=collector_of(SamplerCls, True),
        **{**given, "deterministic_acting": True, **(EVALUATION if evaluate else {}), **kwargs},
    )  # fmt: skip
    torch.manual_seed(5)
    sampler.initialize(
        agent, affinity=dict(n_workers=workers), seed=11, bootstrap_value=hasattr(agent, "value")
    )
    try:
        batches, evaluations = [], []
        for itr in range(2):
            samples, _ = sampler.obtain_samples(itr)
            batches.append(buffer_func(samples, lambda x: x.numpy().copy()))
            if evaluate:
                infos = sampler.evaluate_agent(itr)
                evaluations.append(sorted((info.Length, info.Return) for info in infos))
        return batches, evaluations
    finally:
        sampler.shutdown()


def assert_same_bits(a, b):
    for x, y in zip(leaves_of(tuple(a[0])), leaves_of(tuple(b[0])), strict=True):
        assert x.tobytes() == y.tobytes()
    assert a[1] == b[1]


IN_TURNS = [(name, LAYOUTS[i % 2 :][:1]) for i, name in enumerate(AGENTS)]


@pytest.mark.parametrize(
    "name, layouts",
    [*IN_TURNS, *(pytest.param(name, LAYOUTS, marks=pytest.mark.slow) for name in AGENTS)],
    ids=lambda value: value if isinstance(value, str) else "-".join(x.__name__ for x, _ in value),
)
def test_every_layout_gives_the_same_bits(name, layouts):
    make_agent, kwargs = AGENTS[name]
    serial = collect(SerialSampler, make_agent(), **kwargs)
    assert len(np.unique(serial[0][0].agent.action)) > 1
    for SamplerCls, workers in layouts:
        assert_same_bits(serial, collect(SamplerCls, make_agent(), workers, **kwargs))


def act(agent, ranks):
    """Take one step for these environments."""
    agent.initialize(make("CartPole-v1").spaces, env_ranks=list(ranks))
    agent.sample_mode(0)
    own = TiledAgent(agent, list(ranks))
    n = len(ranks)
    own.set_noise(torch.rand(n, *agent.noise_spec.shape))
    return own.step(torch.zeros(n, 4), torch.zeros(n, dtype=torch.long), torch.zeros(n))


def test_an_environment_is_in_the_row_that_its_rank_says():
    tiles_of = lambda ranks: tiles.tiles_of(list(ranks), 3)
    (one,) = tiles_of(range(8, 11))
    assert one.env_idxs.tolist() == [0, 1, 2, 2, 2, 2, 2, 2] and one.kept_rows.tolist() == [0, 1, 2]
    assert one.rows == (3, 4, 5, 5, 5, 5, 5, 5) and not one.whole
    first, second = tiles_of(range(6, 9))
    assert first.kept_rows.tolist() == [6, 7] and second.kept_rows.tolist() == [0]
    assert second.env_idxs.tolist() == [2] * TILE
    assert tiles_of(range(8, 16))[0].whole


class Uneven(torch.nn.Module):
    """Rounds otherwise for other numbers of rows than 8, as a library's kernels may."""

    def __init__(self, observation_shape, output_size):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(output_size))

    def forward(self, observation, prev_action, prev_reward):
        x = observation[:, :1] * (1 if len(observation) == 8 else 1 + 2**-20)
        return torch.softmax(x + self.bias, -1), x[:, 0]


@pytest.mark.parametrize("SamplerCls, workers", [(SerialSampler, 1), (CpuSampler, 4)])
def test_every_call_has_the_same_number_of_rows(SamplerCls, workers):
    batches, _ = collect(SamplerCls, CategoricalMlpAgent(ModelCls=Uneven), workers, evaluate=False)
    for batch in batches:
        assert np.array_equal(batch.agent.agent_info.value, batch.env.observation[..., 0])


@pytest.mark.parametrize("mix", [lambda x: x.mean(0), lambda x: x[:1]], ids=["mean", "first"])
def test_a_model_that_mixes_rows_is_refused(mix):
    class Mixing(torch.nn.Module):
        def __init__(self, observation_shape, output_size):
            super().__init__()
            self.linear = torch.nn.Linear(observation_shape[0], output_size + 1)

        def forward(self, observation, prev_action, prev_reward):
            out = self.linear(observation - mix(observation))
            return torch.softmax(out[:, :-1], -1), out[:, -1]

    with pytest.raises(ValueError, match="other environments.*Categorical"):
        act(CategoricalMlpAgent(ModelCls=Mixing), range(4))


def test_the_first_call_changes_neither_agent_nor_random_numbers():
    agent = CategoricalLstmAgent(model_kwargs=dict(lstm_size=8))
    agent.initialize(make("CartPole-v1").spaces)
    agent.sample_mode(0)
    before, model = {k: x.clone() for k, x in agent.state_dict().items()}, agent.model
    own = TiledAgent(agent, [0, 1, 2])
    inputs = torch.ones(3, 4), torch.zeros(3, dtype=torch.long), torch.zeros(3)
    torch.manual_seed(3)
    own.value(*inputs)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))
    assert agent.model is model and agent.memory.state is None and agent.rows is None
    assert all(torch.equal(before[k], x) for k, x in agent.state_dict().items())


class Opaque(BaseAgent):
    """Has recurrent state that nobody can divide."""

    recurrent = True

    def reset_one(self, idx):
        pass


def test_an_agent_that_cannot_act_in_tiles_warns():
    with pytest.warns(UserWarning, match="deterministic_acting .*Opaque"):
        tiles.warn_if_untiled(Opaque())
    agent = Opaque()
    assert tiles.tiled(agent, [0]) is agent


class Resetting(CategoricalMlpAgent):
    """Has a method ``reset_one`` and no recurrent state."""

    def reset_one(self, idx):
        pass


class Drifting(Resetting):
    """Has state for each environment and does not say so."""

    def collector_initialize(self, global_B=1, env_ranks=None):
        super().collector_initialize(global_B, env_ranks)
        self.drift = torch.zeros(len(env_ranks))

    @torch.no_grad()
    def value(self, observation, prev_action, prev_reward):
        return super().value(observation, prev_action, prev_reward) + self.drift


def test_a_feed_forward_agent_with_its_own_reset_one_acts_in_tiles(recwarn):
    assert tiles.can_be_tiled(Resetting())
    serial = collect(SerialSampler, Resetting(model_kwargs=WIDE))
    assert_same_bits(serial, collect(CpuSampler, Resetting(model_kwargs=WIDE), 4))
    assert not any("has no effect" in str(warning.message) for warning in recwarn)


def test_hidden_state_for_each_environment_is_explained():
    with pytest.raises(RuntimeError) as caught:
        collect(SerialSampler, Drifting(model_kwargs=WIDE), evaluate=False)
    assert "must set recurrent = True" in caught.value.__notes__[0]
