"""Population-based training: the worst of parallel runs continue from checkpoints of the best.

Source: Jaderberg et al. 2017, "Population Based Training of Neural Networks": truncation selection
as ``exploit``; ``explore`` multiplies or divides by a factor, or draws again.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.experiments import rundir
from rlpyt.experiments.options import RunOptions
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.expansion import jobs_of, run_options, setting_for
from rlpyt.sweeps.jobs import JobDirectory, State
from rlpyt.sweeps.search import (
    BEGINS,
    ENDS,
    FROM,
    MEMBER,
    ROUND,
    Metric,
    Search,
    SearchRuns,
    refuse,
)
from rlpyt.sweeps.spec import Draw, SweepSpec
from rlpyt.utils.files import atomic_write
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.seed import stream

SEGMENT = "rlpyt.sweeps.pbt_segment"
SNAPSHOTS = "population"  # in the queue's directory: checkpoints of members for others
STANDING = "standing.json"


class PopulationSearch:
    """Source of runs: the segments of each member's training.

    Members are compared at the same step, when all have finished a segment. There may be fewer
    slots than members, so a comparison at the same time would favor those ahead. Random choices
    come from streams named by member and round, and are the same after a restart.

    Checkpoints for other members are kept separately, so that none is read while a run writes it.

    Args:
        runs: adds runs to the sweep.
        search: settings of the search.
    """

    noun = "segment"

    def __init__(self, runs: SearchRuns, search: Search) -> None:
        self.runs, self.search, self.metric = runs, search, search.to_find
        self.root = runs.sweep.queue / SNAPSHOTS
        self.total = setting_options(runs.spec, {}).steps
        self.n_rounds = math.ceil(self.total / search.interval_steps)
        self.rounds = [0] * search.population  # segments of each member that have a job
        for job in runs.sweep.jobs():
            self.rounds[job.job.settings[MEMBER]] = job.job.settings[ROUND] + 1
        self._over: set[tuple[int, int]] = set()  # (member, round)

    def next(self, sweep: SweepDirectory) -> JobDirectory | None:
        """Add the next segment of a member, once all members have finished the previous one."""
        at = min(self.rounds)
        if at == self.n_rounds or not self._all_over(at - 1) or self._all_failed(at - 1):
            return None
        number = self.rounds.index(at)
        job = self._continue(number, at) if at else self._start(number)
        self.rounds[number] += 1
        return job

    def ended(self, job: JobDirectory, state: State) -> None:
        """Keep a copy of the member's checkpoint."""
        marks = job.job.settings
        number, at = marks[MEMBER], marks[ROUND]
        self._over.add((number, at))
        if state != "done" or at + 1 < self.rounds[number] or self.standing(number, at):
            return
        self.runs.check_metric(self.metric, job)
        run_dir = self.runs.dir_of(job)
        score = self.metric.score(run_dir)
        if score is None:
            warnings.warn(f"{job.job.name} is not compared: {self.metric.missing}")
        values = {key: marks[key] for key in self.runs.spec.sample}
        standing = {"score": score, "values": values}
        write_standing(job.path, standing)  # for the report
        _keep(run_dir, self._snapshot(number, at), standing)
        if at > 1:
            shutil.rmtree(self._snapshot(number, at - 2), ignore_errors=True)

    def watch(self, running: Sequence[JobDirectory]) -> None:
        """Do nothing: members are compared at the ends of segments only."""

    def is_over(self) -> bool:
        """Return True if every member has all its segments, or all have failed."""
        at = min(self.rounds)
        return at == self.n_rounds or (self._all_over(at - 1) and self._all_failed(at - 1))

    def n_jobs(self) -> int:
        """Return the number of segments of all members."""
        return self.n_rounds * len(self.rounds)

    def standing(self, number: int, at: int) -> dict[str, Any]:
        """Return score and values of a member at the end of a round; empty if it failed."""
        return read_standing(self._snapshot(number, at))

    def _all_over(self, at: int) -> bool:
        return at < 0 or all((number, at) in self._over for number in range(len(self.rounds)))

    def _all_failed(self, at: int) -> bool:
        return at >= 0 and not any(self.standing(i, at) for i in range(len(self.rounds)))

    def _snapshot(self, number: int, at: int) -> Path:
        return self.root / f"member_{number}" / f"round_{at}"

    def _start(self, number: int) -> JobDirectory:
        """Add the first segment, with values drawn at random."""
        rng = stream(self.search.seed, f"member {number}")
        values = {key: draw.draw(rng) for key, draw in self.runs.spec.sample.items()}
        return self._add(number, 0, values, number)

    def _continue(self, number: int, at: int) -> JobDirectory:
        """Add a segment from its own checkpoint, or a better member's with changed values."""
        source = self._exploit(number, at)
        values = self.standing(source, at - 1)["values"]
        if source != number:
            rng, space = self._stream(number, at, ", values"), self.runs.spec.sample
            values = {k: perturbed(values[k], space[k], self.search, rng) for k in space}
        # The previous segment has ended, on whichever node it ran.
        RunLock(self._run_dir(number)).forget()
        _copy_snapshot(self._snapshot(source, at - 1), self._run_dir(number))
        return self._add(number, at, values, source)

    def _exploit(self, number: int, at: int) -> int:
        """Return the member to continue from: one of the best if it is one of the worst."""
        known = {i: self.standing(i, at - 1) for i in range(len(self.rounds))}
        alive = [i for i in known if known[i]]
        scored = [i for i in alive if known[i]["score"] is not None]
        best, worst = truncated(
            [known[i]["score"] for i in scored], self.metric, self.search.quantile
        )
        if number in alive and number not in [scored[i] for i in worst]:
            return number
        candidates = [scored[i] for i in best] or alive  # for a failed member, if none has a score
        return candidates[self._stream(number, at).integers(len(candidates))]

    def _stream(self, number: int, at: int, purpose: str = "") -> np.random.Generator:
        return stream(self.search.seed, f"member {number}, round {at}{purpose}")

    def _add(self, number: int, at: int, values: Mapping[str, Any], source: int) -> JobDirectory:
        """Add the job of a segment, which continues from the checkpoint in the run directory."""
        spec, begins = self.runs.spec, at * self.search.interval_steps
        ends = min(self.total, begins + self.search.interval_steps)
        setting = setting_for(spec, values, f"member_{number}", self._seed(number))
        (job,) = jobs_of(spec, [setting], self.runs.share, first=self.runs.take_number())
        marks = {MEMBER: number, ROUND: at, FROM: source, BEGINS: begins, ENDS: ends}
        job = replace(
            job.with_settings({**values, **marks}),
            name=f"member_{number}/round_{at}",
            command=(sys.executable, "-m", SEGMENT, "{job}/config.json", "{run_dir}", str(ends)),
            resume=None,
            continues=at > 0,
        )
        return self.runs.sweep.add(job)

    def _seed(self, number: int) -> int:
        return self.runs.spec.seeds[0] + number

    def _run_dir(self, number: int) -> Path:
        return self.runs.sweep.path / f"member_{number}" / f"run_{self._seed(number)}"


