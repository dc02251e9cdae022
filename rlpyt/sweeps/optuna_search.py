"""Search by Optuna: proposes settings, receives scores of their runs, and prunes trials."""

import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from rlpyt.experiments.options import Settings
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.expansion import jobs_of, run_options, setting_for
from rlpyt.sweeps.jobs import JobDirectory, State
from rlpyt.sweeps.launcher import Source, SourceError
from rlpyt.sweeps.search import TRIAL, Search, import_optuna, progress_of
from rlpyt.sweeps.slots import Slot
from rlpyt.sweeps.spec import Draw, SweepSpec
from rlpyt.utils.names import suggestion

REPORT_INTERVAL_S = 2.0  # between two readings of the statistics of running trials
PRUNE_BEFORE = 0.9  # of its steps; later, a run is not worth pruning
DATABASE = "optuna.db"
NAME = "sweep"  # of the study in its database
HYPERBAND_RUNGS = 27  # hyperband prunes no run before this fraction of its steps


class OptunaSearch(Source):
    """Source of runs: a trial for each setting, with a run for each seed.

    The study is in a database beside the queue, which ``optuna-dashboard`` can show.
    After a killed launcher, the next one adds missing runs of proposed trials, and completes
    trials whose runs have ended meanwhile.

    Args:
        sweep: directory of the sweep.
        spec: its file.
        share: hardware of each run.
        search: the key ``search`` of the file.
    """

    def __init__(self, sweep: SweepDirectory, spec: SweepSpec, share: Slot, search: Search) -> None:
        self.sweep, self.spec, self.share, self.search = sweep, spec, share, search
        self._n_seeds = len(spec.seeds)
        self._state = import_optuna().trial.TrialState
        self._jobs: dict[int, list[JobDirectory]] = defaultdict(list)
        for job in sweep.jobs():
            self._jobs[job.job.settings[TRIAL]].append(job)
        self._next_job = max((job.job.number for job in sweep.jobs()), default=-1) + 1
        steps = None
        if spec.script is None:  # the same for any values, which need not be valid together
            needed = [key for key in ("algo_name", "env") if key in spec.sample]
            values = {key: spec.sample[key].values[0] for key in needed}
            steps = run_options(spec, setting_for(spec, values, "any")).steps
        self._storage, self.study = open_study(sweep, search, steps)
        self._over: dict[int, dict[int, State]] = defaultdict(dict)  # trial -> job -> final state
        self._trials: dict[int, Any] = {}  # active ones, by number
        self._reported: dict[int, int] = {}  # trial: environment steps
        self._next_report_s = 0.0
        self._ready: list[JobDirectory] = []
        self._incomplete = [
            trial.number
            for trial in self._all_trials()
            if not trial.state.is_finished() and len(self._jobs[trial.number]) < self._n_seeds
        ]

    def next(self, sweep: SweepDirectory) -> JobDirectory | None:
        """Return a run of a proposed trial, or propose a new one."""
        while not self._ready:
            if self._incomplete:
                self._add_runs(self._incomplete.pop(0))
            elif self._n_left() > 0:
                trial = self.study.ask()
                self._trials[trial.number] = trial
                self._add_runs(trial.number)
            else:
                return None
        return self._ready.pop(0)

    def ended(self, job: JobDirectory, state: State) -> None:
        """Complete the trial once all its runs have ended."""
        if state == "done":
            self._check_metric(job)
        number = job.job.settings[TRIAL]
        self._over[number][job.job.number] = state
        if state == "pruned":
            self._end_runs(number)  # the launcher may have been killed before it did
        is_finished = self._all_trials()[number].state.is_finished()
        if len(self._over[number]) < self._n_seeds or is_finished:
            return
        states = set(self._over[number].values())
        scores = [self.search.score(self._dir_of(job)) for job in self._jobs[number]]
        known = [score for score in scores if score is not None]
        if "pruned" in states:
            self.study.tell(number, state=self._state.PRUNED)
        elif "failed" in states:
            self._fail(number)
        elif len(known) < len(scores):
            search = self.search
            warnings.warn(
                f"trial {number} has failed: a run has no {search.metric}, and no number in column "
                f"{search.column} of progress.csv."
            )
            self._fail(number)
        else:
            list(self._report(number))  # for the comparison with other trials
            self.study.tell(number, float(np.mean(known)))
        for own in self._jobs[number]:
            self.search.forget(self._dir_of(own))

    def watch(self, running: Sequence[JobDirectory]) -> None:
        """Report the scores of running trials, and end those that the pruner rejects."""
        if self.search.pruner == "none" or time.monotonic() < self._next_report_s:
            return
        self._next_report_s = time.monotonic() + REPORT_INTERVAL_S
        for number in sorted({job.job.settings[TRIAL] for job in running}):
            if len(self._jobs[number]) == self._n_seeds and self._is_pruned(number):
                self._end_runs(number)

    def is_over(self) -> bool:
        """Return True if all trials were proposed and have their runs."""
        return not self._ready and not self._incomplete and self._n_left() <= 0

    def n_jobs(self) -> int:
        """Return the number of runs of all trials."""
        return self.search.trials * self._n_seeds

    def _n_left(self) -> int:
        """Return the number of trials to propose; invalid ones count once there are too many."""
        trials, wanted = self._all_trials(), self.search.trials
        invalid = sum(t.state == self._state.FAIL and not self._jobs[t.number] for t in trials)
        return int(wanted - (len(trials) - min(invalid, wanted)))

    def _add_runs(self, number: int) -> None:
        """Add the missing runs of a trial."""
        trial, known = self._trial(number), self._jobs[number]
        space, seeds = self.spec.sample, {job.job.settings["seed"] for job in known}
        # A trial that already has values returns them.
        values = {key: suggest(trial, key, draw) for key, draw in space.items()}
        left = [seed for seed in self.spec.seeds if seed not in seeds]
        try:
            added = self.add(number, values, left)
        except (ValueError, TypeError) as error:
            warnings.warn(f"trial {number} skipped, invalid settings: {error}")
            self._fail(number)
            return
        self._jobs[number] = [*known, *added]
        self._ready += added

    def add(
        self, trial: int, values: Mapping[str, Any], seeds: Sequence[int]
    ) -> list[JobDirectory]:
        """Add a run of a trial with these values of the searched settings for each seed.

        Raises:
            ValueError, TypeError: the values are invalid; nothing is added.
        """
        made = [setting_for(self.spec, values, f"trial_{trial}", seed) for seed in seeds]
        jobs = jobs_of(self.spec, made, self.share, first=self._next_job)
        self._next_job += len(jobs)
        marked = [replace(job, settings={**job.settings, TRIAL: trial}) for job in jobs]
        return [self.sweep.add(job) for job in marked]

    def _dir_of(self, job: JobDirectory) -> Path:
        return self.sweep.path / job.job.run_dir

    def _check_metric(self, job: JobDirectory) -> None:
        """Check that a finished run has the metric; otherwise no other run will have it.

        Raises:
            SourceError: progress.csv lacks the column; the message lists its columns.
        """
        run_dir, column = self._dir_of(job), self.search.column
        columns = list(progress_of(run_dir))
        if column in columns or self.search.score(run_dir) is not None:
            return
        file = self.sweep.queue / self.sweep.about.file_name
        raise SourceError(
            f"search.metric: {job.job.name} has finished without a column {column!r} in "
            f"{run_dir / 'progress.csv'}{suggestion(column, columns)} Columns: "
            f"{', '.join(columns) or 'none'}. Correct metric in {file}, then resume with `rlpyt "
            f"sweep {quote(str(self.sweep.path))}`; finished runs are kept."
        )

    def _end_runs(self, number: int) -> None:
        """End or cancel all runs of a trial."""
        for job in self._jobs[number]:
            attempts = job.attempts()
            state = job.state(attempts)
            if state == "queued":
                job.cancel()
            if state in ("queued", "running") and attempts and attempts[-1].ended is None:
                job.request_end(attempts[-1].number, "pruned")  # also one that is about to start

    def _is_pruned(self, number: int) -> bool:
        """Return True if the pruner rejects a trial at one of its new rows."""
        trial = self._trial(number)
        total = self._jobs[number][0].job.total_steps or float("inf")
        return any(
            self.search.warmup_steps <= at <= PRUNE_BEFORE * total and trial.should_prune()
            for at in self._report(number)
        )

    def _report(self, number: int) -> Iterator[int]:
        """Report new rows common to all started runs of a trial; yield their steps.

        Trials are compared at the same step. Rows of runs with different batch sizes are assigned
        to the nearest multiple of the log interval. The evaluation before training does not count.
        """
        jobs, trial = self._jobs[number], self._trial(number)
        every = _row_interval(jobs[0].job)
        rows = [
            {max(round(at / every), 1) * every: (at, value) for at, value in own if at > 0}
            for job in jobs
            if (own := self.search.rows(self._dir_of(job)))
        ]
        for step in sorted(set.intersection(*map(set, rows)) if rows else ()):
            if step > self._reported[number]:
                self._reported[number] = step
                trial.report(float(np.mean([own[step][1] for own in rows])), step)
                yield max(own[step][0] for own in rows)

    def _trial(self, number: int) -> Any:
        """Return an active trial, also one of an earlier launcher."""
        if number not in self._trials:
            study = self._storage.get_study_id_from_name(self.study.study_name)
            trial_id = self._storage.get_trial_id_from_study_id_trial_number(study, number)
            self._trials[number] = import_optuna().trial.Trial(self.study, trial_id)
        if number not in self._reported:
            last = self._all_trials()[number].last_step
            self._reported[number] = -1 if last is None else last
        return self._trials[number]

    def _all_trials(self) -> Any:
        return self.study.get_trials(deepcopy=False)

    def _fail(self, number: int) -> None:
        self.study.tell(number, state=self._state.FAIL)


