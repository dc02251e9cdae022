"""Soak test: inject random faults into samplers, runs and sweeps, and check how they end.

    python -m tests.soak.chaos --faults 200              # about ten minutes on two cores
    python -m tests.soak.chaos --faults 2000 --seed 7    # another series, longer
    python -m tests.soak.chaos --only standstill         # faults whose kind contains this
    python -m tests.soak.chaos --only async --faults 40  # of asynchronous runs: ten minutes
    python -m tests.soak.chaos --only ranks --faults 40  # or sampler, ray, sweep, ...
    python -m tests.soak.chaos --only sweep --faults 2 --set runs=16 seconds=4
    python -m tests.soak.chaos --only "long sweep" --faults 1   # 60 runs of 10 s: six minutes

Every trial starts one run of a kind in `RUNS`, of random layout, size and start method, injects
one fault, and waits for the end (`trial.attempt`). The table counts what was wrong, by column:

    hang        no end within two minutes
    unnamed     another error than expected, or one without its worker, process, environment, place
    late        the error took longer than its bound
    orphans     processes are left
    leaks       shared memory or open files are left
    temp        temporary files are left
    checkpoint  the checkpoint cannot be loaded, is too old, or the run does not resume from it
    rows        progress.csv has incomplete or repeated rows, or a resumed run has lost some
    jobs        a run of a sweep did not end exactly once, or slots were idle
    changed     afterwards a healthy sampler collects another batch than before all faults

All of these should be zero. Controls are trials in which nothing fails: no fault, a signal to be
ignored, or an orderly stop. Results are written to benchmarks/results/chaos.json.
"""

import argparse
import contextlib
import faulthandler
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness import describe_machine
from rlpyt.processes.call import run_in_child
from rlpyt.utils.buffer import buffer_func, leaves_of
from tests.faulty import FaultyEnv
from tests.oracles.leaks import left_since, take_stock
from tests.soak.runs import AsyncTrial, RankTrial
from tests.soak.samplers import ActorTrial, SamplerTrial
from tests.soak.sweeps import SweepTrial
from tests.soak.together import PopulationTrial, TogetherTrial
from tests.soak.trials import Found, Trial, attempt, left, processes, small_agent

RUNS: dict[str, type[Trial]] = {
    "sampler": SamplerTrial,
    "async": AsyncTrial,
    "ranks": RankTrial,
    "ray": ActorTrial,
    "sweep": SweepTrial,
    "population": PopulationTrial,
    "together": TogetherTrial,
}
COLUMNS = (
    *("hang", "unnamed", "late", "orphans", "leaks", "temp"),
    *("checkpoint", "rows", "jobs", "changed"),
)
OUTPUT = Path(__file__).parents[2] / "benchmarks" / "results" / "chaos.json"
BOUND_S = 5.0  # from a fault to its error, beside limits that it has to wait for
FOREIGN = ("pymp-", "ray")  # temporary files that killed multiprocessing and Ray leave


class Hang(BaseException):
    """A trial exceeded its ``hang_s``."""


def draw(rng: random.Random, only: str, changes: dict[str, str]) -> Trial:
    """Draw a trial of a kind whose name contains ``only``, and change fields that it has."""
    kinds = {
        kind: (TrialCls, weight)
        for name, TrialCls in RUNS.items()
        for kind, (weight, _) in TrialCls.KINDS.items()
        if only in f"{name} {kind}"
    }
    weights = [weight for _, weight in kinds.values()]
    kind = rng.choices(list(kinds), weights if any(weights) else None)[0]
    trial = kinds[kind][0](kind, rng)
    for name, text in changes.items():
        if name in vars(trial):
            setattr(trial, name, type(vars(trial)[name])(text))
    return trial


def judge(trial: Trial, healthy: Any) -> Found:
    """Carry out a trial, then look for leaks and changed batches."""
    before, pids, names = take_stock(), processes(), os.listdir(tempfile.gettempdir())
    found = Found()
    signal.alarm(int(trial.hang_s))
    with tempfile.TemporaryDirectory(prefix="trial-", ignore_cleanup_errors=True) as directory:
        try:
            if trial.in_child:
                found = run_in_child(attempt, trial, Path(directory), what=trial.kind)
            else:
                found = attempt(trial, Path(directory))
        except Hang:
            found.complaints["hang"] = f"no end within {trial.hang_s:g} s"
            for child in multiprocessing.active_children():
                child.kill()
        finally:
            signal.alarm(0)
    allowed = BOUND_S + found.allowance_s
    if found.seconds > allowed:
        found.complaints["late"] = f"{found.seconds:.1f} s, {allowed:g} s allowed"
    stock = left_since(before)
    for column, things in {
        "orphans": stock.pop("processes", []) or left(lambda: _new_processes(pids)),
        "leaks": stock,
        "temp": left(lambda: _new_files(names)),
    }.items():
        if things:
            found.complaints[column] = str(things)
    batch = healthy_batch(trial.sampler_cls)
    if not all(np.array_equal(x, y) for x, y in zip(batch, healthy, strict=True)):
        found.complaints["changed"] = "a healthy sampler collects another batch than before"
    found.complaints = {name: text for name, text in found.complaints.items() if text}
    return found


