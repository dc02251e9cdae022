"""Sections of a report about a search: the best setting, plots, all trials."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.report_page import Section, figure, number, setting
from rlpyt.sweeps.search_results import Results, read_results, scored, short_text
from rlpyt.sweeps.spec import Draw
from rlpyt.utils.names import labels
from rlpyt.vis import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_SLICES = 9  # of the most important settings


def search_sections(directory: Path) -> list[Section]:
    """Return the sections about a search; none for other sweeps, or for one that is damaged."""
    try:
        sweep = SweepDirectory(directory)
    except (FileNotFoundError, ValueError):  # reported elsewhere
        return []
    if not sweep.about.search:
        return []
    try:
        results = read_results(sweep)
        return [_best(results), *_optuna_plots(results), _trials(results)]
    except ImportError:
        raise
    except Exception as error:  # databases and parsers raise many types
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        warnings.warn(f"the results of the search in {sweep.queue} cannot be read ({reason})")
        return []


def _best(results: Results) -> Section:
    best, metric = results.best, results.search.metric
    if best is None:
        return {"title": "Best setting", "text": "No run has a score yet."}
    rows = [[key, short_text(value)] for key, value in best.settings.items()]
    about = f"{best.name}: {metric} {best.score:.6g}, {results.search.direction}d."
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
    about = "All proposed settings; a score is the mean over seeds."
    keys = list(results.space)
    rows = [
        [
            number(trial.number),
            state.get(trial.state, trial.state),
            number(trial.value),
            *(setting(x, short_text(x)) for x in map(trial.settings.get, keys)),
        ]
        for trial in results.trials
    ]
    table = {"head": ["number", "state", results.search.metric, *keys], "rows": rows}
    return {"title": "Trials", "about": about, "tables": [table]}


def draw_history(results: Results) -> Figure:
    """Plot the scores of trials in their order, and the best so far."""
    figure, (axes,) = style.panels(1)
    known = scored(results.trials)
    numbers, scores = [trial.number for trial, _ in known], [score for _, score in known]
    points = axes.scatter(numbers, scores, s=16, color=style.COLORS[0], zorder=3)
    better = np.maximum if results.search.direction == "maximize" else np.minimum
    best = better.accumulate(scores)
    (line,) = axes.step(numbers, best, where="post", color=style.COLORS[1])
    handles: dict[str, Any] = {"trial": points, "best so far": line}
    for state, color in (("pruned", style.SOFT_COLOR), ("fail", style.COLORS[4])):
        ended = [trial.number for trial in results.trials if trial.state == state]
        if ended:
            name = {"fail": "failed"}.get(state, state)
            handles[name] = axes.scatter(
                ended, [min(scores)] * len(ended), s=16, marker="x", color=color
            )
    style.dress(axes, "Trial", style.readable(results.search.metric))
    style.shorten_ticks(axes.xaxis)
    style.add_legend(figure, handles)
    return figure


def draw_importances(results: Results) -> Figure:
    """Plot a bar for each setting."""
    figure, (axes,) = style.panels(1)
    found = sorted(results.importances.items(), key=lambda item: item[1])
    names = labels(list(results.space))
    axes.barh([names[key] for key, _ in found], [value for _, value in found], height=0.6,
              color=style.COLORS[0])  # fmt: skip
    for row, (_, value) in enumerate(found):
        axes.annotate(f"{value:.2f}", (value, row), (3, 0), textcoords="offset points",
                      va="center", fontsize=8)  # fmt: skip
    style.dress(axes, "Importance", "")
    axes.set_xlim(0, 1.12 * max(value for _, value in found) or 1)
    axes.grid(axis="y", visible=False)
    return figure


def draw_slices(results: Results) -> Figure:
    """Plot scores against the values of each setting; later trials are darker."""
    order = sorted(results.space, key=lambda key: -results.importances.get(key, 0.0))
    keys, names = order[:MAX_SLICES], labels(list(results.space))
    known = scored(results.trials)
    figure, panels = style.panels(len(keys))
    for key, axes in zip(keys, panels):
        draw = results.space[key]
        x = [_position(trial.settings[key], draw) for trial, _ in known]
        shade: Any = np.linspace(0.25, 1, len(known) + 1)[1:]
        axes.scatter(
            x, [score for _, score in known], s=16, alpha=shade, color=style.COLORS[0], linewidths=0
        )
        style.dress(axes, names[key], style.readable(results.search.metric))
        _scale(axes, draw)
    return figure


def _position(value: Any, draw: Draw) -> float:
    """Return a value's position on its axis; choices are numbered."""
    return float(draw.values.index(value)) if draw.kind == "choice" else float(value)


def _scale(axes: Axes, draw: Draw) -> None:
    """Set scale and ticks of a setting's axis."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis = axes.xaxis
    if draw.kind == "choice":
        texts = [short_text(value) for value in draw.values]
        axis.set_ticks(range(len(texts)), [style.plain(text) for text in texts])
        axes.set_xlim(-0.5, len(texts) - 0.5)
    elif draw.kind == "log_uniform":
        axes.set_xscale("log")
        low, high = draw.values
        axis.set_major_locator(LogLocator(subs=(1, 3) if high <= 1000 * low else (1,), numticks=8))
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(lambda value, position: f"{value:g}")
    else:
        style.shorten_ticks(axis)
