"""Time of each part of a run, and CPU time and memory of its processes."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from rlpyt.algos.pg.ppo import PPO
from rlpyt.runners import usage
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.runners.usage import PhaseClock, ResourceUse
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import run_context
from tests.runners.test_minibatch_rl import B, StopAfter, T, rows_of, runner_for

SAMPLING_S, OPTIMIZING_S, EVAL_S, HOOK_S = 3, 5, 11, 7  # per call


@pytest.fixture
def now(monkeypatch):
    """A clock, in a list, that only the test advances."""
    seconds = [0.0]
    monkeypatch.setattr(usage.time, "perf_counter", lambda: seconds[0])
    return seconds


def parts(now):
    """Parts of a run that advance the clock."""

    class Sampler(SerialSampler):
        def obtain_samples(self, itr):
            now[0] += SAMPLING_S
            return super().obtain_samples(itr)

        def evaluate_agent(self, itr):
            now[0] += EVAL_S
            return super().evaluate_agent(itr)

    class Algo(PPO):
        def optimize_agent(self, *args, **kwargs):
            now[0] += OPTIMIZING_S
            return super().optimize_agent(*args, **kwargs)

    class Slow(Hook):
        def on_iteration(self, runner, itr):
            now[0] += HOOK_S

    return dict(Sampler=Sampler, algo=Algo(minibatches=4, epochs=2), hooks=[Slow()])


def times_of(run_dir, *names):
    return [[float(row[f"Diagnostics/{name}"]) for name in names] for row in rows_of(run_dir)]


def test_a_clock_adds_up_the_seconds_of_each_phase(now):
    clock = PhaseClock()
    for phase, seconds in [("sampling", 2), ("optimizing", 3), ("sampling", 4)]:
        clock.switch(phase)
        now[0] += seconds
    assert clock.read() == dict(sampling=6, optimizing=3, waiting=0, evaluating=0, logging=0)
    assert clock.lap()["sampling"] == 6
    assert clock.switch("logging") == "sampling"
    now[0] += 1
    assert clock.lap() == dict(sampling=0, optimizing=0, waiting=0, evaluating=0, logging=1)


def test_a_restored_lap_goes_on(now):
    clock = PhaseClock()
    clock.switch("sampling")
    now[0] += 5
    clock.load({"optimizing": 7.0})
    now[0] += 2
    assert clock.lap() == dict(sampling=2, optimizing=7, waiting=0, evaluating=0, logging=0)


def test_rows_hold_the_seconds_of_each_part(now, tmp_path):
    with run_context(tmp_path, 0, "times"):
        runner_for(MinibatchRlEval, n_itr=4, **parts(now)).train()
    columns = ("SamplingTime (s)", "OptimizingTime (s)", "EvalTime (s)", "LoggingTime (s)")
    found = times_of(tmp_path, *columns)
    assert found[0] == [0, 0, EVAL_S, 0]
    # The hook comes after the row, so its time belongs to the next one.
    assert found[1] == [2 * SAMPLING_S, 2 * OPTIMIZING_S, EVAL_S, HOOK_S]
    assert found[2] == [2 * SAMPLING_S, 2 * OPTIMIZING_S, EVAL_S, 2 * HOOK_S]
    speeds = times_of(tmp_path, "SamplerStepsPerSecond", "OptimizerUpdatesPerSecond")
    assert speeds[1:] == [[T * B / SAMPLING_S, 8 / OPTIMIZING_S]] * 2


def test_a_training_loop_without_phases_leaves_their_columns_empty(tmp_path):
    class Runner(MinibatchRl):
        def train(self):
            for itr in range(self.startup()):
                samples, traj_infos = self.sampler.obtain_samples(itr)
                opt_info = self.algo.optimize_agent(itr, samples)
                self.store_diagnostics(itr, traj_infos, opt_info)
                self.log_diagnostics(itr)
            self.shutdown()

    with run_context(tmp_path, 0, "times"):
        runner_for(Runner, n_itr=2).train()
    phases = ("SamplingTime (s)", "OptimizingTime (s)", "LoggingTime (s)")
    found = times_of(tmp_path, *phases, "SamplerStepsPerSecond", "OptimizerUpdatesPerSecond")
    assert np.isnan(found).all() and len(found) == 2
    assert all(speed > 0 for row in times_of(tmp_path, "StepsPerSecond") for speed in row)


def test_a_resumed_row_counts_the_time_before_the_interruption(now, tmp_path):
    made = parts(now)
    with run_context(tmp_path, 0, "times"):
        runner_for(MinibatchRl, n_itr=4, **{**made, "hooks": [StopAfter(2)]}).train()
    now[0] += 1000
    with run_context(tmp_path, 0, "times", resume=True):
        resume_from = tmp_path / "checkpoint"
        runner_for(MinibatchRl, n_itr=4, resume_from=resume_from, **parts(now)).train()
    found = times_of(tmp_path, "SamplingTime (s)", "OptimizingTime (s)")
    assert found == [[2 * SAMPLING_S, 2 * OPTIMIZING_S]] * 2


def test_memory_of_the_gpu_is_read_if_it_trains(monkeypatch):
    monkeypatch.setattr(usage.torch.cuda, "memory_reserved", lambda device: 10**6 * device.index)
    assert ResourceUse(torch.device("cuda", 3)).read()["GpuMemory (MB)"] == 3


CHILD = """
import time
block = b"x" * 50_000_000
while time.process_time() < 0.3:
    pass
print(flush=True)
input()
"""


def test_children_count():
    alone = ResourceUse()
    before = alone.read()
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=-1, stdout=-1)
    try:
        child.stdout.readline()
        both = ResourceUse()
        read = both.read()
        # The CPU time of a process that has started since the last reading counts as a whole.
        alone._list_at = 0
        seconds = alone._read_at
        cores = alone.read()["CpuCores"] * (alone._read_at - seconds)
    finally:
        child.communicate(b"\n")
    assert read["Memory (MB)"] > before["Memory (MB)"] + 45
    assert cores > 0.25  # Linux counts in hundredths of seconds
    assert both.read()["Memory (MB)"] < read["Memory (MB)"] - 45  # the child has ended
    assert set(read) == {"CpuCores", "Memory (MB)"}
