"""Pure functions over plain numbers: summaries, curves, ranks.

Here for scripts and notebooks; figures of whole runs are drawn by `rlpyt.vis.curves`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlpyt.utils.checks import whole_number

Array = NDArray[Any]


@dataclass(frozen=True)
class Describe:
    """A summary of numbers; its text has one line for each.

    ``mean`` to ``max`` are floats, or arrays where the numbers had further dimensions.
    """

    count: int
    mean: Any
    std: Any
    min: Any
    max: Any
    repr_indent: int = 0  # spaces before each line
    repr_prefix: str | None = None  # a line above

    def __str__(self) -> str:
        lines = [] if self.repr_prefix is None else [self.repr_prefix]
        lines += [f"{name}: {getattr(self, name)}" for name in _SUMMARY]
        return "\n".join(" " * self.repr_indent + line for line in lines)


_SUMMARY = ("count", "mean", "std", "min", "max")


def describe(
    x: ArrayLike, axis: int = -1, repr_indent: int = 0, repr_prefix: str | None = None
) -> Describe:
    """Count, mean, standard deviation (of the population), smallest and largest along an axis.

    Args:
        x: numbers of any shape.
        axis: over which to summarise.
        repr_indent, repr_prefix: of `Describe`'s text.

    Raises:
        ValueError: there are none.
    """
    array = np.asarray(x)
    if array.size == 0:
        raise ValueError(f"describe of no numbers: x has shape {array.shape}.")
    array = np.atleast_1d(array)
    results = (np.mean(array, axis), np.std(array, axis), array.min(axis), array.max(axis))
    mean, std, low, high = (r.item() if np.ndim(r) == 0 else r for r in results)
    return Describe(array.shape[axis], mean, std, low, high, repr_indent, repr_prefix)


def interp_curves(
    x: Sequence[ArrayLike], y: Sequence[ArrayLike], num_point: int = 100
) -> tuple[list[Array], list[Array]]:
    """Bring curves with different abscissas to common ones, by straight lines between the points.

    Outside its own range a curve keeps its first or last value.

    Args:
        x: abscissas of each curve, ascending.
        y: its values.
        num_point: of the common abscissas, evenly spaced from the smallest to the largest of all.

    Returns:
        abscissas, one array [num_point] for each curve (the same), and values likewise.

    Raises:
        ValueError: there is no curve; one is empty, or its x does not ascend or is not as long as
            its y.
    """
    xs, ys = ([np.asarray(curve, np.float64) for curve in curves] for curves in (x, y))
    if not xs or len(xs) != len(ys):
        raise ValueError(f"{len(xs)} lists of x and {len(ys)} of y came; at least one of each.")
    for i, (one, values) in enumerate(zip(xs, ys)):
        if one.ndim != 1 or one.shape != values.shape or not len(one) or (np.diff(one) < 0).any():
            raise ValueError(
                f"curve {i}: x of shape {one.shape} and y of shape {values.shape} must be equally "
                "long, and x must ascend."
            )
    low, high = min(one[0] for one in xs), max(one[-1] for one in xs)
    grid = np.linspace(low, high, whole_number("num_point", num_point, 1))
    return [grid for _ in xs], [np.interp(grid, *curve) for curve in zip(xs, ys)]


def explained_variance(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Return the share of explained variance of ``y_true``: 1 - Var(y - y_pred) / Var(y).

    1 is perfect, 0 no better than a constant, below 0 worse. With several outputs it is the mean
    of each one's. Where ``y_true`` does not vary it is 1 if the error does not either, else 0, as
    scikit-learn has it. What is not finite gives NaN.

    Args:
        y_true, y_pred: [n] or [n, outputs]; dimensions of size 1 do not count.

    Raises:
        ValueError: the shapes differ, or have more than two dimensions.
    """
    both = (np.squeeze(np.asarray(y, np.float64)) for y in (y_true, y_pred))
    true, predicted = (np.atleast_1d(y) for y in both)
    if true.shape != predicted.shape or true.ndim > 2 or true.size == 0:
        raise ValueError(
            f"y_true of shape {np.shape(y_true)} and y_pred of shape {np.shape(y_pred)} must be "
            "equal: [n] or [n, outputs]."
        )
    if not np.isfinite([true, predicted]).all():
        return float("nan")
    left = np.atleast_1d(np.var(true - predicted, axis=0))
    all_ = np.atleast_1d(np.var(true, axis=0))
    varies = all_ > 0
    share = np.divide(left, all_, out=(left > 0).astype(np.float64), where=varies)
    return float(np.mean(1 - share))


def rank_transform(x: ArrayLike, centered: bool = True, share_ties: bool = False) -> Array:
    """Replace numbers by their ranks, so that outliers count no more than others.

    Args:
        x: [n].
        centered: map ranks 0 to n - 1 to [-0.5, 0.5] (Salimans et al. 2017); a single
            number becomes 0.
        share_ties: equal numbers all get the mean of their ranks; otherwise different ones, in the
            order they stand.

    Returns:
        [n], k for the number that k others are below: int64, or float64 if centered or shared.

    Raises:
        ValueError: x is not one-dimensional, or holds NaN.
    """
    array = np.asarray(x)
    if array.ndim != 1 or np.isnan(array).any():
        raise ValueError(f"x of shape {array.shape} must be one-dimensional, and without NaN.")
    if share_ties:
        _, which, counts = np.unique(array, return_inverse=True, return_counts=True)
        ranks: Array = (np.cumsum(counts) - (counts + 1) / 2)[which]
    else:
        ranks = np.empty(len(array), np.int64)
        ranks[np.argsort(array, kind="stable")] = np.arange(len(array))
    if not centered:
        return ranks
    return ranks / (len(array) - 1) - 0.5 if len(array) > 1 else np.zeros(len(array))


def smooth_filter(x: ArrayLike, window_length: int, polyorder: int) -> Array:
    """Smooth a curve by a polynomial through each point's neighbourhood (Savitzky & Golay 1964).

    Each point takes the value of the polynomial that fits the window around it best; near the ends
    that of the first or last whole window. ``scipy.signal.savgol_filter`` gives the same, and more
    (derivatives, other ends).

    Args:
        x: [n].
        window_length: of the window, odd, at most n.
        polyorder: degree of the polynomial, below ``window_length``.

    Returns:
        [n] float64.

    Raises:
        ValueError: x is not one-dimensional, or window and polynomial do not fit.
    """
    values = np.asarray(x, np.float64)
    window = whole_number("window_length", window_length, 1)
    degree = whole_number("polyorder", polyorder, 0)
    if values.ndim != 1 or window % 2 == 0 or window > len(values) or degree >= window:
        raise ValueError(
            f"{window_length=} must be odd and at most the number of points, {polyorder=} below "
            f"it, and x [n]; x has shape {values.shape}."
        )
    half = window // 2
    # Legendre polynomials on [-1, 1]: powers would lose all digits at degrees like 10.
    places = np.arange(-half, half + 1) / max(half, 1)
    basis = np.linalg.qr(np.polynomial.legendre.legvander(places, degree))[0]
    fit = basis @ basis.T  # [window, window], from values in a window to the polynomial's
    windows = np.lib.stride_tricks.sliding_window_view(values, window)
    middle = windows @ fit[half]
    return np.concatenate([fit[:half] @ windows[0], middle, fit[half + 1 :] @ windows[-1]])
