"""Sweep files: the common and the varied settings of the runs of an experiment.

docs/sweep_files.md describes the format.
"""

import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.settings import fitted
from rlpyt.samplers.fault_policy import as_policy
from rlpyt.sweeps.documents import Lines, blaming, read_document
from rlpyt.sweeps.slots import read_code
from rlpyt.utils.checks import whole_number
from rlpyt.utils.launching.run_limit import MAX_RUNS
from rlpyt.utils.launching.variant import identity
from rlpyt.utils.names import UnknownName, flattened
from rlpyt.utils.seed import check_seed

MOST_RUNS = 100_000  # that a file may allow
KINDS = ("uniform", "log_uniform", "integer", "choice")
RESOURCES = {"cpus_per_run": 1, "gpus_per_run": 0, "max_parallel": 1}  # least values
# Keys of config.json, and other names, that have their own key in a sweep file.
ELSEWHERE = {
    **dict.fromkeys(("algo", "algo_name", "algorithm"), "train"),
    **dict.fromkeys(("env", "env_id", "environment"), "env"),
    "seed": "seeds",
}
SETTINGS = {setting.name for setting in fields(RunOptions)}


@dataclass(frozen=True)
class Draw:
    """A distribution of one setting.

    Attributes:
        kind: "uniform" and "log_uniform" (uniform in the exponent): numbers in [low, high);
            "integer": integers from low to high, both included; "choice": one of the values.
        values: (low, high), or the values of a choice.

    Raises:
        ValueError: the kind is unknown, low is not below high, low of "log_uniform" is not
            positive, or the values of a choice are empty or repeat.
        TypeError: a bound is not a number, or not an integer for "integer".
    """

    kind: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName("distribution", self.kind, KINDS)
        if not isinstance(self.values, list | tuple):
            raise TypeError(f"{self.kind}: expected a list, got {self.values!r}.")
        if self.kind == "choice":
            if not self.values or len(set(map(identity, self.values))) < len(self.values):
                raise ValueError(f"choice: {list(self.values)} must be different values.")
            return
        whole = self.kind == "integer"
        wanted = f"{self.kind}: expected [low, high], two {'integers' if whole else 'numbers'}"
        if len(self.values) != 2 or not all(_is_number(value, whole) for value in self.values):
            raise TypeError(f"{wanted}, got {list(self.values)}.")
        low, high = self.values
        if not low < high:
            raise ValueError(f"{wanted}, low below high, got {[low, high]}.")
        if whole and not (low >= -(2**63) and high < 2**63):
            raise ValueError(f"{wanted} of 64 bits, got {[low, high]}.")
        if self.kind == "log_uniform" and low <= 0:
            raise ValueError(f"{wanted}, both above 0, got {[low, high]}.")

    @property
    def n_values(self) -> float:
        """Return the number of different values; infinite for real numbers."""
        if self.kind == "choice":
            return len(self.values)
        low, high = self.values
        return high - low + 1 if self.kind == "integer" else math.inf

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw a value."""
        if self.kind == "choice":
            return self.values[rng.integers(len(self.values))]
        low, high = self.values
        if self.kind == "integer":
            return int(rng.integers(low, high, endpoint=True))
        if self.kind == "uniform":
            return float(rng.uniform(low, high))
        return float(np.clip(np.exp(rng.uniform(np.log(low), np.log(high))), low, high))


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """The content of a sweep file.

    Keys of settings are dotted: ``algo.learning_rate``. With ``train`` they are those of
    ``config.json``; with ``script`` those of the script's configuration.

    Raises:
        ValueError: a key is missing, given twice, or conflicts with another one; the message
            starts with file and line, where known.
        TypeError: a value has the wrong type.
    """

    title: str = "sweep"  # heading of tables and plots; by default the file's name
    train: str | None = None  # algorithm of all runs, as in `rlpyt train ppo ENV`
    script: str | None = None  # instead of train: python SCRIPT SLOT_AFFINITY_CODE LOG_DIR RUN_ID
    args: tuple[str, ...] = ()  # (script) further arguments, after RUN_ID
    env: str | None = None  # (train) environment of all runs
    preset: str | None = None  # (train) family of environments whose settings to take
    options: Mapping[str, Any] = field(default_factory=dict)  # settings of all runs
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # values to cross
    sample: Mapping[str, Draw] = field(default_factory=dict)  # drawn for each cell of the grid
    n_samples: int = 1  # draws for each cell
    sample_seed: int = 0  # of the draws
    seeds: Sequence[int] = range(1)  # of the runs of each setting
    resources: dict[str, int] | None = None  # cpus_per_run, gpus_per_run, max_parallel
    slots: str | None = None  # instead, affinity code: the machine, and a run's share of it
    where: Literal["local", "slurm", "ray"] = "local"  # executor of the runs
    together: int = 1  # (train) runs that train in one process, with their agents as an axis
    place: dict[str, Any] = field(default_factory=dict)  # (slurm, ray) partition, ...
    retries: int = 1  # retries of a failed run
    max_runs: int = MAX_RUNS  # more are refused
    search: dict[str, Any] | None = None  # how to search the sampled settings
    path: Path | None = field(default=None, compare=False)  # the file
    lines: Lines = field(default_factory=dict, compare=False, repr=False)  # its keys' lines

    def __post_init__(self) -> None:
        for name, least in dict(n_samples=1, retries=0, max_runs=1, together=1).items():
            with self.blaming(name):
                whole_number(name, getattr(self, name), least)
        self._check_resources()
        with self.blaming("slots"):
            if self.slots is not None:
                read_code(self.slots)
        alone = "place is for where: slurm or ray, not for runs on this machine"
        self.refuse("place", bool(self.place) and self.where == "local", alone)
        if self.together > 1:
            elsewhere = self.where != "local" or self.script is not None
            self.refuse("together", elsewhere, "only runs of train on this machine train together")
        with self.blaming("sample_seed"):
            check_seed(self.sample_seed)
        self._check_seeds()
        self._check_what_runs()
        self._check_settings()
        self._check_values()

    @contextmanager
    def blaming(self, key: str) -> Iterator[None]:
        """Prefix errors raised inside with file and line of a key."""
        with blaming(self.path, self.lines, key):
            yield

    def refuse(self, key: str, wrong: bool, why: str, kind: type[Exception] = ValueError) -> None:
        """Raise an error with the key's line if its value is wrong."""
        if wrong:
            with self.blaming(key):
                raise kind(f"{why}.")

    def _check_resources(self) -> None:
        for name, value in (self.resources or {}).items():
            with self.blaming(f"resources.{name}"):
                if name not in RESOURCES:
                    raise UnknownName("key of resources", name, RESOURCES)
                whole_number(name, value, RESOURCES[name])
        twice = self.slots is not None and self.resources is not None
        self.refuse("slots", twice, "resources replaces it; remove one")

    def _check_seeds(self) -> None:
        wrong = not isinstance(self.seeds, Sequence) or isinstance(self.seeds, str)
        expected = f"seeds={self.seeds!r} must be a tuple or range of seeds"
        self.refuse("seeds", wrong, expected, TypeError)
        self.refuse("seeds", not self.seeds, "give a count of at least 1, or a list of seeds")
        if not isinstance(self.seeds, range):
            with self.blaming("seeds"):
                repeated = len(set(map(check_seed, self.seeds))) < len(self.seeds)
            self.refuse("seeds", repeated, f"a seed repeats in {list(self.seeds)}")

    def _check_what_runs(self) -> None:
        varied, scripted = {**self.grid, **self.sample}, self.script is not None
        trains = self.train is not None or "algo_name" in varied
        self.refuse("script", trains and scripted, "give train or script, not both")
        missing = "give train: ALGORITHM, as in `rlpyt train`, or script: FILE.py"
        self.refuse("", not trains and not scripted, missing)
        for key in ("env", "preset"):
            alone = f"{key} is for train; a script has its own settings under options"
            self.refuse(key, scripted and getattr(self, key) is not None, alone)
        envless = trains and self.env is None and "env" not in varied
        self.refuse("", envless, "give env: ENVIRONMENT, or several under grid")
        self.refuse("args", bool(self.args) and trains, "args are for script; see options")
        wrong = isinstance(self.args, str) or not all(isinstance(arg, str) for arg in self.args)
        self.refuse("args", wrong, f"args must be a list of strings, got {self.args!r}", TypeError)

    def _check_settings(self) -> None:
        for key in self.options if self.script is None else ():
            why = f"{key} is not an option; use the key {ELSEWHERE.get(key)}"
            self.refuse(f"options.{key}", key in ELSEWHERE, why)
        for kind, group in dict(grid=self.grid, sample=self.sample).items():
            for key in group:
                seeded = self.script is None and key == "seed"
                self.refuse(f"{kind}.{key}", seeded, "use the key seeds: a count, or a list")
                twice = kind == "sample" and key in self.grid
                self.refuse(f"{kind}.{key}", twice, f"{key} is in grid too")

    def _check_values(self) -> None:
        for key, values in self.grid.items():
            with self.blaming(f"grid.{key}"):
                if isinstance(values, str) or not isinstance(values, Sequence):
                    raise TypeError(f"{key} must be a list of values, got {values!r}.")
            self.refuse(f"grid.{key}", not values, f"{key} has no values; remove it")
            repeated = len(set(map(identity, values))) < len(values)
            self.refuse(f"grid.{key}", repeated, f"{key} repeats a value: {list(values)}")
        n = math.prod(draw.n_values for draw in self.sample.values())
        why = "different draws; use grid to try all" if self.sample else "without sample"
        too_many = f"n_samples must be at most {n:g}, got {self.n_samples} ({why})"
        self.refuse("n_samples", self.n_samples > n, too_many)


