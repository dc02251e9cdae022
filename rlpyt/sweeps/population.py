"""Population-based training: runs beside each other, the worst go on from the best's checkpoints.

Source: Jaderberg et al. 2017, "Population Based Training of Neural Networks": truncation selection
as ``exploit``; ``explore`` multiplies or divides by a factor, or draws anew.
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
from rlpyt.sweeps.draws import Draw
from rlpyt.sweeps.expansion import run_options, setting_for
from rlpyt.sweeps.jobs import JobDirectory, State
from rlpyt.sweeps.runs import jobs_of
from rlpyt.sweeps.search import Search
from rlpyt.sweeps.spec import SweepSpec
from rlpyt.sweeps.trials import BEGINS, ENDS, FROM, MEMBER, ROUND, Metric, Runs
from rlpyt.utils.files import atomic_write
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.seed import stream

STRETCH = "rlpyt.sweeps.pbt_segment"
SNAPSHOTS = "population"  # beside the queue: of each member what others may take over
STANDING = "standing.json"


class Population:
    """A source of runs: for each member one after the other, each a stretch of its training.

    All members are compared when all have come to the end of a stretch, with each other at the
    same step: who is ahead would otherwise win for being ahead, as there may be fewer slots than
    members. So decisions depend on scores alone, and not on who was quick. They are drawn from
    streams named by member and round, and made again alike by a launcher that takes over.

    What others may take over are checkpoints kept apart, so nothing is read that a run is writing.

    Args:
        runs: of the sweep.
        search: how to search.
    """

    noun = "stretch"

    def __init__(self, runs: Runs, search: Search) -> None:
        self.runs, self.search, self.metric = runs, search, search.to_find
        self.root = runs.sweep.queue / SNAPSHOTS
        self.total = setting_options(runs.spec, {}).steps
        self.n_rounds = math.ceil(self.total / search.interval_steps)
        self.rounds = [0] * search.population  # of each member: stretches that have a job
        for job in runs.sweep.jobs():
            self.rounds[job.job.settings[MEMBER]] = job.job.settings[ROUND] + 1
        self._over: set[tuple[int, int]] = set()  # (member, round)

    def next(self, sweep: SweepDirectory) -> JobDirectory | None:
        """The next stretch of a member, once all have come to the end of the one before."""
        at = min(self.rounds)
        if at == self.n_rounds or not self._all_over(at - 1) or self._all_failed(at - 1):
            return None
        number = self.rounds.index(at)
        job = self._go_on(number, at) if at else self._begin(number)
        self.rounds[number] += 1
        return job

    def ended(self, job: JobDirectory, state: State) -> None:
        """Keep a copy of what the member has learnt."""
        marks = job.job.settings
        number, at = marks[MEMBER], marks[ROUND]
        self._over.add((number, at))
        if state != "done" or at + 1 < self.rounds[number] or self.standing(number, at):
            return
        self.runs.check_metric(self.metric, job)
        run_dir = self.runs.dir_of(job)
        score = self.metric.score(run_dir)
        if score is None:
            warnings.warn(f"{job.job.name} is compared with no other: {self.metric.missing}")
        values = {key: marks[key] for key in self.runs.spec.sample}
        standing = {"score": score, "values": values}
        write_standing(job.path, standing)  # stays, for the report
        _keep(run_dir, self._snapshot(number, at), standing)
        if at > 1:
            shutil.rmtree(self._snapshot(number, at - 2), ignore_errors=True)

    def watch(self, running: Sequence[JobDirectory]) -> None:
        """Members are compared at the ends of stretches only."""

    def is_over(self) -> bool:
        """Whether every member has all its stretches, or none is left to go on from."""
        at = min(self.rounds)
        return at == self.n_rounds or (self._all_over(at - 1) and self._all_failed(at - 1))

    def n_jobs(self) -> int:
        """Stretches of all members."""
        return self.n_rounds * len(self.rounds)

    def standing(self, number: int, at: int) -> dict[str, Any]:
        """Score and values of a member at the end of a round; empty if that has failed."""
        return read_standing(self._snapshot(number, at))

    def _all_over(self, at: int) -> bool:
        return at < 0 or all((number, at) in self._over for number in range(len(self.rounds)))

    def _all_failed(self, at: int) -> bool:
        return at >= 0 and not any(self.standing(i, at) for i in range(len(self.rounds)))

    def _snapshot(self, number: int, at: int) -> Path:
        return self.root / f"member_{number}" / f"round_{at}"

    def _begin(self, number: int) -> JobDirectory:
        """The first stretch, with values drawn at random."""
        rng = stream(self.search.seed, f"member {number}")
        values = {key: draw.draw(rng) for key, draw in self.runs.spec.sample.items()}
        return self._add(number, 0, values, number)

    def _go_on(self, number: int, at: int) -> JobDirectory:
        """A further stretch: of its own, or of a better one's with changed values."""
        source = self._exploit(number, at)
        values = self.standing(source, at - 1)["values"]
        if source != number:
            rng, space = self._stream(number, at, ", values"), self.runs.spec.sample
            values = {k: perturbed(values[k], space[k], self.search, rng) for k in space}
        # Whoever ran the last stretch is gone, on whichever node that was.
        RunLock(self._run_dir(number)).forget()
        _take_over(self._snapshot(source, at - 1), self._run_dir(number))
        return self._add(number, at, values, source)

    def _exploit(self, number: int, at: int) -> int:
        """Whose checkpoint the member goes on from: one of the best, if it is one of the worst."""
        known = {i: self.standing(i, at - 1) for i in range(len(self.rounds))}
        alive = [i for i in known if known[i]]
        scored = [i for i in alive if known[i]["score"] is not None]
        best, worst = truncated(
            [known[i]["score"] for i in scored], self.metric, self.search.quantile
        )
        if number in alive and number not in [scored[i] for i in worst]:
            return number
        candidates = [scored[i] for i in best] or alive  # a failed one takes what there is
        return candidates[self._stream(number, at).integers(len(candidates))]

    def _stream(self, number: int, at: int, purpose: str = "") -> np.random.Generator:
        return stream(self.search.seed, f"member {number}, round {at}{purpose}")

    def _add(self, number: int, at: int, values: Mapping[str, Any], source: int) -> JobDirectory:
        """The job of a stretch; it finds its checkpoint, if there is one, in the run directory."""
        spec, begins = self.runs.spec, at * self.search.interval_steps
        ends = min(self.total, begins + self.search.interval_steps)
        setting = setting_for(spec, values, f"member_{number}", self._seed(number))
        (job,) = jobs_of(spec, [setting], self.runs.share, first=self.runs.take_number())
        marks = {MEMBER: number, ROUND: at, FROM: source, BEGINS: begins, ENDS: ends}
        job = replace(
            job.with_settings({**values, **marks}),
            name=f"member_{number}/round_{at}",
            command=(sys.executable, "-m", STRETCH, "{job}/config.json", "{run_dir}", str(ends)),
            resume=None,
            continues=at > 0,
        )
        return self.runs.sweep.add(job)

    def _seed(self, number: int) -> int:
        return self.runs.spec.seeds[0] + number

    def _run_dir(self, number: int) -> Path:
        return self.runs.sweep.path / f"member_{number}" / f"run_{self._seed(number)}"


