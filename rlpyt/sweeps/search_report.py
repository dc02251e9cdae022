"""Sections of a report about a search: the best setting, importances, all trials."""

from __future__ import annotations

import warnings
from pathlib import Path

from rlpyt.errors import DamagedFile
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.report_page import (
    Block,
    Cell,
    Figures,
    Row,
    Section,
    Table,
    Text,
    figure_block,
    number_cell,
    setting_cell,
)
from rlpyt.sweeps.search_plots import (
    draw_history,
    draw_importances,
    draw_lineage,
    draw_slices,
)
from rlpyt.sweeps.search_results import Results, read_results, short_text


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
        return [_best(results), _population(results), _segments(results)]
    return [_best(results), *_optuna_plots(results), _trials(results)]


def _best(results: Results) -> Section:
    best, metric = results.best, results.search.metric
    if best is None:
        return Section("Best setting", [Text("No run has a score yet.")])
    rows = [[key, short_text(value)] for key, value in best.settings.items()]
    last = " Settings of its last segment." if results.search.method == "pbt" else ""
    about = f"{best.name}: {metric} {best.score:.6g}, {results.search.direction}d.{last}"
    blocks: list[Block] = [Table(["setting", "value"], rows), Text(best.command, "pre")]
    return Section("Best setting", blocks, about)


def _optuna_plots(results: Results) -> list[Section]:
    if not any(trial.value is not None for trial in results.trials):
        return []
    figures = [figure_block(draw_history(results), "search-history", "Optimization history")]
    if results.importances:
        plot = draw_importances(results)
        figures.append(figure_block(plot, "search-importances", "Importance of settings"))
    slices = draw_slices(results)
    against = figure_block(slices, "search-slices", "Score against each setting", wide=True)
    about = (
        f"{results.search.metric}, {results.search.direction}d by Optuna's {results.search.sampler}"
        " sampler. Importances: PED-ANOVA (Watanabe et al. 2023), how much a setting decides "
        "whether a trial is among the best tenth."
    )
    return [Section("Search", [Figures(figures), against], about)]


def _trials(results: Results) -> Section:
    keys = list(results.space)
    rows = []
    for trial in results.trials:
        state = {"complete": "done", "fail": "failed"}.get(trial.state, trial.state)
        rows.append(
            [
                number_cell(trial.number),
                Cell(state, state=state),
                _score(trial.value),
                *(_setting(trial.settings.get(key)) for key in keys),
            ]
        )
    about = "All proposed settings; a score is the mean over seeds."
    return Section("Trials", [Table(["trial", "state", results.search.metric, *keys], rows)], about)


def _population(results: Results) -> Section:
    taken = [one for one in results.segments if one.source != one.member]
    rows: list[Row] = []
    values = {(one.member, one.round): one.settings for one in results.segments}
    for one in taken:
        before = values[one.source, one.round - 1]
        changed = [
            f"{k}: {short_text(before[k])} to {short_text(one.settings[k])}" for k in results.space
        ]
        step = number_cell(one.begins, f"{one.begins:,}")
        rows.append([step, f"member {one.member}", f"member {one.source}", ", ".join(changed)])
    about = (
        f"{results.search.metric} and settings of each member at the ends of its segments of "
        f"{results.search.interval_steps:,} steps. A dotted line comes from the member whose "
        "checkpoint was copied (Jaderberg et al. 2017)."
    )
    plot = figure_block(draw_lineage(results), "population", "Members", wide=True)
    head = ["steps", "member", "copied from", "changes"]
    copies: Block = Table(head, rows) if rows else Text("No member has been copied yet.")
    return Section("Population", [plot, copies], about)


def _segments(results: Results) -> Section:
    keys = list(results.space)
    rows = [
        [
            number_cell(one.member),
            number_cell(one.begins, f"{one.begins:,}"),
            number_cell(one.ends, f"{one.ends:,}"),
            Cell(one.state, state=one.state),
            _score(one.score),
            "" if one.source == one.member else f"member {one.source}",
            *(_setting(one.settings[key]) for key in keys),
        ]
        for one in results.segments
    ]
    head = ["member", "from step", "to step", "state", results.search.metric, "copied from", *keys]
    return Section("Segments", [Table(head, rows)])


def _score(value: float | None) -> Cell:
    return number_cell(value, "" if value is None else f"{value:.5g}")


def _setting(value: object) -> str | Cell:
    return setting_cell(value, short_text(value))
