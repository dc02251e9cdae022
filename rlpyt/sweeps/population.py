"""Population-based training: the worst of parallel runs continue from checkpoints of the best.

Source: Jaderberg et al. 2017, "Population Based Training of Neural Networks": truncation selection
as ``exploit``; ``explore`` multiplies or divides by a factor, or draws again.

A member is trained in segments, each by ``python -m rlpyt.sweeps.population CONFIG RUN_DIR STEPS``.
"""

import json
import math
import os
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.experiments import rundir
from rlpyt.experiments.finish import finish
from rlpyt.experiments.options import read_options
from rlpyt.experiments.run import train
from rlpyt.runners.hooks import Hook
from rlpyt.runners.progress import ProgressHook
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.jobs import JobDirectory, State
from rlpyt.sweeps.launcher import Source
from rlpyt.sweeps.search import ENDS, FROM, MEMBER, ROUND, Search, SearchRuns, any_options
from rlpyt.sweeps.spec import Draw, SweepSpec
from rlpyt.utils.files import write_text
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.mp_shutdown import wait_for_helpers_at_exit
from rlpyt.utils.seed import stream
from rlpyt.utils.signed import read_json

STANDING = "standing.json"
# Settings on which the content of a saved replay depends; with n-step returns also the discount.
STORED = tuple(
    f"algo.{name}"
    for name in ("n_step_return", "replay_size", "prioritized_replay", "pri_alpha", "batch_T",
                 "warmup_T", "store_rnn_state_interval", "hindsight")
)  # fmt: skip
Standing = dict[str, float | None]  # "score" of a segment; empty if it has failed


class PopulationSearch(Source):
    """Source of runs: the segments of each member's training.

    Members are compared at the same step, when all have finished a segment. There may be fewer
    slots than members, so a comparison at the same time would favor those ahead. Random choices
    come from streams named by member and round, and are the same after a restart.

    Each segment's job directory keeps a copy of its last checkpoint for other members.
    """

    noun = "segment"

    def __init__(self, runs: SearchRuns, search: Search) -> None:
        self.runs, self.search = runs, search
        self.total = any_options(runs.spec).steps
        self.n_rounds = math.ceil(self.total / search.interval_steps)
        self.rounds = [0] * search.population  # segments of each member that have a job
        self._jobs: dict[tuple[int, int], JobDirectory] = {}  # by (member, round)
        for job in runs.sweep.jobs():
            self._count(job)
        self._ends: dict[tuple[int, int], Standing] = {}  # of segments that have ended

    def next(self, sweep: SweepDirectory) -> JobDirectory | None:
        """Add the next segment of a member, once all members have finished the previous one."""
        at, space = min(self.rounds), self.runs.spec.sample
        known = self._standings(at - 1)
        if self.is_over() or (at > 0 and known is None):
            return None
        number = self.rounds.index(at)
        if known is None:
            rng = stream(self.search.seed, f"member {number}")
            return self._add(number, at, {key: space[key].draw(rng) for key in space}, number)
        source = self._exploit(number, at, known)
        before = self._jobs[source, at - 1]
        values = {key: before.job.settings[key] for key in space}
        if source != number:
            rng = stream(self.search.seed, f"member {number}, round {at}, values")
            values = {k: perturbed(values[k], space[k], self.search, rng) for k in space}
        run_dir = self.runs.dir_of(self._jobs[number, at - 1])
        RunLock(run_dir).forget()  # the previous segment has ended, on whichever node it ran
        _copy_tree(before.path / rundir.CHECKPOINTS, run_dir / rundir.CHECKPOINTS)
        return self._add(number, at, values, source)

    def ended(self, job: JobDirectory, state: State) -> None:
        """Keep a copy of the member's checkpoint, and its score."""
        number, at = job.job.settings[MEMBER], job.job.settings[ROUND]
        standing = read_standing(job)
        if state == "done" and not standing and at + 1 == self.rounds[number]:
            self.runs.check_metric(self.search, job)
            standing = {"score": self.search.score(self.runs.dir_of(job))}
            if standing["score"] is None:
                warnings.warn(f"{job.job.name} is not compared: {self.search.missing}")
            keep(self.runs.dir_of(job), job, standing)
            if old := self._jobs.get((number, at - 2)):
                shutil.rmtree(old.path / rundir.CHECKPOINTS, ignore_errors=True)
        self._ends[number, at] = standing

    def is_over(self) -> bool:
        """Return True if every member has all its segments, or all have failed."""
        known = self._standings(min(self.rounds) - 1)
        return min(self.rounds) == self.n_rounds or (known is not None and not any(known))

    def n_jobs(self) -> int:
        """Return the number of segments of all members."""
        return self.n_rounds * len(self.rounds)

    def _count(self, job: JobDirectory) -> None:
        number, at = job.job.settings[MEMBER], job.job.settings[ROUND]
        self._jobs[number, at] = job
        self.rounds[number] = at + 1

    def _standings(self, at: int) -> list[Standing] | None:
        """Return all members' standings at the end of a round, None before all have finished it."""
        found = [self._ends.get((number, at)) for number in range(len(self.rounds))]
        return None if None in found else [one for one in found if one is not None]

    def _exploit(self, number: int, at: int, known: Sequence[Standing]) -> int:
        """Return the member to continue from: one of the best if it is one of the worst."""
        alive = [i for i, standing in enumerate(known) if standing]
        scores = {i: x for i in alive if (x := known[i]["score"]) is not None}
        best, worst = truncated(scores, self.search)
        if number in alive and number not in worst:
            return number
        candidates = best or alive  # of a failed member, if none has a score
        rng = stream(self.search.seed, f"member {number}, round {at}")
        return candidates[rng.integers(len(candidates))]

    def _add(self, number: int, at: int, values: Mapping[str, Any], source: int) -> JobDirectory:
        """Add the job of a segment, which continues from the checkpoint in the run directory."""
        ends = min(self.total, (at + 1) * self.search.interval_steps)
        segment = (sys.executable, "-m", "rlpyt.sweeps.population", "{job}/config.json")
        [job] = self.runs.add(
            f"member_{number}",
            values,
            [self.runs.spec.seeds[0] + number],
            {**values, MEMBER: number, ROUND: at, FROM: source, ENDS: ends},
            name=f"member_{number}/round_{at}",
            command=(*segment, "{run_dir}", str(ends)),
            resume=None,
            continues=at > 0,
        )
        self._count(job)
        return job


