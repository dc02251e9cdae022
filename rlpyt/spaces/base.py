"""Interface of observation and action spaces."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Element of a space: an array, a number, or a named tuple of elements.
Element = NDArray[Any] | np.generic | tuple[Any, ...]


class Space:
    """Description of observations or actions: structure, shape, dtype and bounds.

    Subclasses implement the methods below and draw from `rng`, the space's own generator. A space
    without seed draws one from numpy's global generator at first use, which `set_seed` controls.

    Attributes:
        shape: shape of an element; a namedtuple of shapes for a composite space.
        dtype: dtype of an element; a namedtuple of dtypes for a composite space.
        low, high: inclusive bounds of each component, for numeric spaces.
    """

    shape: Any
    dtype: Any
    low: Any
    high: Any

    _rng: np.random.Generator | None = None
    _null_value: ArrayLike = 0  # of each entry

    def sample(self) -> Any:
        """Return a random element, uniform within the bounds."""
        raise NotImplementedError

    def null_value(self) -> Any:
        """Return the placeholder element, used for example as the action before the first one.

        By default an array of ``shape`` (a numpy scalar if ()), filled with one value.
        """
        return np.full(self.shape, self._null_value, dtype=self.dtype)[()]

    def contains(self, x: object) -> bool:
        """Return True if ``x`` is an element: structure, shape, kind of dtype and bounds."""
        raise NotImplementedError

    def seed(self, seed: int | None = None) -> None:
        """Seed the random generator; ``None`` draws a seed from numpy's global generator."""
        self._rng = np.random.default_rng(draw_seed() if seed is None else seed)

    @property
    def rng(self) -> np.random.Generator:
        """Random generator of this space's samples."""
        if self._rng is None:
            self.seed()
        assert self._rng is not None
        return self._rng

    def _spec(self) -> tuple[Any, ...]:
        """Return the values compared by ``==`` between spaces of one class."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._spec() == other._spec()  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]  # wrapped gymnasium spaces are not hashable


def draw_seed() -> int:
    """Draw a seed in [0, 2**31) from numpy's global generator."""
    return int(np.random.randint(2**31))


def as_shape(shape: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Return a shape as a tuple; an int means one dimension, ``None`` a scalar.

    Raises:
        ValueError: a dimension is negative.
    """
    dims = () if shape is None else np.atleast_1d(np.asarray(shape, dtype=np.int64)).tolist()
    if any(dim < 0 for dim in dims):
        raise ValueError(f"shape={shape} must not have negative dimensions.")
    return tuple(dims)


def within(
    x: object,
    low: NDArray[Any] | float,
    high: NDArray[Any] | float,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> bool:
    """Return True if ``x`` has this shape and kind of dtype and is in [low, high]; NaN is not."""
    x = np.asarray(x)
    if x.shape != shape or not np.can_cast(x.dtype, dtype, "same_kind"):
        return False
    return bool(((low <= x) & (x <= high)).all())
