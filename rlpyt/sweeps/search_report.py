"""Sections of a report about a search: the best setting, importances, all trials."""

from __future__ import annotations

import warnings
from pathlib import Path

from rlpyt.errors import DamagedFile
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.report_page import Cell, Section, figure, number, setting
from rlpyt.sweeps.search import ENDS, FROM, MEMBER
from rlpyt.sweeps.search_plots import draw_history, draw_importances, draw_slices
from rlpyt.sweeps.search_results import Results, read_results, scored, short_text


def search_sections(directory: Path) -> list[Section]:
    """Return the sections about a search; none for other sweeps."""
    try:
        sweep = SweepDirectory(directory)
    except (FileNotFoundError, ValueError):  # reported elsewhere
        return []
    if not sweep.about.search:
        return []
    try:
        results = read_results(sweep)
    except DamagedFile as error:
        warnings.warn(f"the results of the search cannot be read: {error}")
        return []
    if results.search.method == "pbt":
        return [_best(results), _trials(results)]
    return [_best(results), *_optuna_plots(results), _trials(results)]


def _best(results: Results) -> Section:
    best, metric = results.best, results.search.metric
    if best is None:
        return {"title": "Best setting", "text": "No run has a score yet."}
    rows = [[key, short_text(value)] for key, value in best.settings.items()]
    about = f"{best.name}: {metric} {best.score:.6g}, {results.search.direction}d."
    if results.search.method == "pbt":
        about += " Settings of its last segment."
    table = {"head": ["setting", "value"], "rows": rows}
    return {"title": "Best setting", "about": about, "tables": [table], "pre": best.command}


def _optuna_plots(results: Results) -> list[Section]:
    if not scored(results.trials):
        return []
    figures = [figure(draw_history(results), "search-history", "Optimization history")]
    if results.importances:
        plot = draw_importances(results)
        figures.append(figure(plot, "search-importances", "Importance of settings"))
    slices = draw_slices(results)
    figures.append(figure(slices, "search-slices", "Score against each setting", wide=True))
    about = (
        f"{results.search.metric}, {results.search.direction}d by Optuna's {results.search.sampler}"
        " sampler. Importances: PED-ANOVA (Watanabe et al. 2023), how much a setting decides "
        "whether a trial is among the best tenth."
    )
    return [{"title": "Search", "about": about, "figures": figures}]


def _trials(results: Results) -> Section:
    state = {"complete": "done", "fail": "failed"}
    title, about = "Trials", "All proposed settings; a score is the mean over seeds."
    keys = list(results.space)
    if results.search.method == "pbt":
        title, about = "Segments", 'Members at their ends; "from": whose checkpoint was continued.'
        keys = [MEMBER, FROM, ENDS, *keys]
    rows = [
        [
            number(trial.number),
            state.get(trial.state, trial.state),
            number(trial.value),
            *(_setting(trial.settings.get(key)) for key in keys),
        ]
        for trial in results.trials
    ]
    table = {"head": ["number", "state", results.search.metric, *keys], "rows": rows}
    return {"title": title, "about": about, "tables": [table]}


def _setting(value: object) -> Cell:
    return setting(value, short_text(value))
