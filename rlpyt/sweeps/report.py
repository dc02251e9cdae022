"""A report of a sweep, or of any directory of runs, as one HTML file that needs nothing else."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlpyt.sweeps.report_data import Entry, Study, duration, moment, read_study
from rlpyt.sweeps.report_page import Cell, Markup, element, folded, page, section, table
from rlpyt.sweeps.report_pictures import comparisons, curves
from rlpyt.sweeps.search_report import search_sections
from rlpyt.utils.files import atomic_write
from rlpyt.version import VERSION
from rlpyt.vis.grouping import ENVIRONMENT_KEYS, natural_key, setting_text, varying_settings
from rlpyt.vis.scores import Scores
from rlpyt.vis.statistics import interquartile_mean, stratified_bootstrap
from rlpyt.vis.style import short_number

CONFIDENCE = 0.95


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
        group_by: settings that make a variant; by default those that differ.

    Returns:
        Path of the file.

    Raises:
        FileNotFoundError: there are no runs.
        ValueError: the sweep is damaged, or no run has a setting of ``group_by``.
        ImportError: matplotlib is not installed.
    """
    directory = Path(directory)
    study = read_study(directory, y, source, group_by)
    path = directory / "report.html" if output is None else Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(render(study, y).encode("utf-8"))
    return path


def render(study: Study, y: str = "ReturnAverage") -> Markup:
    """The report as a document; every text in it is escaped, whoever wrote it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        searched = search_sections(study.directory)
        sections = [
            *searched,
            curves(study, y),
            _scores(study),
            comparisons(study) if not searched else None,
            _runs(study),
            _failures(study),
            _configurations(study),
            _commands(study),
        ]
    remarks = dict.fromkeys([*study.remarks, *(str(warning.message) for warning in caught)])
    present = [part for part in [*sections, _remarks(list(remarks))] if part]
    written = (
        f"Written by rlpyt {VERSION} on {moment(time.time())}, Python {platform.python_version()}."
    )
    footer = element("footer", written)
    return page(f"{study.title}: report", _head(study, present), *present, footer)


def _head(study: Study, sections: Sequence[Markup]) -> list[Markup]:
    counts = [
        element("li", element("b", str(n)), element("span", state, class_=state))
        for state, n in study.counts().items()
    ]
    steps = sum(entry.steps or 0 for entry in study.entries)
    seconds = sum(entry.seconds or 0.0 for entry in study.entries)
    totals = [
        element("li", element("b", short_number(float(f"{steps:.3g}"))), "environment steps"),
        element("li", element("b", duration(seconds)), "of runs"),
    ]
    facts = [[element("dt", name), element("dd", value)] for name, value in study.facts]
    names = [part.split("<h2>", 1)[1].split("</h2>", 1)[0] for part in sections]
    links = [
        element("a", Markup(name), href=f"#{'-'.join(name.lower().split())}") for name in names
    ]
    return [
        element("h1", study.title),
        element("dl", *facts, class_="facts"),
        element("ul", *counts, *totals, class_="counts"),
        element("nav", *links),
    ]


def _scores(study: Study) -> Markup | None:
    """A table for each environment: what was set, and what came of it."""
    if study.scores is None:
        return None
    tables = []
    for environment in study.scores.environments:
        entries = [e for e in study.entries if e.run.environment == environment]
        head = [*(_key_names(study) or ["variant"]), "runs", "seeds", "IQM", "interval", "mean"]
        head += ["lowest", "highest"]
        rows = [
            _score_row(study, study.scores, environment, label, entries)
            for label in study.ranked(environment)
            if environment in study.scores.of.get(label, {})
        ]
        tables.append(table(head, rows, environment))
    about = (
        f"{study.scores.what}. IQM: interquartile mean over runs, with its {CONFIDENCE:.0%} "
        "bootstrap interval. The best mean comes first; a click on a head sorts."
    )
    return section("Final scores", *tables, about=about)


def _score_row(
    study: Study, scores: Scores, environment: str, label: str, entries: Sequence[Entry]
) -> list[str | Cell]:
    values = scores.of[label][environment]
    scored = [e for e in entries if e.run.label == label and e.run.path in study.by_run]
    seeds = sorted({entry.run.seed for entry in scored}, key=natural_key)
    interval = Cell("-", None)
    if len(values) > 1:
        ends = stratified_bootstrap(
            [values], lambda drawn: interquartile_mean(drawn[0]), CONFIDENCE
        )
        low, high = (float(end) for end in ends)
        interval = Cell(f"{_number(low)} to {_number(high)}", low)
    settings = [_setting(scored[0].run.settings.get(key)) for key in study.keys]
    return [
        *(settings or [label]),
        Cell(str(len(values)), len(values)),
        ", ".join(map(str, seeds)),
        _value(float(interquartile_mean(values))),
        interval,
        *(_value(float(value)) for value in (values.mean(), values.min(), values.max())),
    ]


def _runs(study: Study) -> Markup:
    """Every run on a line."""
    sweep = any(entry.attempts for entry in study.entries)
    several = len({entry.run.environment for entry in study.entries}) > 1
    head = ["run", *(["environment"] if several else []), "state", "seed", "steps", "of"]
    head += ["return", "final score", "time", *(["attempts"] if sweep else [])]
    rows: list[list[str | Cell]] = []
    for entry in study.entries:
        state = element("span", entry.state, class_=entry.state)
        seconds = entry.seconds
        rows.append(
            [
                entry.name,
                *([entry.run.environment] if several else []),
                state,
                Cell(str(entry.run.seed), float(entry.run.seed))
                if isinstance(entry.run.seed, int)
                else str(entry.run.seed),
                _steps(entry.steps),
                _steps(entry.total_steps),
                _value(entry.return_),
                _value(study.by_run.get(entry.run.path)),
                Cell("-", None) if seconds is None else Cell(duration(seconds), seconds),
                *([Cell(str(len(entry.attempts)), len(entry.attempts))] if sweep else []),
            ]
        )
    return section("Runs", table(head, rows))


def _failures(study: Study) -> Markup | None:
    """How and with which last words runs failed; also of those that a later attempt made good."""
    failed = [e for e in study.entries if e.state == "failed" or any(a.failed for a in e.attempts)]
    if not failed:
        return None
    rows: list[list[str | Cell]] = []
    for entry in failed:
        if not entry.attempts:  # its record is damaged
            rows.append([entry.name, Cell("-", None), entry.outcome, Cell("-", None), entry.state])
        for attempt in entry.attempts:
            if attempt.failed:
                took = (attempt.ended or 0.0) - (attempt.begun or 0.0)
                lasted = Cell(duration(took), took) if attempt.ended else Cell("-", None)
                number = Cell(str(attempt.number), attempt.number)
                rows.append([entry.name, number, attempt.outcome(), lasted, entry.state])
    words = []
    for entry in failed:
        if entry.tail:
            title = [element("b", entry.name), f": {entry.outcome}"]
            said = element("pre", "\n".join(entry.tail))
            words.append(folded(title, said, open_=len(failed) <= 5))
    about = "Attempts that ended with an error; below, the last lines that the run wrote."
    head = ["run", "attempt", "how it ended", "after", "the run is now"]
    return section("Failures", table(head, rows), *words, about=about)


def _configurations(study: Study) -> Markup:
    """What makes each variant, and all its settings."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in study.entries:
        groups.setdefault((entry.run.environment, entry.run.label), []).append(entry)
    parts = []
    for environment, label in sorted(groups, key=natural_key):
        entries = groups[environment, label]
        title = ", ".join(filter(None, [environment, label]))
        first = next((e for e in entries if e.run.path.exists()), entries[0])
        peers = [entry.run for entry in study.entries if entry.run.environment == environment]
        keys = study.keys or varying_settings(peers)
        known = first.run.settings
        differing = [[key, _setting(known[key])] for key in keys if key in known]
        what = [table(["setting", "value"], differing)] if differing else []
        config = first.config()
        whole = [element("p", f"All settings of {first.name}:"), element("pre", config)]
        runs = element("p", f"Runs: {', '.join(entry.name for entry in entries)}")
        parts.append(folded(title, *what, runs, *(whole if config else [])))
    about = (
        "Each variant with what tells it from the others, its runs, and its whole configuration."
    )
    return section("Configurations", *parts, about=about)


