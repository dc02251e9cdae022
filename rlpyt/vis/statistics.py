"""Statistics over few runs: the interquartile mean and its bootstrap interval.

Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def interquartile_mean(values: ArrayLike, axis: int = 0) -> NDArray[np.float64]:
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


def bootstrap_interval(
    scores: ArrayLike,
    statistic: Statistic = interquartile_mean,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give a percentile bootstrap interval, stratified by task.

    Runs are drawn anew with replacement, for each task among its own runs, and all scores of a
    draw are reduced by ``statistic``; the interval lies between the quantiles of its values.

    Args:
        scores: [R] or [R, K, ...]: R runs of each of K tasks; any further axes are points that
            get an interval each from the same draws (the points of a curve).
        statistic: reduces axis 0 of a [R * K, ...] array.
        confidence: probability mass of the interval, in (0, 1).
        n_resamples: number of draws.
        seed: of the draws; the same seed gives the same interval.

    Returns:
        Lower and upper end, each [...].

    Raises:
        ValueError: there is no score, or ``confidence`` is out of range.
    """
    array = np.asarray(scores, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.size == 0:
        raise ValueError(f"scores of shape {array.shape} hold no value.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie between 0 and 1.")

    R, K, *points = array.shape
    rng = np.random.default_rng(seed)
    tasks = np.arange(K)
    draws = np.empty((n_resamples, *points))
    for i in range(n_resamples):
        runs = rng.integers(R, size=(R, K))
        draws[i] = statistic(array[runs, tasks].reshape(R * K, *points))
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return low, high
