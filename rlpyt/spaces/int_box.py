"""Space of integers within bounds, for discrete actions or images."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from rlpyt.spaces.base import Space, as_shape, within
from rlpyt.utils.checks import whole_number


class IntBox(Space):
    """Space of integer arrays with scalar bounds for all entries; the upper one is exclusive."""

    low: int
    high: int

    def __init__(
        self,
        low: int,
        high: int,
        shape: int | tuple[int, ...] | None = None,
        dtype: DTypeLike = "int32",
        null_value: ArrayLike | None = None,
    ) -> None:
        """Initialize a space with the values in ``range(low, high)``.

        Args:
            low, high: integer bounds of every entry.
            shape: shape of an element; ``None`` for a scalar, an int for one dimension.
            dtype: dtype of an element.
            null_value: value that fills the result of `null_value`; ``None`` means 0.

        Raises:
            TypeError: a bound is not an integer, or ``dtype`` is not an integer type.
            ValueError: ``low`` is not below ``high``, or ``dtype`` cannot hold the values.
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

    def contains(self, x: object) -> bool:
        """Return True if ``x`` holds integers of the right shape in [low, high)."""
        return within(x, self.low, self.high - 1, self.shape, self.dtype)

    @property
    def bounds(self) -> tuple[int, int]:
        """Bounds ``low, high``; ``high`` is exclusive."""
        return self.low, self.high

    @property
    def n(self) -> int:
        """Number of values of an entry; for an action space, the number of actions."""
        return self.high - self.low

    def _spec(self) -> tuple[Any, ...]:
        return self.low, self.high, self.shape, self.dtype

    def __repr__(self) -> str:
        return f"IntBox({self.low}-{self.high - 1} shape={self.shape} dtype={self.dtype})"
