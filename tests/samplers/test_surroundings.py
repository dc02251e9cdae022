"""Environments in the trainer's process and their process-wide settings are kept apart."""

import contextlib
import locale
import os
import random
import signal
import sys

import numpy as np
import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.samplers.surroundings import (
    SETTINGS,
    TORCH,
    Surroundings,
    _draws_lead,
    mark_torch_seed,
    same,
)
from tests.parts import EchoAgent

CHANGES = {
    "seeds": lambda: (random.seed(0), np.random.seed(0), torch.manual_seed(0)),
    "seed of the run": lambda: torch.manual_seed(3),
    "draws": lambda: (random.random(), np.random.rand(), torch.rand(1)),
    "directory": lambda: os.chdir("/"),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "grad": lambda: torch.set_grad_enabled(False),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "denormals": lambda: torch.set_flush_denormal(True),
    "umask": lambda: os.umask(0o777),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "printing": lambda: (np.set_printoptions(precision=2), torch.set_printoptions(precision=2)),
    "errors": lambda: np.seterr(all="raise"),
    "locale": lambda: locale.setlocale(locale.LC_ALL, "C.UTF-8"),
    "signals": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
}


LATE = 150  # step in a batch that is neither among the first nor a power of two


class Disturbing(CountEnv):
    """Changes settings of the process in one of its methods."""

    n_steps = 0

    def __init__(self, change="seeds", when="reset", **kwargs):
        super().__init__(**{"length": 5, **kwargs})
        self.change, self.when, self.n_resets = CHANGES[change], when, 0
        self.act("init")

    def act(self, when):
        if when == self.when:
            self.change()

    def seed(self, seed):
        super().seed(seed)
        self.act("seed")

    def reset(self):
        self.n_resets += 1
        self.act("reset")
        if self.n_resets > 1:
            self.act("later reset")
        return super().reset()

    def step(self, action):
        self.act("step")
        self.n_steps += 1
        if self.n_steps == LATE:
            self.act("late step")
        return super().step(action)

    def close(self):
        self.act("close")


class Restoring(CountEnv):
    """Restores the states that the generators had when it was made."""

    def __init__(self, **kwargs):
        super().__init__(**{"length": 5, **kwargs})
        self.states = [setting.get() for setting in SETTINGS if setting.is_generator]

    def reset(self):
        generators = [setting for setting in SETTINGS if setting.is_generator]
        for setting, state in zip(generators, self.states, strict=True):
            setting.set(state)
        return super().reset()


class RandomRewards(CountEnv):
    """Draws rewards from numpy's global generator."""

    def step(self, action):
        return super().step(action)._replace(reward=float(np.random.rand()))


@pytest.fixture(autouse=True)
def restored():
    before = [setting.get() for setting in SETTINGS]
    yield
    for setting, value in zip(SETTINGS, before, strict=True):
        setting.set(value)


def values():
    """All settings; of torch's generator without the seed that it reports."""
    found = {setting.name: setting.get() for setting in SETTINGS}
    found[TORCH.name] = found[TORCH.name][1][8:]
    return list(found.values())


@pytest.mark.parametrize(
    ("change", "when"),
    [
        *((change, "reset") for change in CHANGES),
        *(("seeds", when) for when in ("init", "seed", "step", "later reset", "close")),
        *((change, when) for change in ("directory", "dtype") for when in ("init", "step")),
    ],
)
def test_what_an_environment_changes_does_not_reach_the_trainer(change, when):
    sampler = SerialSampler(
        Disturbing, dict(change=change, when=when), batch_T=4, batch_B=2,
        max_decorrelation_steps=0, eval_n_envs=1, eval_max_steps=20,
    )  # fmt: skip
    before = values()
    with pytest.warns(UserWarning, match=r"Disturbing\(change='.*\).* changes ") as found:
        sampler.initialize(EchoAgent(), seed=1)
        for itr in range(3):
            sampler.obtain_samples(itr)
            assert same(before, values())
        sampler.evaluate_agent(0)
        sampler.shutdown()
    assert same(before, values())
    assert len(found) == 1


