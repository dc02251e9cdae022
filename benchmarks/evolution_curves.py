"""Plot return over wall time of CMA-ES and of the cma package with a pool of two processes.

    python -m benchmarks.evolution_curves                  # about eight minutes on two cores
    python -m benchmarks.evolution_curves --only cartpole
    python -m benchmarks.evolution_curves --report         # run nothing, draw plots

The searches are those of `benchmarks.evolution`: 32 candidates, an MLP with 32 hidden units,
diagonal covariance; each runs for a fixed time, in turn with the others. A row is a generation,
its return the mean of its candidates. Rows are written to data/results/es-..., plots to
docs/images.
"""

import argparse
import csv
import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.evolution import cma_pool, rlpyt_run
from benchmarks.harness import THREAD_VARIABLES
from benchmarks.learning import EARLIER_SEEDS, IMAGES, RUNS
from rlpyt.processes.call import run_in_child
from rlpyt.vis.curves import plot_runs

# Environment, seconds, and arguments of rlpyt's search.
SEARCHES: dict[str, tuple[str, float, dict[str, Any]]] = {
    "cartpole": ("CartPole-v1", 6.0, {"batched": True}),
    "pendulum": ("Pendulum-v1", 25.0, {}),
    "halfcheetah": ("HalfCheetah-v5", 45.0, {}),
}
CONTENDERS: dict[str, Any] = {
    "rlpyt": (rlpyt_run, {}),  # arguments come from SEARCHES
    "cma-pool": (cma_pool, {"policy": "numpy"}),  # the faster of the two variants
}
COLUMNS = ("Diagnostics/CumSteps", "Diagnostics/CumTime (s)", "ReturnAverage")


def run_directory(search: str, contender: str, seed: int) -> Path:
    """Return the directory of a search."""
    return RUNS / f"es-{search}-{contender}" / f"run_{seed}"


def record(search: str, contender: str, seed: int) -> None:
    """Run one search until its time is over, excluding startup."""
    (env_id, seconds, ours), (build, kwargs) = SEARCHES[search], CONTENDERS[contender]
    kwargs = ours if contender == "rlpyt" else kwargs
    directory = run_directory(search, contender, seed)
    directory.mkdir(parents=True, exist_ok=True)
    config = {"env": env_id, "by": contender, "seed": seed}
    (directory / "config.json").write_text(json.dumps(config) + "\n", encoding="utf-8")
    workload = build(env_id, seed=seed, **kwargs)
    next(workload)  # starts processes; its generation counts as the first row
    steps, started = 0, time.perf_counter()
    with open(directory / "progress.csv", "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        passed = 0.0
        while passed < seconds:
            generation = next(workload)
            passed = time.perf_counter() - started
            steps += generation.steps
            rows.writerow([steps, passed, generation.return_])
    workload.close()


def main() -> None:
    """Run searches in turn and draw the plots."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run searches whose name contains this")
    parser.add_argument("--report", action="store_true", help="run nothing, draw plots")
    args = parser.parse_args()
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    chosen = [search for search in SEARCHES if args.only in search]
    for seed in () if args.report else EARLIER_SEEDS:
        for search in chosen:
            for contender in CONTENDERS:
                print(f"{search}, {contender}, seed {seed}", flush=True)
                run_in_child(record, search, contender, seed, what="a search")
    for search in chosen:
        paths = [RUNS / f"es-{search}-{contender}" for contender in CONTENDERS]
        image = IMAGES / f"es-{search}.png"
        print(plot_runs(paths, image, x="Diagnostics/CumTime (s)", x_label="seconds"))


if __name__ == "__main__":
    main()
