"""Runs that are killed, or whose disk is full, are retried and resume."""

import contextlib
import csv
import errno
import json
import os
import subprocess
import threading
import time

import psutil
import pytest

from rlpyt.sweeps import directory
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.plan import plan_sweep
from rlpyt.sweeps.rlpyt_scripts import script_jobs
from tests.sweeps.launching import ABOUT, job, launcher_of, sweep_of

TRAIN = """
train: ppo
env: CartPole-v1
slots: 1cpu_1cpr_0saf
grid: {{algo.learning_rate: [0.002]}}
options:
  steps: {steps}
  log_interval_steps: 512
  checkpoint_interval_steps: 512
  eval_episodes: 0
  sampler: {{kind: serial, batch_T: 64, batch_B: 2}}
  algo: {{minibatches: 2, epochs: 1}}
  agent.hidden_sizes: [8]
"""
SCRIPT = """
import sys

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.logging.context import logger_context

code, log_dir, run_ID, steps = sys.argv[1:]
runner = MinibatchRl(
    algo=A2C(learning_rate=1e-3),
    agent=CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[8])),
    sampler=SerialSampler(make, dict(id="CartPole-v1"), batch_T=32, batch_B=4),
    n_steps=int(steps),
    seed=int(run_ID),
    affinity=affinity_from_code(code),
    log_interval_steps=512,
    checkpoint_interval_steps=512,
)
with logger_context(log_dir, run_ID, "a2c"):
    runner.train()
"""


def kill_at(sweep, steps):
    """Kill the only run once it has logged so many steps; returns a thread that does."""
    [one] = sweep.jobs()

    def work():
        deadline = time.monotonic() + 100
        progress = sweep.path / one.job.run_dir / "progress.csv"
        while time.monotonic() < deadline:
            if progress.exists() and len(progress.read_text().splitlines()) > steps // 512:
                supervisor = psutil.Process(one.attempts()[0].pid)
                for run in supervisor.children():
                    run.kill()
                return
            time.sleep(0.02)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def steps_of(run_dir):
    with open(run_dir / "progress.csv") as file:
        return [int(row["Diagnostics/CumSteps"]) for row in csv.DictReader(file)]


def check_gone_on(sweep, steps):
    """Killed once, gone on from the checkpoint, without a gap and without a repeated row."""
    [one] = sweep.jobs()
    first, second = one.attempts()
    assert (first.exit_code, second.exit_code) == (-9, 0)
    run_dir = sweep.path / one.job.run_dir
    assert steps_of(run_dir) == list(range(512, steps + 1, 512))
    assert not list(one.path.glob("run_dir_of_attempt_*"))  # nothing was begun anew
    return "\n".join(one.last_lines(1000)), (run_dir / "debug.log").read_text()


@pytest.mark.slow
def test_a_killed_rlpyt_train_resumes_from_its_checkpoint(tmp_path):
    file, steps = tmp_path / "train.yaml", 20_480
    file.write_text(TRAIN.format(steps=steps))
    planned = plan_sweep(file)
    sweep = SweepDirectory.create(tmp_path / "sweep", ABOUT, planned.jobs)
    killer = kill_at(sweep, 2048)
    assert launcher_of(sweep, n_slots=1).run() == 0
    killer.join(10)
    said, _ = check_gone_on(sweep, steps)
    assert said.startswith("Resuming ppo on CartPole-v1")
    config = json.loads((sweep.path / planned.jobs[0].run_dir / "config.json").read_text())
    assert config["algo"]["learning_rate"] == 0.002


@pytest.mark.slow
def test_a_killed_rlpyt_script_resumes_from_its_checkpoint(tmp_path):
    script, steps = tmp_path / "script.py", 40_960
    script.write_text(SCRIPT)
    jobs = script_jobs(script, 1, [{"any": 1}], ["a2c"], [steps])
    sweep = SweepDirectory.create(tmp_path / "sweep", ABOUT, jobs)
    killer = kill_at(sweep, 2048)
    assert launcher_of(sweep, n_slots=1).run() == 0
    killer.join(10)
    check_gone_on(sweep, steps)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one MiB, where this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
            yield disk
            subprocess.run(["umount", "-l", str(disk)], check=True)
            return
    pytest.skip("a small file system cannot be mounted here")


def test_a_run_on_a_full_disk_names_the_error_and_is_retried(tmp_path, small_disk):
    code = (
        "import os\n"
        "big = 2**21 if not os.path.exists('{sweep}/tried') else 2**10\n"
        "open('{sweep}/tried', 'w').close()\n"
        f"with open('{small_disk}/progress.csv', 'wb') as file: file.write(bytes(big))"
    )
    sweep, said = sweep_of(tmp_path / "sweep", [job(0, code)]), []
    assert launcher_of(sweep, said=said).run() == 0
    first, second = sweep.jobs()[0].attempts()
    assert (first.outcome(), second.outcome()) == ("exit code 1", "exit code 0")
    assert any(os.strerror(errno.ENOSPC) in line for line in said)
    assert (small_disk / "progress.csv").stat().st_size == 2**10


def test_a_sweep_on_a_full_disk_waits_for_space_and_loses_no_run(small_disk, monkeypatch):
    monkeypatch.setattr(directory, "LEAST_FREE_BYTES", 0)
    fill = small_disk / "filler"
    code = f"with open('{fill}', 'wb') as file: file.write(bytes(2**21))"
    sweep = sweep_of(small_disk / "sweep", [job(0, code, retries=0)])
    waits = []

    def look():
        """Once the run has filled the disk, its supervisor cannot write how it ended."""
        if fill.exists() and fill.stat().st_size > 2**18:
            waits.append(time.monotonic())
            if waits[-1] - waits[0] > 1.0:
                assert sweep.jobs()[0].attempts()[0].ended is None
                fill.unlink()

    launcher = launcher_of(sweep)
    launcher.on_poll.append(look)
    assert launcher.run() == 1
    assert sweep.jobs()[0].attempts()[0].outcome() == "exit code 1"


def test_a_run_at_its_file_size_limit_names_the_error(tmp_path):
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "with open('{run_dir}.csv', 'wb', buffering=0) as file:\n"
        "    while True: file.write(bytes(6000))"
    )
    sweep = sweep_of(tmp_path, [job(0, code, retries=1)])
    assert launcher_of(sweep).run() == 1
    assert len(sweep.jobs()[0].attempts()) == 2
    assert "[Errno 27]" in sweep.jobs()[0].last_lines()[-1]
