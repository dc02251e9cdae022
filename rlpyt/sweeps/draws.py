"""What a sweep file's ``sample`` draws settings from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpyt.utils.launching.variant import identity
from rlpyt.utils.names import UnknownName

KINDS = ("uniform", "log_uniform", "integer", "choice")


@dataclass(frozen=True)
class Draw:
    """A distribution of one setting.

    Attributes:
        kind: "uniform" and "log_uniform" (uniform in the exponent): numbers in [low, high);
            "integer": whole numbers from low to high, both included; "choice": one of the values.
        values: (low, high), or what to choose from.

    Raises:
        ValueError: there is no such kind, or low is not below high; of "log_uniform" low must be
            positive; what to choose from is empty or repeats itself.
        TypeError: a bound is not a number, or, of "integer", not a whole one.
    """

    kind: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName("distribution", self.kind, KINDS)
        if self.kind == "choice":
            if not self.values or len(set(map(identity, self.values))) < len(self.values):
                raise ValueError(f"choice: {list(self.values)} must be different values.")
            return
        whole = self.kind == "integer"
        wanted = f"{self.kind}: expected [low, high], two {'whole ' if whole else ''}numbers"
        if len(self.values) != 2 or not all(_is_number(value, whole) for value in self.values):
            raise TypeError(f"{wanted}, got {list(self.values)}.")
        low, high = self.values
        if not low < high:
            raise ValueError(f"{wanted}, low below high, got {[low, high]}.")
        if self.kind == "log_uniform" and low <= 0:
            raise ValueError(f"{wanted}, both above 0, got {[low, high]}.")

    @property
    def n_values(self) -> float:
        """How many different values there are; infinite for real numbers."""
        if self.kind == "choice":
            return len(self.values)
        low, high = self.values
        return high - low + 1 if self.kind == "integer" else math.inf

    def draw(self, rng: np.random.Generator) -> Any:
        """One value."""
        if self.kind == "choice":
            return self.values[rng.integers(len(self.values))]
        low, high = self.values
        if self.kind == "integer":
            return int(rng.integers(low, high, endpoint=True))
        if self.kind == "uniform":
            return float(rng.uniform(low, high))
        return float(np.clip(np.exp(rng.uniform(np.log(low), np.log(high))), low, high))


def read_draw(item: Any) -> Draw:
    """A distribution as written in a file: ``{"uniform": [0.9, 0.999]}``.

    Raises:
        TypeError, ValueError: it is none; see :class:`Draw`.
    """
    if not isinstance(item, Mapping) or len(item) != 1:
        raise TypeError(f"expected one of {', '.join(KINDS)} with a list, got {item!r}.")
    [(kind, values)] = item.items()
    if kind not in KINDS:
        raise UnknownName("distribution", kind, KINDS)
    if not isinstance(values, list | tuple):
        raise TypeError(f"{kind}: expected a list, got {values!r}.")
    return Draw(kind, tuple(values))


def _is_number(value: Any, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return isinstance(value, int) or not whole
