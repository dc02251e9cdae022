"""Plots of a report: learning curves, aggregates, profiles, improvements."""

from __future__ import annotations

from rlpyt.sweeps.report_data import ReportData
from rlpyt.sweeps.report_page import Section, figure
from rlpyt.vis import style
from rlpyt.vis.comparisons import draw_improvement, draw_intervals, draw_profile
from rlpyt.vis.curves import draw_curves
from rlpyt.vis.scores import Scores

MAX_DRAWN = 10  # variants in one plot; more are hard to distinguish


def curves(data: ReportData, y: str) -> Section:
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


def comparisons(data: ReportData) -> Section:
    """Return plots of final scores; an empty section without several variants."""
    of, figures = data.scores.of if data.scores else {}, []
    environments = data.scores.environments if data.scores else []
    for i, environment in enumerate(environments):
        look = _look(data, environment)
        labels = [k for k in data.ranked(environment) if k in look and environment in of.get(k, {})]
        if len(labels) < 2:
            continue
        assert data.scores is not None
        few = Scores({k: {environment: of[k][environment]} for k in labels}, data.scores.what)
        where = f"{environment}: " if len(environments) > 1 else ""
        aggregates = f"{where}Aggregates of {few.what.lower()}"
        against = f"{where}{labels[0]} against the others"
        figures += [
            figure(draw_intervals(few, look=look), f"intervals{i}", aggregates, wide=True),
            figure(draw_profile(few, look=look), f"profile{i}", f"{where}Performance profiles"),
            figure(draw_improvement(few, of=labels[0]), f"improvement{i}", against),
        ]
    about = (
        "Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical "
        "Precipice. With few runs the intervals are wide; compare these, not the points."
    )
    return {"title": "Comparisons", "about": about, "figures": figures} if figures else {}


def _look(data: ReportData, environment: str) -> style.Looks:
    """Return the looks of the variants to draw, the same in all plots."""
    return style.looks(data.ranked(environment)[:MAX_DRAWN])
