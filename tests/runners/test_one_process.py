"""``debug=True``: any layout in one process and thread, with the results of the layout."""

import os
import threading

import numpy as np
import psutil
import pytest
import torch
from torch.utils._pytree import tree_leaves

import rlpyt
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.cli import train as train_command
from rlpyt.cli.main import main
from rlpyt.envs.toy import DelayEnv
from rlpyt.experiments.build import build_runner
from rlpyt.runners.hooks import Hook
from rlpyt.samplers.base import BaseSampler
from tests.combinations import AXES, Cell, options


class Alone(Hook):
    """The run has no other process or thread."""

    def __init__(self):
        self.before = {*psutil.Process().children(), *threading.enumerate()}

    def on_iteration(self, runner, itr):
        assert {*psutil.Process().children(), *threading.enumerate()} <= self.before
        self.itr = itr


def parameters(runner):
    return [leaf for leaf in tree_leaves(runner.agent.state_dict()) if torch.is_tensor(leaf)]


@pytest.mark.parametrize(
    "algo, sampler",
    [
        (algo, sampler)
        for algo in ("ppo", "dqn", "vtrace")
        for sampler in AXES["sampler"]
        if (algo, sampler) != ("ppo", "asynchronous")  # PPO cannot learn asynchronously
    ],
)
def test_a_run_in_one_process_is_the_run_of_its_layout(algo, sampler, tmp_path):
    settings = options(Cell("none", False, "discrete", "vector", algo, sampler))
    whole = build_runner(settings, tmp_path / "whole")
    whole.train()
    alone = build_runner(settings, tmp_path / "alone", hooks=[hook := Alone()], debug=True)
    alone.train()
    assert hook.itr == alone.itr > 0 and alone.algo.update_counter == whole.algo.update_counter > 0
    for x, y in zip(parameters(whole), parameters(alone), strict=True):
        assert torch.equal(x, y)


class Failing(DelayEnv):
    """Fails in its tenth step."""

    n = 0

    def step(self, action):
        self.n += 1
        if self.n == 10:
            here = os.getpid()
            raise ZeroDivisionError(f"in process {here}")
        return super().step(action)


def sync_runner(Sampler=rlpyt.CpuSampler, EnvCls=DelayEnv, **kwargs):
    return rlpyt.SyncRl(
        algo=PPO(minibatches=1), agent=CategoricalMlpAgent(), n_steps=64, seed=1,
        sampler=Sampler(EnvCls=EnvCls, batch_T=8, batch_B=2), affinity=2, **kwargs,
    )  # fmt: skip


def test_an_exception_of_an_environment_comes_from_here():
    with pytest.raises(ZeroDivisionError, match=f"in process {os.getpid()}") as caught:
        rlpyt.in_one_process(sync_runner(EnvCls=Failing)).train()
    assert caught.traceback[-1].name == "step"


def test_one_rank_keeps_the_hooks_and_trains():
    hook = Alone()
    runner = rlpyt.in_one_process(sync_runner(hooks=[hook]))
    runner.train()
    assert type(runner) is rlpyt.MinibatchRl and hook.itr == 3


def test_unwritten_rows_are_no_numbers(monkeypatch):
    monkeypatch.delenv("RLPYT_DEBUG")
    runner = rlpyt.in_one_process(sync_runner())
    runner.startup()
    try:
        assert np.isnan(runner.sampler.samples_np.env.observation).all()
    finally:
        runner.shutdown()


class OwnSampler(BaseSampler):
    """Decides itself where it runs."""


def test_a_custom_sampler_is_refused():
    with pytest.raises(TypeError, match="OwnSampler .*SerialSampler"):
        rlpyt.in_one_process(sync_runner(OwnSampler))


def test_the_command_line_and_train_pass_it_on(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(train_command, "train", lambda *a, debug, **kw: given.append(debug))
    flags = ["train", "ppo", "CartPole-v1", "--steps", "100"]
    for command in (["--debug", *flags], [*flags, "--debug"], flags):
        with pytest.raises(SystemExit) as stop:
            main([*command, "--run-dir", str(tmp_path / str(len(given)))])
        assert not stop.value.code
    assert given == [True, True, False]
    run = rlpyt.train(
        "ppo", DelayEnv, steps=64, batch_T=8, batch_B=2, minibatches=1, eval_episodes=0, debug=True,
        run_dir=tmp_path / "run", video=False, progress=False, hooks=[hook := Alone()],
    )  # fmt: skip
    assert hook.itr == 3 and run.agent is not None
