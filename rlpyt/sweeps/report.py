"""Report of a sweep, or of any directory of runs, as one self-contained HTML file."""

import platform
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlpyt.sweeps.jobs import last_lines
from rlpyt.sweeps.report_data import ReportData, moment, read_data
from rlpyt.sweeps.report_page import Cell, Section, figure, number, render, setting
from rlpyt.sweeps.search_report import search_sections
from rlpyt.utils.files import atomic_write
from rlpyt.utils.names import labels
from rlpyt.utils.text import duration
from rlpyt.version import VERSION
from rlpyt.vis import style
from rlpyt.vis.comparisons import draw_improvement, draw_intervals, draw_profile
from rlpyt.vis.curves import draw_curves
from rlpyt.vis.grouping import ENVIRONMENT_KEYS, natural_key, setting_text
from rlpyt.vis.scores import Scores
from rlpyt.vis.statistics import interquartile_mean, stratified_bootstrap

CONFIDENCE = 0.95
MAX_DRAWN = 10  # variants in one plot; more are hard to distinguish
MAX_OPEN = 5  # failures whose output is expanded


def write_report(
    directory: Path | str,
    output: Path | str | None = None,
    y: str = "ReturnAverage",
    source: str = "auto",
    group_by: Sequence[str] = (),
) -> Path:
    """Write a report of a sweep's directory, or of one that holds runs; return its path.

    Args:
        output: the file; by default ``report.html`` in the directory.
        y: column of progress.csv that is the return.
        source: of final scores: "evaluation", "last" or "auto", see ``final_scores``.
        group_by: settings that distinguish variants; by default those that differ.

    Raises:
        FileNotFoundError: there are no runs.
        ValueError: the sweep is damaged, or no run has a setting in ``group_by``.
        ImportError: matplotlib is not installed.
    """
    directory = Path(directory)
    page = _page(directory, y, source, group_by)
    path = directory / "report.html" if output is None else Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(page.encode("utf-8"))
    return path


