"""Repeat the first part of a row of docs/results.md, and compare its returns with the row's own.

    python -m benchmarks.verify dqn-CartPole                      # two new seeds, 10 % of the steps
    python -m benchmarks.verify sac-Pendulum --seeds 3 --steps 30%
    python -m benchmarks.verify dqn-CartPole --algo.learning-rate 3e-3  # with another setting

Each run has the row's own command and is stopped after that part, so schedules are those of the
whole run. The score of a run is the mean return of the second half of this part. If the new scores
are drawn from the distribution of the row's, a normal one of unknown mean and variance,

    t = (mean_new - mean_row) / (s_row sqrt(1/n_new + 1/n_row))

has Student's distribution with n_row - 1 degrees of freedom. The probability of a difference as
large as that is printed; the exit code is 1 if it is below 5 %.
"""

from __future__ import annotations

import argparse
import math
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from benchmarks.learning import EXPERIMENTS, ROOT, Experiment
from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.vis.results import Curve

FIRST_SEED = 1000  # of new runs
ALARM = 0.05


def score(curve: Curve, n_rows: int) -> float:
    """Return the mean return of the second half of a curve's first rows."""
    return float(np.mean(curve.returns[n_rows // 2 : n_rows]))


def probability(new: Sequence[float], row: Sequence[float]) -> float:
    """Return the probability of so large a difference between the means of new and old scores.

    Args:
        new: at least one score.
        row: at least two scores.
    """
    spread = np.std(row, ddof=1) * math.sqrt(1 / len(new) + 1 / len(row))
    difference = abs(np.mean(new) - np.mean(row))
    if spread == 0:
        return float(difference == 0)
    return float(2 * student.sf(difference / spread, len(row) - 1))


def curve_of(directory: Path) -> Curve:
    """Return the learning curve of a run; empty if nothing has been logged."""
    if not (directory / "progress.csv").exists():
        return Curve(np.zeros(0), np.zeros(0))
    rows = read_progress(directory)
    steps = rows.get("Diagnostics/CumSteps", np.zeros(0))
    returns = rows.get("ReturnAverage", np.zeros(0))
    known = np.isfinite(returns)
    return Curve(steps[known], returns[known])


def begin_again(experiment: Experiment, words: Sequence[str], seed: int, steps: float) -> Curve:
    """Run an experiment with a seed until it has a row at this step; return its curve."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        command = [sys.executable, "-m", experiment.program, *shlex.split(experiment.command)]
        command += [*words, "--seed", str(seed), "--run-dir", str(directory), "--no-video"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            while process.poll() is None:
                time.sleep(0.5)
                if (curve_of(directory).steps >= steps).any():
                    break
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait()
        curve = curve_of(directory)
        if not (curve.steps >= steps).any():
            raise SystemExit(f"{shlex.join(command)} ended before step {steps:,.0f} (code {code}).")
        return curve


def main() -> int:
    """Run as described above; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("row", choices=[e.name for e in EXPERIMENTS.values() if e.shown])
    parser.add_argument("--seeds", type=int, default=2, help="number of new runs")
    parser.add_argument("--steps", default="10%", help="part of the row's steps")
    options, words = parser.parse_known_args()
    experiment = EXPERIMENTS[options.row].shown
    assert experiment is not None
    old = [curve_of(experiment.kept(seed)) for seed in experiment.seeds]
    steps = old[0].steps[-1] * float(options.steps.rstrip("%")) / 100
    n_rows = max(1, int(np.searchsorted(old[0].steps, steps * 1.001)))
    row = [score(curve, n_rows) for curve in old]
    print(f"{options.row}, rows {n_rows // 2 + 1} to {n_rows}: {np.round(row, 1).tolist()}")
    new = []
    for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
        curve = begin_again(experiment, words, seed, old[0].steps[n_rows - 1])
        new.append(score(curve, n_rows))
        print(f"seed {seed}: {new[-1]:.1f}", flush=True)
    found = probability(new, row)
    print(f"probability of such a difference: {found:.3f}")
    return int(found < ALARM)


if __name__ == "__main__":
    sys.exit(main())
