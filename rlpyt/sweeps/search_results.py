"""Results of a search, read from its files; ``best.json`` holds them for programs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.jobs import JobDirectory
from rlpyt.sweeps.search import (
    BEGINS,
    ENDS,
    FROM,
    MEMBER,
    ROUND,
    TRIAL,
    Search,
    import_optuna,
    read_search,
    spec_of,
)
from rlpyt.sweeps.spec import Draw
from rlpyt.utils.files import atomic_write

BEST = "best.json"


@dataclass(frozen=True)
class Best:
    """The best result of a search.

    Attributes:
        settings: by their dotted names.
        score: value of the metric, a mean over seeds.
        name: name of the trial or member.
        run_dir: directory of its first run.
        command: trains with these settings (Optuna), or evaluates the trained agent (population,
            whose settings changed during training).
    """

    settings: Mapping[str, Any]
    score: float
    name: str
    run_dir: str
    command: str


@dataclass(frozen=True)
class Trial:
    """A setting proposed by Optuna; ``value`` is None unless the trial is complete."""

    number: int
    state: str
    value: float | None
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Segment:
    """A segment of a member of a population, in environment steps from the start of the run."""

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
    """The state of a search.

    Attributes:
        search: settings of the search.
        space: distributions by dotted names.
        trials: trials of Optuna, in their order.
        segments: segments of a population, in the order of their starts.
        importances: importance of each setting for the score, with sum 1; empty with few trials.
        best: the best result, None before a trial or segment is complete.
    """

    search: Search
    space: Mapping[str, Draw]
    trials: Sequence[Trial]
    segments: Sequence[Segment]
    importances: Mapping[str, float]
    best: Best | None


def read_results(sweep: SweepDirectory) -> Results:
    """Read the results of a search.

    Raises:
        ImportError: Optuna is missing.
        ValueError: the sweep file in the queue was changed and is invalid.
    """
    spec = spec_of(sweep)
    search, jobs = read_search(spec), sweep.jobs()
    if search.method == "pbt":
        segments = [_segment(job, spec.sample) for job in jobs]
        best_member = _best_member(sweep, search, jobs, segments)
        return Results(search, spec.sample, (), segments, {}, best_member)
    study = _open_study(sweep, search)
    trials = _trials(study, jobs, spec.sample)
    importances = _importances(study, trials)
    best = _best_trial(sweep, search, jobs, trials)
    return Results(search, spec.sample, trials, (), importances, best)


def write_best(sweep: SweepDirectory) -> list[str]:
    """Write ``best.json`` to the sweep's directory; return the same as lines of text."""
    results = read_results(sweep)
    best = results.best
    if best is None:
        return ["No run has a score yet."]
    with atomic_write(sweep.path / BEST) as file:
        content = {**asdict(best), "metric": results.search.metric}
        file.write((json.dumps(content, indent=2) + "\n").encode())
    what = ", ".join(f"{key}={short_text(value)}" for key, value in best.settings.items())
    verb = "Evaluate it" if results.search.method == "pbt" else "Train with it"
    return [
        f"Best: {best.name}, {results.search.metric} {best.score:.6g}: {what}",
        f"{verb}: {best.command}",
    ]


def short_text(value: Any) -> str:
    """Return a setting's value as a short string, for tables."""
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
        )
        for trial in (study.get_trials(deepcopy=False) if study is not None else ())
    ]


def _open_study(sweep: SweepDirectory, search: Search) -> Any:
    """Load the study; return None before the first launcher has created it."""
    from rlpyt.sweeps.optuna_search import DATABASE, storage_url, study_name

    optuna = import_optuna()
    if not search.storage and not (sweep.queue / DATABASE).exists():
        return None
    try:
        return optuna.load_study(
            study_name=study_name(sweep, search), storage=storage_url(sweep, search)
        )
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
    if not job.config:  # a script
        attempts = next(j for j in jobs if j.job.number == job.number).attempts()
        command = shlex.join(attempts[-1].command) if attempts else ""
    score = float(best.value or 0.0)
    return Best(best.settings, score, f"trial {best.number}", str(run_dir), command)


def _segment(job: JobDirectory, space: Mapping[str, Draw]) -> Segment:
    from rlpyt.sweeps.population import read_standing

    marks = job.job.settings
    return Segment(
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
    segments: Sequence[Segment],
) -> Best | None:
    """Return the best of the members' last segments, whose agents can be evaluated."""
    last: dict[int, int] = {segment.member: i for i, segment in enumerate(segments)}
    scored = [i for i in last.values() if segments[i].score is not None]
    if not scored:
        return None
    order = search.to_find.better([float(segments[i].score or 0.0) for i in scored])
    at = scored[order[0]]
    best, run_dir = segments[at], sweep.path / jobs[at].job.run_dir
    command = shlex.join(["rlpyt", "eval", str(run_dir)])
    name, score = f"member {best.member}", float(best.score or 0.0)
    return Best(best.settings, score, name, str(run_dir), command)
