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
        self._spaces = tuple(spaces)
        self._NamedTupleCls = NamedTupleCls
        if not hasattr(NamedTupleCls, "_fields"):
            raise TypeError(f"NamedTupleCls={NamedTupleCls!r} must be a named tuple type.")
        if len(NamedTupleCls._fields) != len(self._spaces):
            raise ValueError(
                f"{len(self._spaces)} spaces do not match the fields {NamedTupleCls._fields} "
                "of NamedTupleCls. Pass one space for each field."
            )

    def sample(self) -> Any:
        """Return a named tuple of samples from all sub-spaces."""
        return self._make(space.sample() for space in self._spaces)

    def null_value(self) -> Any:
        """Return a named tuple of null values of all sub-spaces."""
        return self._make(space.null_value() for space in self._spaces)

    def contains(self, x: Any) -> bool:
        """Return True if ``x`` is a named tuple with these fields, each an element of its space."""
        return getattr(x, "_fields", None) == self.names and all(
            space.contains(part) for space, part in zip(self._spaces, tuple(x), strict=True)
        )

    def seed(self, seed: int | None = None) -> None:
        """Seed all sub-spaces differently; ``None`` draws a seed from numpy's global generator."""
        seeds = np.random.SeedSequence(draw_seed() if seed is None else seed)
        for space, own in zip(self._spaces, seeds.generate_state(len(self._spaces)), strict=True):
            space.seed(int(own))

    @property
    def shape(self) -> Any:
        """Named tuple of the shapes of all sub-spaces."""
        return self._make(space.shape for space in self._spaces)  # type: ignore[attr-defined]

    @property
    def dtype(self) -> Any:
        """Named tuple of the dtypes of all sub-spaces."""
        return self._make(space.dtype for space in self._spaces)  # type: ignore[attr-defined]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sub-spaces, in order."""
        return tuple(self._NamedTupleCls._fields)

    @property
    def spaces(self) -> tuple[Space, ...]:
        """The sub-spaces, in order."""
        return self._spaces

    def _make(self, parts: Iterable[Any]) -> Any:
        return self._NamedTupleCls(*parts)

    def _spec(self) -> tuple[Any, ...]:
        return self.names, self._spaces

    def __repr__(self) -> str:
        parts = ", ".join(f"{n}={s!r}" for n, s in zip(self.names, self._spaces, strict=True))
        return f"Composite({parts})"
