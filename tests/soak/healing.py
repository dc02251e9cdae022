"""Soak test of ``on_fault``: samplers go on through faults of all kinds, and spoil no data.

    python -m benchmarks.chaos --heal                    # 200 faults: about ten minutes
    python -m benchmarks.chaos --heal --faults 20        # a short series
    python -m benchmarks.chaos --heal --learn            # is learning spoilt? ten minutes
    python -m benchmarks.chaos --heal --only "lost rank" # one row of the table

Each layout takes its share of the faults, in one sampler each. A fault hits one environment in its
next step; the batch in which that happens and all others are checked row by row
(`tests.oracles.healed`). The table has, by layout: faults; batches; the share of void steps; and
the time that a batch with a fault took longer than the median one, the largest beside the limit on
a standstill (``env_timeout``). The further rows are runs around which something fails
(`tests.soak.surroundings`): all of their rows are in progress.csv; their time is the mean that a
fault has cost. Results are written to benchmarks/results/healing.json.

``--learn`` trains PPO on CartPole for 25,000 steps with ten seeds, and with ten others in an
environment that raises in one of 5,000 steps. It prints the mean return of 50 undisturbed episodes
of each trained agent, with sampled actions, and the probability of improvement of undisturbed runs
over disturbed ones.
"""

import argparse
import csv
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import rlpyt
from benchmarks.harness import describe_machine
from rlpyt.processes.call import run_in_child
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func
from rlpyt.vis.comparisons import improvement
from tests.faulty import DISASTERS, LIES, FaultyEnv
from tests.oracles.healed import HealedRows
from tests.oracles.leaks import left_since, take_stock
from tests.parts import EchoAgent
from tests.soak import surroundings

OUTPUT = Path(__file__).parents[2] / "benchmarks" / "results" / "healing.json"
OUT_OF_MEMORY = "out of memory"
OF_ENVS = ("raise", "unpicklable", "exit", "nan", "observation shape", "observation complex",
           "observation text", "reward none", "done array", "three parts")  # fmt: skip
OF_WORKERS = ("vanish", "kill", "segfault", "abort", "bus error", "hang", "freeze", "stop",
              OUT_OF_MEMORY)  # fmt: skip
STANDSTILLS = ("hang", "freeze", "stop")
SHARE = 1 / 5000  # of steps in which the environment of ``--learn`` raises
LAYOUTS = (SerialSampler, CpuSampler, GpuSampler, AlternatingSampler)
T, B, TIMEOUT_S, BETWEEN = 128, 8, 2.0, 60  # BETWEEN: batches between two faults


class ChaosEnv(FaultyEnv):
    """An environment that fails in its next step when the parent writes a number into a file.

    Args:
        index: place of its number in the file.
        orders: file with a byte for each environment: 0, or 1 + the place of a fault.
    """

    def __init__(self, index: int, orders: str, **kwargs: Any) -> None:
        super().__init__(fault="none", **kwargs)
        self._index, self._orders = index, os.open(orders, os.O_RDWR)

    def step(self, action: Any) -> Any:
        """Step, or fail as ordered."""
        (order,) = os.pread(self._orders, 1, self._index)
        if not order:
            return super().step(action)
        os.pwrite(self._orders, b"\0", self._index)
        fault = (*OF_ENVS, *OF_WORKERS)[order - 1]
        if fault == OUT_OF_MEMORY:
            surroundings.run_out_of_memory()
        if fault in DISASTERS:
            DISASTERS[fault](self)
        return LIES[fault](super().step(action))

    def close(self) -> None:
        """Close the file, too."""
        super().close()
        os.close(self._orders)


def heal(SamplerCls: Any, n_faults: int, seed: int) -> dict[str, Any]:
    """Let a sampler go through faults; return what was counted.

    Raises:
        AssertionError: a row is wrong.
    """
    rng = np.random.default_rng(seed)
    kinds = [*OF_ENVS, *(() if SamplerCls is SerialSampler else OF_WORKERS)]
    if not surroundings.can_run_out_of_memory():
        kinds = [kind for kind in kinds if kind != OUT_OF_MEMORY]
    with tempfile.TemporaryDirectory() as directory:
        orders = Path(directory, "orders")
        orders.write_bytes(bytes(B))
        sampler = SamplerCls(
            EnvCls=ChaosEnv,
            env_kwargs=[dict(index=b, orders=str(orders), length=50) for b in range(B)],
            batch_T=T,
            batch_B=B,
            max_decorrelation_steps=0,
            env_timeout=TIMEOUT_S,
            on_fault=dict(
                env_error="restart_env",
                **dict.fromkeys(("env_hang", "worker_death"), "restart_worker"),
                max_per_hour=10**6,
                backoff_s=0.1,
            ),
        )
        rows, plain, late, n_batches = HealedRows(B), [], [], 0
        faults = [kind for kind, _ in zip(itertools.cycle(rng.permutation(kinds)), range(n_faults))]
        try:
            sampler.initialize(EchoAgent(), dict(n_workers=2, set_affinity=False), seed=seed)
            for fault in [None, *faults]:
                for i in range(BETWEEN):
                    if fault is not None and not i:
                        order = bytearray(B)
                        order[rng.integers(B)] = 1 + (*OF_ENVS, *OF_WORKERS).index(fault)
                        orders.write_bytes(order)
                    start = time.perf_counter()
                    samples, infos = sampler.obtain_samples(n_batches)
                    taken = time.perf_counter() - start
                    n_batches += 1
                    rows.check(buffer_func(samples, lambda leaf: leaf.numpy()), infos)
                    if i or fault is None:
                        plain.append(taken)
                    else:
                        late.append((taken, str(fault)))
        finally:
            sampler.shutdown()
            surroundings.remove_cgroups()
    usual = statistics.median(plain)
    extra = [s - usual - TIMEOUT_S * (fault in STANDSTILLS) for s, fault in late]
    return {
        "layout": SamplerCls.__name__,
        "faults": len(faults),
        "kinds": sorted({*faults}),
        "batches": n_batches,
        "void": rows.n_void / (n_batches * T * B),
        "median_extra_s": statistics.median(extra),
        "largest_extra_s": max(extra),
    }


