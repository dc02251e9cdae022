"""Data of a report: the runs of a sweep, or of any directory, with their scores."""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlpyt.sweeps.directory import ABOUT, QUEUE
from rlpyt.sweeps.search import TRIAL
from rlpyt.sweeps.slots import describe_share
from rlpyt.sweeps.view import RETURN, RunView, SweepView, read_sweep
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.logging.progress_csv import last_row
from rlpyt.vis import grouping
from rlpyt.vis.grouping import RunRecord, read_runs, read_settings
from rlpyt.vis.scores import Scores, final_scores, read_evaluation

STEPS, TIME = "Diagnostics/CumSteps", "Diagnostics/CumTime (s)"
SPEED = "Diagnostics/StepsPerSecond"
# A run without a sweep: "running" holds its lock, "done" has all its steps or an evaluation,
# "unfinished" has neither, "ended" has no number of steps in its settings.
FINISHED = ("done", "ended")


@dataclass(frozen=True)
class Entry:
    """A run in a report: settings with the label of its variant, and status."""

    run: RunRecord
    view: RunView


@dataclass(frozen=True)
class ReportData:
    """All runs below a directory."""

    title: str
    facts: Sequence[tuple[str, str]]  # (name, value)
    entries: Sequence[Entry]
    scores: Scores | None  # final scores by variant
    by_run: Mapping[Path, float]  # final scores by run directory
    keys: Sequence[str]  # settings that differ between variants; empty if these have labels only

    def ranked(self, environment: str) -> list[str]:
        """Return an environment's variants, best first: by mean final score, else mean return."""
        found: dict[str, list[tuple[bool, float]]] = {}
        for entry in self.entries:
            if entry.run.environment == environment:
                score = self.by_run.get(entry.run.path, entry.view.return_)
                known = [(entry.run.path in self.by_run, score)] if score is not None else []
                found.setdefault(entry.run.label, []).extend(known)

        def rank(label: str) -> tuple[bool, float]:
            scored = any(final for final, _ in found[label])
            values = [score for final, score in found[label] if final == scored]
            return scored, sum(values) / len(values) if values else -math.inf

        return sorted(sorted(found, key=grouping.natural_key), key=rank, reverse=True)


def read_data(directory: Path, y: str, source: str, group_by: Sequence[str] = ()) -> ReportData:
    """Read a sweep, or the runs below a directory; see ``write_report`` for arguments and errors.

    Warns of runs that are skipped or incomplete.
    """
    if (directory / QUEUE / ABOUT).is_file():
        view = read_sweep(directory)
        entries, keys = _of_sweep(view, group_by, y)
        title, facts = view.about.title, _facts_of_sweep(view)
    else:
        entries, keys = read_directory(directory, group_by, y), list(group_by)
        title, facts = directory.resolve().name, _facts_of_directory(directory, entries)
    grouping.warn_of_uneven_groups([e.run for e in entries if e.view.state != "queued"])
    scores, by_run = _scores(entries, y, source)
    return ReportData(title, facts, entries, scores, by_run, keys)


def _scores(
    entries: Sequence[Entry], y: str, source: str
) -> tuple[Scores | None, dict[Path, float]]:
    """Final scores of the finished runs, or of all that have started if none is finished."""
    begun = [entry for entry in entries if (entry.run.path / "progress.csv").exists()]
    finished = [entry for entry in begun if entry.view.state in FINISHED]
    if finished and len(finished) < len(begun):
        warnings.warn(
            f"final scores are those of finished runs ({len(finished)}), not of the others that "
            f"have started ({len(begun) - len(finished)})."
        )
    try:
        return final_scores([entry.run for entry in finished or begun], y, source)
    except ValueError as error:
        warnings.warn(str(error))
        return None, {}


def _of_sweep(view: SweepView, group_by: Sequence[str], y: str) -> tuple[list[Entry], list[str]]:
    runs = [
        RunRecord(one.run_dir, {**one.settings, **read_settings(one.run_dir)}) for one in view.runs
    ]
    environments = {run.environment for run in runs} - {""}
    if len(environments) == 1:  # also of those that have not started
        runs = [replace(run, settings={"env": min(environments), **run.settings}) for run in runs]
    if group_by:
        keys = [grouping.find_setting(name, runs) for name in group_by]
    else:
        keys = grouping.telling_settings(
            [RunRecord(one.run_dir, one.settings) for one in view.runs]
        )
        if view.about.search and view.runs:
            keys = [TRIAL]
    views = list(view.runs)
    if y != RETURN:
        rows = [last_row(one.run_dir / "progress.csv", newest=[y]) for one in views]
        views = [replace(one, return_=row.get(y)) for one, row in zip(views, rows)]
    return list(map(Entry, grouping.label_runs(runs, group_by), views)), keys


def _facts_of_sweep(view: SweepView) -> list[tuple[str, str]]:
    hosts = sorted({a.host for run in view.runs for a in run.attempts if a.host})
    ends = [a.ended for run in view.runs for a in run.attempts if a.ended]
    used = view.utilization()
    return [
        ("Directory", str(view.directory)),
        ("Started", moment(view.about.made)),
        *([("By", view.about.made_by)] if view.about.made_by else []),
        *([("Last run ended", moment(max(ends)))] if ends else []),
        ("Where", view.about.where + (f" ({', '.join(hosts)})" if hosts else "")),
        ("Slots", f"{view.n_slots} ({describe_share(view.about.resources)})"),
        *([("Slots in use", f"{used:.0%} of the time")] if used is not None else []),
        ("Launcher", (view.launcher or "not running") + (", paused" if view.paused else "")),
    ]


def read_directory(directory: Path, group_by: Sequence[str] = (), y: str = RETURN) -> list[Entry]:
    """Read the runs at and below a directory without a sweep; errors as in ``read_runs``."""
    entries: list[Entry] = []
    for run in read_runs(directory, group_by=group_by):
        row = last_row(run.path / "progress.csv", newest=[y])
        steps = int(row[STEPS]) if STEPS in row else None
        name = run.path.relative_to(directory).as_posix()  # not where a link may lead to
        view = RunView(
            number=len(entries),
            name=run.path.resolve().name if name == "." else name,
            state=_state(run, steps),
            settings=run.settings,
            run_dir=run.path,
            steps=steps,
            total_steps=run.total_steps,
            return_=row.get(y),
            seconds=row.get(TIME, 0.0),
            steps_per_second=row.get(SPEED),
        )
        entries.append(Entry(run, view))
    return entries


def _state(run: RunRecord, steps: int | None) -> str:
    if RunLock(run.path).owner():
        return "running"
    if read_evaluation(run.path) is not None:
        return "done"
    if run.total_steps is None:
        return "ended"
    return "done" if steps is not None and steps >= 0.99 * run.total_steps else "unfinished"


def _facts_of_directory(directory: Path, entries: Sequence[Entry]) -> list[tuple[str, str]]:
    changes = [(entry.run.path / "progress.csv").stat().st_mtime for entry in entries]
    versions = {str(entry.run.settings.get("rlpyt", "")) for entry in entries} - {""}
    return [
        ("Directory", str(directory.resolve())),
        ("Last change", moment(max(changes))),
        *([("Made with", f"rlpyt {', '.join(sorted(versions))}")] if versions else []),
    ]


def moment(seconds: float) -> str:
    """Format a time since 1970 as local date and time with its zone."""
    return time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(seconds)).strip()
