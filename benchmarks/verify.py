"""Repeat the first part of a row of docs/results, and compare its runs with the row's own.

    python -m benchmarks.verify dqn-CartPole                      # two new seeds, 10 % of the steps
    python -m benchmarks.verify sac-Pendulum --seeds 3 --steps 30%
    python -m benchmarks.verify dqn-CartPole --algo.learning-rate 3e-3  # with another setting
    python -m benchmarks.verify dqn-CartPole --steps 30% --record  # the row's seeds, all columns
    python -m benchmarks.verify planted                           # faults that should be found

Each run has the row's own command and is stopped after that part, so schedules are those of the
whole run. The score of a run is the mean of a column over the second half of this part. If the new
scores are drawn from the distribution of the row's, a normal one of unknown mean and variance,

    t = (mean_new - mean_row) / (s_row sqrt(1/n_new + 1/n_row))

has Student's distribution with n_row - 1 degrees of freedom. Results keep the return alone. Where
losses, norms of gradients and the like were recorded (`--record`, benchmarks/results/verify), they
are compared, too: many faults change them long before the return. The smallest probability of m
columns is multiplied by m (Bonferroni). The exit code is 1 if the result is below 5 %.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from benchmarks.harness import describe_machine
from benchmarks.learning import EXPERIMENTS, ROOT, Experiment
from rlpyt.utils.logging.progress_csv import read_progress

RECORDED = ROOT / "benchmarks" / "results" / "verify"
FIRST_SEED = 1000  # of new runs
# Faults that a check should find: row and changed settings. The first of each row has none.
PLANTED = [
    ("dqn-CartPole", ""),
    ("dqn-CartPole", "--algo.target-update-interval 1 --algo.target-update-tau 1.0"),
    ("dqn-CartPole", "--algo.learning-rate 7.5e-4"),  # three times the preset's, as below
    ("dqn-CartPole", "--algo.discount 0.9"),
    ("ppo-CartPole", ""),
    ("ppo-CartPole", "--algo.learning-rate 3e-3"),
    ("ppo-CartPole", "--algo.epochs 1"),
    ("ppo-CartPole", "--algo.gae-lambda 0.0"),
    ("sac-Pendulum", ""),
    ("sac-Pendulum", "--algo.target-update-tau 1.0"),
    ("sac-Pendulum", "--algo.learning-rate 3e-3"),
    ("td3-Pendulum", ""),
    ("td3-Pendulum", "--algo.target-update-tau 1.0"),
    ("td3-Pendulum", "--algo.learning-rate 3e-3 --algo.q-learning-rate 3e-3"),
]
ALARM = 0.05
STEPS, RETURN = "Diagnostics/CumSteps", "ReturnAverage"
Table = Mapping[str, np.ndarray[Any, Any]]  # columns of progress.csv, one value per row


def score(values: Sequence[float] | np.ndarray[Any, Any], n_rows: int) -> float:
    """Return the mean over the second half of a column's first rows."""
    return float(np.mean(values[n_rows // 2 : n_rows]))


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


def compared(
    new: Sequence[Table], row: Sequence[Table], n_rows: int
) -> dict[str, tuple[float, float, float]]:
    """Return (mean of the row, mean of the new runs, probability) of each column that all have."""
    found = {}
    for name in _columns(row[0]):
        if all(name in table for table in (*new, *row)):
            ours, theirs = ([score(x[name], n_rows) for x in tables] for tables in (new, row))
            if np.isfinite([*ours, *theirs]).all():
                means = float(np.mean(theirs)), float(np.mean(ours))
                found[name] = (*means, probability(ours, theirs))
    return found


def together(found: Mapping[str, tuple[float, float, float]]) -> float:
    """Return the probability of the most different column, times the number of columns."""
    return min(1.0, len(found) * min(p for *_, p in found.values()))


def _columns(table: Table) -> Iterator[str]:
    """Yield the columns to compare: returns, lengths, and means of what updates record."""
    for name in table:
        derived = name.startswith(("Diagnostics/", "Training/", "Nonzero", "Discounted"))
        if name.endswith("Average") and not derived:
            yield name


def table_of(directory: Path) -> Table:
    """Return the rows of a run that have a return, none if nothing has been logged."""
    if not (directory / "progress.csv").exists():
        return {STEPS: np.zeros(0), RETURN: np.zeros(0)}
    rows = read_progress(directory)
    known = np.isfinite(rows[RETURN]) if RETURN in rows else np.zeros(0, bool)
    return {STEPS: np.zeros(0)} | {
        name: values[known] for name, values in rows.items() if len(values) == len(known)
    }


def begin_again(
    experiment: Experiment, words: Sequence[str], seeds: Sequence[int], steps: float
) -> list[Table]:
    """Run an experiment with some seeds until each has a row at this step; return their tables."""
    if len(seeds) > 1 and not experiment.together:
        return [table for seed in seeds for table in begin_again(experiment, words, [seed], steps)]
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        command = [sys.executable, "-m", experiment.program, *shlex.split(experiment.command)]
        command += [*words, "--run-dir", str(directory), "--no-video"]
        runs = [directory]
        if len(seeds) > 1:  # as one, which gives the numbers of single runs
            runs = [directory / f"seed_{seed}" for seed in seeds]
            command += ["--seeds", ",".join(map(str, seeds)), "--torch-threads", "1"]
        else:
            command += ["--seed", str(seeds[0])]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            while process.poll() is None and not _all_have(runs, steps):
                time.sleep(0.5)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait()
        if not _all_have(runs, steps):
            raise SystemExit(f"{shlex.join(command)} ended before step {steps:,.0f} (code {code}).")
        return [table_of(run) for run in runs]


def _all_have(runs: Sequence[Path], steps: float) -> bool:
    return all((table_of(run)[STEPS] >= steps).any() for run in runs)


def record(experiment: Experiment, steps: float) -> None:
    """Save the first part of the row's own seeds, with all columns that are compared."""
    tables = begin_again(experiment, [], experiment.seeds, steps)
    names = [STEPS, *_columns(tables[0])]
    seeds = {
        str(seed): {name: [float(f"{x:.6g}") for x in table[name]] for name in names}
        for seed, table in zip(experiment.seeds, tables, strict=True)
    }
    about = {"command": experiment.command_line, "machine": describe_machine(), "seeds": seeds}
    RECORDED.mkdir(parents=True, exist_ok=True)
    (RECORDED / f"{experiment.name}.json").write_text(json.dumps(about) + "\n")


def tables_of_row(experiment: Experiment) -> list[Table]:
    """Return the row's runs: their recorded first part, or the return alone of its results."""
    path = RECORDED / f"{experiment.name}.json"
    if not path.exists():
        return [table_of(experiment.kept(seed)) for seed in experiment.seeds]
    seeds = json.loads(path.read_text())["seeds"].values()
    return [{name: np.array(values) for name, values in table.items()} for table in seeds]


def check(experiment: Experiment, words: Sequence[str], part: float, n_seeds: int) -> float:
    """Compare new runs with the row's, and print both; return the probability.

    Args:
        experiment: the row.
        words: settings to change.
        part: share of the row's steps.
        n_seeds: number of new runs.
    """
    row = tables_of_row(experiment)
    n_rows = max(1, int(np.searchsorted(row[0][STEPS], _steps_of(experiment) * part * 1.001)))
    print(f"{shlex.join([experiment.name, *words])}, rows {n_rows // 2 + 1} to {n_rows}")
    seeds = range(FIRST_SEED, FIRST_SEED + n_seeds)
    new = begin_again(experiment, words, seeds, row[0][STEPS][n_rows - 1])
    found = compared(new, row, n_rows)
    for name, (theirs, ours, p) in sorted(found.items(), key=lambda item: item[1][2]):
        print(f"{name:24} {theirs:12.5g} {ours:12.5g}   {p:.4f}")
    result = together(found)
    print(f"probability of such a difference: {result:.4f}", flush=True)
    return result


def _steps_of(experiment: Experiment) -> float:
    return float(table_of(experiment.kept(experiment.seeds[0]))[STEPS][-1])


def main() -> int:
    """Run as described above; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    rows = {e.name: e for e in EXPERIMENTS.values() if e.complete}
    parser.add_argument("row", choices=["planted", *rows])
    parser.add_argument("--seeds", type=int, default=2, help="number of new runs")
    parser.add_argument("--steps", default="10%", help="part of the row's steps")
    parser.add_argument("--record", action="store_true", help="run the row's seeds and keep them")
    options, words = parser.parse_known_args()
    part = float(options.steps.rstrip("%")) / 100
    if options.row == "planted":
        found = {
            f"{name} {words}".strip(): check(rows[name], shlex.split(words), part, options.seeds)
            for name, words in PLANTED
        }
        about = {"part": part, "seeds": options.seeds, "machine": describe_machine()}
        text = json.dumps({**about, "probabilities": found}, indent=1)
        (RECORDED / "planted.json").write_text(f"{text}\n")
        return 0
    if options.record:
        record(rows[options.row], part * _steps_of(rows[options.row]))
        return 0
    return int(check(rows[options.row], words, part, options.seeds) < ALARM)


if __name__ == "__main__":
    sys.exit(main())
