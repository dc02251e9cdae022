"""Soak test: inject random faults into samplers and runs, and check how they end.

    python -m tests.soak.chaos --faults 200              # about ten minutes on two cores
    python -m tests.soak.chaos --faults 2000 --seed 7    # another series, longer
    python -m tests.soak.chaos --only standstill         # faults whose kind contains this
    python -m tests.soak.chaos --only async --faults 40  # of asynchronous runs: ten minutes
    python -m tests.soak.chaos --only rank --faults 40   # of ranks; --only ray of Ray's actors

Every trial injects one fault into a sampler of random layout, size and start method
(`chaos_trials`), into an asynchronous run or a run of several ranks, which must then resume from
its checkpoint (`chaos_async`, `chaos_ranks`), or into a sampler on Ray, whose actor is restarted.
Expected: an error of the right class that names worker, process, host, environment, seed and
place (no error in controls), within seconds, without leaked processes, shared memory or files.
Afterwards a healthy sampler must collect the same batch as before all faults. The table counts
the exceptions; all columns after "controls" should be zero. Controls are trials in which nothing
fails: no fault, a signal to be ignored, or an orderly stop.
Results are written to benchmarks/results/chaos.json.
"""

import argparse
import dataclasses
import faulthandler
import json
import multiprocessing
import random
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness import describe_machine
from rlpyt.processes.call import run_in_child
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, leaves_of
from tests.faulty import FaultyEnv
from tests.oracles.leaks import left_since, take_stock
from tests.soak.chaos_async import ASYNC_KINDS, AsyncTrial, draw_async_trial
from tests.soak.chaos_ranks import RANK_KINDS, RankTrial, draw_rank_trial, warm_up
from tests.soak.chaos_trials import IGNORED, KINDS, Trial, draw_trial, small_agent

ALL_KINDS = {**KINDS, **ASYNC_KINDS, **RANK_KINDS}
AnyTrial = Trial | AsyncTrial | RankTrial
OUTPUT = Path(__file__).parents[2] / "benchmarks" / "results" / "chaos.json"
BOUND_S = 5.0  # from a fault to its error, beside limits that it has to wait for
HANG_S = 120.0
COUNTS = ("hang", "unnamed", "late", "orphans", "leaks", "changed")


class Hang(BaseException):
    """A trial exceeded `HANG_S`."""


@dataclasses.dataclass
class Outcome:
    """Result of a trial: complaints by column of the table."""

    trial: AnyTrial
    seconds: float = 0.0  # duration of the call that raised the error
    error: str = ""
    complaints: dict[str, str] = dataclasses.field(default_factory=dict)


def draw(rng: random.Random, only: str) -> AnyTrial:
    """Draw a trial of a kind whose name contains ``only``."""
    kinds = [kind for kind in ALL_KINDS if only in kind]
    kind = rng.choices(kinds, [ALL_KINDS[kind] for kind in kinds])[0]
    drawers = {
        **dict.fromkeys(ASYNC_KINDS, draw_async_trial),
        **dict.fromkeys(RANK_KINDS, draw_rank_trial),
    }
    return drawers.get(kind, draw_trial)(rng, kind)


def is_control(trial: AnyTrial) -> bool:
    """Return True if nothing fails in this trial, so that its run must go on or stop in order."""
    if trial.kind in ("ctrl-c", "stopped training", "async stopped training"):
        return True
    if trial.kind == "no fault":
        return isinstance(trial, Trial) and trial.where != "close"
    return trial.fault in IGNORED


