"""Statistics over few runs: aggregates, comparisons, and their bootstrap intervals.

Scores are given as strata: one array per task (environment), with the task's runs along axis 0;
tasks may have different numbers of runs. Source: Agarwal et al. 2021, "Deep Reinforcement Learning
at the Edge of the Statistical Precipice".
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
Strata = Sequence[ArrayLike]  # per task [R, ...] with R runs


def interquartile_mean(values: ArrayLike, axis: int = 0) -> Array:
    """Return the mean of the middle half of the values.

    A quarter of the values, rounded down, is cut off at each end. The result is robust to outliers
    like the median, with less variance. For up to three values it is the mean.

    Raises:
        ValueError: ``values`` is empty along ``axis``.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=axis)
    n = ordered.shape[axis]
    if n == 0:
        raise ValueError("values of interquartile_mean must not be empty.")
    cut = n // 4
    middle = np.take(ordered, np.arange(cut, n - cut), axis=axis)
    return np.asarray(middle.mean(axis=axis))


def pooled_iqm(tasks: Strata) -> Array:
    """Return the interquartile mean of the runs of all tasks. Per task [R, ...] -> [...]."""
    return interquartile_mean(np.concatenate(_arrays(tasks)))


def mean_of_tasks(tasks: Strata) -> Array:
    """Return the mean over tasks of the mean over runs, with equal weight per task. -> [...]."""
    return np.asarray(np.mean([runs.mean(axis=0) for runs in _arrays(tasks)], axis=0))


def median_of_tasks(tasks: Strata) -> Array:
    """Return the median over tasks of the mean over runs; for one task, the median of its runs.

    The former is the paper's "median", which for one task would be equal to the mean. -> [...].
    """
    arrays = _arrays(tasks)
    means = arrays[0] if len(arrays) == 1 else [runs.mean(axis=0) for runs in arrays]
    return np.asarray(np.median(means, axis=0))


def optimality_gap(tasks: Strata, target: float = 1.0) -> Array:
    """Return the average shortfall of scores from a target; higher scores count as the target.

    target - mean(min(score, target))        (with equal weight per task)

    """
    return target - mean_of_tasks([np.minimum(runs, target) for runs in _arrays(tasks)])


def performance_profile(tasks: Strata, thresholds: ArrayLike) -> Array:
    """Return the fraction of runs that score above each threshold, averaged over tasks.

        F(tau) = mean over tasks of  #{runs with score > tau} / #runs        (section 4.2)

    Args:
        tasks: per task [R].
        thresholds: tau, [P] -> [P].
    """
    taus = np.asarray(thresholds, dtype=np.float64)
    return mean_of_tasks([runs[:, None] > taus for runs in _arrays(tasks)])


def probability_of_improvement(tasks_x: Strata, tasks_y: Strata) -> float:
    """Return the probability that a run of X scores higher than one of Y; a tie counts as half.

        P(X > Y) = mean over tasks of  mean over pairs of  [x > y] + [x = y] / 2    (section 4.3)

    Args:
        tasks_x, tasks_y: per task [R], the same tasks in the same order; R may differ.

    Raises:
        ValueError: X and Y have different numbers of tasks.
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
    """Return a percentile bootstrap interval, stratified by task.

    Each draw resamples the runs of every task with replacement; the ends of the interval are
    quantiles of the statistic over draws.

    Args:
        tasks: per task [R, ...]; R may differ. For a comparison, the tasks of both sides.
        statistic: function from the list of resampled tasks to a number or array.
        confidence: confidence level of the interval, in (0, 1).
        n_resamples, seed: number and seed of the draws.

    Returns:
        Lower and upper end, with the shape of the statistic.

    Raises:
        ValueError: a task has no run, or ``confidence`` is out of range.
    """
    arrays = _arrays(tasks)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must be between 0 and 1.")
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
    """Return the stratified bootstrap interval of a statistic of all scores, pooled over tasks.

    Args:
        scores: [R] or [R, K, ...]: R runs of each of K tasks; further axes are points (of a curve)
            that each get an interval from the same draws.
        statistic: reduces axis 0 of a [R * K, ...] array.
        confidence, n_resamples, seed: see ``stratified_bootstrap``.

    Returns:
        Lower and upper end, each [...].

    Raises:
        ValueError: ``scores`` is empty, or ``confidence`` is out of range.
    """
    array = np.asarray(scores, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.size == 0:
        raise ValueError(f"scores must not be empty, got shape {array.shape}.")
    tasks = list(np.moveaxis(array, 1, 0))
    return stratified_bootstrap(
        tasks, lambda drawn: statistic(np.concatenate(drawn)), confidence, n_resamples, seed
    )


def _arrays(tasks: Strata) -> list[Array]:
    arrays = [np.asarray(runs, dtype=np.float64) for runs in tasks]
    if not arrays or not all(map(len, arrays)):
        raise ValueError(f"every task must have runs, got numbers {list(map(len, arrays))}.")
    return arrays
