"""A search by Optuna: it proposes settings, hears how their runs do, and ends hopeless ones."""

from __future__ import annotations

import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.draws import Draw
from rlpyt.sweeps.jobs import JobDirectory, State
from rlpyt.sweeps.search import Search, import_optuna
from rlpyt.sweeps.trials import TRIAL, Runs, total_steps

LOOK_S = 2.0  # between two looks at the statistics of what runs
NEARLY_OVER = 0.9  # of its steps: such a run is not worth ending
DATABASE = "optuna.db"
NAME = "sweep"  # of the study in its database
HYPERBAND_RUNGS = 27  # hyperband ends none that has made less than this part of its steps


class Study:
    """A source of runs: a trial for each setting, with a run for each seed.

    The study lies in a database, by default beside the queue, and ``optuna-dashboard`` can look at
    it. Of a launcher that was killed the next one takes over: trials that lack runs get them, with
    the values that were proposed, and those whose runs have ended meanwhile are concluded.

    Args:
        runs: adds them.
        search: how to search.
    """

    noun = "run"

    def __init__(self, runs: Runs, search: Search) -> None:
        self.runs, self.search, self.metric = runs, search, search.to_find
        self._state = import_optuna().trial.TrialState
        self._jobs: dict[int, list[JobDirectory]] = defaultdict(list)
        for job in runs.sweep.jobs():
            self._jobs[job.job.settings[TRIAL]].append(job)
        self._storage, self.study = open_study(runs.sweep, search, total_steps(runs.spec))
        self._over: dict[int, dict[int, State]] = defaultdict(dict)  # trial, job: how it ended
        self._trials: dict[int, Any] = {}  # under way, by number
        self._reported: dict[int, int] = {}  # trial: environment steps
        self._next_look_s = 0.0
        self._ready: list[JobDirectory] = []
        self._incomplete = [
            trial.number
            for trial in self._all_trials()
            if not trial.state.is_finished() and len(self._jobs[trial.number]) < self._n_seeds
        ]

    @property
    def _n_seeds(self) -> int:
        return len(self.runs.spec.seeds)

    def next(self, sweep: SweepDirectory) -> JobDirectory | None:
        """A run of a trial that was proposed, or of a new one."""
        while not self._ready:
            if self._incomplete:
                self._begin(self._incomplete.pop(0))
            elif self._n_left() > 0:
                trial = self.study.ask()
                self._trials[trial.number] = trial
                self._begin(trial.number)
            else:
                return None
        return self._ready.pop(0)

    def ended(self, job: JobDirectory, state: State) -> None:
        """Conclude the trial once all its runs are over."""
        if state == "done":
            self.runs.check_metric(self.metric, job)
        number = job.job.settings[TRIAL]
        self._over[number][job.job.number] = state
        if state == "pruned":
            self._end(number)  # a launcher may have been killed before it could
        if len(self._over[number]) < self._n_seeds or self._is_finished(number):
            return
        states = set(self._over[number].values())
        scores = [self.metric.score(self.runs.dir_of(job)) for job in self._jobs[number]]
        known = [score for score in scores if score is not None]
        if "pruned" in states:
            self.study.tell(number, state=self._state.PRUNED)
        elif "failed" in states:
            self._fail(number)
        elif len(known) < len(scores):
            warnings.warn(f"trial {number} counts as failed: {self.metric.missing}")
            self._fail(number)
        else:
            list(self._report(number))  # others will be compared with its rows
            self.study.tell(number, float(np.mean(known)))

    def watch(self, running: Sequence[JobDirectory]) -> None:
        """Report what the runs have reached, and end those of trials that the pruner gives up."""
        if self.search.pruner == "none" or time.monotonic() < self._next_look_s:
            return
        self._next_look_s = time.monotonic() + LOOK_S
        for number in sorted({job.job.settings[TRIAL] for job in running}):
            if len(self._jobs[number]) == self._n_seeds and self._gives_up(number):
                self._end(number)

    def is_over(self) -> bool:
        """Whether all trials have been proposed, and have their runs."""
        return not self._ready and not self._incomplete and self._n_left() <= 0

    def n_jobs(self) -> int:
        """Runs of all trials."""
        return self.search.trials * self._n_seeds

    def _n_left(self) -> int:
        """Trials to propose; as many as wanted may turn out to be impossible before it gives up."""
        trials, wanted = self._all_trials(), self.search.trials
        impossible = sum(t.state == self._state.FAIL and not self._jobs[t.number] for t in trials)
        return int(wanted - (len(trials) - min(impossible, wanted)))

    def _begin(self, number: int) -> None:
        """Add the runs that a trial has not got yet."""
        trial, known = self._trial(number), self._jobs[number]
        space, seeds = self.runs.spec.sample, {job.job.settings["seed"] for job in known}
        # A trial that has values already gives the same again.
        values = {key: suggest(trial, key, draw) for key, draw in space.items()}
        left = [seed for seed in self.runs.spec.seeds if seed not in seeds]
        try:
            added = self.runs.add(f"trial_{number}", values, left, **{TRIAL: number})
        except (ValueError, TypeError) as error:
            warnings.warn(f"trial {number} cannot be: {error}")
            self._fail(number)
            return
        self._jobs[number] = [*known, *added]
        self._ready += added

    def _end(self, number: int) -> None:
        """Have all runs of a trial end, or never begin."""
        for job in self._jobs[number]:
            attempts = job.attempts()
            state = job.state(attempts)
            if state == "queued":
                job.cancel()
            if state in ("queued", "running") and attempts and attempts[-1].ended is None:
                job.tell(attempts[-1].number, "pruned")  # also one that is about to begin

    def _gives_up(self, number: int) -> bool:
        """Whether the pruner wants a trial to end, for one of its new rows."""
        trial = self._trial(number)
        total = self._jobs[number][0].job.total_steps or float("inf")
        return any(
            self.search.warmup_steps <= at <= NEARLY_OVER * total and trial.should_prune()
            for at in self._report(number)
        )

    def _report(self, number: int) -> Iterator[int]:
        """Report new rows that all runs of a trial have that have begun; yields their steps.

        Rows of different trials are compared at the same step, so those of runs with other batch
        sizes, whose rows do not fall on the same steps, count for the log interval they are
        nearest to.
        """
        jobs, trial = self._jobs[number], self._trial(number)
        rows = [own for job in jobs if (own := self.metric.rows(self.runs.dir_of(job)))]
        every = int(jobs[0].job.config.get("log_interval_steps") or 1)
        for row in zip(*rows):
            at = max(steps for steps, _ in row)
            step = max(round(at / every), 1) * every
            if step > self._reported[number]:
                self._reported[number] = step
                trial.report(float(np.mean([value for _, value in row])), step)
                yield at

    def _trial(self, number: int) -> Any:
        """A trial under way; one of an earlier launcher is found by its number."""
        if number not in self._trials:
            study = self._storage.get_study_id_from_name(self.study.study_name)
            place = self._storage.get_trial_id_from_study_id_trial_number(study, number)
            self._trials[number] = import_optuna().trial.Trial(self.study, place)
        if number not in self._reported:
            last = self._all_trials()[number].last_step
            self._reported[number] = -1 if last is None else last
        return self._trials[number]

    def _all_trials(self) -> Any:
        return self.study.get_trials(deepcopy=False)

    def _is_finished(self, number: int) -> bool:
        return bool(self._all_trials()[number].state.is_finished())

    def _fail(self, number: int) -> None:
        self.study.tell(number, state=self._state.FAIL)


