"""Statistics over few runs: aggregates, comparisons, and their bootstrap intervals.

Scores come as strata: one array per task (environment), with that task's runs along axis 0, as many
as there are. Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the
Statistical Precipice".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
Strata = Sequence[ArrayLike]  # per task [R, ...]: its R runs


def interquartile_mean(values: ArrayLike, axis: int = 0) -> Array:
    """Average the middle half: a quarter of the values, rounded down, is cut off at either end.

    Robust to outliers like the median, with less variance; of up to three values it is the mean.

    Args:
        values: numbers of any shape.
        axis: over which to average.

    Returns:
        float64, ``axis`` removed.

    Raises:
        ValueError: there is no value.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=axis)
    n = ordered.shape[axis]
    if n == 0:
        raise ValueError("interquartile_mean of no values.")
    cut = n // 4
    middle = np.take(ordered, np.arange(cut, n - cut), axis=axis)
    return np.asarray(middle.mean(axis=axis))


def pooled_iqm(tasks: Strata) -> Array:
    """Interquartile mean of the runs of all tasks together. Per task [R, ...] -> [...]."""
    return interquartile_mean(np.concatenate(_arrays(tasks)))


def mean_of_tasks(tasks: Strata) -> Array:
    """Mean over tasks of the mean over runs: every task weighs the same. -> [...]."""
    return np.asarray(np.mean([runs.mean(axis=0) for runs in _arrays(tasks)], axis=0))


def median_of_tasks(tasks: Strata) -> Array:
    """Median over tasks of the mean over runs; of a single task, the median of its runs. -> [...].

    The former is the paper's "median"; for one task it would only be the mean again.
    """
    arrays = _arrays(tasks)
    means = arrays[0] if len(arrays) == 1 else [runs.mean(axis=0) for runs in arrays]
    return np.asarray(np.median(means, axis=0))


def optimality_gap(tasks: Strata, target: float = 1.0) -> Array:
    """How far the scores fall short of a target on average; what exceeds it does not make up.

        target - mean(min(score, target))        (every task weighing the same)

    Args:
        tasks: normalised scores.
        target: the score beyond which more is not better, in the same unit.
    """
    return target - mean_of_tasks([np.minimum(runs, target) for runs in _arrays(tasks)])


def performance_profile(tasks: Strata, thresholds: ArrayLike) -> Array:
    """Fraction of runs that score above each threshold, averaged over tasks.

        F(tau) = mean over tasks of  #{runs with score > tau} / #runs        (section 4.2)

    Args:
        tasks: per task [R].
        thresholds: [P], tau.

    Returns:
        [P], falling from 1 to 0 with tau.
    """
    taus = np.asarray(thresholds, dtype=np.float64)
    return mean_of_tasks([runs[:, None] > taus for runs in _arrays(tasks)])


def probability_of_improvement(tasks_x: Strata, tasks_y: Strata) -> float:
    """Probability that a run of X scores higher than one of Y on the same task; a tie is half.

        P(X > Y) = mean over tasks of  mean over pairs of  [x > y] + [x = y] / 2    (section 4.3)

    Args:
        tasks_x, tasks_y: per task [R], the same tasks in the same order; R may differ.

    Raises:
        ValueError: X and Y have not the same number of tasks.
    """
    pairs = list(zip(_arrays(tasks_x), _arrays(tasks_y), strict=True))
    wins = [np.heaviside(x[:, None] - y[None, :], 0.5).mean() for x, y in pairs]
    return float(np.mean(wins))


def stratified_bootstrap(
    tasks: Strata,
    statistic: Callable[[list[Array]], ArrayLike],
    confidence: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Give a percentile bootstrap interval, stratified by task.

    Each draw takes the runs of every task anew, with replacement, among the task's own runs; the
    interval lies between the quantiles of the statistic's values.

    Args:
        tasks: per task [R, ...]; R may differ. For a comparison, the tasks of both sides.
        statistic: gives a number or array for the list of drawn tasks.
        confidence: probability mass of the interval, in (0, 1).
        n_resamples: number of draws.
        seed: of the draws; the same seed gives the same interval.

    Returns:
        Lower and upper end, shaped like the statistic.

    Raises:
        ValueError: a task has no run, or ``confidence`` is out of range.
    """
    arrays = _arrays(tasks)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie between 0 and 1.")
    rng = np.random.default_rng(seed)
    values = [
        statistic([runs[rng.integers(len(runs), size=len(runs))] for runs in arrays])
        for _ in range(n_resamples)
    ]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.asarray(values, dtype=np.float64), [tail, 1 - tail], axis=0)
    return low, high


def bootstrap_interval(
    scores: ArrayLike,
    statistic: Statistic = interquartile_mean,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Give the stratified bootstrap interval of a statistic of all scores, pooled over tasks.

    Args:
        scores: [R] or [R, K, ...]: R runs of each of K tasks; any further axes are points that
            get an interval each from the same draws (the points of a curve).
        statistic: reduces axis 0 of a [R * K, ...] array.
        confidence, n_resamples, seed: see ``stratified_bootstrap``.

    Returns:
        Lower and upper end, each [...].

    Raises:
        ValueError: there is no score, or ``confidence`` is out of range.
    """
    array = np.asarray(scores, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.size == 0:
        raise ValueError(f"scores of shape {array.shape} hold no value.")
    tasks = list(np.moveaxis(array, 1, 0))
    return stratified_bootstrap(
        tasks, lambda drawn: statistic(np.concatenate(drawn)), confidence, n_resamples, seed
    )


def _arrays(tasks: Strata) -> list[Array]:
    arrays = [np.asarray(runs, dtype=np.float64) for runs in tasks]
    if not arrays or not all(map(len, arrays)):
        raise ValueError(f"expected runs for every task, got {list(map(len, arrays))} of them.")
    return arrays
