"""Integers between two bounds: the discrete action, or an image."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from rlpyt.spaces.base import Space, as_shape, within
from rlpyt.utils.checks import whole_number


class IntBox(Space):
    """A box of integers with one pair of bounds for all entries; the upper bound is exclusive."""

    low: int
    high: int

    def __init__(
        self,
        low: int,
        high: int,
        shape: int | tuple[int, ...] | None = None,
        dtype: DTypeLike = "int32",
        null_value: Any = None,
    ) -> None:
        """Valid values are those in ``range(low, high)``.

        Args:
            low, high: whole numbers, applied to every entry.
            shape: of an element; None is a scalar, an int one dimension.
            dtype: of an element.
            null_value: what `null_value` is filled with; None means 0.

        Raises:
            TypeError: a bound is not a whole number, or ``dtype`` not an integer type.
            ValueError: there is no integer between the bounds, or ``dtype`` cannot hold them.
        """
        self.low, self.high = whole_number("low", low), whole_number("high", high)
        self.shape = as_shape(shape)
        self.dtype = np.dtype(dtype)
        self._null_value = 0 if null_value is None else null_value
        if self.dtype.kind not in "iu":
            raise TypeError(f"dtype={self.dtype} must be an integer type.")
        if self.low >= self.high:
            raise ValueError(f"low={low} must be below high={high}, which is exclusive.")
        limits = np.iinfo(self.dtype)
        if self.low < limits.min or self.high - 1 > limits.max:
            raise ValueError(f"dtype={self.dtype} cannot hold all of [low={low}, high={high}).")

    def sample(self) -> Any:
        """Return random integers of ``shape``, uniform in [low, high); a numpy scalar if ()."""
        return self.rng.integers(self.low, self.high, size=self.shape, dtype=self.dtype)[()]

    def null_value(self) -> Any:
        """Return an array of ``shape`` (a numpy scalar if ()), filled with the null value."""
        return np.full(self.shape, self._null_value, dtype=self.dtype)[()]

    def contains(self, x: Any) -> bool:
        """Return True if ``x`` holds integers of the right shape in [low, high)."""
        return within(x, self.low, self.high - 1, self.shape, self.dtype)

    @property
    def bounds(self) -> tuple[int, int]:
        """``low, high``, the latter exclusive."""
        return self.low, self.high

    @property
    def n(self) -> int:
        """Number of values of an entry: of actions, for an action space."""
        return self.high - self.low

    def _spec(self) -> tuple[Any, ...]:
        return self.low, self.high, self.shape, self.dtype

    def __repr__(self) -> str:
        return f"IntBox({self.low}-{self.high - 1} shape={self.shape} dtype={self.dtype})"
