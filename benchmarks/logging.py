"""Compare the training speed with and without loggers.

    python -m benchmarks.logging                       # each logger, and all at once
    python -m benchmarks.logging --only all --rounds 10

PPO trains on CartPole with the settings of ``rlpyt train``: a row every 10,000 steps, several each
second. W&B is offline, MLflow and trackio use local databases. The runs take turns; the speed of
each is compared with that of the run without loggers in the same round. It is measured after a
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
    "none": "csv",
    "all": "tensorboard,wandb,mlflow,trackio",
    **{name: name for name in ("tensorboard", "wandb", "mlflow", "trackio")},
}
LOCAL = ("WANDB_API_KEY", "MLFLOW_TRACKING_URI", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")


class Clock:
    """Hook that measures steps per second from the end of the warm-up to the end of the run."""

    def __init__(self, warm_up_s: float) -> None:
        self.warm_up_s = warm_up_s
        self.since: tuple[float, int] | None = None
        self.speed = 0.0

    def on_start(self, runner: Any) -> None:
        """Start the clock."""
        self.started = time.monotonic()

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Begin to measure after the warm-up."""
        now = time.monotonic()
        if self.since is None and now - self.started >= self.warm_up_s:
            self.since = (now, runner.cum_steps)
        elif self.since is not None:
            self.speed = (runner.cum_steps - self.since[1]) / (now - self.since[0])


def train(args: argparse.Namespace) -> None:
    """Train in this process, in the working directory, and print the speed."""
    import rlpyt
    from rlpyt.runners.hooks import TimeLimit

    clock = Clock(args.warm_up)
    rlpyt.train(
        "ppo",
        "CartPole-v1",
        steps=10**9,
        run_dir="run",
        hooks=[clock, TimeLimit(args.warm_up + args.seconds)],
        progress=False,
        logger=LOGGERS[args.one],
    )
    n_rows = len(Path("run/progress.csv").read_text().splitlines()) - 1
    print(json.dumps({"speed": clock.speed, "rows": n_rows}))


def run(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Train in a separate process; return its speed and its number of rows."""
    command = [sys.executable, "-m", "benchmarks.logging", "--one", name]
    command += ["--seconds", str(args.seconds), "--warm-up", str(args.warm_up)]
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
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def report(results: dict[str, list[dict[str, Any]]], args: argparse.Namespace) -> str:
    """Return a Markdown table; costs are relative to the run without loggers of the same round."""
    machine = describe_machine()
    lines = [
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores, commit "
        f"{machine['commit'][:9]}.",
        "",
        f"PPO on CartPole, {args.seconds:g} s after {args.warm_up:g} s; {args.rounds} rounds in "
        "turns, medians; lowest and highest cost of a round.",
        "",
        "| loggers | steps/s | rows/s | cost | lowest | highest |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    base = [row["speed"] for row in results["none"]]
    for name, rows in results.items():
        costs = [100 * (1 - row["speed"] / plain) for row, plain in zip(rows, base)]
        speed = statistics.median(row["speed"] for row in rows)
        rate = statistics.median(row["rows"] for row in rows) / (args.warm_up + args.seconds)
        cells = [f"{speed:,.0f}", f"{rate:.1f}"]
        cells += [f"{x:.1f} %" for x in (statistics.median(costs), min(costs), max(costs))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30, help="measured time of each run")
    parser.add_argument("--warm-up", type=float, default=15, help="seconds before")
    parser.add_argument("--rounds", type=int, default=5, help="number of runs of each kind")
    parser.add_argument("--only", default="", help="kinds whose name contains this, and none")
    parser.add_argument("--output", type=Path, default=Path("data/benchmarks/logging.json"))
    parser.add_argument("--one", choices=LOGGERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        train(args)
        return
    names = [name for name in LOGGERS if name == "none" or args.only in name]
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for i in range(args.rounds):
        for name in names:
            results[name].append(run(name, args))
            print(f"round {i + 1}, {name}: {results[name][-1]['speed']:,.0f} steps/s", flush=True)
    table = report(results, args)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps({"machine": describe_machine(), "results": results}))
    args.output.with_suffix(".md").write_text(table)
    print(f"\n{table}")


if __name__ == "__main__":
    main()
