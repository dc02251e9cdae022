"""Several ranks from the command line."""

import json
import subprocess
import sys

import pytest

from rlpyt.cli.flags import UsageError
from rlpyt.cli.train import main, read_flags
from rlpyt.experiments.build import build_runner
from rlpyt.experiments.hardware import with_ranks_of_torchrun
from rlpyt.runners.sync_rl import SyncRl, SyncRlEval
from rlpyt.utils.launching.machine import n_granted_cpus

SMALL = [
    *("--sampler.kind", "serial", "--sampler.batch-T", "8", "--sampler.batch-B", "2"),
    *("--eval-episodes", "1", "--no-video", "--checkpoint-interval-steps", "320"),
]


def rlpyt(*args):
    """Run the command; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "rlpyt", *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_two_ranks_train_and_resume(tmp_path):
    run = str(tmp_path / "run")
    flags = ["--ranks", "2", "--steps", "640", "--run-dir", run, *SMALL]
    assert "(2 ranks, each: serial, 2 environments, seed 0)" in rlpyt(
        "train", "a2c", "CartPole-v1", *flags
    )
    assert json.loads((tmp_path / "run" / "config.json").read_text())["ranks"] == 2
    rlpyt("resume", run, "--steps", "960")
    said = (tmp_path / "run" / "debug.log").read_text()
    assert "Resumed from" in said and "after iteration 19" in said


def test_the_number_of_ranks_chooses_the_runner(tmp_path):
    flags = ["--ranks", "3", "--device", "cuda:1", *SMALL]
    options, _ = read_flags("a2c", "CartPole-v1", flags)
    runner = build_runner(options, tmp_path)
    assert isinstance(runner, SyncRl) and runner.world_size == 3
    assert [affinity["cuda_idx"] for affinity in runner.affinities] == [1, 2, 3]
    options = options.updated({"eval_interval_steps": 320, "device": "cpu"})
    assert isinstance(build_runner(options, tmp_path), SyncRlEval)
    with pytest.raises(ValueError, match="ranks=0"):
        build_runner(options.updated({"ranks": 0}), tmp_path)
    with pytest.raises(ValueError, match="ranks .*cores, got 5000"):
        build_runner(options.updated({"ranks": 5000}), tmp_path)
    n = n_granted_cpus() + 1
    with pytest.warns(UserWarning, match=f"ranks={n} on {n - 1} cores"):
        build_runner(options.updated({"ranks": n}), tmp_path)


@pytest.mark.parametrize(
    "flags, said",
    [
        (["-2", "--sampler.asynchronous"], "max_lead=-2"),
        (["0"], "max_lead=0"),
        (["-1"], "max_lead=-1"),
    ],
)
def test_an_invalid_lead_is_refused(flags, said, tmp_path):
    options, _ = read_flags("dqn", "CartPole-v1", ["--sampler.max-lead", *flags])
    with pytest.raises(ValueError, match=said):
        build_runner(options, tmp_path)


def test_workers_without_effect_are_named(tmp_path):
    flags = ["--sampler.kind", "serial", "--sampler.n-workers", "4"]
    options, _ = read_flags("ppo", "CartPole-v1", flags)
    with pytest.warns(UserWarning, match=r"sampler\.n_workers=4 .*no effect"):
        build_runner(options, tmp_path)


def test_under_torchrun_a_directory_must_be_given(monkeypatch, tmp_path):
    for name, value in dict(RANK=0, WORLD_SIZE=2, MASTER_ADDR="h", MASTER_PORT=1).items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(UsageError, match="torchrun .*--run-dir"):
        main(["a2c", "CartPole-v1"])
    options, _ = read_flags("a2c", "CartPole-v1", ["--ranks", "3"])
    with pytest.raises(ValueError, match="ranks .*torchrun, 2, got 3"):
        build_runner(options, tmp_path)


def test_config_json_has_the_number_that_torchrun_gave(monkeypatch):
    options, _ = read_flags("a2c", "CartPole-v1", [])
    assert with_ranks_of_torchrun(options).ranks == 1
    for name, value in dict(RANK=0, WORLD_SIZE=3, MASTER_ADDR="h", MASTER_PORT=1).items():
        monkeypatch.setenv(name, str(value))
    assert with_ranks_of_torchrun(options).ranks == 3


@pytest.mark.slow
def test_a_run_on_a_ray_cluster_equals_one_on_this_machine(tmp_path):
    for kind in ("cpu", "ray"):
        flags = [*SMALL[2:], "--steps", "320", "--seed", "3", "--run-dir", str(tmp_path / kind)]
        rlpyt("train", "a2c", "CartPole-v1", "--sampler.kind", kind, *flags)
    here, there = (
        json.loads((tmp_path / k / "evaluation.json").read_text()) for k in ("cpu", "ray")
    )
    assert here == there


def test_ray_cannot_be_asynchronous(tmp_path):
    options, _ = read_flags(
        "a2c", "CartPole-v1", ["--sampler.kind", "ray", "--sampler.asynchronous"]
    )
    with pytest.raises(ValueError, match="kind='ray' .*asynchronous"):
        build_runner(options, tmp_path)
