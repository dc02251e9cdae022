"""What a search has found so far, read from its files; ``best.json`` says it to programs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.draws import Draw
from rlpyt.sweeps.jobs import JobDirectory
from rlpyt.sweeps.search import Search, import_optuna, read_search, spec_of
from rlpyt.sweeps.trials import BEGINS, ENDS, FROM, MEMBER, ROUND, TRIAL
from rlpyt.utils.files import atomic_write

BEST = "best.json"


@dataclass(frozen=True)
class Best:
    """The best that a search has found.

    Attributes:
        settings: by their dotted names.
        score: of the metric; a mean over seeds.
        name: of the trial or member.
        run_dir: of its run, of several the first.
        command: that trains with these settings (Optuna), or plays what was trained (a population,
            whose settings changed in the course of training).
    """

    settings: Mapping[str, Any]
    score: float
    name: str
    run_dir: str
    command: str


@dataclass(frozen=True)
class Trial:
    """One setting that Optuna has proposed; ``value`` is ``None`` unless it is complete."""

    number: int
    state: str
    value: float | None
    settings: Mapping[str, Any]
    n_reports: int


@dataclass(frozen=True)
class Stretch:
    """One stretch of a member of a population; environment steps from the run's beginning."""

    member: int
    round: int
    source: int
    begins: int
    ends: int
    state: str
    score: float | None
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Results:
    """A search as far as it has come.

    Attributes:
        search: how it searches.
        space: the distributions, by dotted names.
        trials: of Optuna, in their order.
        stretches: of a population, in the order they were begun.
        importances: of settings for the score, adding up to 1; empty before they can be told.
        best: ``None`` before anything is complete.
    """

    search: Search
    space: Mapping[str, Draw]
    trials: Sequence[Trial]
    stretches: Sequence[Stretch]
    importances: Mapping[str, float]
    best: Best | None


def read_results(sweep: SweepDirectory) -> Results:
    """What a search has found.

    Raises:
        ImportError: Optuna is missing.
        ValueError: the sweep file in the queue was changed to what cannot be.
    """
    spec = spec_of(sweep)
    search, jobs = read_search(spec), sweep.jobs()
    if search.method == "pbt":
        stretches = [_stretch(job, spec.sample) for job in jobs]
        best_member = _best_member(sweep, search, jobs, stretches)
        return Results(search, spec.sample, (), stretches, {}, best_member)
    study = _open_study(sweep, search)
    trials = _trials(study, jobs, spec.sample)
    importances = _importances(study, trials)
    best = _best_trial(sweep, search, jobs, trials)
    return Results(search, spec.sample, trials, (), importances, best)


def write_best(sweep: SweepDirectory) -> list[str]:
    """Write ``best.json`` into the sweep's directory; the same in a few lines for people."""
    results = read_results(sweep)
    best = results.best
    if best is None:
        return ["The search has found nothing yet: no run has a score."]
    with atomic_write(sweep.path / BEST) as file:
        content = {**asdict(best), "metric": results.search.metric}
        file.write((json.dumps(content, indent=2) + "\n").encode())
    what = ", ".join(f"{key}={shown(value)}" for key, value in best.settings.items())
    verb = "Play it" if results.search.method == "pbt" else "Train with it"
    return [
        f"Best: {best.name}, {results.search.metric} {best.score:.6g}: {what}",
        f"{verb}: {best.command}",
    ]


def shown(value: Any) -> str:
    """A setting's value, short enough for a table."""
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value).strip('"')


def _trials(study: Any, jobs: Sequence[JobDirectory], space: Mapping[str, Draw]) -> list[Trial]:
    settings: dict[int, Mapping[str, Any]] = {}
    for job in jobs:
        settings[job.job.settings[TRIAL]] = {key: job.job.settings[key] for key in space}
    complete = import_optuna().trial.TrialState.COMPLETE
    return [
        Trial(
            trial.number,
            trial.state.name.lower(),
            trial.value if trial.state == complete else None,
            settings.get(trial.number, trial.params),
            len(trial.intermediate_values),
        )
        for trial in (study.get_trials(deepcopy=False) if study is not None else ())
    ]


def _open_study(sweep: SweepDirectory, search: Search) -> Any:
    """The study; ``None`` before the first launcher has made it."""
    from rlpyt.sweeps.study import storage_url, study_name

    optuna = import_optuna()
    if not search.storage and not (sweep.queue / "optuna.db").exists():
        return None
    try:
        return optuna.load_study(
            study_name=study_name(sweep, search), storage=storage_url(sweep, search)
        )
    except KeyError:
        return None


def _importances(study: Any, trials: Sequence[Trial]) -> dict[str, float]:
    """PED-ANOVA (Watanabe et al. 2023), which needs no further package."""
    values = {trial.value for trial in trials if trial.value is not None}
    if len(values) < 4:  # its quantiles need some
        return {}
    importance = import_optuna().importance
    evaluator = importance.PedAnovaImportanceEvaluator()
    found = importance.get_param_importances(study, evaluator=evaluator)
    return {key: float(value) for key, value in found.items()}


def _best_trial(
    sweep: SweepDirectory, search: Search, jobs: Sequence[JobDirectory], trials: Sequence[Trial]
) -> Best | None:
    scored = [trial for trial in trials if trial.value is not None]
    if not scored:
        return None
    values = [float(trial.value or 0.0) for trial in scored]
    best = scored[search.to_find.better(values)[0]]
    job = next(job.job for job in jobs if job.job.settings[TRIAL] == best.number)
    run_dir = sweep.path / job.run_dir
    command = shlex.join(["rlpyt", "train", "--config", str(run_dir)])
    if not job.config:  # a script's
        attempts = next(j for j in jobs if j.job.number == job.number).attempts()
        command = shlex.join(attempts[-1].command) if attempts else ""
    score = float(best.value or 0.0)
    return Best(best.settings, score, f"trial {best.number}", str(run_dir), command)


def _stretch(job: JobDirectory, space: Mapping[str, Draw]) -> Stretch:
    from rlpyt.sweeps.population import read_standing

    marks = job.job.settings
    return Stretch(
        member=marks[MEMBER],
        round=marks[ROUND],
        source=marks[FROM],
        begins=marks[BEGINS],
        ends=marks[ENDS],
        state=job.state(),
        score=read_standing(job.path).get("score"),
        settings={key: marks[key] for key in space},
    )


def _best_member(
    sweep: SweepDirectory,
    search: Search,
    jobs: Sequence[JobDirectory],
    stretches: Sequence[Stretch],
) -> Best | None:
    """Of the members' last stretches that have a score: those are what can be played."""
    last: dict[int, int] = {stretch.member: i for i, stretch in enumerate(stretches)}
    scored = [i for i in last.values() if stretches[i].score is not None]
    if not scored:
        return None
    order = search.to_find.better([float(stretches[i].score or 0.0) for i in scored])
    at = scored[order[0]]
    best, run_dir = stretches[at], sweep.path / jobs[at].job.run_dir
    command = shlex.join(["rlpyt", "eval", str(run_dir)])
    name, score = f"member {best.member}", float(best.score or 0.0)
    return Best(best.settings, score, name, str(run_dir), command)