class DrawingPPO(PPO):
    """Draws from every global generator in each iteration."""

    drawn: list = []

    def optimize_agent(self, itr, samples):
        self.drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
        return super().optimize_agent(itr, samples)


def trained(tmp_path, n_itr=4, EnvCls=CountEnv, resume=False, **env_kwargs):
    """Train, and return what the trainer drew, and the parameters."""
    T, B = 8, 2
    DrawingPPO.drawn = drawn = []
    agent = CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[4]))
    settings = dict(max_decorrelation_steps=0, env_kwargs={"length": 5, **env_kwargs})
    checkpoints = tmp_path / "checkpoint"
    MinibatchRl(
        algo=DrawingPPO(minibatches=2, epochs=1, linear_lr_schedule=False),
        agent=agent,
        sampler=SerialSampler(EnvCls, batch_T=T, batch_B=B, **settings),
        n_steps=n_itr * T * B,
        seed=3,
        checkpoint_dir=checkpoints,
        resume_from=checkpoints if resume else None,
    ).train()
    return drawn, [x.clone() for x in agent.model.state_dict().values()]


@pytest.mark.parametrize(
    ("change", "when"),
    [
        *(("seeds", "reset"), ("seeds", "step"), ("seeds", "later reset"), ("draws", "reset")),
        ("seed of the run", "later reset"),
    ],
)
def test_a_run_is_the_same_with_an_environment_that_seeds_or_draws(tmp_path, change, when):
    drawn, parameters = trained(tmp_path / "plain")
    with pytest.warns(UserWarning, match="random generator"):
        other, others = trained(tmp_path / "own", EnvCls=Disturbing, change=change, when=when)
    assert len(set(drawn)) == 4
    assert drawn == other
    assert all(map(torch.equal, parameters, others))


@pytest.mark.parametrize("change", ["seeds", "seed of the run", "draws", "dtype"])
def test_a_change_after_the_first_batches_does_not_reach_the_trainer(tmp_path, change):
    _, parameters = trained(tmp_path / "plain", n_itr=20)
    with pytest.warns(UserWarning, match="Disturbing.* changes "):
        kwargs = dict(EnvCls=Disturbing, change=change, when="late step")
        drawn, others = trained(tmp_path / "own", n_itr=20, **kwargs)
    assert len(set(drawn)) == 20
    assert all(map(torch.equal, parameters, others))


def test_a_run_is_the_same_with_an_environment_that_restores_generators(tmp_path):
    drawn, parameters = trained(tmp_path / "plain")
    with pytest.warns(UserWarning, match="Python's .*, numpy's .*, torch's"):
        other, others = trained(tmp_path / "own", EnvCls=Restoring)
    assert drawn == other
    assert all(map(torch.equal, parameters, others))


class Drawing(CountEnv):
    """Records what it draws from the global generators, from the step ``first`` on."""

    n_steps = 0
    drawn: list = []

    def __init__(self, first=0, **kwargs):
        super().__init__(**kwargs)
        self.first = first

    def step(self, action):
        self.n_steps += 1
        if self.n_steps > self.first:
            self.drawn.append((random.random(), np.random.rand()))
        return super().step(action)


class LateRewards(CountEnv):
    """Draws rewards from numpy's global generator after its first steps, whose count is saved."""

    n_steps = 0

    def __init__(self, first=0, **kwargs):
        super().__init__(**kwargs)
        self.first = first

    def step(self, action):
        step, self.n_steps = super().step(action), self.n_steps + 1
        return step if self.n_steps <= self.first else step._replace(reward=float(np.random.rand()))

    def get_state(self):
        return {"count": super().get_state(), "n_steps": self.n_steps}

    def set_state(self, state):
        super().set_state(state["count"])
        self.n_steps = state["n_steps"]


