"""What a space is: the interface between environment and agent, for observations and actions."""

from typing import Any

import numpy as np


class Space:
    """Describes observations or actions: their structure, shape, dtype and bounds.

    Subclasses implement the methods below and draw from `rng`, a generator of their own. A space
    that was never seeded takes its seed from numpy's global generator when it is first needed, so
    `set_seed` decides then.

    Attributes:
        shape: of an element; a namedtuple of shapes for a composite space.
        dtype: of an element; a namedtuple of dtypes likewise.
        low, high: inclusive bounds of each component, of spaces of numbers.
    """

    shape: Any
    dtype: Any
    low: Any
    high: Any

    _rng: np.random.Generator | None = None

    def sample(self) -> Any:
        """Return a random element, uniform within the bounds."""
        raise NotImplementedError

    def null_value(self) -> Any:
        """Return the element that fills in where there is none, as the action before the first."""
        raise NotImplementedError

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is an element: structure, shape, kind of dtype and bounds are right."""
        raise NotImplementedError

    def seed(self, seed: int | None = None) -> None:
        """Start the sequence of samples which belongs to ``seed``; None draws one from numpy."""
        self._rng = np.random.default_rng(draw_seed() if seed is None else seed)

    @property
    def rng(self) -> np.random.Generator:
        """The generator of this space's samples."""
        if self._rng is None:
            self.seed()
        assert self._rng is not None
        return self._rng

    def _spec(self) -> tuple[Any, ...]:
        """What makes two spaces of one class the same, for ``==``."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._spec() == other._spec()  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]  # gymnasium's spaces, which some wrap, have none


def draw_seed() -> int:
    """Draw a seed in [0, 2**31) from numpy's global generator."""
    return int(np.random.randint(2**31))


def as_shape(shape: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Return a shape as tuple; an int means one dimension, None means a scalar.

    Raises:
        ValueError: a dimension is negative.
    """
    dims = () if shape is None else np.atleast_1d(np.asarray(shape, dtype=np.int64)).tolist()
    if any(dim < 0 for dim in dims):
        raise ValueError(f"shape={shape} must have no negative dimension.")
    return tuple(dims)


def within(x: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether ``x`` has this shape, a dtype of this kind, and lies in [low, high]; NaN does not."""
    x = np.asarray(x)
    if x.shape != shape or not np.can_cast(x.dtype, dtype, "same_kind"):
        return False
    return bool(((low <= x) & (x <= high)).all())
