"""Updates per second of many agents as one, and the time of ten seeds to a return.

    python -m benchmarks.population            # updates per second, 1 to 32 agents
    python -m benchmarks.population --hidden 256 --agents 1 8
    python -m benchmarks.population --to 475   # ten seeds of CartPole, as one and one by one

PPO on CartPole with one torch thread. Updates per second are those of the second half of each run,
with two layers of 64 units (``--hidden``) and minibatches of 64, sampling included. With ``--to``
every run stops when the mean return of its latest episodes reaches the number; the time of the runs
one by one is divided by the number of cores, as if each core had always had one. The result is
written to benchmarks/results/population.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import rlpyt
from benchmarks.harness import describe_machine
from rlpyt.runners.hooks import Hook, StopAtReturn

RESULTS = Path(__file__).parent / "results" / "population.json"
SAMPLER = {"kind": "serial", "batch_T": 128, "batch_B": 8}
UPDATES = {"minibatches": 16, "epochs": 10}
QUIET: dict[str, Any] = {"progress": False, "eval_episodes": 0, "video": False}
ITERATIONS = 10


class Clock(Hook):
    """Hook that keeps the time of every iteration of every run."""

    times: dict[int, list[float]] = {}

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Keep the time."""
        self.times.setdefault(itr, []).append(time.perf_counter())


def updates_per_second(n_agents: int, hidden: int) -> float:
    """Return the updates per second of all agents together."""
    Clock.times.clear()
    with tempfile.TemporaryDirectory() as directory:
        rlpyt.train(
            "ppo",
            "CartPole-v1",
            seeds=range(n_agents),
            steps=1024 * ITERATIONS,
            log_interval_steps=10**6,
            checkpoint_interval_steps=0,
            sampler=SAMPLER,
            hooks=[Clock()],
            run_dir=Path(directory, "runs"),
            hidden_sizes=[hidden, hidden],
            **UPDATES,
            **QUIET,
        )
    first, last = ITERATIONS // 2, ITERATIONS - 1
    seconds = max(Clock.times[last]) - max(Clock.times[first])
    return n_agents * (last - first) * UPDATES["minibatches"] * UPDATES["epochs"] / seconds


def seconds_to(return_: float, seeds: Sequence[int]) -> float:
    """Return the seconds until all runs have reached a return."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        rlpyt.train(
            "ppo",
            "CartPole-v1",
            seeds=seeds,
            steps=200_000,
            hooks=[StopAtReturn(return_)],
            run_dir=Path(directory, "runs"),
            sampler={"kind": "serial"},
            **QUIET,
        )
    return time.perf_counter() - started


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=float, help="measure the time of ten seeds to this return")
    parser.add_argument("--agents", type=int, nargs="+", default=[1, 8, 16, 32])
    parser.add_argument("--hidden", type=int, default=64, help="units of each of two layers")
    args = parser.parse_args()
    torch.set_num_threads(1)
    result = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if args.to is None:
        rates = {n: updates_per_second(n, args.hidden) for n in args.agents}
        for n, rate in rates.items():
            print(f"{n:3} agents: {rate:8.0f} updates/s, {rate / rates[args.agents[0]]:.2f} times")
        name = f"updates_per_second_{args.hidden}"
        result[name] = {str(n): round(rate, 1) for n, rate in rates.items()}
    else:
        together = seconds_to(args.to, range(10))
        each = [seconds_to(args.to, [seed]) for seed in range(10)]
        cores = os.cpu_count() or 1
        print(f"ten seeds to {args.to:g}: {together:.0f} s as one; one by one {sum(each):.0f} s,")
        print(
            f"on {cores} cores {sum(each) / cores:.0f} s; ratio {together * cores / sum(each):.2f}"
        )
        result["seconds_to"] = {"return": args.to, "together": together, "each": each}
    result["machine"] = describe_machine()
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