class UnreliableCartPole(gymnasium.Wrapper[Any, Any, Any, Any]):
    """CartPole that raises in a share of its steps, but not in the one that tries it out."""

    share = 0.0
    n_steps = 0

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action: Any) -> Any:
        """Step, or raise."""
        self.n_steps += 1
        if self.n_steps > 1 and self.np_random.random() < self.share:
            raise RuntimeError("unreliable")
        return super().step(action)


def learning() -> dict[str, Any]:
    """Train undisturbed and disturbed runs; return their scores and the comparison."""
    scores: dict[float, list[float]] = {0.0: [], SHARE: []}
    void, policy = [], {"env_error": "restart_env", "max_per_hour": 10**6}
    for seed, share in itertools.product(range(10), scores):
        UnreliableCartPole.share = share
        with tempfile.TemporaryDirectory() as directory:
            run = rlpyt.train(
                "ppo",
                UnreliableCartPole,
                steps=25_000,
                seed=seed + 100 * (share > 0),
                run_dir=directory,
                eval_episodes=0,
                video=False,
                sampler="serial",
                on_fault=policy,
            )
            with open(Path(directory, "progress.csv")) as file:
                *_, row = csv.DictReader(file)
            UnreliableCartPole.share = 0.0
            evaluation = run.evaluate(50, deterministic=False)
            scores[share].append(statistics.mean(evaluation.returns))
        void += [float(row["Diagnostics/VoidSteps"]) / 25_000] if share else []
        print(f"share {share:g}, seed {seed}: {scores[share][-1]:.1f}", flush=True)
    plain, disturbed = scores.values()
    found = improvement([np.array(plain)], [np.array(disturbed)])
    print(f"void steps {statistics.mean(void):.2%}")
    print(f"P(undisturbed > disturbed) = {found[0]:.2f} [{found[1]:.2f}, {found[2]:.2f}]")
    return {
        "share": SHARE,
        "undisturbed": plain,
        "disturbed": disturbed,
        "void": void,
        "improvement": found,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of all layouts, and write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos --heal", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--faults", type=int, default=200, help="faults of all layouts (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the series (0)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the JSON goes")
    names = [*(cls.__name__ for cls in LAYOUTS), *surroundings.AROUND]
    parser.add_argument("--only", choices=names, help="one row of the table (all)")
    parser.add_argument("--learn", action="store_true", help="compare learning instead")
    settings = parser.parse_args(arguments)
    if settings.learn:
        output = settings.output.with_name("healing_learning.json")
        output.write_text(json.dumps(learning() | {"machine": describe_machine()}, indent=1) + "\n")
        return 0
    print(f"{'layout':20} faults  batches    void  median  largest extra s", flush=True)
    start, results = time.monotonic(), []
    run_in_child(os.getpid)  # starts what stays open
    before = take_stock()
    for SamplerCls in [cls for cls in LAYOUTS if settings.only in (None, cls.__name__)]:
        row = heal(SamplerCls, -(-settings.faults // len(LAYOUTS)), settings.seed)
        results.append(row)
        print(
            f"{row['layout']:20} {row['faults']:6d} {row['batches']:8d} {row['void']:7.3%} "
            f"{row['median_extra_s']:7.2f} {row['largest_extra_s']:8.2f}",
            flush=True,
        )
    assert not (left := left_since(before)), left
    for name in [name for name in surroundings.AROUND if settings.only in (None, name)]:
        with tempfile.TemporaryDirectory() as directory:
            row = surroundings.AROUND[name](Path(directory), -(-settings.faults // 40))
        results.append({"layout": name, **row})
        print(f"{name:20} {row['faults']:6d} {row.get('extra_s', 0.0):33.2f}", flush=True)
    result = {
        "command": " ".join(["python -m benchmarks.chaos --heal", *(arguments or [])]),
        "machine": describe_machine(),
        "minutes": round((time.monotonic() - start) / 60, 1),
        "layouts": results,
    }
    settings.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{result['minutes']} minutes; written to {settings.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
