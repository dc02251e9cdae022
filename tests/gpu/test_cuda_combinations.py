"""Every kind of observation, memory and action on a CUDA device; run with ``make test-gpu``."""

import dataclasses
import os
import shutil
import subprocess
import sys

import pytest
import torch

from rlpyt.experiments.build import build_runner
from rlpyt.experiments.run import load
from rlpyt.runners.hooks import Hook
from tests.combinations import CELLS, EXTRA, N_ITR, Cell, covering, options

pytestmark = pytest.mark.gpu

STOP = 1  # iteration of the checkpoint from which a run is resumed
DEVICE = "cuda"
PLAIN = {
    algo: Cell("none", False, action, "vector", algo, "serial")
    for algo, action in [("ppo", "discrete"), ("dqn", "discrete"), ("sac", "box"), ("td3", "box")]
}


class Trained(Hook):
    """All that is trained is on the device, finite, and changes; keeps an earlier checkpoint."""

    def __init__(self, run_dir):
        self.run_dir = run_dir

    def on_start(self, runner):
        self.initial = [p.detach().clone() for p in runner.agent.parameters()]

    def on_iteration(self, runner, itr):
        if itr == STOP:
            target = self.run_dir.with_name("stopped")
            shutil.copytree(self.run_dir / "checkpoint", target / "checkpoint", dirs_exist_ok=True)
        if itr == N_ITR - 1:
            assert runner.algo.update_counter > 0
            self.trained = [p.detach().clone() for p in runner.agent.parameters()]
            assert all(p.device.type == DEVICE and p.isfinite().all() for p in self.trained)
            assert not all(map(torch.equal, self.initial, self.trained))


def train(settings, run_dir, resume=False):
    hook = Trained(run_dir)
    build_runner(settings, run_dir, hooks=[hook], resume=resume).train()
    return hook.trained


@pytest.mark.parametrize("cell", [*covering(CELLS), *EXTRA], ids=str)
def test_a_run_learns_is_resumed_and_is_loaded(cell, tmp_path):
    settings = dataclasses.replace(options(cell), device=DEVICE)
    whole = train(settings, tmp_path / "run")
    resumed = train(settings, tmp_path / "stopped", resume=True)
    for x, y in zip(whole, resumed, strict=True):
        torch.testing.assert_close(x, y, atol=1e-3, rtol=1e-2)  # sums are in no fixed order there
    settings.write(tmp_path / "run")
    load(tmp_path / "run").evaluate(2)


@pytest.mark.parametrize("algo", PLAIN)
def test_a_run_is_evaluated_and_resumed_where_there_is_no_device(algo, tmp_path):
    settings = dataclasses.replace(options(PLAIN[algo]), device=DEVICE)
    train(settings, tmp_path / "run")
    settings.write(tmp_path / "run")
    for command in (["eval", "--episodes", "2"], ["resume", "--device", "cpu", "--steps", "64"]):
        done = subprocess.run(
            [sys.executable, "-m", "rlpyt", command[0], tmp_path / "run", *command[1:]],
            capture_output=True, text=True, check=False,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "setting", [dict(compile="loss"), dict(compile="update"), dict(mixed_precision=True)], ids=str
)
@pytest.mark.parametrize("algo", PLAIN)
def test_compiled_and_mixed_losses_learn(algo, setting, tmp_path):
    settings = dataclasses.replace(options(PLAIN[algo]), device=DEVICE)
    if setting.get("compile") == "update" and algo == "ppo":
        pytest.skip("PPO compiles its loss only")
    plain = train(settings, tmp_path / "run")
    other = dataclasses.replace(settings, algo={**settings.algo, **setting})
    tolerance = 1e-3 if "compile" in setting else 5e-2
    for x, y in zip(plain, train(other, tmp_path / "other"), strict=True):
        torch.testing.assert_close(x, y, atol=tolerance, rtol=tolerance)