def _commands(study: Study) -> Markup:
    """What to type to get all this again."""
    parts = [element("pre", "\n".join(study.commands))]
    rows: list[list[str | Cell]] = [
        [entry.name, element("code", entry.command), entry.cwd]
        for entry in study.entries
        if entry.command
    ]
    if rows:
        every = table(["run", "command", "in"], rows)
        parts.append(folded("The command of every run", every))
    return section("Reproduce", *parts)


def _remarks(remarks: Sequence[str]) -> Markup | None:
    if not remarks:
        return None
    return section("Remarks", element("ul", *(element("li", text) for text in remarks)))


def _key_names(study: Study) -> list[str]:
    from rlpyt.utils.names import labels

    names = labels(study.keys)
    return ["environment" if key in ENVIRONMENT_KEYS else names[key] for key in study.keys]


def _setting(value: object) -> str | Cell:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Cell(setting_text(value), float(value))
    return setting_text(value)


def _number(value: float) -> str:
    """Four digits are enough to compare; more before the point are kept."""
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def _value(value: float | None) -> Cell:
    known = value is not None and np.isfinite(value)
    return Cell(_number(value), value) if known and value is not None else Cell("-", None)


def _steps(steps: int | None) -> Cell:
    return Cell("-", None) if steps is None else Cell(f"{steps:,}", steps)
