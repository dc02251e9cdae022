"""What a report says of a search: the best, what was tried, and what mattered."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.jobs import DamagedFile
from rlpyt.sweeps.report_page import Cell, Markup, element, section, table
from rlpyt.sweeps.search_pictures import (
    draw_history,
    draw_importances,
    draw_lineage,
    draw_slices,
)
from rlpyt.sweeps.search_results import Results, read_results, shown
from rlpyt.vis import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def search_sections(directory: Path) -> list[Markup]:
    """The parts of a report about a sweep that searches; none for others."""
    try:
        sweep = SweepDirectory(directory)
    except (FileNotFoundError, ValueError):  # what is wrong with it, the report says elsewhere
        return []
    if not sweep.about.search:
        return []
    try:
        results = read_results(sweep)
    except DamagedFile as error:
        warnings.warn(f"what the search has found is not known: {error}")
        return []
    if results.search.method == "pbt":
        return [_best(results), _population(results), _stretches(results)]
    return [_best(results), *_optuna_pictures(results), _trials(results)]


def _best(results: Results) -> Markup:
    best, metric = results.best, results.search.metric
    if best is None:
        return section("Best setting", element("p", "No run has a score yet."))
    rows: list[list[str | Cell]] = [[key, shown(value)] for key, value in best.settings.items()]
    last = " Settings are those of its last stretch." if results.search.method == "pbt" else ""
    about = f"{best.name}: {metric} {best.score:.6g}, {results.search.direction}d.{last}"
    command = element("pre", best.command)
    return section("Best setting", table(["setting", "value"], rows), command, about=about)


def _optuna_pictures(results: Results) -> list[Markup]:
    if not any(trial.value is not None for trial in results.trials):
        return []
    history = draw_history(results)
    wide = [_picture(history, "search-history", "Optimisation history")]
    parts: list[Markup] = []
    if results.importances:
        bars = draw_importances(results)
        wide.append(_picture(bars, "search-importances", "Importance of settings"))
    parts.append(element("div", *wide, class_="pictures"))
    slices = draw_slices(results)
    parts.append(_picture(slices, "search-slices", "Score against each setting", wide=True))
    about = (
        f"{results.search.metric}, {results.search.direction}d by Optuna's {results.search.sampler}"
        " sampler. Importances: PED-ANOVA (Watanabe et al. 2023), how much a setting decides "
        "whether a trial is among the best tenth."
    )
    return [section("Search", *parts, about=about)]


def _trials(results: Results) -> Markup:
    keys = list(results.space)
    rows: list[list[str | Cell]] = []
    for trial in results.trials:
        state = {"complete": "done", "fail": "failed"}.get(trial.state, trial.state)
        rows.append(
            [
                Cell(str(trial.number), trial.number),
                element("span", state, class_=state),
                _number(trial.value),
                *(_setting(trial.settings.get(key)) for key in keys),
            ]
        )
    about = "Every setting that was proposed; its score is the mean over its seeds."
    head = ["trial", "state", results.search.metric, *keys]
    return section("Trials", table(head, rows), about=about)


def _population(results: Results) -> Markup:
    figure = draw_lineage(results)
    taken = [one for one in results.stretches if one.source != one.member]
    rows: list[list[str | Cell]] = []
    values = {(one.member, one.round): one.settings for one in results.stretches}
    for one in taken:
        before = values[one.source, one.round - 1]
        changed = [f"{k}: {shown(before[k])} to {shown(one.settings[k])}" for k in results.space]
        at = Cell(f"{one.begins:,}", one.begins)
        rows.append([at, f"member {one.member}", f"member {one.source}", ", ".join(changed)])
    about = (
        f"{results.search.metric} and settings of each member at the ends of its stretches. A "
        "dotted line leads from the member whose checkpoint was taken over, "
        f"every {results.search.interval_steps:,} steps (Jaderberg et al. 2017)."
    )
    picture = _picture(figure, "population", "Members", wide=True)
    head = ["steps", "who", "took over from", "and changed"]
    lineage = table(head, rows) if rows else element("p", "Nobody has taken over yet.")
    return section("Population", picture, lineage, about=about)


def _stretches(results: Results) -> Markup:
    keys = list(results.space)
    rows: list[list[str | Cell]] = [
        [
            Cell(str(one.member), one.member),
            Cell(f"{one.begins:,}", one.begins),
            Cell(f"{one.ends:,}", one.ends),
            element("span", one.state, class_=one.state),
            _number(one.score),
            "" if one.source == one.member else f"member {one.source}",
            *(_setting(one.settings[key]) for key in keys),
        ]
        for one in results.stretches
    ]
    head = ["member", "from step", "to step", "state", results.search.metric, "taken over", *keys]
    return section("Stretches", table(head, rows))


def _picture(figure: Figure, name: str, caption: str, wide: bool = False) -> Markup:
    svg = Markup(style.inline_svg(figure, name, caption))
    title = element("figcaption", caption)
    return element("figure", title, svg, class_="wide" if wide else None, tabindex="0")


def _number(value: float | None) -> Cell:
    return Cell("-", None) if value is None else Cell(f"{value:.5g}", value)


def _setting(value: object) -> str | Cell:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Cell(shown(value), float(value))
    return shown(value)
