"""Space of bounded or unbounded real arrays, for continuous actions and observations."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from rlpyt.spaces.base import Space, as_shape, within


class FloatBox(Space):
    """Space of floating-point arrays with inclusive bounds for each entry."""

    low: NDArray[Any]
    high: NDArray[Any]

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        shape: int | tuple[int, ...] | None = None,
        null_value: ArrayLike = 0.0,
        dtype: DTypeLike = "float32",
    ) -> None:
        """Initialize from scalar bounds and a shape, or from arrays of bounds.

        Args:
            low, high: scalars for all entries, or arrays of the same shape, one for each.
            shape: shape of an element, an int for one dimension; ``None``: that of the bounds.
            null_value: value that fills the result of `null_value`.
            dtype: dtype of elements and bounds.

        Raises:
            TypeError: ``dtype`` is not a floating-point type.
            ValueError: bounds and shape do not match, ``low`` exceeds ``high``, or a bound is NaN.
        """
        self.dtype = np.dtype(dtype)
        if self.dtype.kind != "f":
            raise TypeError(f"dtype={self.dtype} must be a floating-point type.")
        low, high = np.asarray(low, self.dtype), np.asarray(high, self.dtype)
        if shape is None and low.shape != high.shape:
            raise ValueError(
                f"low and high must have the same shape, got {low.shape} and {high.shape}. "
                "Alternatively, pass scalars and shape."
            )
        dims = low.shape if shape is None else as_shape(shape)
        try:
            self.low = np.broadcast_to(low, dims).copy()
            self.high = np.broadcast_to(high, dims).copy()
        except ValueError:
            raise ValueError(
                f"low of shape {low.shape} and high of shape {high.shape} do not match "
                f"shape={shape}."
            ) from None
        if not (self.low <= self.high).all():  # false for NaN as well
            raise ValueError(f"low={low} must not exceed high={high}, and neither may be NaN.")
        self._null_value = null_value

    def sample(self) -> Any:
        """Return random numbers of ``shape``; a numpy scalar if ().

        Uniform if both bounds are finite, at an exponential distance from a single finite bound,
        standard normal without finite bounds.
        """
        rng, low, high = self.rng, self.low.astype(np.float64), self.high.astype(np.float64)
        bounded_below, bounded_above = np.isfinite(low), np.isfinite(high)
        from_, to = np.where(bounded_below, low, 0.0), np.where(bounded_above, high, 0.0)
        u = rng.uniform(size=self.shape)
        step = rng.exponential(size=self.shape)
        kinds = [bounded_below & bounded_above, bounded_below, bounded_above]
        draws = [from_ * (1 - u) + to * u, from_ + step, to - step]  # high - low might overflow
        x = np.select(kinds, draws, rng.normal(size=self.shape))
        return np.clip(x.astype(self.dtype), self.low, self.high)[()]  # rounding may exceed a bound

    def contains(self, x: object) -> bool:
        """Return True if ``x`` has the right shape and all entries are in [low, high]."""
        return within(x, self.low, self.high, self.shape, self.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of an element."""
        return self.low.shape

    @property
    def bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Bounds ``low, high``, arrays of ``shape``."""
        return self.low, self.high

    def _spec(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.low.tobytes(), self.high.tobytes()

    def __repr__(self) -> str:
        return f"FloatBox(shape={self.shape} dtype={self.dtype})"
