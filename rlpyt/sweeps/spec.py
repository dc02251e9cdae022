"""Sweep files: what many runs of one experiment share, and what differs between them.

docs/sweep_files.md describes the format.
"""

import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rlpyt.experiments.settings import fitted
from rlpyt.sweeps.documents import Lines, blaming, read_document
from rlpyt.sweeps.draws import KINDS, Draw, read_draw
from rlpyt.utils.checks import whole_number
from rlpyt.utils.launching.affinity import get_n_run_slots, prepend_run_slot
from rlpyt.utils.launching.run_limit import MAX_RUNS
from rlpyt.utils.launching.variant import identity
from rlpyt.utils.names import UnknownName, flattened
from rlpyt.utils.seed import check_seed

# Keys of config.json that a sweep file has a place of its own for.
ELSEWHERE = {"algo_name": "train", "env": "env", "seed": "seeds"}


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """A sweep: all runs that a sweep file asks for, as values; nothing is made or started.

    Keys of settings are dotted: ``algo.learning_rate``. With ``train`` they are those of
    ``config.json``; with ``script`` those of the script's own configuration.

    Raises:
        ValueError: something is missing, given twice, or makes no sense together; the message
            begins with the file and the line, where known.
        TypeError: a value is of the wrong kind.
    """

    title: str = "sweep"  # of tables and plots; a file's name unless given
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
    slots: str | None = None  # affinity code: the machine, and what of it a run gets
    cpus_per_run: int | None = None  # instead of slots
    gpus_per_run: int | None = None  # instead of slots
    where: Literal["local", "slurm", "ray"] = "local"  # what the runs are started by
    place: dict[str, Any] = field(default_factory=dict)  # (slurm, ray) at_once, partition, ...
    retries: int = 1  # how often a failed run is tried again
    max_runs: int = MAX_RUNS  # more are refused
    search: dict[str, Any] | None = None  # how to search the sampled settings
    path: Path | None = field(default=None, compare=False)  # the file
    lines: Lines = field(default_factory=dict, compare=False, repr=False)  # its keys' lines

    def __post_init__(self) -> None:
        for name, least in dict(n_samples=1, retries=0, max_runs=1).items():
            with self.blaming(name):
                whole_number(name, getattr(self, name), least)
        for name, least in dict(cpus_per_run=1, gpus_per_run=0).items():
            with self.blaming(name):
                if getattr(self, name) is not None:
                    whole_number(name, getattr(self, name), least)
                    self._refuse(self.slots is not None, "slots says that already; drop one")
        with self.blaming("slots"):
            if self.slots is not None:
                get_n_run_slots(self.slots)
                prepend_run_slot(0, self.slots)
        with self.blaming("place"):
            alone = "place is for where: slurm or ray; runs on this machine take no settings of one"
            self._refuse(bool(self.place) and self.where == "local", alone)
        with self.blaming("place.at_once"):
            whole_number("at_once", self.place.get("at_once", 1), 1)
        with self.blaming("sample_seed"):
            check_seed(self.sample_seed)
        self._check_seeds()
        self._check_what_runs()
        self._check_settings()
        self._check_values()

    @contextmanager
    def blaming(self, key: str) -> Iterator[None]:
        """Put file and line of a key before the message of an error that is raised inside."""
        with blaming(self.path, self.lines, key):
            yield

    def _check_seeds(self) -> None:
        with self.blaming("seeds"):
            if not isinstance(self.seeds, Sequence) or isinstance(self.seeds, str):
                raise TypeError(f"seeds={self.seeds!r} must be a tuple or range of seeds.")
            self._refuse(not self.seeds, "give a count of at least 1, or a list of seeds")
            if not isinstance(self.seeds, range):
                repeated = len(set(map(check_seed, self.seeds))) < len(self.seeds)
                self._refuse(repeated, f"a seed repeats in {list(self.seeds)}")

    def _check_what_runs(self) -> None:
        varied = {**self.grid, **self.sample}
        trains = self.train is not None or "algo_name" in varied
        with self.blaming("script"):
            self._refuse(trains and self.script is not None, "give train or script, not both")
        with self.blaming(""):
            missing = "give train: ALGORITHM, as in `rlpyt train`, or script: FILE.py"
            self._refuse(not trains and self.script is None, missing)
        for key in ("env", "preset"):
            with self.blaming(key):
                alone = f"{key} is for train; a script has settings of its own under options"
                self._refuse(self.script is not None and getattr(self, key) is not None, alone)
        with self.blaming(""):
            envless = trains and self.env is None and "env" not in varied
            self._refuse(envless, "give env: ENVIRONMENT, or several under grid")
        with self.blaming("args"):
            self._refuse(bool(self.args) and trains, "args are for script; see options")
            if isinstance(self.args, str) or not all(isinstance(arg, str) for arg in self.args):
                raise TypeError(f"args must be a list of texts, got {self.args!r}.")

    def _check_settings(self) -> None:
        for key in self.options if self.script is None else ():
            with self.blaming(f"options.{key}"):
                own = ELSEWHERE.get(key)
                self._refuse(own is not None, f"{key} does not go here; give {own} beside options")
        for kind, group in dict(grid=self.grid, sample=self.sample).items():
            for key in group:
                with self.blaming(f"{kind}.{key}"):
                    seeded = self.script is None and key == "seed"
                    self._refuse(seeded, "give seeds beside the grid: a count, or a list")
                    self._refuse(kind == "sample" and key in self.grid, f"{key} is in grid too")

    def _check_values(self) -> None:
        for key, values in self.grid.items():
            with self.blaming(f"grid.{key}"):
                if isinstance(values, str) or not isinstance(values, Sequence):
                    raise TypeError(f"{key} must be a list of values, got {values!r}.")
                self._refuse(not values, f"{key} has no values; leave it out")
                repeated = len(set(map(identity, values))) < len(values)
                self._refuse(repeated, f"{key} repeats a value: {list(values)}")
        with self.blaming("n_samples"):
            n = math.prod(draw.n_values for draw in self.sample.values())
            few = f"n_samples={self.n_samples}, and there {'is' if n == 1 else 'are'} only {n:g}"
            hint = "different draws; use grid to try all" if self.sample else "without sample"
            self._refuse(self.n_samples > n, f"{few} {hint}")

    @staticmethod
    def _refuse(wrong: bool, why: str) -> None:
        if wrong:
            raise ValueError(f"{why}.")