def read_spec(path: Path | str, home: Path | None = None) -> SweepSpec:
    """Read a sweep file: ``.yaml``, ``.yml``, ``.json`` or ``.toml``.

    Args:
        home: directory of its script; by default the file's.

    Raises:
        ValueError: the file is not a valid sweep; the message starts with file and line.
        TypeError: a value has the wrong type; likewise.
        UnknownName: a key is unknown.
        OSError: the file cannot be read.
    """
    path = Path(path)
    content, lines = read_document(path)
    if not isinstance(content, Mapping) or not content:
        raise ValueError(f"{path}: expected keys such as train, env and grid.")
    hints = typing.get_type_hints(SweepSpec)
    known = set(hints) - {"path", "lines"}
    values: dict[str, Any] = {"title": path.stem}
    for key, value in content.items():
        with blaming(path, lines, key):
            if key not in known:
                _refuse_key(key, value, known)
            values[key] = _READERS[key](value) if key in _READERS else fitted(value, hints[key])
            if key in ("grid", "sample") and not values[key]:
                raise ValueError("it is empty; remove it.")
            if key == "script":
                values[key] = _beside(home or path.parent, value)
    for key, item in values.get("sample", {}).items():
        with blaming(path, lines, f"sample.{key}"):
            values["sample"][key] = read_draw(item)
    with blaming(path, lines, "max_runs"):
        if values.get("max_runs", 0) > MOST_RUNS:
            raise ValueError(f"max_runs must be at most {MOST_RUNS:,}. Use --yes for more.")
    return SweepSpec(**values, path=path, lines=lines)


