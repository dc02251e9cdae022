"""A search by Optuna: it proposes settings, hears how their runs do, and ends hopeless ones."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.draws import Draw
from rlpyt.sweeps.jobs import JobDirectory, State
from rlpyt.sweeps.search import Search, import_optuna
from rlpyt.sweeps.trials import Runs

TRIAL = "trial"  # mark of a run: number of its trial
LOOK_S = 2.0  # between two looks at the statistics of what runs
NEARLY_OVER = 0.9  # of its steps: such a run is not worth ending
DATABASE = "optuna.db"
NAME = "sweep"  # of the study in its database


class Study:
    """A source of runs: a trial for each setting, with a run for each seed.

    The study lies in a database, by default beside the queue, and ``optuna-dashboard`` can look at
    it. Of a launcher that was killed the next one takes over: trials that have no runs yet, or
    whose runs have ended meanwhile, are completed first.

    Args:
        runs: adds them.
        search: how to search.
    """

    def __init__(self, runs: Runs, search: Search) -> None:
        self.runs, self.search, self.metric = runs, search, search.to_find
        self._optuna = import_optuna()
        self.study = open_study(runs.sweep, search)
        self._jobs: dict[int, list[JobDirectory]] = defaultdict(list)
        for job in runs.sweep.jobs():
            self._jobs[job.job.settings[TRIAL]].append(job)
        self._over: dict[int, dict[int, State]] = defaultdict(dict)  # trial, job: how it ended
        self._ready: list[JobDirectory] = []
        self._reported: dict[int, int] = defaultdict(int)  # trial: rows
        self._next_look_s = 0.0
        for trial in self.study.get_trials(deepcopy=False):
            if not trial.state.is_finished() and len(self._jobs[trial.number]) < self._n_seeds:
                self._tell(trial.number, None)  # its launcher died before it had runs
                for job in self._jobs[trial.number]:
                    job.cancel()

    @property
    def _n_seeds(self) -> int:
        return len(self.runs.spec.seeds)

    def next(self, sweep: SweepDirectory) -> JobDirectory | None:
        """A run of a trial that was proposed, or of a new one."""
        while not self._ready and not self.is_over():
            trial = self.study.ask()
            values = {key: suggest(trial, key, draw) for key, draw in self.runs.spec.sample.items()}
            try:
                jobs = self.runs.add(f"trial_{trial.number}", values, **{TRIAL: trial.number})
            except (ValueError, TypeError) as error:
                warnings.warn(f"trial {trial.number} cannot be: {error}")
                self._tell(trial.number, None)
                continue
            self._jobs[trial.number] = jobs
            self._ready += jobs
        return self._ready.pop(0) if self._ready else None

    def ended(self, job: JobDirectory, state: State) -> None:
        """Conclude the trial once all its runs are over."""
        number = job.job.settings[TRIAL]
        self._over[number][job.job.number] = state
        if len(self._over[number]) < self._n_seeds or self._is_finished(number):
            return
        states = set(self._over[number].values())
        scores = [self.metric.score(self.runs.dir_of(job)) for job in self._jobs[number]]
        known = [score for score in scores if score is not None]
        if "pruned" in states:
            self.study.tell(number, state=self._optuna.trial.TrialState.PRUNED)
        elif states == {"done"} and len(known) == len(scores):
            self._tell(number, float(np.mean(known)))
        else:
            self._tell(number, None)

    def watch(self, running: Sequence[JobDirectory]) -> None:
        """Report what the runs have reached, and end those of trials that the pruner gives up."""
        if self.search.pruner == "none" or time.monotonic() < self._next_look_s:
            return
        self._next_look_s = time.monotonic() + LOOK_S
        for number in {job.job.settings[TRIAL] for job in running}:
            if self._gives_up(number):
                for job in self._jobs[number]:
                    attempts = job.attempts()
                    if attempts and job.state(attempts) == "running":
                        job.tell(attempts[-1].number, "pruned")
                    else:
                        job.cancel()

    def is_over(self) -> bool:
        """Whether all trials have been proposed; those that came to nothing do not count."""
        failed = self._optuna.trial.TrialState.FAIL
        trials = self.study.get_trials(deepcopy=False)
        lost = sum(t.state == failed and not self._jobs[t.number] for t in trials)
        return bool(len(trials) - min(lost, self.search.trials) >= self.search.trials)

    def _gives_up(self, number: int) -> bool:
        """Report rows that all runs of a trial have; whether the pruner wants it to end."""
        rows = [self.metric.rows(self.runs.dir_of(job)) for job in self._jobs[number]]
        trial = self._optuna.trial.Trial(self.study, self._trial_id(number))
        for at in range(self._reported[number], min(map(len, rows))):
            self._reported[number] = at + 1
            steps = max(own[at][0] for own in rows)
            trial.report(float(np.mean([own[at][1] for own in rows])), steps)
            total = self._jobs[number][0].job.total_steps or float("inf")
            nearly_over = steps > NEARLY_OVER * total
            if steps >= self.search.warmup_steps and not nearly_over and trial.should_prune():
                return True
        return False

    def _trial_id(self, number: int) -> int:
        trial_id: int = self.study.get_trials(deepcopy=False)[number]._trial_id
        return trial_id

    def _is_finished(self, number: int) -> bool:
        finished = self.study.get_trials(deepcopy=False)[number].state.is_finished()
        return bool(finished)

    def _tell(self, number: int, value: float | None) -> None:
        failed = self._optuna.trial.TrialState.FAIL if value is None else None
        self.study.tell(number, value, state=failed)


def open_study(sweep: SweepDirectory, search: Search) -> Any:
    """The sweep's study, a new one or that of an earlier launcher."""
    optuna = import_optuna()
    samplers, pruners = optuna.samplers, optuna.pruners
    # Earlier trials count as draws, so that a study that goes on proposes nothing twice.
    seed = search.seed + len(sweep.jobs())
    sampler: Any = {
        "tpe": lambda: samplers.TPESampler(seed=seed, constant_liar=True),
        "random": lambda: samplers.RandomSampler(seed=seed),
        "cmaes": lambda: samplers.CmaEsSampler(seed=seed),
        "gp": lambda: samplers.GPSampler(seed=seed),
        "qmc": lambda: samplers.QMCSampler(seed=search.seed),
    }[search.sampler]
    pruner: Any = {
        "none": pruners.NopPruner,
        "median": lambda: pruners.MedianPruner(search.startup_trials, search.warmup_steps),
        "halving": pruners.SuccessiveHalvingPruner,
        "hyperband": pruners.HyperbandPruner,
    }[search.pruner]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.create_study(
            storage=search.storage or f"sqlite:///{sweep.queue / DATABASE}",
            study_name=NAME if not search.storage else f"{NAME}-{sweep.path.name}",
            load_if_exists=True,
            direction=search.direction,
            sampler=sampler(),
            pruner=pruner(),
        )


def suggest(trial: Any, key: str, draw: Draw) -> Any:
    """A value of one setting."""
    if draw.kind == "choice":
        plain = [v if isinstance(v, str | int | float | bool | None) else i
                 for i, v in enumerate(draw.values)]  # fmt: skip
        chosen = trial.suggest_categorical(key, plain)
        return draw.values[plain.index(chosen)]
    low, high = draw.values
    if draw.kind == "integer":
        return trial.suggest_int(key, low, high)
    return trial.suggest_float(key, low, high, log=draw.kind == "log_uniform")
