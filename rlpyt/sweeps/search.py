"""Searches: the key ``search`` of a sweep file, its metric, and the runs that it adds."""

import importlib.util
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rlpyt.experiments import rundir
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.expansion import fitted_setting
from rlpyt.sweeps.launcher import Source
from rlpyt.sweeps.slots import Slot
from rlpyt.sweeps.spec import SweepSpec, read_spec
from rlpyt.utils.checks import check_settings, setting
from rlpyt.utils.extras import needing
from rlpyt.utils.logging.progress_csv import NewRows, read_progress
from rlpyt.utils.names import UnknownName
from rlpyt.vis.scores import read_evaluation

EVALUATION = "evaluation"  # as a metric: the mean return of the evaluation after training
TRIAL = "trial"  # setting that a search adds to its runs: number of the trial
# Packages that Optuna does not install.
REQUIRED_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "cmaes": ("cmaes",),
    "gp": ("torch", "scipy"),
    "qmc": ("scipy",),
}


@dataclass
class Search:
    """Settings of a search: the keys of ``search`` in a sweep file.

    Raises:
        ValueError: a value is out of range.
    """

    method: Literal["optuna"] = "optuna"
    metric: str = EVALUATION  # evaluation: mean return after training; or a column of progress.csv
    direction: Literal["maximize", "minimize"] = "maximize"
    seed: int = setting(0, ge=0, doc="of the proposed values")
    trials: int = setting(20, ge=1, doc="settings to try, each with all seeds")
    sampler: Literal["tpe", "random", "cmaes", "gp", "qmc"] = "tpe"
    pruner: Literal["none", "median", "halving", "hyperband"] = "median"
    startup_trials: int = setting(5, ge=0, doc="complete trials before median ends any")
    warmup_steps: int = setting(0, ge=0, doc="steps of a run before it may be ended")

    def __post_init__(self) -> None:
        check_settings(self)
        self._read: dict[Path, tuple[NewRows, dict[int, float]]] = {}

    @property
    def column(self) -> str:
        """Return the column of progress.csv with the metric."""
        return "ReturnAverage" if self.metric == EVALUATION else self.metric

    def score(self, run_dir: Path) -> float | None:
        """Return the score of a finished run, None if it has none."""
        if self.metric == EVALUATION and (run_dir / rundir.EVALUATION).exists():
            return read_evaluation(run_dir)
        rows = self.rows(run_dir)
        return rows[-1][1] if rows else None

    def rows(self, run_dir: Path) -> list[tuple[int, float]]:
        """Return (environment steps, value) of all rows so far; each row is read only once."""
        new, values = self._read.setdefault(run_dir, (NewRows(run_dir / "progress.csv"), {}))
        rows = new.read()
        if new.from_start:  # the file is new, or was replaced
            values.clear()
        for _, row in rows:
            at, value = row.get("Diagnostics/CumSteps"), row.get(self.column)
            if isinstance(at, float) and isinstance(value, float) and math.isfinite(at + value):
                values[int(at)] = value
        return [*values.items()]

    def forget(self, run_dir: Path) -> None:
        """Drop what ``rows`` keeps of a run."""
        self._read.pop(run_dir, None)


def read_search(spec: SweepSpec) -> Search:
    """Read and check the key ``search`` of a sweep file.

    Raises:
        UnknownName: a key of ``search`` is unknown.
        ValueError, TypeError: a value is invalid, or ``sample`` is missing.
        ImportError: Optuna, or a package of its sampler, is missing.
    """
    given, hints = dict(spec.search or {}), typing.get_type_hints(Search)
    for key, value in given.items():
        with spec.blaming(f"search.{key}"):
            if key not in hints:
                raise UnknownName("key of search", key, hints)
            given[key] = fitted_setting(key, value, hints[key])
            Search(**{key: given[key]})  # checks its range
    search = Search(**given)
    spec.refuse("search", not spec.sample, "nothing to search; give distributions in sample")
    spec.refuse("grid", bool(spec.grid), "a search has no grid; use choice in sample")
    unused = "n_samples is for sweeps without search; see trials"
    spec.refuse("n_samples", spec.n_samples != 1, unused)
    reserved = f"{TRIAL} is reserved for the search"
    spec.refuse(f"sample.{TRIAL}", TRIAL in spec.sample, reserved)
    with spec.blaming("search"):
        import_optuna()
    with spec.blaming("search.sampler"):
        for package in REQUIRED_PACKAGES.get(search.sampler, ()):
            if importlib.util.find_spec(package) is None:
                raise ImportError(
                    f"sampler: {search.sampler} needs the package {package}: pip install {package}."
                )
    return search


def source_of(sweep: SweepDirectory, share: Slot) -> Source:
    """Return the source of a search's runs."""
    from rlpyt.sweeps.optuna_search import OptunaSearch

    spec = spec_of(sweep)
    return OptunaSearch(sweep, spec, share, read_search(spec))


def spec_of(sweep: SweepDirectory) -> SweepSpec:
    """Read a search's sweep file from the queue's copy; its script is at its original path."""
    about = sweep.about
    home = about.search.get("home")
    spec = read_spec(sweep.queue / about.file_name, Path(home) if home else None)
    return replace(spec, script=about.search.get("script") or spec.script)


def import_optuna() -> Any:
    """Return the package ``optuna``.

    Raises:
        ImportError: it is missing; the message says how to install it.
    """
    with needing("A search", "optuna"):
        import optuna
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def progress_of(run_dir: Path) -> Mapping[str, Any]:
    """Return the columns of a run's progress.csv, empty before it exists."""
    try:
        return read_progress(run_dir)
    except FileNotFoundError:
        return {}
