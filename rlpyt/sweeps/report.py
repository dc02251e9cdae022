"""Report of a sweep, or of any directory of runs, as one self-contained HTML file."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlpyt.sweeps.report_data import Entry, ReportData, duration, moment, read_data
from rlpyt.sweeps.report_page import (
    Block,
    Cell,
    Details,
    Items,
    Row,
    Section,
    Table,
    Text,
    number_cell,
    render,
    setting_cell,
)
from rlpyt.sweeps.report_plots import comparisons, curves
from rlpyt.sweeps.search_report import search_sections
from rlpyt.utils.files import atomic_write
from rlpyt.utils.names import labels
from rlpyt.version import VERSION
from rlpyt.vis.grouping import ENVIRONMENT_KEYS, natural_key, setting_text, varying_settings
from rlpyt.vis.scores import Scores
from rlpyt.vis.statistics import interquartile_mean, stratified_bootstrap
from rlpyt.vis.style import short_number

CONFIDENCE = 0.95
MAX_OPEN = 5  # failures whose output is expanded


def write_report(
    directory: Path | str,
    output: Path | str | None = None,
    y: str = "ReturnAverage",
    source: str = "auto",
    group_by: Sequence[str] = (),
) -> Path:
    """Write a report of a sweep's directory, or of one that holds runs.

    Args:
        directory: of the sweep or runs.
        output: the file; by default ``report.html`` in the directory.
        y: column of progress.csv that is the return.
        source: of final scores: "evaluation", "last" or "auto", see ``final_scores``.
        group_by: settings that distinguish variants; by default those that differ.

    Returns:
        Path of the file.

    Raises:
        FileNotFoundError: there are no runs.
        ValueError: the sweep is damaged, or no run has a setting in ``group_by``.
        ImportError: matplotlib is not installed.
    """
    directory = Path(directory)
    data = read_data(directory, y, source, group_by)
    path = directory / "report.html" if output is None else Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(page_of(data, y).encode("utf-8"))
    return path


def page_of(data: ReportData, y: str = "ReturnAverage") -> str:
    """Return the report as an HTML document."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search = search_sections(data.directory)
        sections = [
            *search,
            curves(data, y),
            _scores(data),
            None if search else comparisons(data),
            _runs(data),
            _failures(data),
            _configurations(data),
            _commands(data),
        ]
    remarks = dict.fromkeys([*data.remarks, *(str(warning.message) for warning in caught)])
    if remarks:
        sections.append(Section("Remarks", [Items(list(remarks))]))
    steps = sum(entry.steps or 0 for entry in data.entries)
    seconds = sum(entry.seconds or 0.0 for entry in data.entries)
    return render(
        title=data.title,
        facts=data.facts,
        counts=data.counts(),
        totals=[
            (short_number(float(f"{steps:.3g}")), "environment steps"),
            (duration(seconds), "of runs"),
        ],
        sections=[section for section in sections if section],
        written=f"Written by rlpyt {VERSION} on {moment(time.time())}, "
        f"Python {platform.python_version()}.",
    )


def _scores(data: ReportData) -> Section | None:
    """Return a table of settings and scores for each environment."""
    if data.scores is None:
        return None
    tables = []
    for environment in data.scores.environments:
        entries = [e for e in data.entries if e.run.environment == environment]
        head = [*(_key_names(data) or ["variant"]), "runs", "seeds", "IQM", "interval", "mean"]
        head += ["lowest", "highest"]
        rows = [
            _score_row(data, data.scores, environment, label, entries)
            for label in data.ranked(environment)
            if environment in data.scores.of.get(label, {})
        ]
        tables.append(Table(head, rows, environment))
    about = (
        f"{data.scores.what}. IQM: interquartile mean over runs, with its {CONFIDENCE:.0%} "
        "bootstrap interval. The best mean comes first; click on a heading to sort."
    )
    return Section("Final scores", tables, about)


def _score_row(
    data: ReportData, scores: Scores, environment: str, label: str, entries: Sequence[Entry]
) -> Row:
    values = scores.of[label][environment]
    scored = [e for e in entries if e.run.label == label and e.run.path in data.by_run]
    seeds = sorted({entry.run.seed for entry in scored}, key=natural_key)
    interval = Cell("-")
    if len(values) > 1:
        ends = stratified_bootstrap(
            [values], lambda drawn: interquartile_mean(drawn[0]), CONFIDENCE
        )
        low, high = (float(end) for end in ends)
        interval = Cell(f"{_number(low)} to {_number(high)}", low)
    settings = [_setting(scored[0].run.settings.get(key)) for key in data.keys]
    return [
        *(settings or [label]),
        number_cell(len(values)),
        ", ".join(map(str, seeds)),
        _value(float(interquartile_mean(values))),
        interval,
        *(_value(float(value)) for value in (values.mean(), values.min(), values.max())),
    ]


