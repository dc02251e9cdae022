"""Steps per second of TensorSampler in a CartPole of tensors.

    python -m benchmarks.tensors             # 4,096 rows, one and two torch threads
    python -m benchmarks.tensors --rows 65536 --device cuda:0

The environment is that of examples/tensor_environment.py. Policy and value function have two layers
of 64 units, in common ("shared") or each its own ("separate"); both are evaluated at every step. A
batch has 32 steps of all rows.
Batches are timed one by one. Printed are the median, the fastest tenth, and the steps per second of
CPU time of all threads, which depends less on what else uses the cores. The result is written to
benchmarks/results/tensors.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.harness import describe_machine
from examples.tensor_environment import CartPole
from rlpyt import CategoricalMlpAgent, TensorSampler

RESULTS = Path(__file__).parent / "results" / "tensors.json"
BATCH_T = 32


def steps_per_second(
    n_rows: int, device: str, seconds: float, shared: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the environment steps of each batch per second, and per second of CPU time."""
    sampler = TensorSampler(
        CartPole,
        dict(device=device),
        batch_T=BATCH_T,
        batch_B=n_rows,
        max_decorrelation_steps=0,
    )
    agent = CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[64, 64], shared=shared))
    index = torch.device(device).index
    affinity = dict(n_workers=1) if device == "cpu" else dict(n_workers=1, cuda_idx=index or 0)
    sampler.initialize(agent, affinity=affinity, seed=0, bootstrap_value=True)
    agent.to_device(None if device == "cpu" else index or 0)
    rates: list[tuple[float, float]] = []
    warm_until = time.perf_counter() + seconds / 5
    until = warm_until + seconds
    while time.perf_counter() < until or not rates:
        started, cpu_started = time.perf_counter(), time.process_time()
        sampler.obtain_samples(0)  # which ends with a copy to the host
        if started > warm_until:
            took = time.perf_counter() - started, time.process_time() - cpu_started
            rates.append((n_rows * BATCH_T / took[0], n_rows * BATCH_T / took[1]))
    sampler.shutdown()
    by_wall, by_cpu = np.array(rates).T
    return by_wall, by_cpu


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=20)
    args = parser.parse_args()
    measured = {"machine": describe_machine(), "rates": {}}
    for network, threads in itertools.product(("shared", "separate"), args.threads):
        torch.set_num_threads(threads)
        by_wall, by_cpu = steps_per_second(
            args.rows, args.device, args.seconds, network == "shared"
        )
        median, fast = (round(float(np.percentile(by_wall, p))) for p in (50, 90))
        result = {"median": median, "fastest_tenth": fast, "per_cpu_second": int(np.median(by_cpu))}
        name = f"{args.rows} rows on {args.device}, {network} layers, {threads} threads"
        print(f"{name}, {len(by_wall)} batches: {result}")
        measured["rates"][name] = {"batches": len(by_wall), **result}
    RESULTS.write_text(json.dumps(measured, indent=2) + "\n")


if __name__ == "__main__":
    main()
