"""Lists of configurations: grids, random samples, and values that depend on others.

config = Config({"lr": Sample(lambda rng: 10 ** rng.uniform(-4, -2)), "env": Grid(["a", "b"])})
for one in config.make_configs():
    print(one["ID"], one["env"], one["lr"])
"""

import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpyt.utils.checks import whole_number
from rlpyt.utils.collections import own_containers
from rlpyt.utils.launching.run_limit import MAX_RUNS
from rlpyt.utils.launching.variant import identity
from rlpyt.utils.seed import check_seed, set_seed, stream, undisturbed

ID = "ID"


@dataclass(frozen=True)
class Grid:
    """Values to try, in all combinations with the values of other grids."""

    values: Sequence[Any]


@dataclass(frozen=True)
class Sample:
    """Value drawn for each configuration.

    Attributes:
        f: returns the value; called without arguments, or with a ``numpy.random.Generator`` if it
            takes one: ``Sample(lambda rng: rng.uniform(0.9, 1.0))``.
    """

    f: Callable[..., Any]


@dataclass(frozen=True)
class Condition:
    """Value computed from the others.

    Attributes:
        f: returns the value; called with the configuration so far: all previous items, and all
            that are not conditions.
    """

    f: Callable[[dict[str, Any]], Any]


class Config:
    """Set of configurations.

    Args:
        items: by name, such as "network.lr": a value, :class:`Grid`, :class:`Sample` or
            :class:`Condition`.
        num_sample: number of times that the complete grid is repeated, each with new samples.
        keep_dict_order: order keys as in ``items``, not alphabetically. "ID" is always first.
        seed: seed of the samples, which then have their own random stream. Functions that draw
            from ``random``, numpy or torch find these seeded too, and their states are restored
            afterwards. ``None``: unseeded.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a grid is empty or repeats a value, or an item is named "ID".
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
            raise ValueError("'ID' is set by make_configs. Rename the item.")
        self.items = dict(items)
        self.num_sample = whole_number("num_sample", num_sample, 1)
        self.keep_dict_order = keep_dict_order
        self.seed = None if seed is None else check_seed(seed)
        for key, item in self.items.items():
            self._check(key, item)

    @property
    def n_configs(self) -> int:
        """Number of configurations."""
        return self.num_sample * math.prod(len(grid.values) for grid in self._of(Grid).values())

    def make_configs(self) -> list[dict[str, Any]]:
        """Return all configurations, with their number as "ID"; the last grid varies fastest."""
        if self.n_configs > MAX_RUNS:
            warnings.warn(f"Making {self.n_configs:,} configurations.", stacklevel=2)
        grids = {key: grid.values for key, grid in self._of(Grid).items()}
        cells = [dict(zip(grids, chosen)) for chosen in itertools.product(*grids.values())]
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
            config = own_containers({**self.items, **cell})
            config |= {
                key: sample.f(rng) if _needs_argument(sample.f) else sample.f()
                for key, sample in samples.items()
            }
            for key in conditions:
                del config[key]  # until it is computed
            for key, condition in conditions.items():
                config[key] = condition.f(dict(config))
            order = self.items if self.keep_dict_order else sorted(self.items)
            configs.append({ID: len(configs), **{key: config[key] for key in order}})
        return configs

    def _of(self, kind: type) -> dict[str, Any]:
        return {key: item for key, item in self.items.items() if isinstance(item, kind)}

    def _check(self, key: Any, item: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"The name of an item must be a string, got {key!r}.")
        if isinstance(item, Grid):
            if isinstance(item.values, str) or not isinstance(item.values, Sequence | np.ndarray):
                raise TypeError(f"{key}: Grid takes a list of values, got {item.values!r}.")
            if not len(item.values):
                raise ValueError(f"{key}: Grid has no values. Give at least one, or remove {key}.")
            values = list(map(identity, item.values))
            if len(set(values)) < len(values):
                raise ValueError(f"{key}: Grid values must be distinct, got {list(item.values)!r}.")
        if isinstance(item, Sample | Condition) and not callable(item.f):
            raise TypeError(f"{key}: {type(item).__name__} takes a function, got {item.f!r}.")


def _needs_argument(f: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(f).parameters.values()
    except ValueError:  # a C function without a signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.kind in positional and p.default is p.empty for p in parameters)
