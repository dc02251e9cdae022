"""Population-based training: runs beside each other, the worst go on from the best's checkpoints.

Source: Jaderberg et al. 2017, "Population Based Training of Neural Networks": truncation selection
as ``exploit``; ``explore`` multiplies or divides by a factor, or draws anew.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.experiments import rundir
from rlpyt.experiments.options import RunOptions
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.draws import Draw
from rlpyt.sweeps.expansion import setting_for
from rlpyt.sweeps.jobs import JobDirectory, State
from rlpyt.sweeps.runs import RLPYT, jobs_of
from rlpyt.sweeps.search import Search
from rlpyt.sweeps.spec import SweepSpec
from rlpyt.sweeps.trials import Runs
from rlpyt.utils.files import atomic_write
from rlpyt.utils.seed import stream

MEMBER, ROUND = "member", "round"  # marks of a run
SNAPSHOTS = "population"  # beside the queue: of each member what others may take over
SCORE = "score.json"


@dataclass
class _Member:
    rounds: int = 0  # that have jobs
    busy: bool = False
    steps: int = 0  # of its snapshot
    score: float | None = None  # of its snapshot; None: it has none
    values: dict[str, Any] = field(default_factory=dict)  # of its snapshot
    dead: bool = False  # its last round has failed


class Population:
    """A source of runs: for each member one after the other, each a stretch of its training.

    Members do not wait for each other: who has come to the end of a stretch is compared with where
    the others stand. What others may take over are checkpoints kept apart, so nothing is read that
    a run is writing. Decisions are drawn from streams named by member and round, and made again
    alike by a launcher that takes over.

    Args:
        runs: of the sweep.
        search: how to search.
    """

    def __init__(self, runs: Runs, search: Search) -> None:
        self.runs, self.search, self.metric = runs, search, search.to_find
        self.root = runs.sweep.queue / SNAPSHOTS
        self.members = [_Member() for _ in range(search.population)]
        for job in runs.sweep.jobs():
            member = self.members[job.job.settings[MEMBER]]
            member.rounds, member.busy = job.job.settings[ROUND] + 1, True
        self.total = setting_options(runs.spec, {}).steps

    def next(self, sweep: SweepDirectory) -> JobDirectory | None:
        """The next stretch of a member that has come to an end of one; who has least goes first."""
        idle = [i for i, m in enumerate(self.members) if not m.busy and not self._is_done(i)]
        if not idle:
            return None
        number = min(idle, key=lambda i: (self.members[i].rounds, i))
        member = self.members[number]
        member.busy = True
        member.rounds += 1
        return self._go_on(number) if member.rounds > 1 else self._begin(number)

    def ended(self, job: JobDirectory, state: State) -> None:
        """Keep a copy of what the member has learnt."""
        number, at = job.job.settings[MEMBER], job.job.settings[ROUND]
        member, snapshot = self.members[number], self._snapshot(number)
        if at + 1 < member.rounds:  # of a sweep that goes on: later stretches are known
            return
        member.busy, member.dead = False, state != "done"
        if state == "done" and read_score(snapshot).get("round", -1) < at:
            run_dir = self.runs.dir_of(job)
            score = self.metric.score(run_dir)
            _keep(run_dir, snapshot, {
                "round": at, "steps": job.job.total_steps, "score": score,
                "values": {key: job.job.settings[key] for key in self.runs.spec.sample},
            })  # fmt: skip
        kept = read_score(snapshot)
        if kept:
            member.steps, member.score = kept["steps"], kept["score"]
            member.values = kept["values"]

    def watch(self, running: Sequence[JobDirectory]) -> None:
        """Members are compared at the ends of stretches only."""

    def is_over(self) -> bool:
        """Whether every member has all its steps."""
        return all(self._is_done(number) for number in range(len(self.members)))

    def _is_done(self, number: int) -> bool:
        member = self.members[number]
        if member.dead:  # it can live on as a copy of another
            return not any(map(self._can_be_taken, range(len(self.members))))
        return member.steps >= self.total

    def _snapshot(self, number: int) -> Path:
        return self.root / f"member_{number}"

    def _begin(self, number: int) -> JobDirectory:
        """The first stretch, with values drawn at random."""
        rng = stream(self.search.seed, f"member {number}")
        values = {key: draw.draw(rng) for key, draw in self.runs.spec.sample.items()}
        options = setting_options(self.runs.spec, values, self._seed(number))
        command = (*RLPYT, "train", "--config", "{job}/config.json", "--run-dir", "{run_dir}")
        return self._add(number, options, values, 0, command)

    def _go_on(self, number: int) -> JobDirectory:
        """A further stretch: of its own, or of a better one's with changed values."""
        member, run_dir = self.members[number], self._run_dir(number)
        source, values = self._exploit(number), member.values
        if source != number:
            values = self._explore(number, self.members[source].values)
        _take_over(self._snapshot(source), run_dir)
        options = setting_options(self.runs.spec, values, self._seed(number))
        return self._add(number, options, values, source, (*RLPYT, "resume", "{run_dir}"))

    def _exploit(self, number: int) -> int:
        """Whose checkpoint the member goes on from: one of the best, if it is one of the worst."""
        scored = [i for i in range(len(self.members)) if self._can_be_taken(i)]
        scores = [float(self.members[i].score or 0.0) for i in scored]
        order = [scored[at] for at in self.metric.better(scores)]
        n = max(1, math.floor(len(order) * self.search.quantile))
        best = order[:n]
        if number in order[: max(len(order) - n, 1)]:
            return number
        rng = stream(self.search.seed, f"member {number}, round {self.members[number].rounds}")
        return int(best[rng.integers(len(best))])

    def _can_be_taken(self, number: int) -> bool:
        """Whether there is something of this member to go on from."""
        member = self.members[number]
        return member.score is not None and not member.dead and member.steps < self.total

    def _explore(self, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
        rounds = self.members[number].rounds
        rng = stream(self.search.seed, f"member {number}, round {rounds}, values")
        space = self.runs.spec.sample
        return {key: perturbed(values[key], space[key], self.search, rng) for key in space}

    def _add(
        self, number: int, options: RunOptions, values: dict[str, Any], source: int,
        command: tuple[str, ...],
    ) -> JobDirectory:  # fmt: skip
        member, spec = self.members[number], self.runs.spec
        at = member.rounds - 1
        done = read_score(self._snapshot(source))["steps"] if at else 0
        steps = min(self.total, done + self.search.interval_steps)
        setting = setting_for(spec, values, f"member_{number}", self._seed(number))
        (job,) = jobs_of(spec, [setting], self.runs.share, first=self.runs.take_number())
        options = options.updated({"steps": steps, **_kept(job.config)})
        marks = {MEMBER: number, ROUND: at, "from": source, **values}
        job = replace(
            job.with_settings(marks),
            name=f"member_{number}/round_{at}",
            command=command,
            config=options.as_dict(),
            total_steps=steps,
            continues=at > 0,
        )
        if at:
            options.write(self._run_dir(number))
        return self.runs.sweep.add(job)

    def _seed(self, number: int) -> int:
        return self.runs.spec.seeds[0] + number

    def _run_dir(self, number: int) -> Path:
        return self.runs.sweep.path / f"member_{number}" / f"run_{self._seed(number)}"


def check_population(spec: SweepSpec, search: Search) -> None:
    """Whether such a search can be carried out.

    Raises:
        ValueError: it cannot; says why.
    """
    if spec.script is not None:
        raise ValueError("population-based training needs train, a script cannot be gone on with.")
    if len(spec.seeds) != 1:
        raise ValueError("population-based training takes one seed; members have those after it.")
    for key in spec.sample:
        if not key.startswith("algo."):
            raise ValueError(
                f"{key} cannot change in the course of a run; population-based training searches "
                "settings of the algorithm (algo.learning_rate)."
            )
    total = setting_options(spec, {}).steps
    if search.interval_steps >= total:
        raise ValueError(
            f"interval_steps={search.interval_steps} must be below the {total} steps of a run, or "
            "members are never compared."
        )


def setting_options(spec: SweepSpec, values: Mapping[str, Any], seed: int = 0) -> RunOptions:
    """The options of a member with these values."""
    from rlpyt.sweeps.expansion import run_options

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


def read_score(snapshot: Path) -> dict[str, Any]:
    """What a snapshot is of; empty where there is none."""
    try:
        score: dict[str, Any] = json.loads((snapshot / SCORE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return score


def _keep(run_dir: Path, snapshot: Path, about: dict[str, Any]) -> None:
    """Put the run's checkpoint where others may take it; whole, or as it was."""
    beside = snapshot.with_name(f".{snapshot.name}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    _link_tree(run_dir / rundir.CHECKPOINTS, beside / rundir.CHECKPOINTS)
    with atomic_write(beside / SCORE) as file:
        file.write(json.dumps(about).encode())
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


def _kept(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the run's share of the machine has made of its options."""
    n_workers = config["sampler"]["n_workers"]
    return {"device": config["device"], "video": config["video"],
            "sampler": {"n_workers": n_workers}}  # fmt: skip
