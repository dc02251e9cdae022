"""Signals at random moments: runs end and leave nothing, and resumed ones have all their rows."""

import csv
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.oracles.leaks import left_since, take_stock
from tests.programs import Program, run_script
from tests.runners import resumable_run
from tests.runners.test_minibatch_rl import unmeasured

SCRIPT = resumable_run.__file__
END_S = 60.0  # from the last signal to the end, on a busy machine


@pytest.fixture(autouse=True)
def leaves_nothing(request):
    """Fail if a test leaves a process, shared memory or an open file behind."""
    run_script(__file__)  # opens what stays open once per process
    before = take_stock()
    yield
    left = left_since(before)
    # The tests' resource tracker keeps the semaphores of a killed program until the tests end.
    assert not {what for what in left if "kill" not in request.node.name or what != "names"}, left


def rows_of(run_dir, layout):
    """Rows of progress.csv without measured columns; of asynchronous runs, their number and end.

    The optimizer may be many batches late when it writes the row of an interval.
    """
    with open(Path(run_dir, "progress.csv")) as file:
        rows = [unmeasured(row) for row in csv.DictReader(file)]
    if layout == "async":
        return len(rows), rows[-1]["Diagnostics/CumSteps"]
    return rows


def program(layout, run_dir, method):
    """Start a run, and wait until it can be interrupted."""
    mark = Path(f"{run_dir}.started")
    mark.unlink(missing_ok=True)
    run = Program(SCRIPT, layout, run_dir, environ=dict(RLPYT_START_METHOD=method))
    run.wait_for(mark, END_S)
    return run


def interrupt(layout, run_dir, method, seed, within_s=15.0):
    """Start a run, interrupt it one to three times at random moments, and wait for its end."""
    rng = random.Random(seed)
    moments = sorted(rng.uniform(0, within_s) for _ in range(rng.randint(1, 3)))
    run, started = program(layout, run_dir, method), time.monotonic()
    for moment in moments:
        time.sleep(max(0.0, started + moment - time.monotonic()))
        run.send(signal.SIGINT)
    try:
        return run.wait(END_S)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"seed {seed}: {moments}, {error.output}, {error.stderr}") from error


def test_an_interrupted_asynchronous_run_ends_and_leaves_nothing(tmp_path):
    interrupt("endless async", tmp_path / "run", "fork", seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_asynchronous_runs_end_after_any_interrupts(method, tmp_path):
    for seed in range(12):
        before = take_stock()
        interrupt("endless async", tmp_path / f"{seed}", method, seed)
        left = left_since(before)
        assert not left, (seed, left)


def rows_after_kills(layout, run_dir, method, seed, n_kills, whole_s):
    """Rows of a run that was killed or interrupted at random moments, and each time resumed."""
    rng = random.Random(seed)
    for _ in range(n_kills):
        run = program(layout, run_dir, method)
        time.sleep(rng.uniform(0, whole_s))
        run.send(rng.choice([signal.SIGINT, signal.SIGKILL]))
        run.wait(END_S)
    done = program(layout, run_dir, method).wait(END_S + whole_s)
    assert done.returncode == 0, done.stderr
    return rows_of(run_dir, layout)


def check_rows(layout, method, tmp_path, seeds, n_kills):
    """Compare the rows of killed and resumed runs with those of an undisturbed run."""
    started = time.monotonic()
    expected = rows_after_kills(layout, tmp_path / "whole", method, 0, 0, END_S)
    whole_s = time.monotonic() - started
    assert expected
    for seed in seeds:
        rows = rows_after_kills(layout, tmp_path / f"{seed}", method, seed, n_kills, whole_s)
        assert rows == expected, f"seed {seed}"


def test_a_killed_and_resumed_run_has_the_rows_of_an_undisturbed_one(tmp_path):
    check_rows("serial", "fork", tmp_path, [1], n_kills=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout,method",
    [
        ("serial", "fork"),
        ("cpu", "fork"),
        ("cpu", "spawn"),
        ("ranks", "fork"),
        ("ranks", "forkserver"),
        ("async", "fork"),
        ("async", "forkserver"),
    ],
)
def test_so_have_all_layouts_after_any_kills(layout, method, tmp_path):
    check_rows(layout, method, tmp_path, range(2, 8), n_kills=4)