def _row_interval(job: Any) -> int:
    """Return the steps between two rows with a return; 1 if unknown."""
    config, steps = job.config, job.total_steps
    given = config.get("eval_interval_steps") or config.get("log_interval_steps")
    return int(given or (Settings(steps=steps).log_steps if steps else 1))


def open_study(sweep: SweepDirectory, search: Search, steps: int | None = None) -> Any:
    """Create or load the storage and study of a sweep, with the steps of a run if known."""
    optuna = import_optuna()
    samplers = optuna.samplers
    # A launcher that resumes must not propose the same values again.
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
        storage = optuna.storages.RDBStorage(f"sqlite:///{sweep.queue / DATABASE}")
        study = optuna.create_study(
            storage=storage,
            study_name=NAME,
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


def suggest(trial: Any, key: str, draw: Draw) -> Any:
    """Return the trial's value of a setting."""
    if draw.kind == "choice":
        texts = choice_texts(draw.values)
        return draw.values[texts.index(trial.suggest_categorical(key, texts))]
    low, high = draw.values
    if draw.kind == "integer":
        return trial.suggest_int(key, low, high)
    return trial.suggest_float(key, low, high, log=draw.kind == "log_uniform")


def choice_texts(values: Sequence[Any]) -> list[str]:
    """Return a different string for each value: Optuna stores no lists, and merges 1, 1.0, True.

    >>> choice_texts([[64, 64], "relu", None])
    ['[64, 64]', 'relu', 'null']
    """
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return texts if len(set(texts)) == len(texts) else [json.dumps(value) for value in values]
