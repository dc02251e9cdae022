"""Measure the scaling of served sampling and synchronous ranks, with environments that sleep.

    python -m benchmarks.scaling                     # 1, 2, 4 and 8 workers and ranks
    python -m benchmarks.scaling --part ranks --numbers 1 2 4

A step that sleeps needs no core, so many workers fit on few cores: the benchmark measures the cost
of communication and waiting, not of the steps. Computation (acting, gradients) still shares the
available cores; rows with more processes than cores are marked. Efficiency is the rate relative to
that of the same number of independent workers or single ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import THREAD_VARIABLES, describe_machine

os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))  # before torch is imported

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.hooks import Hook
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler

STEP_S = 2e-3
T, ENVS_PER_PROCESS = 64, 4
NETWORK = dict(hidden_sizes=[256, 256])


class SleepEnv(CountEnv):
    """`CountEnv` whose steps take ``STEP_S`` seconds and no CPU time."""

    def step(self, action: Any) -> Any:
        """Sleep, then step."""
        time.sleep(STEP_S)
        return super().step(action)


class Rate(Hook):
    """Hook that measures environment steps per second from the second iteration on."""

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Update the rate."""
        now = time.monotonic()
        if itr == 0:
            self.started = now
        else:
            self.rate = itr * runner.itr_batch_size / (now - self.started)


def served(n: int, Sampler: Any = GpuSampler, n_batches: int = 4) -> float:
    """Return the steps per second of n workers with actions served by one process."""
    sampler = Sampler(
        EnvCls=SleepEnv, env_kwargs={}, batch_T=T, batch_B=n * ENVS_PER_PROCESS,
        max_decorrelation_steps=0,
    )  # fmt: skip
    sampler.initialize(CategoricalMlpAgent(model_kwargs=NETWORK), dict(n_workers=n), seed=0)
    try:
        sampler.obtain_samples(0)
        started = time.monotonic()
        for itr in range(1, 1 + n_batches):
            sampler.obtain_samples(itr)
        return n_batches * sampler.batch_size / (time.monotonic() - started)
    finally:
        sampler.shutdown()


def alternating(n: int) -> float:
    """Return the same with two alternating groups of workers; n must be even."""
    return served(n, AlternatingSampler)


def ranks(n: int, n_itr: int = 6) -> float:
    """Return the steps per second of n ranks that average the gradients of PPO."""
    rate = Rate()
    runner = SyncRl(
        algo=PPO(minibatches=1, epochs=1),
        agent=CategoricalMlpAgent(model_kwargs=NETWORK),
        sampler=SerialSampler(
            EnvCls=SleepEnv, env_kwargs={}, batch_T=T, batch_B=ENVS_PER_PROCESS,
            max_decorrelation_steps=0,
        ),
        n_steps=n_itr * n * T * ENVS_PER_PROCESS,
        seed=0,
        affinity=[dict(n_workers=1, master_torch_threads=1)] * n,
        log_interval_steps=10**9,
        hooks=[rate],
    )  # fmt: skip
    runner.train()
    return rate.rate


PARTS: dict[str, Callable[[int], float]] = {
    "served": served,
    "alternating": alternating,
    "ranks": ranks,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--numbers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--output", type=Path, default=Path("data/benchmarks/scaling.json"))
    args = parser.parse_args()
    machine = describe_machine()
    alone = 1 / STEP_S  # rate of an independent worker, which steps its environments in turn
    rows: list[dict[str, Any]] = []
    for part in args.part or PARTS:
        single = None
        for n in args.numbers:
            if part == "alternating" and n % 2:
                continue
            rate = PARTS[part](n)
            single = single or rate / n
            ideal = n * (single if part == "ranks" else alone)
            over = n + (part != "ranks") > machine["cores"]
            rows.append(dict(part=part, n=n, rate=rate, efficiency=rate / ideal, over=over))
            print(rows[-1], flush=True)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))
    table = ["| what | processes | steps/s | efficiency | |", "| --- | ---: | ---: | ---: | --- |"]
    for row in rows:
        mark = "more processes than cores" if row["over"] else ""
        table.append(
            f"| {row['part']} | {row['n']} | {row['rate']:,.0f} "
            f"| {row['efficiency']:.2f} | {mark} |"
        )
    text = "\n".join(table) + "\n"
    args.output.with_suffix(".md").write_text(text)
    print(f"\n{machine['date']}, {machine['processor']}, {machine['cores']} cores\n\n{text}")


if __name__ == "__main__":
    main()
