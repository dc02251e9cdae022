"""Every observation, memory, mask and action space, in every algorithm and sampler.

A cell of the product acts, trains, saves and resumes, and gives the batches of the serial sampler.
"""

import shutil
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

from rlpyt.errors import WorkerError
from rlpyt.experiments.agents import build_agent
from rlpyt.experiments.api import options_of
from rlpyt.experiments.build import build_runner, env_recipe
from rlpyt.experiments.run import load
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.hooks import Hook
from rlpyt.samplers.env_batch import bounds_of, clipped
from rlpyt.samplers.rollout import Rollout
from rlpyt.utils.buffer import buffer_func, leaves_of
from tests.combinations import (
    ALL,
    AXES,
    CELLS,
    EXTRA,
    KINDS,
    N_FAST_EXTRA,
    N_ITR,
    Cell,
    covering,
    env_args,
    options,
    refusal,
)
from tests.combined_env import CombinedEnv
from tests.samplers.test_matrix import assert_same

STOP = 1  # iteration of the checkpoint from which a run is resumed


class Recorder(Hook):
    """Keeps all batches of a synchronous run, and a copy of the checkpoint after ``STOP``."""

    def __init__(self, run_dir):
        self.run_dir, self.batches = run_dir, []

    def on_start(self, runner):
        self.initial = parameters(runner)
        if isinstance(runner, AsyncRl):
            return
        obtain = runner.sampler.obtain_samples

        def recorded(itr):
            samples, infos = obtain(itr)
            copy = buffer_func(samples, lambda x: x.numpy().copy())
            final, timeout = getattr(copy.env, "final_observation", ()), copy.env.env_info.timeout
            for leaf in leaves_of(final):  # undefined in other rows
                leaf[~timeout] = 0
            self.batches.append((copy, list(infos)))
            return samples, infos

        runner.sampler.obtain_samples = recorded

    def on_iteration(self, runner, itr):
        if itr == STOP:
            target = self.run_dir.with_name(f"{self.run_dir.name}-stopped")
            shutil.copytree(self.run_dir / "checkpoint", target / "checkpoint")


class Outcome(NamedTuple):
    """Batches of a run, and its final parameters."""

    batches: list
    state: list
    updates: int


def run(cell, run_dir, resume=False):
    recorder = Recorder(run_dir)
    runner = build_runner(options(cell), run_dir, hooks=[recorder], resume=resume)
    runner.train()
    assert runner.itr == N_ITR - 1 and runner.start_itr == (STOP + 1 if resume else 0)
    state = parameters(runner)
    assert not all(map(torch.equal, recorder.initial, state))
    return Outcome(recorder.batches, state, runner.algo.update_counter)


def parameters(runner):
    leaves = tree_leaves(runner.agent.state_dict())
    return [leaf.clone() for leaf in leaves if torch.is_tensor(leaf)]


def assert_same_agent(one, other):
    assert one.updates == other.updates > 0
    for x, y in zip(one.state, other.state, strict=True):
        assert torch.equal(x, y)


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """Return a function that gives the serial run of a cell, and its directory."""

    @lru_cache(maxsize=1)
    def outcome(family):
        cell = Cell(*family, "serial")
        run_dir = tmp_path_factory.mktemp("serial") / "run"
        found = run(cell, run_dir)
        options(cell).write(run_dir)
        loaded = load(run_dir)
        for deterministic in (True, False):  # the environment refuses invalid actions
            loaded.evaluate(2, deterministic=deterministic)
        return found, run_dir

    return outcome


def check_batches(cell, serial, run_dir):
    """Check that a cell acts, trains and saves as the serial run does."""
    expected, _ = serial(cell[:-1])
    own = run(cell, run_dir)
    if cell.sampler != "asynchronous":
        assert_same(expected.batches, own.batches)
    assert_same_agent(expected, own)


