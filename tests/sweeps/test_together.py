"""Runs of a sweep that train in one process."""

import json
import threading

import psutil
import pytest
import torch

import rlpyt
from rlpyt.experiments.options import read_options
from rlpyt.experiments.run import train
from rlpyt.sweeps import start
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.plan import plan_sweep
from tests.sweeps.launching import states, until

FILE = """
train: a2c
env: tests.faulty:FaultyEnv
options:
  steps: {steps}
  checkpoint_interval_steps: 2048
  eval_episodes: 1
  sampler: {{kind: serial, batch_T: 16, batch_B: 2}}
  agent.hidden_sizes: [8]
grid:
  env_args: {env_args}
seeds: 2
slots: 1cpu_1cpr_0saf
together: 4
retries: {retries}
"""
HEALTHY, FAILS = dict(fault="none", length=20), dict(at=100, length=20)


def sweep_at(tmp_path, said=None, steps=512, retries=0, env_args=(HEALTHY, FAILS)):
    path = tmp_path / "test.yaml"
    path.write_text(FILE.format(steps=steps, retries=retries, env_args=json.dumps(env_args)))
    plan, directory = plan_sweep(path), tmp_path / "sweep"
    say = (lambda line: None) if said is None else said.append
    code = start.launch(directory, plan.jobs, plan.about(), path, say)
    return code, SweepDirectory(directory)


def trainers(directory):
    lines = ((p, p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"]))
    return [
        p for p, line in lines if "rlpyt.sweeps.together" in line and str(directory) in str(line)
    ]


def test_runs_of_a_process_equal_those_alone_and_fail_alone(tmp_path):
    said = []
    code, sweep = sweep_at(tmp_path, said)
    assert code == 1 and states(sweep) == ["done", "failed", "done", "failed"]
    assert len(list(sweep.queue.glob("together/*"))) == 1
    assert "told to fail" in sweep.jobs()[1].output.read_text()
    run_dir = sweep.path / sweep.jobs()[0].job.run_dir
    assert (run_dir / "evaluation.json").exists()
    train(read_options(run_dir), tmp_path / "alone")
    alone, together = (rlpyt.load(x).agent.state_dict() for x in (tmp_path / "alone", run_dir))
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
    until(lambda: not trainers(tmp_path))
    assert not [*sweep.queue.glob("together/*/0*")]


def test_runs_that_ask_for_no_loss_are_complete(tmp_path):
    path = tmp_path / "test.yaml"
    path.write_text(
        "train: cmaes\nenv: CartPole-v1\nslots: 1cpu_1cpr_0saf\ntogether: 2\nseeds: 2\n"
        "options:\n  steps: 64\n  eval_episodes: 0\n  agent.hidden_sizes: []\n"
        "  sampler: {kind: serial, batch_T: 4, batch_B: 4}\n"
    )
    plan = plan_sweep(path)
    code = start.launch(tmp_path / "sweep", plan.jobs, plan.about(), path, lambda line: None)
    assert code == 0 and states(SweepDirectory(tmp_path / "sweep")) == ["done", "done"]
    until(lambda: not trainers(tmp_path))


@pytest.mark.slow
def test_a_run_is_stopped_alone_and_all_are_retried_after_a_crash(tmp_path):
    said, ended = [], []

    def disturb():
        until((tmp_path / "sweep/queue/00003/attempt_1.json").exists)
        sweep = SweepDirectory(tmp_path / "sweep")
        runs = [sweep.path / job.job.run_dir for job in sweep.jobs()]
        until(lambda: all([*(run / "checkpoint").glob("*-*")] for run in runs))
        sweep.jobs()[1].request_end(1, "pruned")
        until(lambda: states(sweep)[1] == "pruned")
        ended.append(states(sweep))
        for process in trainers(tmp_path):
            process.kill()

    thread = threading.Thread(target=disturb)
    thread.start()
    code, sweep = sweep_at(tmp_path, said, 12_000, 1, (HEALTHY, HEALTHY | dict(length=21)))
    thread.join()
    assert ended == [["running", "pruned", "running", "running"]]
    assert code == 0 and states(sweep) == ["done", "pruned", "done", "done"], said
    assert [job.attempts()[0].exit_code for job in sweep.jobs()] == [1, 143, 1, 1]
    assert "the process that trains this run has ended" in sweep.jobs()[0].output.read_text()
    for number in (0, 2, 3):
        run_dir = sweep.path / sweep.jobs()[number].job.run_dir
        assert "Resumed from" in (run_dir / "debug.log").read_text()


def test_a_gpu_is_refused(tmp_path):
    path = tmp_path / "test.yaml"
    text = FILE.format(steps=512, retries=0, env_args=json.dumps([HEALTHY]))
    path.write_text(text.replace("agent.hidden", "device: cuda\n  agent.hidden"))
    with pytest.raises(ValueError, match="device='cuda' must be 'cpu'"):
        plan_sweep(path)
