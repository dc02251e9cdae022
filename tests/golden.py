"""Compare the training of two versions of the code, number by number.

    python -m tests.golden write data/golden.json
    python -m tests.golden compare data/golden.json   # prints the runs that differ; exit code 1

A run is 50 iterations of an algorithm in a sampler, with small networks. The file has the
statistics of every update (losses, gradient norms) and, after every iteration, the sum of each of
the agent's arrays in float64, all of them exact. Other CPUs and releases of torch round in other
ways: write and compare on one machine. `--only TEXT` takes the runs whose name contains the text.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from rlpyt.experiments.build import build_runner
from rlpyt.runners.hooks import Hook
from tests.combinations import AXES, EXTRA, ON_POLICY, Q_LEARNING, B, Cell, T, options, refusal

N_ITR = 50
CONTINUOUS = ("sac", "td3", "ddpg", "sac_v", "redq", "tqc")
DISCRETE = (*ON_POLICY, *Q_LEARNING, "rainbow")


def cells() -> list[Cell]:
    """Return all algorithms in all samplers, with memory in two of them, and unusual runs."""
    plain = [
        Cell("none", False, "box" if algo in CONTINUOUS else "discrete", "vector", algo, sampler)
        for algo in (*DISCRETE, *CONTINUOUS)
        for sampler in AXES["sampler"]
    ]
    recurrent = [
        cell._replace(memory="lstm") for cell in plain if cell.sampler in ("serial", "gpu")
    ]
    r2d1 = [Cell("lstm", False, "discrete", "vector", "r2d1", name) for name in AXES["sampler"]]
    chosen = dict.fromkeys((*plain, *recurrent, *r2d1, *EXTRA))
    return [cell for cell in chosen if refusal(cell) is None]


class Series(Hook):
    """Records statistics and parameters after every iteration but the last, which logs."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._n_seen: dict[str, int] = {}

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Add a row."""
        row: dict[str, Any] = {}
        for name, values in runner.state.opt_infos.items():
            row[name] = [float(value) for value in values[self._n_seen.get(name, 0) :]]
            self._n_seen[name] = len(values)
        arrays, _ = tree_flatten_with_path(runner.agent.state_dict())
        for path, value in arrays:
            if isinstance(value, torch.Tensor):
                row[keystr(path)] = float(value.double().sum())
        if itr < N_ITR:
            self.rows.append(row)


def series(cell: Cell) -> list[dict[str, Any]]:
    """Return the rows of a run."""
    steps = (N_ITR + 1) * T * B
    settings = dataclasses.replace(options(cell), steps=steps, checkpoint_interval_steps=None)
    recorder = Series()
    with contextlib.ExitStack() as stack:
        run_dir = stack.enter_context(tempfile.TemporaryDirectory())
        quiet = stack.enter_context(open(os.devnull, "w"))
        stack.enter_context(contextlib.redirect_stdout(quiet))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        build_runner(settings, Path(run_dir), hooks=[recorder]).train()
    assert len(recorder.rows) == N_ITR
    return recorder.rows


def difference(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> str | None:
    """Return the first difference between two series, None where they are equal."""
    for itr, (before, after) in enumerate(zip(old, new, strict=True)):
        for name in dict.fromkeys((*before, *after)):
            if repr(before.get(name)) != repr(after.get(name)):  # NaN equals itself
                return f"iteration {itr}, {name}: {before.get(name)}, now {after.get(name)}"
    return None


def main() -> int:
    """Write or compare; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="only runs whose name contains this")
    args = parser.parse_args()
    chosen = [cell for cell in cells() if args.only in str(cell)]
    torch.set_num_threads(1)
    saved = json.loads(args.file.read_text()) if args.file.exists() else {}
    n_different = 0
    for cell in chosen:
        rows = series(cell)
        if args.task == "write":
            saved[str(cell)] = rows
            args.file.parent.mkdir(parents=True, exist_ok=True)
            args.file.write_text(json.dumps(saved))
        elif found := difference(saved[str(cell)], rows):
            n_different += 1
            print(f"{cell}: {found}", flush=True)
    print(f"{len(chosen)} runs, {n_different} differ")
    return int(n_different > 0)


if __name__ == "__main__":
    sys.exit(main())