def _refuse_key(key: Any, value: Any, known: set[str]) -> NoReturn:
    if key in RESOURCES:
        raise ValueError(f"{key} belongs to resources; use resources: {{{key}: {value}}}.")
    if key in ELSEWHERE and not isinstance(value, Mapping):
        raise ValueError(f"{key} is not a key of sweep files; use {ELSEWHERE[key]}: {value}.")
    if str(key).partition(".")[0] in SETTINGS:
        raise ValueError(f"{key} is a setting; give it under options, or its values under grid.")
    raise UnknownName("key", key, known)


def read_draw(item: Any) -> Draw:
    """Read a distribution from its form in a file: ``{"uniform": [0.9, 0.999]}``.

    Raises:
        TypeError, ValueError: it is invalid; see :class:`Draw`.
    """
    if not isinstance(item, Mapping) or len(item) != 1:
        raise TypeError(f"expected one of {', '.join(KINDS)} with a list, got {item!r}.")
    [(kind, values)] = item.items()
    return Draw(kind, tuple(values) if isinstance(values, list) else values)


def _is_number(value: Any, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return isinstance(value, int) or not whole


def _beside(home: Path, script: str) -> str:
    """Return a script's path: beside the sweep file, or else as given."""
    found = [path for path in (home / script, Path(script)) if path.is_file()]
    if not found:
        raise ValueError(f"{script!r} not found beside the file.")
    return str(found[0])


def _read_seeds(value: Any) -> Sequence[int]:
    if isinstance(value, list):
        return tuple(map(check_seed, value))
    return range(whole_number("seeds", value, 1))


def _is_draw(inner: Mapping[str, Any]) -> bool:
    """Return True for a distribution, also a misspelled one; False for nested settings."""
    misspelled = not any(isinstance(value, Mapping) for value in inner.values())
    return misspelled or set(inner) <= set(KINDS)


def _read_args(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or any(isinstance(item, dict | list) for item in value):
        raise TypeError(f"args must be a list of strings and numbers, got {value!r}.")
    return tuple(map(str, value))


def _read_options(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and isinstance(value.get("on_fault"), str):
        value = value | {"on_fault": dict(as_policy(value["on_fault"]).actions())}
    return flattened(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "options": _read_options,
    "grid": flattened,
    "sample": partial(flattened, is_leaf=_is_draw),
    "seeds": _read_seeds,
    "args": _read_args,
}
