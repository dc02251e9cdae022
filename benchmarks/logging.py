"""Measure how much loggers slow down training.

    python -m benchmarks.logging                       # each logger, and all at once
    python -m benchmarks.logging --only all --rounds 20

PPO trains on CartPole with the settings of ``rlpyt train``: a row every 10,000 steps, nearly one
per second. W&B is offline, MLflow and trackio use local databases. Within one run, windows with and
without loggers take turns, so that differences between processes do not count; the cost is that of
neighbouring windows, in wall-clock time and in CPU time of the process that trains, which other
work on the machine disturbs less. Trackers have processes of their own. They read progress.csv, so
that in a window with loggers they also send the rows of the window before. It is measured after a
warm-up, in which the packages are imported.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import THREAD_VARIABLES, describe_machine

LOGGERS = {
    "all": "tensorboard,wandb,mlflow,trackio",
    **{name: name for name in ("tensorboard", "wandb", "mlflow", "trackio")},
}
KINDS = ("without", "with")
LOCAL = ("WANDB_API_KEY", "MLFLOW_TRACKING_URI", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")


class Windows:
    """Hook that measures the speed with and without loggers, in turns, and stops the run.

    Args:
        warm_up: seconds before the first window.
        seconds: duration of a window.
        rounds: number of pairs of windows.
    """

    def __init__(self, warm_up: float, seconds: float, rounds: int) -> None:
        self.seconds, self.rounds = seconds, rounds
        self.pairs: list[dict[str, dict[str, float]]] = [{} for _ in range(rounds)]
        self._end, self._window = time.monotonic() + warm_up, -1
        self._begin = (0, 0.0, 0.0)

    def on_start(self, runner: Any) -> None:
        """Keep the loggers, to attach and detach them."""
        from rlpyt.utils.logging import logger

        self._logger = logger.current()
        self._sinks = list(self._logger._sinks)

    def on_iteration(self, runner: Any, itr: int) -> None:
        """End a window when its time is up, and begin the next."""
        now = time.monotonic()
        if now < self._end:
            return
        marks = (runner.cum_steps, now, time.process_time())
        steps, wall_s, cpu_s = (b - a for a, b in zip(self._begin, marks))
        if self._window >= 0:
            kind = "with" if self._logger._sinks else "without"
            self.pairs[self._window // 2][kind] = {"wall": steps / wall_s, "cpu": steps / cpu_s}
        self._window += 1
        self._begin, self._end = marks, now + self.seconds
        # with, without, without, with, ...
        self._logger._sinks[:] = self._sinks if self._window % 4 in (0, 3) else []
        if self._window == 2 * self.rounds:
            self._logger._sinks[:] = self._sinks
            runner.request_stop()


def train(args: argparse.Namespace) -> None:
    """Train in this process, in the working directory, and print the speeds of each pair."""
    import rlpyt

    windows = Windows(args.warm_up, args.seconds, args.rounds)
    rlpyt.train(
        "ppo",
        "CartPole-v1",
        steps=10**9,
        run_dir="run",
        hooks=[windows],
        progress=False,
        logger=LOGGERS[args.one],
    )
    print(json.dumps(windows.pairs))


def run(name: str, args: argparse.Namespace) -> list[dict[str, dict[str, float]]]:
    """Train in a separate process; return the steps per second of each pair of windows."""
    command = [sys.executable, "-m", "benchmarks.logging", "--one", name]
    command += ["--seconds", str(args.seconds), "--warm-up", str(args.warm_up)]
    command += ["--rounds", str(args.rounds)]
    kept = {key: value for key, value in os.environ.items() if key not in LOCAL}
    with tempfile.TemporaryDirectory() as directory:
        own = {"PYTHONPATH": os.getcwd(), "WANDB_MODE": "offline", "TRACKIO_DIR": directory}
        done = subprocess.run(
            command,
            cwd=directory,
            env={**kept, **own, **dict.fromkeys(THREAD_VARIABLES, "1")},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode or "warning" in done.stderr.lower():
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    result: list[dict[str, dict[str, float]]] = json.loads(done.stdout.splitlines()[-1])
    return result


def report(results: dict[str, list[dict[str, dict[str, float]]]], args: argparse.Namespace) -> str:
    """Return a Markdown table of speeds and costs."""
    machine = describe_machine()
    lines = [
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores, commit "
        f"{machine['commit'][:9]}.",
        "",
        f"PPO on CartPole, {args.rounds} pairs of windows of {args.seconds:g} s after "
        f"{args.warm_up:g} s; medians, and the quartiles of the cost.",
        "",
        "| loggers | steps/s without | with | cost | quartiles | cost in CPU time | quartiles |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, pairs in results.items():
        speeds = [statistics.median(pair[key]["wall"] for pair in pairs) for key in KINDS]
        cells = [f"{speed:,.0f}" for speed in speeds]
        for clock in ("wall", "cpu"):
            costs = [100 * (1 - pair["with"][clock] / pair["without"][clock]) for pair in pairs]
            low, _, high = statistics.quantiles(costs)
            cells += [f"{statistics.median(costs):.1f} %", f"{low:.1f} to {high:.1f} %"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8, help="duration of a window")
    parser.add_argument("--warm-up", type=float, default=15, help="seconds before the first")
    parser.add_argument("--rounds", type=int, default=16, help="number of pairs of windows")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--output", type=Path, default=Path("data/benchmarks/logging.json"))
    parser.add_argument("--one", choices=LOGGERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        train(args)
        return
    results: dict[str, list[dict[str, dict[str, float]]]] = {}
    for name in LOGGERS:
        if args.only in name:
            results[name] = run(name, args)
            print(report({name: results[name]}, args).splitlines()[-1], flush=True)
    table = report(results, args)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps({"machine": describe_machine(), "results": results}))
    args.output.with_suffix(".md").write_text(table)
    print(f"\n{table}")


if __name__ == "__main__":
    main()
