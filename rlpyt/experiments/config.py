"""Lists of configurations: grids, random samples, and values that depend on others.

config = Config({"lr": Sample(lambda rng: 10 ** rng.uniform(-4, -2)), "env": Grid(["a", "b"])})
for one in config.make_configs():
    print(one["ID"], one["env"], one["lr"])
"""

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpyt.utils.checks import whole_number
from rlpyt.utils.launching.run_limit import MAX_RUNS
from rlpyt.utils.launching.variant import VariantLevel, cross_levels, identity
from rlpyt.utils.seed import check_seed, set_seed, stream, undisturbed

ID = "ID"


@dataclass(frozen=True)
class Grid:
    """Try each of these values, with each combination of the other grids' values."""

    values: Sequence[Any]


@dataclass(frozen=True)
class Sample:
    """Draw a value for each configuration.

    Attributes:
        f: called without argument, or with the configurations' ``numpy.random.Generator`` if it
            takes one: ``Sample(lambda rng: rng.uniform(0.9, 1.0))``.
    """

    f: Callable[..., Any]


@dataclass(frozen=True)
class Condition:
    """Compute a value from the others.

    Attributes:
        f: called with the configuration so far: all items before it, and all that are no
            conditions; gives the value.
    """

    f: Callable[[dict[str, Any]], Any]


class Config:
    """A set of configurations.

    Args:
        items: by name, such as "network.lr": a value, or how to find one (:class:`Grid`,
            :class:`Sample`, :class:`Condition`).
        num_sample: how often samples are drawn; the grid is gone through that many times.
        keep_dict_order: order keys as in ``items``, not alphabetically. "ID" is always first.
        seed: of the samples. They are drawn from streams of their own then, and functions that
            draw from ``random``, numpy or torch find these seeded too (and leave no trace there).
            None: whatever numpy and the functions draw.

    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: a grid is empty or repeats a value, or an item is called "ID".
    """

    def __init__(
        self,
        items: Mapping[str, Any],
        num_sample: int = 1,
        keep_dict_order: bool = False,
        seed: int | None = None,
    ) -> None:
        if not isinstance(items, Mapping):
            raise TypeError(f"items={items!r} must be a dictionary of names and values.")
        if ID in items:
            raise ValueError("'ID' is given by make_configs; call the item otherwise.")
        self.items = dict(items)
        self.num_sample = whole_number("num_sample", num_sample, 1)
        self.keep_dict_order = keep_dict_order
        self.seed = None if seed is None else check_seed(seed)
        for key, item in self.items.items():
            self._check(key, item)

    @property
    def n_configs(self) -> int:
        """How many configurations there are, without making them."""
        return self.num_sample * math.prod(len(grid.values) for grid in self._of(Grid).values())

    def make_configs(self) -> list[dict[str, Any]]:
        """All configurations, each with its number as "ID"; the last grid changes fastest."""
        if self.n_configs > MAX_RUNS:
            warnings.warn(f"{self.n_configs:,} configurations are made.", stacklevel=2)
        cells = cross_levels(*map(_level, self._of(Grid).items()))[0]
        if self.seed is None:
            return self._completed(cells, np.random.default_rng())
        with undisturbed():
            set_seed(self.seed)
            return self._completed(cells, stream(self.seed, "configurations"))

    def _completed(
        self, cells: Sequence[Mapping[str, Any]], rng: np.random.Generator
    ) -> list[dict[str, Any]]:
        samples, conditions = self._of(Sample), self._of(Condition)
        configs: list[dict[str, Any]] = []
        for cell in [cell for _ in range(self.num_sample) for cell in cells]:
            config = {**self.items, **cell}
            config |= {key: _draw(sample.f, rng) for key, sample in samples.items()}
            for key in conditions:
                del config[key]  # until its turn has come
            for key, condition in conditions.items():
                config[key] = condition.f(dict(config))
            order = self.items if self.keep_dict_order else sorted(self.items)
            configs.append({ID: len(configs), **{key: config[key] for key in order}})
        return configs

    def _of(self, kind: type) -> dict[str, Any]:
        return {key: item for key, item in self.items.items() if isinstance(item, kind)}

    def _check(self, key: Any, item: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"the name of an item must be a text, got {key!r}.")
        if isinstance(item, Grid):
            if isinstance(item.values, str) or not isinstance(item.values, Sequence | np.ndarray):
                raise TypeError(f"{key}: Grid takes a list of values, got {item.values!r}.")
            if not len(item.values):
                raise ValueError(f"{key}: Grid has no values; give some, or leave {key} out.")
            values = list(map(identity, item.values))
            if len(set(values)) < len(values):
                raise ValueError(
                    f"{key}: Grid repeats the values {list(item.values)!r}; drop some."
                )
        if isinstance(item, Sample | Condition) and not callable(item.f):
            raise TypeError(f"{key}: {type(item).__name__} takes a function, got {item.f!r}.")


def _level(named: tuple[str, Grid]) -> VariantLevel:
    name, grid = named
    values = list(grid.values)
    return VariantLevel([(name,)], [[v] for v in values], [str(at) for at in range(len(values))])


def _draw(f: Callable[..., Any], rng: np.random.Generator) -> Any:
    return f(rng) if _wants_argument(f) else f()


def _wants_argument(f: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(f).parameters.values()
    except ValueError:  # of a function written in C that does not say
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.kind in positional and p.default is p.empty for p in parameters)