@pytest.mark.filterwarnings("ignore:.*random generator:UserWarning")
@pytest.mark.parametrize("first", [0, LATE])
def test_an_environment_that_draws_gets_other_numbers_than_the_trainer(tmp_path, first):
    Drawing.drawn = []
    trainer, _ = trained(tmp_path, n_itr=80, EnvCls=Drawing, first=first)
    assert len(Drawing.drawn) >= 2 * (80 * 8 - first)
    own, trainers = ({x for both in drawn for x in both[:2]} for drawn in (Drawing.drawn, trainer))
    assert len(trainers) == 2 * 80
    # Those of one batch of 8 x 2 are the trainer's: that in which it is noticed.
    assert len(own & trainers) <= 2 * 16


@pytest.mark.filterwarnings("ignore:.*random generator:UserWarning")
@pytest.mark.parametrize("first", [0, 18 * 8, 22 * 8])
def test_a_run_with_an_environment_that_begins_to_draw_resumes_exactly(tmp_path, first):
    kwargs = dict(EnvCls=LateRewards, first=first)
    drawn, parameters = trained(tmp_path / "whole", 24, **kwargs)
    begun, _ = trained(tmp_path / "parts", 20, **kwargs)
    gone_on, others = trained(tmp_path / "parts", 24, resume=True, **kwargs)
    assert begun + gone_on == drawn
    assert all(map(torch.equal, parameters, others))


def test_numbers_that_are_drawn_are_told_from_a_seed():
    for n in (0, 1, 500, 624, 625, 3000):
        before = np.random.get_state(), random.getstate()
        np.random.bytes(4 * n)
        random.getrandbits(32 * n or 1)
        assert _draws_lead(before[0], np.random.get_state())
        assert _draws_lead(before[1], random.getstate())
        np.random.seed(n)
        random.seed(n)
        assert not _draws_lead(before[0], np.random.get_state())
        assert not _draws_lead(before[1], random.getstate())


@pytest.mark.filterwarnings("ignore:.*random generator:UserWarning")
def test_a_run_whose_environment_draws_global_numbers_resumes_exactly(tmp_path):
    drawn, parameters = trained(tmp_path / "whole", EnvCls=RandomRewards)
    first, _ = trained(tmp_path / "parts", 2, EnvCls=RandomRewards)
    second, others = trained(tmp_path / "parts", 4, EnvCls=RandomRewards, resume=True)
    assert first + second == drawn
    assert all(map(torch.equal, parameters, others))


def test_numpys_generator_is_put_back_if_an_environment_replaces_it():
    surroundings = Surroundings()
    for _ in range(20):  # later calls are watched only
        surroundings.around()
    own = np.random.get_bit_generator()
    with surroundings.around():
        np.random.set_bit_generator(np.random.PCG64(0))
    assert np.random.get_bit_generator() is own and surroundings.changed == []


def test_the_marked_seed_changes_no_number():
    torch.manual_seed(4)
    expected = torch.rand(700), torch.randn(3)
    torch.manual_seed(4)
    mark_torch_seed()
    assert torch.initial_seed() != 4
    assert all(map(torch.equal, expected, (torch.rand(700), torch.randn(3))))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is only told when it is set")
def test_the_file_mode_mask_is_read_without_setting_it(monkeypatch):
    before = os.umask(0o027)
    with monkeypatch.context() as context:
        context.setattr(os, "umask", lambda mask: pytest.fail("threads would see another mask"))
        found = next(setting.get() for setting in SETTINGS if "umask" in setting.name)
    assert (os.umask(before), found) == (0o027, 0o027)


def test_a_usual_environment_changes_nothing_and_costs_nothing():
    sampler = SerialSampler(CountEnv, dict(length=5), batch_T=4, batch_B=2)
    sampler.initialize(EchoAgent(), seed=1)
    for itr in range(70):
        sampler.obtain_samples(itr)
    assert sampler._surroundings.changed == []
    assert not isinstance(sampler._surroundings.around(), contextlib._GeneratorContextManager)
    sampler.shutdown()