def read_spec(path: Path | str, home: Path | None = None) -> SweepSpec:
    """Read a sweep file: ``.yaml``, ``.yml``, ``.json`` or ``.toml``.

    Args:
        path: of the file.
        home: of its script; by default the file's directory.

    Raises:
        ValueError: the file is not what it should be, or asks for what cannot be; the message
            begins with the file and the line.
        TypeError: a value is of the wrong kind; so does this one.
        UnknownName: a key that sweep files do not have.
        OSError: it cannot be read.
    """
    path = Path(path)
    content, lines = read_document(path)
    if not isinstance(content, Mapping) or not content:
        raise ValueError(f"{path}: a sweep file has keys: train, env, grid and others.")
    hints = typing.get_type_hints(SweepSpec)
    known = set(hints) - {"path", "lines"}
    values: dict[str, Any] = {"title": path.stem}
    for key, value in content.items():
        with blaming(path, lines, key):
            if key not in known:
                raise UnknownName("key", key, known)
            values[key] = _READERS[key](value) if key in _READERS else fitted(value, hints[key])
            if key == "script":
                values[key] = _beside(home or path.parent, value)
    for key, item in values.get("sample", {}).items():
        with blaming(path, lines, f"sample.{key}"):
            values["sample"][key] = read_draw(item)
    return SweepSpec(**values, path=path, lines=lines)


def _beside(home: Path, script: str) -> str:
    """A script's path: beside the sweep file, or else as given."""
    found = [place for place in (home / script, Path(script)) if place.is_file()]
    if not found:
        raise ValueError(f"there is no {script!r} beside the file.")
    return str(found[0])


def _read_seeds(value: Any) -> Sequence[int]:
    if isinstance(value, list):
        return tuple(map(check_seed, value))
    return range(whole_number("seeds", value, 1))


def _read_grid(value: Any) -> dict[str, Any]:
    return _filled(flattened(value))


def _read_sample(value: Any) -> dict[str, Any]:
    return _filled(flattened(value, _is_draw))


def _is_draw(inner: Mapping[str, Any]) -> bool:
    """Whether it is a distribution, a misspelt one perhaps, and no further names of settings."""
    misspelt = not any(isinstance(value, Mapping) for value in inner.values())
    return misspelt or set(inner) <= set(KINDS)


def _filled(settings: dict[str, Any]) -> dict[str, Any]:
    if not settings:
        raise ValueError("it is empty; leave it out.")
    return settings


def _read_args(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or any(isinstance(item, dict | list) for item in value):
        raise TypeError(f"args must be a list of texts and numbers, got {value!r}.")
    return tuple(map(str, value))


_READERS: dict[str, Callable[[Any], Any]] = {
    "options": flattened,
    "grid": _read_grid,
    "sample": _read_sample,
    "seeds": _read_seeds,
    "args": _read_args,
}
