"""Plots that compare the final scores of variants.

Performance profiles, probabilities of improvement and aggregates, each with stratified bootstrap
intervals (Agarwal et al. 2021). Scores on different scales are never mixed: each environment has a
separate panel unless the scores are normalized. The probability of improvement needs no scale.

Plots have the scores of variants, a title, the confidence level of intervals, and ``look``: the
style of each variant, to match other plots. They raise ImportError if matplotlib is not installed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.utils.text import counted
from rlpyt.vis import statistics, style
from rlpyt.vis.grouping import natural_key
from rlpyt.vis.scores import Scores
from rlpyt.vis.statistics import Array, stratified_bootstrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AGGREGATES = {
    "IQM": statistics.pooled_iqm,
    "Median": statistics.median_of_tasks,
    "Mean": statistics.mean_of_tasks,
}
THRESHOLDS = 201
N_RESAMPLES = 1000


def draw_profile(
    scores: Scores, title: str = "", confidence: float = 0.95, look: style.Looks | None = None
) -> Figure:
    """Plot performance profiles: the fraction of runs that score above each threshold.

    Raises:
        ValueError: the scores are normalized, and no environment is shared by all variants.
    """
    parts = _parts(scores)
    look = look or style.looks(scores.of)
    figure, all_axes = style.panels(len(parts))
    lines: dict[str, Any] = {}
    for axes, (name, tasks) in zip(all_axes, parts):
        every = np.concatenate([runs for of_label in tasks.values() for runs in of_label])
        margin = 0.03 * (every.max() - every.min() or abs(every.max()) or 1.0)
        taus = np.linspace(every.min() - margin, every.max() + margin, THRESHOLDS)
        for label in sorted(tasks, key=natural_key):
            above = [(runs[:, None] > taus) for runs in tasks[label]]
            low, high = stratified_bootstrap(
                above, statistics.mean_of_tasks, confidence, N_RESAMPLES
            )
            profile = statistics.performance_profile(tasks[label], taus)
            axes.fill_between(taus, low, high, color=look[label]["color"], alpha=0.15, linewidth=0)
            (lines[label],) = axes.plot(taus, profile, linewidth=1.5, **look[label])
        words = "Fraction of runs above \N{GREEK SMALL LETTER TAU}"
        style.dress(axes, f"{scores.what} (\N{GREEK SMALL LETTER TAU})", words, name)
        axes.set_ylim(-0.03, 1.03)
        style.shorten_ticks(axes.xaxis)
    _entitle(figure, title)
    style.add_legend(
        figure,
        {f"{label} ({_n_runs(parts, label)})": lines[label] for label in look if label in lines},
        f"Performance profiles, {confidence:.0%} bootstrap interval",
    )
    return figure


def draw_intervals(
    scores: Scores, title: str = "", confidence: float = 0.95, look: style.Looks | None = None
) -> Figure:
    """Plot aggregates with intervals: IQM, median, mean, and for normalized scores the gap to 1.

    Raises:
        ValueError: the scores are normalized, and no environment is shared by all variants.
    """
    parts = _parts(scores)
    aggregates: dict[str, Any] = dict(AGGREGATES)
    if scores.normalized:
        aggregates["Optimality gap"] = statistics.optimality_gap
    look = look or style.looks(scores.of)
    n_entries = [len(tasks) for _, tasks in parts]
    figure, all_axes = _rows_of_panels(n_entries, len(aggregates), list(scores.of))
    for i, (axes, ((name, tasks), aggregate)) in enumerate(
        zip(all_axes, itertools.product(parts, aggregates))
    ):
        labels = sorted(tasks, key=natural_key)[::-1]  # first label on top
        for at, label in enumerate(labels):
            low, high = stratified_bootstrap(
                tasks[label], aggregates[aggregate], confidence, N_RESAMPLES
            )
            point = float(aggregates[aggregate](tasks[label]))
            _draw_interval(axes, at, float(low), float(high), point, look[label]["color"])
        first = i % len(aggregates) == 0
        names = [f"{label} ({len(np.concatenate(tasks[label]))})" for label in labels]
        _dress_rows(axes, names if first else [""] * len(labels), scores.what, aggregate)
        if first and name:
            axes.text(
                0, 1.02, style.plain(name), transform=axes.transAxes, ha="right", va="bottom",
                fontsize=9, fontweight="bold",
            )  # fmt: skip
    _entitle(figure, title, f"{confidence:.0%} bootstrap intervals; in brackets the number of runs")
    return figure


def draw_improvement(
    scores: Scores, title: str = "", confidence: float = 0.95, of: str | None = None
) -> Figure:
    """Plot, for every pair of variants, the probability that the first scores higher.

    Pairs are compared on the environments that both have; pairs without any are left out.

    Args:
        of: compare only this variant with each of the others.

    Raises:
        ValueError: no two variants have an environment in common.
    """
    pairs = []
    labels = sorted(scores.of, key=natural_key)
    chosen = itertools.combinations(labels, 2) if of is None else zip(itertools.repeat(of), labels)
    for x, y in chosen:
        common = [name for name in scores.of[x] if name in scores.of[y]]
        if common and x != y:
            one, other = ([scores.of[label][e] for e in common] for label in (x, y))
            pairs.append((x, y, improvement(one, other, confidence)))
    if not pairs:
        raise ValueError(
            f"the probability of improvement needs two variants with an environment in common, "
            f"got {', '.join(scores.of)}."
        )
    names = [f"{x}  >  {y}" if of is None else y for x, y, _ in pairs]
    figure, (axes,) = _rows_of_panels([len(pairs)], 1, names)
    for at, (_, _, (point, low, high)) in enumerate(reversed(pairs)):
        _draw_interval(axes, at, low, high, point, style.COLORS[0])
    axes.axvline(0.5, color=style.SOFT_COLOR, linewidth=0.8, linestyle="--")
    probability = "P(X > Y)" if of is None else f"P({of} > Y)"
    _dress_rows(axes, names[::-1], probability, "" if title else "Probability of improvement")
    axes.set_xlim(-0.03, 1.03)
    _entitle(figure, title, f"{confidence:.0%} bootstrap intervals; a tie counts as half")
    return figure


def improvement(
    tasks_x: Sequence[Array], tasks_y: Sequence[Array], confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return the probability that X improves on Y, and the lower and upper end of its interval.

    ``tasks_x`` and ``tasks_y`` are [R] per task, the same tasks in the same order.
    """
    n = len(tasks_x)
    low, high = stratified_bootstrap(
        [*tasks_x, *tasks_y],
        lambda drawn: statistics.probability_of_improvement(drawn[:n], drawn[n:]),
        confidence,
        N_RESAMPLES,
    )
    return statistics.probability_of_improvement(tasks_x, tasks_y), float(low), float(high)


