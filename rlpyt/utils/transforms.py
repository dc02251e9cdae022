"""Pure functions of numbers for scripts and notebooks: summaries, curves, ranks.

`rlpyt.vis.curves` plots the results of runs.
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
    """Summary of numbers; its string has one line per statistic.

    ``mean`` to ``max`` are floats, or arrays if the numbers have further dimensions.
    """

    count: int
    mean: Any
    std: Any
    min: Any
    max: Any
    repr_indent: int = 0  # spaces before each line
    repr_prefix: str | None = None  # first line

    def __str__(self) -> str:
        lines = [] if self.repr_prefix is None else [self.repr_prefix]
        lines += [f"{name}: {getattr(self, name)}" for name in _SUMMARY]
        return "\n".join(" " * self.repr_indent + line for line in lines)


_SUMMARY = ("count", "mean", "std", "min", "max")


def describe(
    x: ArrayLike, axis: int = -1, repr_indent: int = 0, repr_prefix: str | None = None
) -> Describe:
    """Return count, mean, population standard deviation, minimum and maximum along an axis.

    Args:
        x: numbers of any shape.
        axis: axis to summarize.
        repr_indent, repr_prefix: format of `Describe`'s string.

    Raises:
        ValueError: `x` is empty.
    """
    array = np.asarray(x)
    if array.size == 0:
        raise ValueError(f"x must not be empty, got shape {array.shape}.")
    array = np.atleast_1d(array)
    results = (np.mean(array, axis), np.std(array, axis), array.min(axis), array.max(axis))
    mean, std, low, high = (r.item() if np.ndim(r) == 0 else r for r in results)
    return Describe(array.shape[axis], mean, std, low, high, repr_indent, repr_prefix)


def interp_curves(
    x: Sequence[ArrayLike], y: Sequence[ArrayLike], num_point: int = 100
) -> tuple[list[Array], list[Array]]:
    """Interpolate curves linearly at common x values.

    Outside its range a curve keeps its first or last value.

    Args:
        x: x values of each curve, ascending.
        y: y values of each curve.
        num_point: number of common x values, evenly spaced from the smallest to the largest.

    Returns:
        x values and y values, each a list with one array [num_point] per curve; all curves have
        the same x values.

    Raises:
        ValueError: no curve is given; a curve is empty, its x does not ascend, or the lengths of
            its x and y differ.
    """
    xs, ys = ([np.asarray(curve, np.float64) for curve in curves] for curves in (x, y))
    if not xs or len(xs) != len(ys):
        raise ValueError(
            f"x and y must contain the same number of curves, at least one, got {len(xs)} and "
            f"{len(ys)}."
        )
    for i, (one, values) in enumerate(zip(xs, ys)):
        if one.ndim != 1 or one.shape != values.shape or not len(one) or (np.diff(one) < 0).any():
            raise ValueError(
                f"curve {i}: x and y must have equal lengths, at least 1, and x must ascend, got "
                f"shapes {one.shape} and {values.shape}."
            )
    low, high = min(one[0] for one in xs), max(one[-1] for one in xs)
    grid = np.linspace(low, high, whole_number("num_point", num_point, 1))
    return [grid for _ in xs], [np.interp(grid, *curve) for curve in zip(xs, ys)]


def explained_variance(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Return the fraction of explained variance of ``y_true``: 1 - Var(y - y_pred) / Var(y).

    1 is perfect, 0 is no better than a constant, negative values are worse. For several outputs,
    return the mean over outputs. If ``y_true`` is constant, return 1 if the error is also constant,
    else 0, like scikit-learn. Values that are not finite give NaN.

    Args:
        y_true, y_pred: [n] or [n, outputs]; dimensions of size 1 are ignored.

    Raises:
        ValueError: the shapes differ, have more than two dimensions, or are empty.
    """
    both = (np.squeeze(np.asarray(y, np.float64)) for y in (y_true, y_pred))
    true, predicted = (np.atleast_1d(y) for y in both)
    if true.shape != predicted.shape or true.ndim > 2 or true.size == 0:
        raise ValueError(
            "y_true and y_pred must have the same shape, [n] or [n, outputs], got "
            f"{np.shape(y_true)} and {np.shape(y_pred)}."
        )
    if not np.isfinite([true, predicted]).all():
        return float("nan")
    left = np.atleast_1d(np.var(true - predicted, axis=0))
    all_ = np.atleast_1d(np.var(true, axis=0))
    varies = all_ > 0
    share = np.divide(left, all_, out=(left > 0).astype(np.float64), where=varies)
    return float(np.mean(1 - share))


def rank_transform(x: ArrayLike, centered: bool = True, share_ties: bool = False) -> Array:
    """Replace numbers by their ranks, which limits the influence of outliers.

    Args:
        x: [n].
        centered: map ranks 0 to n - 1 to [-0.5, 0.5] (Salimans et al. 2017); a single
            number becomes 0.
        share_ties: give equal numbers the mean of their ranks; otherwise they get different ranks
            in their order in `x`.

    Returns:
        [n] ranks, starting at 0 for the smallest: int64, or float64 if centered or shared.

    Raises:
        ValueError: x is not one-dimensional, or contains NaN.
    """
    array = np.asarray(x)
    if array.ndim != 1 or np.isnan(array).any():
        raise ValueError(f"x must be one-dimensional and without NaN, got shape {array.shape}.")
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
    """Smooth a curve by local polynomials (Savitzky & Golay 1964).

    Each point is replaced by the value of the polynomial fitted to the window around it; points
    near the ends use the first or last complete window. ``scipy.signal.savgol_filter`` gives the
    same result and has more options (derivatives, other modes at the ends).

    Args:
        x: [n].
        window_length: length of the window, odd, at most n.
        polyorder: degree of the polynomial, below ``window_length``.

    Returns:
        [n] float64.

    Raises:
        ValueError: x is not one-dimensional, or window_length or polyorder is out of range.
    """
    values = np.asarray(x, np.float64)
    window = whole_number("window_length", window_length, 1)
    degree = whole_number("polyorder", polyorder, 0)
    if values.ndim != 1 or window % 2 == 0 or window > len(values) or degree >= window:
        raise ValueError(
            "x must have shape [n], window_length must be odd and at most n, and polyorder must be "
            f"below it, got x of shape {values.shape}, {window_length=} and {polyorder=}."
        )
    half = window // 2
    # Legendre polynomials on [-1, 1]: powers are ill-conditioned at degrees like 10.
    positions = np.arange(-half, half + 1) / max(half, 1)
    basis = np.linalg.qr(np.polynomial.legendre.legvander(positions, degree))[0]
    fit = basis @ basis.T  # [window, window], from values in a window to the polynomial's
    windows = np.lib.stride_tricks.sliding_window_view(values, window)
    middle = windows @ fit[half]
    return np.concatenate([fit[:half] @ windows[0], middle, fit[half + 1 :] @ windows[-1]])
