"""A failing environment ends in one named error, soon, with nothing left behind."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from parts import EchoAgent

from rlpyt.envs.faulty import FaultyEnv
from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

BOUND_S = 5.0


def our_processes():
    return {p.pid for p in psutil.Process().children(recursive=True) if _is_worker(p)}


def _is_worker(process):
    try:
        line = " ".join(process.cmdline())
        return process.is_running() and "resource_tracker" not in line and not _server(process)
    except psutil.Error:
        return False


def _server(process):
    """The fork server itself stays, idle, for the next sampler."""
    return process.ppid() == os.getpid() and "forkserver" in " ".join(process.cmdline())


def run_into(fault, where, at=1, victim=None, tally=None, timeout_s=60.0, method=None):
    sampler = CpuSampler(
        EnvCls=FaultyEnv,
        env_kwargs=dict(fault=fault, where=where, at=at, victim=victim, tally=tally),
        batch_T=5,
        batch_B=4,
        max_decorrelation_steps=0,
    )
    sampler.env_timeout = timeout_s
    sampler.start_method = method
    before, shm = our_processes(), set(os.listdir("/dev/shm"))
    try:
        sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=1)
        started = time.monotonic()
        for itr in range(20):
            sampler.obtain_samples(itr)
        raise AssertionError("the fault did not show")
    finally:
        took = time.monotonic() - started if "started" in locals() else 0
        assert took < BOUND_S + (timeout_s if timeout_s < 60 else 0)
        deadline = time.monotonic() + 3
        while our_processes() - before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert our_processes() - before == set()
        assert set(os.listdir("/dev/shm")) <= shm
        sampler.shutdown()


@pytest.mark.parametrize("fault", ["raise", "unpicklable", "exit"])
def test_failing_step_names_worker_environment_step_and_traceback(fault, tmp_path):
    # Construction 0 is the trial environment; 1 and 2 are worker 0's or 1's.
    with pytest.raises(WorkerError) as caught:
        run_into(fault, "step", at=13, victim=2, tally=tmp_path / "tally")
    error = caught.value
    assert error.worker in (0, 1) and error.env_index in range(4)
    assert error.step == (13 - 1) % 5
    assert f"worker {error.worker}" in str(error) and f"environment {error.env_index}" in str(error)
    assert {"raise": "FaultError", "unpicklable": "UnpicklableError", "exit": "SystemExit"}[
        fault
    ] in error.traceback
    assert "faulty.py" in error.traceback


@pytest.mark.parametrize("fault,word", [("kill", "SIGKILL"), ("vanish", "exited with code 3")])
def test_dying_worker_is_named_with_its_cause(fault, word, tmp_path):
    with pytest.raises(WorkerError, match=word) as caught:
        run_into(fault, "step", at=8, victim=3, tally=tmp_path / "tally")
    assert caught.value.env_index in range(4) and caught.value.step == (8 - 1) % 5


@pytest.mark.parametrize("fault", ["raise", "kill"])
@pytest.mark.parametrize("where", ["init", "reset"])
def test_failure_at_start(fault, where, tmp_path):
    with pytest.raises(WorkerError, match="FaultError" if fault == "raise" else "SIGKILL"):
        run_into(fault, where, victim=1, tally=tmp_path / "tally")


@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_failure_of_the_first_environment_ever_made(fault, tmp_path):
    with pytest.raises(WorkerError, match="trying out|tried out"):
        run_into(fault, "init", victim=0, tally=tmp_path / "tally")


def test_hanging_step_times_out(tmp_path):
    with pytest.raises(WorkerTimeout, match=r"no progress for 2 s \(env_timeout\)"):
        run_into("hang", "step", at=7, victim=4, tally=tmp_path / "tally", timeout_s=2.0)


def test_environment_that_hangs_at_once_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(CpuSampler, "start_timeout_s", 3.0)
    with pytest.raises(WorkerTimeout, match="did not end within 3 s"):
        run_into("hang", "init", victim=0, tally=tmp_path / "tally")


def test_faults_under_spawn(tmp_path):
    with pytest.raises(WorkerError, match="FaultError"):
        run_into("raise", "step", at=3, victim=2, tally=tmp_path / "tally", method="spawn")


def test_a_used_up_sampler_says_so(tmp_path):
    sampler = CpuSampler(EnvCls=FaultyEnv, env_kwargs=dict(fault="none"), batch_T=5, batch_B=4)
    sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=1)
    os.kill(sampler._pool.processes[1].pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="worker 1 .* SIGKILL"):
        sampler.obtain_samples(0)
    with pytest.raises(WorkerError, match="workers are gone"):
        sampler.obtain_samples(1)
    sampler.shutdown()


def test_serial_failure_keeps_its_type_and_says_where():
    sampler = SerialSampler(
        EnvCls=FaultyEnv,
        env_kwargs=dict(fault="raise", at=7),
        batch_T=5,
        batch_B=3,
        max_decorrelation_steps=0,
    )
    sampler.initialize(EchoAgent(), seed=1)
    sampler.obtain_samples(0)
    with pytest.raises(Exception, match="told to fail") as caught:
        sampler.obtain_samples(1)
    (note,) = caught.value.__notes__
    assert "while stepping environment 0, FaultyEnv" in note and "step 1 of the batch" in note


PARENT = """
import sys, time
sys.path.insert(0, {tests!r})
from parts import EchoAgent
from rlpyt.envs.faulty import FaultyEnv
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

sampler = CpuSampler(
    FaultyEnv, dict(fault={fault!r}, at=30), batch_T=5, batch_B=4, max_decorrelation_steps=0
)
sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=1)
print(*[p.pid for p in sampler._pool.processes], flush=True)
while True:
    sampler.obtain_samples(0)
"""


@pytest.mark.parametrize("fault", ["none", "hang"])
def test_workers_die_with_their_parent(fault, tmp_path):
    import subprocess

    script = tmp_path / "parent.py"  # no main guard: workers do not import the script
    script.write_text(PARENT.format(tests=str(Path(__file__).parents[1]), fault=fault))
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2 and all(psutil.pid_exists(pid) for pid in pids)
    time.sleep(0.5)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + BOUND_S
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(psutil.pid_exists(pid) for pid in pids)