def check_population(spec: SweepSpec, search: Search) -> None:
    """Check that population-based training supports a sweep.

    Raises:
        ValueError: it does not; the message starts with file and line.
    """
    method = "population-based training"
    scripts = f"{method} needs train; scripts leave no checkpoints"
    refuse(spec, "script", spec.script is not None and scripts)
    several = f"{method} takes one seed; members count up from it"
    refuse(spec, "seeds", len(spec.seeds) != 1 and several)
    for key in spec.sample:
        fixed = f"{key} cannot change during a run; {method} searches settings of the algorithm"
        fixed = f"{fixed}, such as algo.learning_rate"
        refuse(spec, f"sample.{key}", not key.startswith("algo.") and fixed)
    options, steps = setting_options(spec, {}), search.interval_steps
    batch = options.sampler.batch_T * options.sampler.batch_B * options.ranks
    given = f"interval_steps={steps} must be"
    long = f"{given} below the {options.steps} steps of a run, or members are never compared"
    refuse(spec, "search.interval_steps", steps >= options.steps and long)
    short = f"{given} at least one batch of {batch} steps (batch_T * batch_B)"
    refuse(spec, "search.interval_steps", steps < batch and short)


def truncated(
    scores: Sequence[float], metric: Metric, quantile: float
) -> tuple[list[int], list[int]]:
    """Return the indices of the best members, and of as many of the worst (truncation selection).

    There is at least one of each, unless there are fewer than two members; none is in both.
    """
    order = metric.better(scores)
    n = min(max(1, math.floor(len(order) * quantile)), len(order) // 2)
    return order[:n], order[len(order) - n :]


def setting_options(spec: SweepSpec, values: Mapping[str, Any], seed: int = 0) -> RunOptions:
    """Return the options of a member with these values."""
    return run_options(spec, setting_for(spec, values, "member", seed))


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


def read_standing(directory: Path) -> dict[str, Any]:
    """Read ``score`` and ``values`` of a finished segment; empty if unknown."""
    try:
        standing: dict[str, Any] = json.loads((directory / STANDING).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return standing


def write_standing(directory: Path, about: Mapping[str, Any]) -> None:
    """Write score and values of a finished segment."""
    with atomic_write(directory / STANDING) as file:
        file.write(json.dumps(dict(about)).encode())


def _keep(run_dir: Path, snapshot: Path, about: dict[str, Any]) -> None:
    """Copy the run's checkpoint to a snapshot, atomically."""
    beside = snapshot.with_name(f".{snapshot.name}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    _link_tree(run_dir / rundir.CHECKPOINTS, beside / rundir.CHECKPOINTS)
    write_standing(beside, about)
    shutil.rmtree(snapshot, ignore_errors=True)
    os.rename(beside, snapshot)


def _copy_snapshot(snapshot: Path, run_dir: Path) -> None:
    """Replace a run's checkpoints by a snapshot."""
    checkpoints = run_dir / rundir.CHECKPOINTS
    shutil.rmtree(checkpoints, ignore_errors=True)
    run_dir.mkdir(parents=True, exist_ok=True)
    _link_tree(snapshot / rundir.CHECKPOINTS, checkpoints)


def _link_tree(source: Path, target: Path) -> None:
    """Copy by hard links, since files of checkpoints are never changed."""
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except (OSError, shutil.Error):  # the file system has no hard links
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
