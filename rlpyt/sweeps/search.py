"""Searching settings: what a sweep file's ``search`` says, and who decides then."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from rlpyt.experiments.options import UnknownName
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.places import Slot
from rlpyt.sweeps.sources import Source
from rlpyt.sweeps.spec import SweepSpec, read_spec
from rlpyt.sweeps.trials import EVALUATION, Metric, Runs
from rlpyt.utils.checks import whole_number

METHODS = ("optuna", "pbt")
SAMPLERS = ("tpe", "random", "cmaes", "gp", "qmc")
PRUNERS = ("none", "median", "halving", "hyperband")


@dataclass(frozen=True)
class Search:
    """How to search; the keys of ``search`` in a sweep file.

    Raises:
        ValueError: a value makes no sense.
    """

    method: str = "optuna"  # optuna, or pbt: population-based training
    metric: str = EVALUATION  # or a column of progress.csv
    direction: str = "maximize"  # or minimize
    seed: int = 0  # of what is proposed
    trials: int = 20  # (optuna) settings to try, each with all seeds
    sampler: str = "tpe"  # (optuna) tpe, random, cmaes, gp or qmc
    pruner: str = "median"  # (optuna) none, median, halving or hyperband
    startup_trials: int = 5  # (optuna) before anything is pruned
    warmup_steps: int = 0  # (optuna) environment steps of a run before it may be pruned
    storage: str = ""  # (optuna) of the study; by default a file of the sweep
    population: int = 8  # (pbt) runs beside each other
    interval_steps: int = 20_000  # (pbt) environment steps between two comparisons
    quantile: float = 0.25  # (pbt) so many of the worst take over from as many of the best
    perturb: float = 1.2  # (pbt) numbers are multiplied by this, or divided
    resample: float = 0.25  # (pbt) probability of a new draw instead

    def __post_init__(self) -> None:
        for name, known in (("method", METHODS), ("sampler", SAMPLERS), ("pruner", PRUNERS)):
            if getattr(self, name) not in known:
                raise UnknownName(f"search {name}", str(getattr(self, name)), known)
        if self.direction not in ("maximize", "minimize"):
            raise ValueError(f"direction={self.direction!r} must be maximize or minimize.")
        least = {"trials": 1, "startup_trials": 0, "warmup_steps": 0, "seed": 0}
        for name, low in {**least, "population": 2, "interval_steps": 1}.items():
            whole_number(name, getattr(self, name), low)
        if not 0 < self.quantile <= 0.5:
            raise ValueError(f"quantile={self.quantile} must be above 0 and at most 0.5.")
        if self.perturb <= 1:
            raise ValueError(f"perturb={self.perturb} must be above 1.")
        if not 0 <= self.resample <= 1:
            raise ValueError(f"resample={self.resample} must lie between 0 and 1.")

    @property
    def to_find(self) -> Metric:
        """What is looked for."""
        return Metric(self.metric, self.direction == "maximize")


def read_search(spec: SweepSpec) -> Search:
    """What a sweep file says, checked against the rest of it.

    Raises:
        UnknownName: a key that ``search`` does not have.
        ValueError, TypeError: a value makes no sense, or there is nothing to search.
        ImportError: Optuna is missing.
    """
    given = dict(spec.search or {})
    known = {item.name for item in fields(Search)}
    with spec.blaming("search"):
        for key in given:
            if key not in known:
                raise UnknownName("key of search", key, known)
        search = Search(**given)
        if not spec.sample:
            raise ValueError("there is nothing to search; give distributions under sample.")
        if spec.grid:
            raise ValueError("a search has no grid; put its keys under sample, as choice.")
        if spec.n_samples != 1:
            raise ValueError("n_samples is for sampling without search; see trials, population.")
        if search.method == "optuna":
            import_optuna()
        else:
            from rlpyt.sweeps.population import check_population

            check_population(spec, search)
    return search


def source_of(sweep: SweepDirectory, share: Slot) -> Source:
    """Who adds runs to a sweep that searches."""
    about = sweep.about
    spec = read_spec(sweep.queue / about.file_name)
    spec = replace(spec, script=about.search.get("script") or spec.script)
    search, runs = read_search(spec), Runs(sweep, spec, share)
    if search.method == "pbt":
        from rlpyt.sweeps.population import Population

        return Population(runs, search)
    from rlpyt.sweeps.study import Study

    return Study(runs, search)


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
