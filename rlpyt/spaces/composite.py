"""Space of named tuples, for dictionary observations and actions of several parts."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from rlpyt.spaces.base import Space, draw_seed


class Composite(Space):
    """Space whose elements are named tuples of elements of its sub-spaces, possibly nested.

    >>> from rlpyt.spaces.int_box import IntBox
    >>> from rlpyt.utils.collections import namedarraytuple
    >>> Action = namedarraytuple("Action", ["move", "jump"])
    >>> Composite([IntBox(0, 4), IntBox(0, 2, shape=3)], Action).null_value()
    Action(move=np.int32(0), jump=array([0, 0, 0], dtype=int32))

    Attributes:
        spaces: the sub-spaces, in order.
        names: their names.
        shape, dtype: named tuples of the shapes and dtypes of all sub-spaces.
    """

    def __init__(self, spaces: Iterable[Space], NamedTupleCls: Any) -> None:
        """Initialize from sub-spaces and a named tuple type.

        Args:
            spaces: the sub-spaces, in the order of the fields.
            NamedTupleCls: type (or schema) of the elements, with one field for each sub-space.
                Types of ``namedarraytuple`` can be pickled; a plain named tuple type must be
                defined at the top level of a module.

        Raises:
            TypeError: ``NamedTupleCls`` has no fields.
            ValueError: the numbers of sub-spaces and fields differ.
        """
        self.spaces = tuple(spaces)
        self._NamedTupleCls = NamedTupleCls
        if not hasattr(NamedTupleCls, "_fields"):
            raise TypeError(f"NamedTupleCls={NamedTupleCls!r} must be a named tuple type.")
        if len(NamedTupleCls._fields) != len(self.spaces):
            raise ValueError(
                f"{len(self.spaces)} spaces do not match the fields {NamedTupleCls._fields} "
                "of NamedTupleCls. Pass one space for each field."
            )
        self.names: tuple[str, ...] = tuple(NamedTupleCls._fields)
        self.shape = self._make(space.shape for space in self.spaces)
        self.dtype = self._make(space.dtype for space in self.spaces)

    def sample(self) -> Any:
        """Return a named tuple of samples from all sub-spaces."""
        return self._make(space.sample() for space in self.spaces)

    def null_value(self) -> Any:
        """Return a named tuple of null values of all sub-spaces."""
        return self._make(space.null_value() for space in self.spaces)

    def contains(self, x: Any) -> bool:
        """Return True if ``x`` is a named tuple with these fields, each an element of its space."""
        return getattr(x, "_fields", None) == self.names and all(
            space.contains(part) for space, part in zip(self.spaces, tuple(x), strict=True)
        )

    def seed(self, seed: int | None = None) -> None:
        """Seed all sub-spaces differently; ``None`` draws a seed from numpy's global generator."""
        seeds = np.random.SeedSequence(draw_seed() if seed is None else seed)
        for space, own in zip(self.spaces, seeds.generate_state(len(self.spaces)), strict=True):
            space.seed(int(own))

    def _make(self, parts: Iterable[Any]) -> Any:
        return self._NamedTupleCls(*parts)

    def _spec(self) -> tuple[Any, ...]:
        return self.names, self.spaces

    def __repr__(self) -> str:
        parts = ", ".join(f"{n}={s!r}" for n, s in zip(self.names, self.spaces, strict=True))
        return f"Composite({parts})"