def check_population(spec: SweepSpec, search: Search) -> None:
    """Check that population-based training supports a sweep.

    Raises:
        ValueError: it does not; the message starts with file and line.
    """
    scripts = "method: pbt needs train; scripts leave no checkpoints"
    spec.refuse("script", spec.script is not None, scripts)
    several = "method: pbt takes one seed; members count up from it"
    spec.refuse("seeds", len(spec.seeds) != 1, several)
    options, steps = any_options(spec), search.interval_steps
    stored = STORED if options.algo.get("n_step_return", 1) == 1 else (*STORED, "algo.discount")
    for key in spec.sample:
        fixed = f"{key} cannot change during a run; search settings such as algo.learning_rate"
        spec.refuse(f"sample.{key}", key in stored or not key.startswith("algo."), fixed)
    batch = options.sampler.batch_T * options.sampler.batch_B * options.ranks
    bounds = f"at least one batch of {batch} (batch_T * batch_B), below the {options.steps} steps"
    why = f"interval_steps={steps} must be {bounds} of a run"
    spec.refuse("search.interval_steps", not batch <= steps < options.steps, why)


def truncated(scores: Mapping[int, float], search: Search) -> tuple[list[int], list[int]]:
    """Return the best members, and as many of the worst (truncation selection).

    There is at least one of each, unless there are fewer than two members; none is in both.
    """
    order = [list(scores)[i] for i in search.better(list(scores.values()))]
    n = min(max(1, math.floor(len(order) * search.quantile)), len(order) // 2)
    return order[:n], order[len(order) - n :]


def perturbed(value: Any, draw: Draw, search: Search, rng: np.random.Generator) -> Any:
    """Return a changed value: a number times or by ``search.perturb``, or the next choice.

    With probability ``search.resample`` it is drawn again. It stays in the distribution's range.
    """
    if rng.random() < search.resample:
        return draw.draw(rng)
    up = rng.random() < 0.5
    if draw.kind == "choice":
        at = draw.values.index(value) + (1 if up else -1)
        return draw.values[min(max(at, 0), len(draw.values) - 1)]
    low, high = draw.values
    new = value * search.perturb if up else value / search.perturb
    if draw.kind == "integer":
        new = math.ceil(new) if up else math.floor(new)
    return type(value)(min(max(new, low), high))


def read_standing(job: JobDirectory) -> Standing:
    """Return the standing of a finished segment; empty for others."""
    path = job.path / STANDING
    return read_json(path, "a segment's score", {"type": "object"}) if path.exists() else {}


def keep(run_dir: Path, job: JobDirectory, standing: Standing) -> None:
    """Copy a run's checkpoint to a job's directory; the file written last marks it complete."""
    _copy_tree(run_dir / rundir.CHECKPOINTS, job.path / rundir.CHECKPOINTS)
    write_text(job.path / STANDING, json.dumps(standing))


def _copy_tree(source: Path, target: Path) -> None:
    """Replace a tree by hard links to another one, since files of checkpoints never change."""
    shutil.rmtree(target, ignore_errors=True)
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except (OSError, shutil.Error):  # the file system has no hard links
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)


class EndsAt(Hook):
    """Hook that stops training after the last iteration that ends within ``steps``."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Request a stop, with a checkpoint, if the next iteration would exceed the steps."""
        is_last = itr + 1 == runner.n_itr
        if not is_last and runner.cum_steps + runner.itr_batch_size > self.steps:
            runner.request_stop()


def main(config: Path, run_dir: Path, steps: int) -> None:
    """Train a member until it has made so many steps, from its checkpoint if there is one.

    The run is planned for all its steps, so that schedules continue from segment to segment.
    """
    options = read_options(config, trust=True)  # written by the launcher
    hooks = [EndsAt(steps), ProgressHook()]
    train(options, run_dir, hooks, rundir.has_checkpoint(run_dir), finish)


if __name__ == "__main__":
    wait_for_helpers_at_exit()
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