def check_population(spec: SweepSpec, search: Search) -> None:
    """Whether such a search can be carried out.

    Raises:
        ValueError: it cannot; says why, with file and line.
    """
    if spec.script is not None:
        _refuse(
            spec, "script", "population-based training needs train; scripts leave no checkpoints"
        )
    if len(spec.seeds) != 1:
        _refuse(spec, "seeds", "population-based training takes one seed; members count up from it")
    for key in spec.sample:
        if not key.startswith("algo."):
            _refuse(spec, f"sample.{key}", f"{key} cannot change in the course of a run; "
                    "population-based training searches settings of the algorithm, as "
                    "algo.learning_rate")  # fmt: skip
    options = setting_options(spec, {})
    batch = options.sampler.batch_T * options.sampler.batch_B * options.ranks
    given = f"interval_steps={search.interval_steps} must be"
    if search.interval_steps >= options.steps:
        _refuse(spec, "search.interval_steps", f"{given} below the {options.steps} steps of a run, "
                "or members are never compared")  # fmt: skip
    if search.interval_steps < batch:
        _refuse(spec, "search.interval_steps", f"{given} at least one batch of {batch} steps "
                "(batch_T * batch_B)")  # fmt: skip


def _refuse(spec: SweepSpec, key: str, why: str) -> None:
    with spec.blaming(key):
        raise ValueError(f"{why}.")


def truncated(
    scores: Sequence[float], metric: Metric, quantile: float
) -> tuple[list[int], list[int]]:
    """Truncation selection: indices of the best, and of as many of the worst.

    At least one of each, unless there are fewer than two; the same number, and nobody in both.
    """
    order = metric.better(scores)
    n = min(max(1, math.floor(len(order) * quantile)), len(order) // 2)
    return order[:n], order[len(order) - n :]


def setting_options(spec: SweepSpec, values: Mapping[str, Any], seed: int = 0) -> RunOptions:
    """The options of a member with these values."""
    return run_options(spec, setting_for(spec, values, "member", seed))


def perturbed(value: Any, draw: Draw, search: Search, rng: np.random.Generator) -> Any:
    """A value near another: a number times or by ``search.perturb``, a choice beside it.

    With probability ``search.resample`` it is drawn anew; it stays within the distribution's range.
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
    """What a stretch came to: ``score`` and ``values``; empty where that is not known."""
    try:
        standing: dict[str, Any] = json.loads((directory / STANDING).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return standing


def write_standing(directory: Path, about: Mapping[str, Any]) -> None:
    """Note what a stretch came to."""
    with atomic_write(directory / STANDING) as file:
        file.write(json.dumps(dict(about)).encode())


def _keep(run_dir: Path, snapshot: Path, about: dict[str, Any]) -> None:
    """Put the run's checkpoint where others may take it; whole, or as it was."""
    beside = snapshot.with_name(f".{snapshot.name}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    _link_tree(run_dir / rundir.CHECKPOINTS, beside / rundir.CHECKPOINTS)
    write_standing(beside, about)
    shutil.rmtree(snapshot, ignore_errors=True)
    os.rename(beside, snapshot)


def _take_over(snapshot: Path, run_dir: Path) -> None:
    """Let a run go on from a snapshot."""
    place = run_dir / rundir.CHECKPOINTS
    shutil.rmtree(place, ignore_errors=True)
    run_dir.mkdir(parents=True, exist_ok=True)
    _link_tree(snapshot / rundir.CHECKPOINTS, place)


def _link_tree(source: Path, target: Path) -> None:
    """A copy that costs no space: files of checkpoints are never changed."""
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except (OSError, shutil.Error):  # no links on this file system
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