def _new_processes(before: Collection[int]) -> list[str]:
    return [f"{pid} {line:.200}" for pid, line in processes().items() if pid not in before]


def _new_files(before: Collection[str]) -> list[str]:
    new = set(os.listdir(tempfile.gettempdir())) - set(before)
    return sorted(name for name in new if not name.startswith(FOREIGN))


def healthy_batch(sampler_cls: Any) -> list[Any]:
    """Collect a batch with a healthy sampler of this class, and return its leaves."""
    sampler = sampler_cls(FaultyEnv, dict(fault="none"), batch_T=9, batch_B=4)
    torch.manual_seed(5)
    sampler.initialize(small_agent(), affinity=dict(n_workers=2), seed=11)
    try:
        samples = sampler.obtain_samples(0)[0]
        return leaves_of(buffer_func(samples.env, lambda x: x.numpy().copy()))
    finally:
        sampler.shutdown()


def warm_up() -> None:
    """Start the helpers of multiprocessing, and gloo, which keeps its files open until the end."""
    run_in_child(int)
    trial = RankTrial("ranks signal", random.Random(0))
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(None):
        trial.runner(Path(directory), n_itr=1).train()


def counts_of(results: Sequence[tuple[Trial, Found]]) -> dict[str, int]:
    """Count faults, controls and complaints by column."""
    controls = sum(trial.control for trial, _ in results)
    complaints = {name: sum(name in found.complaints for _, found in results) for name in COLUMNS}
    return {"faults": len(results) - controls, "controls": controls, **complaints}


def table(results: Sequence[tuple[Trial, Found]]) -> str:
    """Format results by kind as a Markdown table."""
    names = ["kind", *counts_of([]), "longest s"]
    lines = [f"| {' | '.join(names)} |", "| --- |" + " ---: |" * (len(names) - 1)]
    for kind in [*(kind for TrialCls in RUNS.values() for kind in TrialCls.KINDS), "all"]:
        if own := [(trial, found) for trial, found in results if kind in (trial.kind, "all")]:
            longest = max(found.seconds for _, found in own)
            cells = [kind, *map(str, counts_of(own).values()), f"{longest:.1f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def run_series(settings: argparse.Namespace) -> int:
    """Run the trials and write the results; return 1 if there are complaints."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _hang)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs ignore it
    rng, started = random.Random(settings.seed), time.monotonic()
    results: list[tuple[Trial, Found]] = []
    changes = dict(text.split("=", 1) for text in settings.set)
    warm_up()
    healthy = healthy_batch(Trial.sampler_cls)
    for number in range(1, settings.faults + 1):
        trial = draw(rng, settings.only, changes)
        found = judge(trial, healthy)
        results.append((trial, found))
        said = "  ".join(f"{k}: {v}" for k, v in found.complaints.items()) or "well"
        facts = "".join(f"\n      {k}: {v}" for k, v in found.facts.items())
        print(f"{number:4d}  {found.seconds:5.1f} s  {trial}  {said}{facts}", flush=True)
    result = {
        "command": " ".join(["python -m tests.soak.chaos", *sys.argv[2:]]),  # without --inside
        "machine": describe_machine(),
        "minutes": round((time.monotonic() - started) / 60, 1),
        **counts_of(results),
        "trials": [_plain(trial, found) for trial, found in results],
    }
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    settings.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{table(results)}\n\n{result['minutes']} minutes; written to {settings.output}")
    return int(any(found.complaints for _, found in results))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials in a program whose processes and temporary files its TMPDIR tells."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.chaos", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--faults", type=int, default=200, help="trials, controls included (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the series (0)")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--set", nargs="*", default=[], help="fields of all trials, as NAME=VALUE")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the JSON goes")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = sys.argv[1:] if arguments is None else arguments
    settings = parser.parse_args(arguments)
    if settings.inside:
        return run_series(settings)
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as directory:
        command = [sys.executable, "-m", "tests.soak.chaos", "--inside", *arguments]
        return subprocess.call(command, env={**os.environ, "TMPDIR": directory})


def _plain(trial: Trial, found: Found) -> dict[str, Any]:
    """Return a result for JSON, with the first line of its error."""
    return {
        "trial": str(trial),
        "seconds": round(found.seconds, 2),
        "error": found.error.partition("\n")[0][:400],
        **({"complaints": found.complaints} if found.complaints else {}),
        **found.facts,
    }


def _hang(number: int, frame: Any) -> None:
    faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
    raise Hang


if __name__ == "__main__":
    sys.exit(main())