def judge(trial: AnyTrial, healthy: Any) -> Outcome:
    """Run a trial, then look for leaks and changed batches."""
    outcome = Outcome(trial)
    before = take_stock()
    signal.alarm(int(HANG_S))
    try:
        found = trial.run()
        outcome.seconds, outcome.error = found.seconds, found.error
        if found.complaint:
            outcome.complaints["unnamed"] = found.complaint
        allowed = BOUND_S + found.allowance_s
        if found.seconds > allowed:
            outcome.complaints["late"] = f"{found.seconds:.1f} s, {allowed:g} s allowed"
    except Hang:
        outcome.complaints["hang"] = f"no end within {HANG_S:g} s"
        for child in multiprocessing.active_children():
            child.kill()
    finally:
        signal.alarm(0)
    left = left_since(before)
    if "processes" in left:
        outcome.complaints["orphans"] = str(left.pop("processes"))
    if left:
        outcome.complaints["leaks"] = str(left)
    batch = healthy_batch(trial)
    if not all(np.array_equal(x, y) for x, y in zip(batch, healthy, strict=True)):
        outcome.complaints["changed"] = "a healthy sampler collects another batch than before"
    return outcome


def healthy_batch(trial: AnyTrial | None = None) -> list[Any]:
    """Collect a batch with the sampler of a trial, or serially, and return its leaves."""
    SamplerCls = SerialSampler if trial is None else trial.SamplerCls
    sampler = SamplerCls(FaultyEnv, dict(fault="none"), batch_T=9, batch_B=4)
    torch.manual_seed(5)
    sampler.initialize(small_agent(), affinity=dict(n_workers=2), seed=11)
    try:
        samples = sampler.obtain_samples(0)[0]
        return leaves_of(buffer_func(samples.env, lambda x: x.numpy().copy()))
    finally:
        sampler.shutdown()


def table(outcomes: Sequence[Outcome]) -> str:
    """Format outcomes by kind as a Markdown table."""
    lines = [f"| kind | faults | controls | {' | '.join(COUNTS)} | longest s |"]
    lines.append("| --- |" + " ---: |" * (len(COUNTS) + 3))
    groups = {kind: [o for o in outcomes if o.trial.kind == kind] for kind in ALL_KINDS}
    for kind, own in [*groups.items(), ("all", list(outcomes))]:
        if own:
            counts = [sum(name in o.complaints for o in own) for name in COUNTS]
            longest = max(o.seconds for o in own)
            controls = sum(is_control(o.trial) for o in own)
            cells = [kind, len(own) - controls, controls, *counts, f"{longest:.1f}"]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials and write the results; return 1 if there are complaints."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.chaos", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--faults", type=int, default=200, help="trials, controls included (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the series (0)")
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the JSON goes")
    settings = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _hang)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs ignore it
    run_in_child(int)  # start multiprocessing's helpers before counting processes
    warm_up()
    healthy = healthy_batch()
    rng = random.Random(settings.seed)
    started, outcomes = time.monotonic(), []
    for _ in range(settings.faults):
        trial = draw(rng, settings.only)
        outcome = judge(trial, healthy)
        outcomes.append(outcome)
        said = "  ".join(f"{k}: {v}" for k, v in outcome.complaints.items()) or "well"
        print(f"{len(outcomes):4d}  {outcome.seconds:5.1f} s  {trial}  {said}", flush=True)
    controls = sum(is_control(o.trial) for o in outcomes)
    result = {
        "command": f"python -m tests.soak.chaos --faults {settings.faults} --seed {settings.seed}"
        + (f" --only {settings.only}" if settings.only else ""),
        "machine": describe_machine(),
        "minutes": round((time.monotonic() - started) / 60, 1),
        "faults": len(outcomes) - controls,
        "controls": controls,
        **{name: sum(name in o.complaints for o in outcomes) for name in COUNTS},
        "trials": [_plain(outcome) for outcome in outcomes],
    }
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    settings.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{table(outcomes)}\n\n{result['minutes']} minutes; written to {settings.output}")
    return int(any(outcome.complaints for outcome in outcomes))


def _plain(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome for JSON, with the first line of its error."""
    return {
        "trial": str(outcome.trial),
        "seconds": round(outcome.seconds, 2),
        "error": outcome.error.partition("\n")[0][:400],
        **({"complaints": outcome.complaints} if outcome.complaints else {}),
    }


def _hang(number: int, frame: Any) -> None:
    faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
    raise Hang


if __name__ == "__main__":
    sys.exit(main())
