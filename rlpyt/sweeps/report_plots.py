"""Plots of a report: learning curves, aggregates, profiles, improvements."""

from __future__ import annotations

from collections.abc import Iterator

from rlpyt.sweeps.report_data import ReportData
from rlpyt.sweeps.report_page import (
    Block,
    Figure,
    Figures,
    Section,
    Text,
    figure_block,
)
from rlpyt.vis import style
from rlpyt.vis.comparisons import draw_improvement, draw_intervals, draw_profile
from rlpyt.vis.curves import draw_curves
from rlpyt.vis.scores import Scores

MAX_DRAWN = 10  # variants in one plot; more are hard to distinguish


def curves(data: ReportData, y: str) -> Section:
    """Return a plot for each environment, of its best variants."""
    runs = [entry.run for entry in data.entries if (entry.run.path / "progress.csv").exists()]
    figures: list[Figure] = []
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
        figures.append(figure_block(plot, f"curves{len(figures)}", caption))
    if not figures:
        nothing = Text("No run has logged its returns yet.", css="no-pictures")
        return Section("Learning curves", [nothing])
    about = (
        "Interquartile mean across the runs of a variant, up to the shortest run, with a 95% "
        "bootstrap interval; a single run without one."
    )
    return Section("Learning curves", [Figures(figures)], about)


def comparisons(data: ReportData) -> Section | None:
    """Return plots of final scores, if there are several variants."""
    blocks = list(_comparison_blocks(data)) if data.scores else []
    if not blocks:
        return None
    about = (
        "Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical "
        "Precipice. With few runs the intervals are wide; compare these, not the points."
    )
    return Section("Comparisons", blocks, about)


def _comparison_blocks(data: ReportData) -> Iterator[Block]:
    assert data.scores is not None
    of = data.scores.of
    for i, environment in enumerate(data.scores.environments):
        look = _look(data, environment)
        labels = [k for k in data.ranked(environment) if k in look and environment in of.get(k, {})]
        if len(labels) < 2:
            continue
        few = Scores({k: {environment: of[k][environment]} for k in labels}, data.scores.what)
        yield Text(environment or data.title, "h3")
        aggregates = draw_intervals(few, look=look)
        yield figure_block(
            aggregates, f"intervals{i}", f"Aggregates of {few.what.lower()}", wide=True
        )
        profile = draw_profile(few, look=look)
        against = draw_improvement(few, of=labels[0])
        yield Figures(
            [
                figure_block(profile, f"profile{i}", "Performance profiles"),
                figure_block(against, f"improvement{i}", f"{labels[0]} against the others"),
            ]
        )


def _look(data: ReportData, environment: str) -> style.Looks:
    """Return the looks of the variants to draw, the same in all plots."""
    return style.looks(data.ranked(environment)[:MAX_DRAWN])
