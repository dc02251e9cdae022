"""Results of a search, read from its files; ``best.json`` holds them for programs."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.jobs import JobDirectory
from rlpyt.sweeps.optuna_search import DATABASE, NAME
from rlpyt.sweeps.search import TRIAL, Search, import_optuna, read_search, spec_of
from rlpyt.sweeps.spec import Draw
from rlpyt.utils.files import check_regular, write_text

BEST = "best.json"


@dataclass(frozen=True)
class Best:
    """The best result of a search."""

    settings: Mapping[str, Any]  # by their dotted names
    score: float  # value of the metric, a mean over seeds
    name: str  # of the trial
    run_dir: str  # of its first run
    command: str  # that trains with these settings


@dataclass(frozen=True)
class Trial:
    """A setting proposed by Optuna; ``value`` is None unless it is complete."""

    number: int
    state: str
    value: float | None
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Results:
    """The state of a search."""

    search: Search
    space: Mapping[str, Draw]  # by dotted names
    trials: Sequence[Trial]
    importances: Mapping[str, float]  # of settings for the score, sum 1; empty with few trials
    best: Best | None  # None before a trial is complete


def read_results(sweep: SweepDirectory) -> Results:
    """Read the results of a search; nothing is written.

    Raises:
        ImportError: Optuna is missing.
        ValueError: the sweep file in the queue was changed and is invalid.
        Exception: any error of Optuna or its database, if that is damaged.
    """
    spec = spec_of(sweep)
    search, jobs = read_search(spec), sweep.jobs()
    study = _open_study(sweep)
    trials = _trials(study, jobs, spec.sample)
    best = _best(sweep, search, jobs, trials, spec.sample)
    return Results(search, spec.sample, trials, _importances(study, trials), best)


def write_best(sweep: SweepDirectory) -> list[str]:
    """Write ``best.json`` to the sweep's directory; return the same as lines of text."""
    results = read_results(sweep)
    best = results.best
    if best is None:
        return ["No run has a score yet."]
    content = {**asdict(best), "metric": results.search.metric}
    write_text(sweep.path / BEST, json.dumps(content, indent=2) + "\n")
    what = ", ".join(f"{key}={short_text(value)}" for key, value in best.settings.items())
    return [
        f"Best: {best.name}, {results.search.metric} {best.score:.6g}: {what}",
        f"Train with it: {best.command}",
    ]


def short_text(value: Any) -> str:
    """Return a setting's value as a short string, for tables."""
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value).strip('"')


def scored(trials: Sequence[Trial]) -> list[tuple[Trial, float]]:
    """Return the trials that have a score, with it."""
    return [(trial, trial.value) for trial in trials if trial.value is not None]


def _trials(study: Any, jobs: Sequence[JobDirectory], space: Mapping[str, Draw]) -> list[Trial]:
    settings: dict[int, Mapping[str, Any]] = {}
    for job in jobs:
        settings[job.job.settings[TRIAL]] = {key: job.job.settings[key] for key in space}
    complete = import_optuna().trial.TrialState.COMPLETE
    return [
        Trial(
            trial.number,
            trial.state.name.lower(),
            float(trial.value) if trial.state == complete else None,
            settings.get(trial.number, trial.params),
        )
        for trial in (study.get_trials(deepcopy=False) if study is not None else ())
    ]


def _open_study(sweep: SweepDirectory) -> Any:
    """Load the study; return None before the first launcher has created it."""
    optuna, path = import_optuna(), sweep.queue / DATABASE
    if not path.exists():
        return None
    check_regular(path, links=False)
    storage = optuna.storages.RDBStorage(
        f"sqlite:///file:{quote(str(path))}?mode=ro&uri=true", skip_table_creation=True
    )
    try:
        return optuna.load_study(study_name=NAME, storage=storage)
    except KeyError:
        return None


def _importances(study: Any, trials: Sequence[Trial]) -> dict[str, float]:
    """Compute importances by PED-ANOVA (Watanabe et al. 2023)."""
    values = {trial.value for trial in trials if trial.value is not None}
    if len(values) < 4:  # too few for its quantiles
        return {}
    importance = import_optuna().importance
    evaluator = importance.PedAnovaImportanceEvaluator()
    found = importance.get_param_importances(study, evaluator=evaluator)
    return {key: float(value) for key, value in found.items()}


def _best(
    sweep: SweepDirectory,
    search: Search,
    jobs: Sequence[JobDirectory],
    trials: Sequence[Trial],
    space: Mapping[str, Draw],
) -> Best | None:
    known = scored(trials)
    if not known:
        return None
    choose = max if search.direction == "maximize" else min
    best, score = choose(known, key=lambda one: one[1])
    job = next(j for j in jobs if j.job.settings[TRIAL] == best.number)
    run_dir = str(sweep.path / job.job.run_dir)
    settings = {key: best.settings[key] for key in space}
    command = shlex.join(["rlpyt", "train", "--config", run_dir])
    if not job.job.config:  # a script
        attempts = job.attempts()
        command = shlex.join(attempts[-1].command) if attempts else ""
    return Best(settings, score, f"trial {best.number}", run_dir, command)