def open_study(sweep: SweepDirectory, search: Search, steps: int | None = None) -> Any:
    """Storage and study of a sweep: new ones, or those of an earlier launcher.

    Args:
        sweep: on disk.
        search: how to search.
        steps: of a run, where that is known.
    """
    optuna = import_optuna()
    samplers = optuna.samplers
    # A launcher that takes over draws other numbers than its predecessor did.
    seed = search.seed + len(sweep.jobs())
    sampler: Any = {
        "tpe": lambda: samplers.TPESampler(seed=seed, constant_liar=True),
        "random": lambda: samplers.RandomSampler(seed=seed),
        "cmaes": lambda: samplers.CmaEsSampler(seed=seed),
        "gp": lambda: samplers.GPSampler(seed=seed),
        "qmc": lambda: samplers.QMCSampler(seed=search.seed),  # its points are numbered
    }[search.sampler]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        storage = optuna.storages.RDBStorage(storage_url(sweep, search))
        study = optuna.create_study(
            storage=storage,
            study_name=study_name(sweep, search),
            load_if_exists=True,
            direction=search.direction,
            sampler=sampler(),
            pruner=_pruner(search, steps),
        )
    return storage, study


def _pruner(search: Search, steps: int | None) -> Any:
    pruners = import_optuna().pruners
    if search.pruner == "median":
        return pruners.MedianPruner(search.startup_trials, search.warmup_steps)
    if search.pruner == "halving":
        return pruners.SuccessiveHalvingPruner()
    if search.pruner == "hyperband":
        if steps is None:
            return pruners.HyperbandPruner()
        least = max(1, steps // HYPERBAND_RUNGS)
        return pruners.HyperbandPruner(min_resource=least, max_resource=steps)
    return pruners.NopPruner()


def storage_url(sweep: SweepDirectory, search: Search) -> str:
    """Where a sweep's study lies."""
    return search.storage or f"sqlite:///{sweep.queue / DATABASE}"


def study_name(sweep: SweepDirectory, search: Search) -> str:
    """What it is called there; a database of its own may hold studies of many sweeps."""
    return f"{sweep.path.name}-{sweep.about.made:.3f}" if search.storage else NAME


def suggest(trial: Any, key: str, draw: Draw) -> Any:
    """A value of one setting."""
    if draw.kind == "choice":
        texts = choice_texts(draw.values)
        return draw.values[texts.index(trial.suggest_categorical(key, texts))]
    low, high = draw.values
    if draw.kind == "integer":
        return trial.suggest_int(key, low, high)
    return trial.suggest_float(key, low, high, log=draw.kind == "log_uniform")


def choice_texts(values: Sequence[Any]) -> list[str]:
    """A text for each value, different ones: Optuna keeps no lists, and takes 1, 1.0, True as one.

    >>> choice_texts([[64, 64], "relu", None])
    ['[64, 64]', 'relu', 'null']
    """
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return texts if len(set(texts)) == len(texts) else [json.dumps(value) for value in values]