def _parts(scores: Scores) -> list[tuple[str, dict[str, list[Array]]]]:
    """Return the name and {label: tasks} of each panel; a single panel if normalized."""
    if scores.normalized:
        shared = scores.shared()
        return [("", {label: list(of.values()) for label, of in shared.of.items()})]
    several = len(scores.environments) > 1
    return [
        (name if several else "", {k: [of[name]] for k, of in scores.of.items() if name in of})
        for name in scores.environments
    ]


def _rows_of_panels(
    n_entries: Sequence[int], columns: int, names: Sequence[str]
) -> tuple[Figure, list[Axes]]:
    """Return a figure with rows of panels of heights by number of entries, and space for names."""
    figure, _ = style.panels(1)
    figure.clear()
    heights = [0.24 * n + 0.85 for n in n_entries]
    margin = 0.085 * min(60, max(map(len, names)))
    width = margin + (2.1 if columns > 1 else 3.6) * columns + 0.3
    figure.set_size_inches(width, sum(heights) + 0.4)
    grid = figure.add_gridspec(len(n_entries), columns, height_ratios=heights)
    cells = itertools.product(range(len(n_entries)), range(columns))
    return figure, [figure.add_subplot(grid[row, column]) for row, column in cells]


def _draw_interval(axes: Axes, at: int, low: float, high: float, point: float, color: str) -> None:
    axes.use_sticky_edges = False  # keep a margin between bars and the ends of the axis
    axes.barh(at, high - low, left=low, height=0.55, color=color, alpha=0.35, linewidth=0)
    axes.plot([point, point], [at - 0.275, at + 0.275], color=color, linewidth=2)


def _dress_rows(axes: Axes, names: Sequence[str], x_label: str, title: str) -> None:
    style.dress(axes, x_label, "", title)
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.06)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_yticks(range(len(names)), [style.plain(name) for name in names], fontsize=8)
    axes.tick_params(axis="y", length=0)
    style.shorten_ticks(axes.xaxis, most=4)


def _entitle(figure: Figure, title: str, note: str = "") -> None:
    if title:
        figure.suptitle(style.plain(title), fontsize=11)
    if note:
        figure.supxlabel(note, fontsize=7, color=style.SOFT_COLOR)


def _n_runs(parts: Sequence[tuple[str, dict[str, list[Array]]]], label: str) -> str:
    """Return "2 runs", or "1-2 runs" if panels have different numbers, summed over tasks."""
    n = [sum(map(len, tasks[label])) for _, tasks in parts if label in tasks]
    return counted(min(n), "run", max(n))