def _runs(data: ReportData) -> Section:
    sweep = any(entry.attempts for entry in data.entries)
    several = len({entry.run.environment for entry in data.entries}) > 1
    head = ["run", *(["environment"] if several else []), "state", "seed", "steps", "of"]
    head += ["return", "final score", "time", *(["attempts"] if sweep else [])]
    rows = []
    for entry in data.entries:
        seed, seconds = entry.run.seed, entry.seconds
        rows.append(
            [
                entry.name,
                *([entry.run.environment] if several else []),
                Cell(entry.state, state=entry.state),
                setting_cell(seed, str(seed)),
                _steps(entry.steps),
                _steps(entry.total_steps),
                _value(entry.return_),
                _value(data.by_run.get(entry.run.path)),
                number_cell(seconds, "" if seconds is None else duration(seconds)),
                *([number_cell(len(entry.attempts))] if sweep else []),
            ]
        )
    return Section("Runs", [Table(head, rows)])


def _failures(data: ReportData) -> Section | None:
    """Return all failed attempts with the runs' last output, also of runs that succeeded later."""
    failed = [e for e in data.entries if e.state == "failed" or any(a.failed for a in e.attempts)]
    if not failed:
        return None
    rows: list[Row] = []
    for entry in failed:
        if not entry.attempts:  # its record is damaged
            rows.append([entry.name, Cell("-"), entry.outcome, Cell("-"), entry.state])
        for attempt in entry.attempts:
            if attempt.failed:
                took = (attempt.ended or 0.0) - (attempt.begun or 0.0)
                lasted = number_cell(took if attempt.ended else None, duration(took))
                number = number_cell(attempt.number)
                rows.append([entry.name, number, attempt.outcome(), lasted, entry.state])
    output = [
        Details(
            f": {entry.outcome}",
            [Text("\n".join(entry.tail), "pre")],
            open=len(failed) <= MAX_OPEN,
            strong=entry.name,
        )
        for entry in failed
        if entry.tail
    ]
    head = ["run", "attempt", "outcome", "after", "current state"]
    about = "Attempts that ended with an error, and the last lines of each run's output."
    return Section("Failures", [Table(head, rows), *output], about)


def _configurations(data: ReportData) -> Section:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in data.entries:
        groups.setdefault((entry.run.environment, entry.run.label), []).append(entry)
    parts = []
    for environment, label in sorted(groups, key=natural_key):
        entries = groups[environment, label]
        first = next((e for e in entries if e.run.path.exists()), entries[0])
        peers = [entry.run for entry in data.entries if entry.run.environment == environment]
        keys = data.keys or varying_settings(peers)
        known = first.run.settings
        differing = [[key, _setting(known[key])] for key in keys if key in known]
        content: list[Block] = [Table(["setting", "value"], differing)] if differing else []
        content.append(Text(f"Runs: {', '.join(entry.name for entry in entries)}"))
        if config := first.config():
            content += [Text(f"All settings of {first.name}:"), Text(config, "pre")]
        parts.append(Details(", ".join(filter(None, [environment, label])), content))
    about = "Each variant: the settings that differ, its runs, and a complete configuration."
    return Section("Configurations", parts, about)


def _commands(data: ReportData) -> Section:
    rows: list[Row] = [
        [entry.name, Cell(entry.command, code=True), entry.cwd]
        for entry in data.entries
        if entry.command
    ]
    every = [Details("Commands of all runs", [Table(["run", "command", "directory"], rows)])]
    return Section("Reproduce", [Text("\n".join(data.commands), "pre"), *(every if rows else [])])


def _key_names(data: ReportData) -> list[str]:
    names = labels(data.keys)
    return ["environment" if key in ENVIRONMENT_KEYS else names[key] for key in data.keys]


def _setting(value: object) -> str | Cell:
    return setting_cell(value, setting_text(value))


def _number(value: float) -> str:
    """Format with four significant digits, or all digits before the point."""
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def _value(value: float | None) -> Cell:
    known = value is not None and np.isfinite(value)
    return Cell(_number(value), value) if known and value is not None else Cell("-")


def _steps(steps: int | None) -> Cell:
    return number_cell(steps, "" if steps is None else f"{steps:,}")