def _page(directory: Path, y: str, source: str, group_by: Sequence[str]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = read_data(directory, y, source, group_by)
        search = search_sections(directory)
        sections = [
            *search,
            _curves(data, y),
            _scores(data),
            {} if search else _comparisons(data),
            _runs(data),
            _failures(data),
        ]
    if caught:
        notes = list(dict.fromkeys(str(warning.message) for warning in caught))
        sections.append({"title": "Remarks", "notes": notes})
    steps = sum(entry.view.steps or 0 for entry in data.entries)
    seconds = sum(entry.view.seconds for entry in data.entries)
    return render(
        title=data.title,
        facts=data.facts,
        counts=Counter(entry.view.state for entry in data.entries).most_common(),
        totals=[
            (style.short_number(float(f"{steps:.3g}")), "environment steps"),
            (duration(seconds), "run time"),
        ],
        sections=[section for section in sections if section],
        written=f"Written by rlpyt {VERSION} on {moment(time.time())}, "
        f"Python {platform.python_version()}.",
    )


def _curves(data: ReportData, y: str) -> Section:
    """Return a plot for each environment, of its best variants."""
    runs = [entry.run for entry in data.entries if (entry.run.path / "progress.csv").exists()]
    figures: list[Section] = []
    for environment in sorted({run.environment for run in runs}):
        of_env = [run for run in runs if run.environment == environment]
        n_labels = len({run.label for run in of_env})
        look = _look(data, environment)
        try:
            plot = draw_curves([run for run in of_env if run.label in look], y, look=look)
        except KeyError:  # reported in the remarks
            continue
        caption = environment or data.title
        if n_labels > len(look):
            caption += f" (the {len(look)} best of {n_labels} variants)"
        figures.append(figure(plot, f"curves{len(figures)}", caption))
    if not figures:
        return {"title": "Learning curves", "text": "No run has logged its returns yet."}
    about = (
        "Interquartile mean across the runs of a variant, up to the shortest run, with a 95% "
        "bootstrap interval; a single run without one."
    )
    return {"title": "Learning curves", "about": about, "figures": figures}


def _comparisons(data: ReportData) -> Section:
    """Return plots of final scores; an empty section without several variants."""
    if data.scores is None:
        return {}
    of, environments, figures = data.scores.of, data.scores.environments, []
    for i, environment in enumerate(environments):
        look = _look(data, environment)
        best = [k for k in data.ranked(environment) if k in look and environment in of.get(k, {})]
        if len(best) < 2:
            continue
        few = Scores({k: {environment: of[k][environment]} for k in best}, data.scores.what)
        where = f"{environment}: " if len(environments) > 1 else ""
        aggregates = f"{where}Aggregates of {few.what.lower()}"
        against = f"{where}{best[0]} against the others"
        figures += [
            figure(draw_intervals(few, look=look), f"intervals{i}", aggregates, wide=True),
            figure(draw_profile(few, look=look), f"profile{i}", f"{where}Performance profiles"),
            figure(draw_improvement(few, of=best[0]), f"improvement{i}", against),
        ]
    about = (
        "Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical "
        "Precipice. With few runs the intervals are wide; compare these, not the points."
    )
    return {"title": "Comparisons", "about": about, "figures": figures} if figures else {}


def _look(data: ReportData, environment: str) -> style.Looks:
    """Return the looks of the variants to draw, the same in all plots."""
    return style.looks(data.ranked(environment)[:MAX_DRAWN])


def _scores(data: ReportData) -> Section:
    """Return a table of settings and scores for each environment."""
    if data.scores is None:
        return {}
    names = labels(data.keys)
    settings = ["environment" if key in ENVIRONMENT_KEYS else names[key] for key in data.keys]
    head = [*(settings or ["variant"]), "runs", "seeds", "IQM", "interval", "mean"]
    head += ["lowest", "highest"]
    tables = []
    for environment in data.scores.environments:
        rows = []
        for label in data.ranked(environment):
            runs = [
                run
                for run in (entry.run for entry in data.entries)
                if run.path in data.by_run and (run.environment, run.label) == (environment, label)
            ]
            if not runs:
                continue
            settings_of = [runs[0].settings.get(key) for key in data.keys]
            values = np.array([data.by_run[run.path] for run in runs])
            seeds = sorted({run.seed for run in runs}, key=natural_key)
            rows.append(
                [
                    *([setting(x, setting_text(x)) for x in settings_of] or [label]),
                    number(len(values)),
                    ", ".join(map(str, seeds)),
                    number(float(interquartile_mean(values))),
                    _interval(values),
                    *(number(float(one)) for one in (values.mean(), values.min(), values.max())),
                ]
            )
        tables.append({"head": head, "rows": rows, "caption": environment})
    about = (
        f"{data.scores.what}. IQM: interquartile mean over runs, with its {CONFIDENCE:.0%} "
        "bootstrap interval. The best mean comes first; click on a heading to sort."
    )
    return {"title": "Final scores", "about": about, "tables": tables}


def _interval(values: NDArray[np.float64]) -> Cell:
    if len(values) < 2:
        return number(None)
    ends = stratified_bootstrap([values], lambda drawn: interquartile_mean(drawn[0]), CONFIDENCE)
    return number(float(ends[0]), " to ".join(number(float(end))[1] for end in ends))


def _runs(data: ReportData) -> Section:
    sweep = any(entry.view.attempts for entry in data.entries)
    several = len({entry.run.environment for entry in data.entries}) > 1
    head = ["run", *["environment"] * several, "state", "seed", "steps", "of"]
    head += ["return", "final score", "time", *["attempts"] * sweep]
    rows = []
    for run, view in ((entry.run, entry.view) for entry in data.entries):
        rows.append(
            [
                view.name,
                *[run.environment] * several,
                view.state,
                setting(run.seed, str(run.seed)),
                number(view.steps),
                number(view.total_steps),
                number(view.return_),
                number(data.by_run.get(run.path)),
                number(view.seconds or None, duration(view.seconds)),
                *[number(len(view.attempts))] * sweep,
            ]
        )
    return {"title": "Runs", "tables": [{"head": head, "rows": rows}]}


def _failures(data: ReportData) -> Section:
    """Return all failed attempts with the runs' last output, also of runs that succeeded later."""
    rows: list[list[Cell]] = []
    failed = []
    for view in (entry.view for entry in data.entries):
        if view.damage:
            rows.append([view.name, number(None), view.damage, number(None), view.state])
        for attempt in view.attempts:
            if attempt.failed:
                took = (attempt.ended or 0.0) - (attempt.begun or 0.0)
                lasted = number(took if attempt.ended else None, duration(took))
                outcome = attempt.outcome()
                rows.append([view.name, number(attempt.number), outcome, lasted, view.state])
        if view.state == "failed" or (view.attempts and view.attempts[-1].failed):
            failed.append((view, last_lines(view.output)))
    if not rows:
        return {}
    return {
        "title": "Failures",
        "about": "Attempts that ended with an error, the runs' states now, and their last output.",
        "tables": [{"head": ["run", "attempt", "outcome", "after", "state"], "rows": rows}],
        "details": [
            {
                "title": f"{view.name}: {view.outcome}",
                "open": len(failed) <= MAX_OPEN,
                "pre": "\n".join(lines),
            }
            for view, lines in failed
            if lines
        ],
    }
