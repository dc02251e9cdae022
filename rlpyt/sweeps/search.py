"""Searching settings: what a sweep file's ``search`` says, and who decides then."""

from __future__ import annotations

import importlib.util
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rlpyt.experiments.settings import fitted
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.places import Slot
from rlpyt.sweeps.sources import Source
from rlpyt.sweeps.spec import SweepSpec, read_spec
from rlpyt.sweeps.trials import EVALUATION, MARKS, Metric, Runs
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.names import UnknownName

METHODS = ("optuna", "pbt")
SAMPLERS = ("tpe", "random", "cmaes", "gp", "qmc")
PRUNERS = ("none", "median", "halving", "hyperband")
# Packages that Optuna does not bring with it.
NEEDS: Mapping[str, tuple[str, ...]] = {
    "cmaes": ("cmaes",),
    "gp": ("torch", "scipy"),
    "qmc": ("scipy",),
}
# Keys that only one method has.
OWN = {
    "optuna": ("trials", "sampler", "pruner", "startup_trials", "warmup_steps", "storage"),
    "pbt": ("population", "interval_steps", "quantile", "perturb", "resample"),
}


@dataclass(frozen=True)
class Search:
    """How to search; the keys of ``search`` in a sweep file.

    Raises:
        ValueError: a value makes no sense.
    """

    method: str = "optuna"  # optuna, or pbt: population-based training
    metric: str = EVALUATION  # evaluation: mean return after training; or a column of progress.csv
    direction: str = "maximize"  # or minimize
    seed: int = 0  # of what is proposed
    trials: int = 20  # (optuna) settings to try, each with all seeds
    sampler: str = "tpe"  # (optuna) tpe, random, cmaes, gp or qmc
    pruner: str = "median"  # (optuna) none, median, halving or hyperband
    startup_trials: int = 5  # (optuna) complete trials before median ends any
    warmup_steps: int = 0  # (optuna) environment steps of a run before it may be ended
    storage: str = ""  # (optuna) URL of the study's database; by default a file of the sweep
    population: int = 8  # (pbt) runs beside each other
    interval_steps: int = 20_000  # (pbt) environment steps between two comparisons
    quantile: float = 0.25  # (pbt) so many of the worst take over from as many of the best
    perturb: float = 1.2  # (pbt) numbers are multiplied by this, or divided
    resample: float = 0.25  # (pbt) probability of a new draw instead

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            check(name, getattr(self, name))

    @property
    def to_find(self) -> Metric:
        """What is looked for."""
        return Metric(self.metric, self.direction == "maximize")


def read_search(spec: SweepSpec) -> Search:
    """What a sweep file says, checked against the rest of it.

    Raises:
        UnknownName: a key that ``search`` does not have.
        ValueError, TypeError: a value makes no sense, or there is nothing to search.
        ImportError: Optuna, or what its sampler needs, is missing.
    """
    given, hints = dict(spec.search or {}), typing.get_type_hints(Search)
    for key, value in given.items():
        with spec.blaming(f"search.{key}"):
            if key not in hints:
                raise UnknownName("key of search", key, hints)
            try:
                given[key] = fitted(value, hints[key])
            except TypeError as error:
                raise TypeError(f"{key}: {error}") from error
            if key in CHECKS:
                CHECKS[key](key, given[key])
    search = Search(**given)
    other = next(iter({*METHODS} - {search.method}))
    for key in given:
        _refuse(spec, f"search.{key}", key in OWN[other] and f"{key} is for method: {other}")
    _refuse(spec, "search", not spec.sample and "nothing to search; give distributions in sample")
    _refuse(spec, "grid", spec.grid and "a search has no grid; give its keys in sample, as choice")
    few = "n_samples is for sweeps without search; see trials and population"
    _refuse(spec, "n_samples", spec.n_samples != 1 and few)
    for key in spec.sample:
        _refuse(spec, f"sample.{key}", key in MARKS and f"{key} is a name of the search's own")
    if search.method == "optuna":
        with spec.blaming("search"):
            import_optuna()
        with spec.blaming("search.sampler"):
            _check_packages(search.sampler)
    else:
        from rlpyt.sweeps.population import check_population

        check_population(spec, search)
    return search


def source_of(sweep: SweepDirectory, share: Slot) -> Source:
    """Who adds runs to a sweep that searches."""
    spec = spec_of(sweep)
    search, runs = read_search(spec), Runs(sweep, spec, share)
    if search.method == "pbt":
        from rlpyt.sweeps.population import Population

        return Population(runs, search)
    from rlpyt.sweeps.study import Study

    return Study(runs, search)


def spec_of(sweep: SweepDirectory) -> SweepSpec:
    """The sweep file of a search, from the queue's copy; its script lies where it was."""
    about = sweep.about
    home = about.search.get("home")
    spec = read_spec(sweep.queue / about.file_name, Path(home) if home else None)
    return replace(spec, script=about.search.get("script") or spec.script)


def import_optuna() -> Any:
    """The package.

    Raises:
        ImportError: it is missing; says how to install it.
    """
    try:
        import optuna
    except ImportError as error:
        raise ImportError("A search needs Optuna: pip install 'rlpyt[optuna]'.") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _check_packages(sampler: str) -> None:
    for package in NEEDS.get(sampler, ()):
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                f"sampler: {sampler} needs the package {package}: pip install {package}."
            )


def _refuse(spec: SweepSpec, key: str, why: Any) -> None:
    """Raise with the key's line, if there is a reason."""
    if why:
        with spec.blaming(key):
            raise ValueError(f"{why}.")


def _one_of(known: tuple[str, ...], name: str, value: Any) -> None:
    if value not in known:
        raise UnknownName(f"search {name}", str(value), known)


def _at_least(low: int, name: str, value: Any) -> None:
    whole_number(name, value, low)


def _url(name: str, value: Any) -> None:
    if value and "://" not in value:
        raise ValueError(f"{name}={value!r} must be a URL, as sqlite:////home/me/studies.db.")


CHECKS: Mapping[str, Callable[[str, Any], None]] = {
    "method": partial(_one_of, METHODS),
    "direction": partial(_one_of, ("maximize", "minimize")),
    "seed": partial(_at_least, 0),
    "trials": partial(_at_least, 1),
    "sampler": partial(_one_of, SAMPLERS),
    "pruner": partial(_one_of, PRUNERS),
    "startup_trials": partial(_at_least, 0),
    "warmup_steps": partial(_at_least, 0),
    "storage": _url,
    "population": partial(_at_least, 2),
    "interval_steps": partial(_at_least, 1),
    "quantile": partial(check_range, low=0, high=0.5, open_low=True),
    "perturb": partial(check_range, low=1, high=10, open_low=True),
    "resample": partial(check_range, low=0, high=1),
}