def check_resumed(cell, serial, run_dir):
    """Check that the run in a directory, resumed after ``STOP``, is the whole serial run."""
    expected, _ = serial(cell[:-1])
    resumed = run(cell, run_dir.with_name("run-stopped"), resume=True)
    if cell.sampler != "asynchronous":
        assert_same(expected.batches[STOP + 1 :], resumed.batches)
    assert_same_agent(expected, resumed)


@pytest.mark.parametrize("cell", covering(CELLS), ids=str)
def test_pairs(cell, serial, tmp_path):
    if cell.sampler == "serial":
        check_resumed(cell, serial, serial(cell[:-1])[1])
    else:
        check_batches(cell, serial, tmp_path / "run")


@pytest.mark.parametrize(
    "cell",
    [
        *EXTRA[:N_FAST_EXTRA],
        *(pytest.param(cell, marks=pytest.mark.slow) for cell in EXTRA[N_FAST_EXTRA:]),
    ],
    ids=str,
)
def test_variants_of_algorithms(cell, serial, tmp_path):
    test_all(cell, serial, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_all(cell, serial, tmp_path):
    run_dir = serial(cell[:-1])[1]
    if cell.sampler != "serial":
        run_dir = tmp_path / "run"
        check_batches(cell, serial, run_dir)
    check_resumed(cell, serial, run_dir)


def check_default_networks(cell):
    agent = dict(memory=cell.memory)
    defaults = options_of(cell.algo, CombinedEnv, agent=agent, env_args=env_args(cell))
    env = env_recipe(defaults.env, defaults.env_args).make()
    agent = build_agent(defaults, env.spaces)
    agent.initialize(env.spaces)
    agent.sample_mode(1)
    inputs = env.reset(), env.spaces.action.null_value(), np.float32(0)
    action, _ = agent.step(*buffer_func(inputs, lambda x: torch.as_tensor(np.asarray(x))[None]))
    chosen = buffer_func(action, lambda x: x[0].numpy())
    env.step(clipped(chosen, bounds) if (bounds := bounds_of(env.action_space)) else chosen)


def test_presets_choose_networks():
    for cell in covering(CELLS):
        check_default_networks(cell)


@pytest.mark.slow
@pytest.mark.parametrize("cell", [c for c in CELLS if c.sampler == "serial"], ids=str)
def test_presets_choose_networks_everywhere(cell):
    check_default_networks(cell)


def check_refusal(cell, tmp_path):
    with pytest.raises((TypeError, ValueError, WorkerError), match=refusal(cell)) as caught:
        build_runner(options(cell), tmp_path).train()
    assert str(caught.value).rstrip().endswith("."), caught.value


@pytest.fixture
def no_sampling(monkeypatch):
    """Let sampling fail; an environment may be tried for a step."""

    def run(self, *args, **kwargs):
        raise AssertionError("sampling before the refusal")

    monkeypatch.setattr(Rollout, "run", run)


REFUSED = [cell for cell in ALL if refusal(cell) and cell.sampler in ("serial", "asynchronous")]
FIRST = {(refusal(cell), cell.algo): cell for cell in reversed(REFUSED)}


@pytest.mark.parametrize("cell", FIRST.values(), ids=str)
def test_combinations_without_meaning_are_refused_with_a_sentence(cell, tmp_path, no_sampling):
    check_refusal(cell, tmp_path)


@pytest.mark.slow
def test_all_combinations_without_meaning_are_refused(tmp_path, no_sampling):
    for cell in REFUSED:
        check_refusal(cell, tmp_path)


def test_the_product_is_covered():
    assert len(CELLS) > 300
    chosen = covering(CELLS)
    for (i, name), (j, other) in combinations(enumerate(AXES), 2):
        convert = [KINDS if (name, other)[k] == "algo" else {} for k in range(2)]
        pairs = [
            {tuple(c.get(v, v) for c, v in zip(convert, (cell[i], cell[j]))) for cell in cells}
            for cells in (CELLS, chosen)
        ]
        assert pairs[0] == pairs[1], (name, other)
    assert {cell.algo for cell in chosen} == set(AXES["algo"])
