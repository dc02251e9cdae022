"""From a sweep to the settings of its runs, all checked before the first one starts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import PurePath
from typing import Any

from rlpyt.experiments.build import (
    ALGORITHMS,
    EnvRecipe,
    build_algo,
    build_sampler,
    env_recipe,
)
from rlpyt.experiments.hardware import affinity
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.settings import default_options, fitted, setting_types, type_of
from rlpyt.sweeps.spec import SweepSpec
from rlpyt.utils.launching.run_limit import TooManyRuns
from rlpyt.utils.launching.variant import (
    Variant,
    VariantLevel,
    _cross_variants,
    cross_levels,
    identity,
    set_nested,
)
from rlpyt.utils.names import UnknownName, dir_names, labels
from rlpyt.utils.seed import stream


@dataclass(frozen=True)
class Setting:
    """One run of a sweep.

    Attributes:
        name: its directory below that of the sweep: ``env_CartPole-v1/epochs_4/run_0``.
        changes: all settings that the sweep makes, nested. With ``train`` as in ``config.json``,
            ``algo_name`` and ``env`` included; with ``script`` they are the variant.
        seed: of the run; with ``script`` its ``RUN_ID``.
        varied: of the changes those that tell settings apart, by their dotted names.
    """

    name: str
    changes: Variant
    seed: int
    varied: Mapping[str, Any] = field(default_factory=dict)


def count(spec: SweepSpec) -> int:
    """How many runs a sweep has, without making their settings."""
    n_cells = math.prod(len(values) for values in spec.grid.values())
    return n_cells * spec.n_samples * len(spec.seeds)


def expand(spec: SweepSpec) -> list[Setting]:
    """The runs of a sweep: all settings with the first seed, then with the next.

    The same file gives the same runs, and a longer one (more values, draws or seeds) those of the
    shorter one among others: what is drawn depends on ``sample_seed``, key and cell of the grid.

    Raises:
        TooManyRuns: more than ``spec.max_runs``.
        UnknownName: with ``train``: a setting, algorithm or preset that does not exist.
        TypeError, ValueError: a value of the wrong kind, or out of its range, or an environment
            that does not exist. Messages begin with file and line.
        ImportError: an environment needs a package that is missing.
    """
    n_runs = count(spec)
    if n_runs > spec.max_runs:
        with spec.blaming("max_runs"):
            raise TooManyRuns(n_runs, spec.max_runs, "set max_runs if you mean it, or sample")
    variants, log_dirs = _sampled(spec, *cross_levels(*_grid_levels(spec)))
    flats = _checked(spec, variants)
    _refuse_repeated(spec, flats, log_dirs)
    return [
        _setting(spec, flat, variant, log_dir, seed)
        for seed in spec.seeds
        for log_dir, flat, variant in zip(log_dirs, flats, variants, strict=True)
    ]


def setting_for(spec: SweepSpec, varied: Mapping[str, Any], log_dir: str, seed: int = 0) -> Setting:
    """A run with values that somebody else has chosen, a search for example.

    Args:
        spec: of the sweep.
        varied: values by dotted keys, beside the ``options`` of all runs.
        log_dir: of the setting, below the sweep's directory.
        seed: of the run.

    Raises:
        UnknownName, TypeError, ValueError, ImportError: as from :func:`expand`.
    """
    [flat] = _checked(spec, [dict(varied)])
    return _setting(spec, flat, varied, log_dir, seed)


def run_options(spec: SweepSpec, setting: Setting) -> RunOptions:
    """What ``rlpyt train`` would run with these settings as flags.

    Raises:
        ValueError: the sweep runs a script, which has its own options.
        UnknownName: a setting, algorithm or preset does not exist.
    """
    if spec.script is not None:
        raise ValueError(f"the sweep runs {spec.script}, whose options only the script knows.")
    algo_name, env = setting.changes["algo_name"], setting.changes["env"]
    options = default_options(algo_name, env, spec.preset)
    return options.updated({**setting.changes, "seed": setting.seed})


def _grid_levels(spec: SweepSpec) -> list[VariantLevel]:
    """A level for each key of the grid; variants are flat here, by dotted keys."""
    label = labels([*spec.grid, *spec.sample])
    return [
        VariantLevel(
            keys=[(key,)],
            values=[[value] for value in values],
            dir_names=dir_names([{label[key]: value} for value in values]),
        )
        for key, values in spec.grid.items()
    ]


def _sampled(
    spec: SweepSpec, cells: list[Variant], cell_dirs: list[str]
) -> tuple[list[Variant], list[str]]:
    """Cross every cell of the grid with draws of its own."""
    if not spec.sample:
        return cells, cell_dirs
    label = labels([*spec.grid, *spec.sample])
    variants, log_dirs = [], []
    for cell, cell_dir in zip(cells, cell_dirs, strict=True):
        drawn = _draws(spec, cell_dir)
        shown = [{label[key]: value for key, value in one.items()} for one in drawn]
        level = VariantLevel(
            keys=[(key,) for key in spec.sample],
            values=[list(one.values()) for one in drawn],
            dir_names=dir_names(shown),
        )
        crossed = _cross_variants([cell], [cell_dir], level)
        variants += crossed[0]
        log_dirs += crossed[1]
    return variants, log_dirs


def _draws(spec: SweepSpec, cell_dir: str) -> list[dict[str, Any]]:
    """``n_samples`` different draws of all sampled settings, each from a stream of its own."""
    streams = {key: stream(spec.sample_seed, f"{cell_dir}:{key}") for key in spec.sample}
    drawn: dict[Any, dict[str, Any]] = {}
    while len(drawn) < spec.n_samples:  # which the spec has found possible
        one = {key: draw.draw(streams[key]) for key, draw in spec.sample.items()}
        drawn.setdefault(identity(one), one)
    return list(drawn.values())


def _setting(
    spec: SweepSpec, flat: Variant, varied: Mapping[str, Any], log_dir: str, seed: int
) -> Setting:
    return Setting(
        name=(PurePath(log_dir) / f"run_{seed}").as_posix(),
        changes=_nested(spec, flat),
        seed=seed,
        varied={key: flat[key] for key in varied},
    )


def _checked(spec: SweepSpec, variants: list[Variant]) -> list[Variant]:
    """All settings of each variant, still flat, found to be such that runs can be made of them."""
    if spec.script is not None:
        return _check_script(spec, [{**spec.options, **variant} for variant in variants])
    fixed = {"algo_name": spec.train, "env": spec.env, **spec.options}
    return _check_train(spec, [{**fixed, **variant} for variant in variants])


def _check_script(spec: SweepSpec, flats: list[Variant]) -> list[Variant]:
    """Keys of a script are its own; see that they do not stand in each other's way."""
    for flat in flats:
        _nested(spec, flat)
    return flats


def _check_train(spec: SweepSpec, flats: list[Variant]) -> list[Variant]:
    """Settings with values of the types that runs want; sampler and algorithm could be built."""
    types, recipes = cache(setting_types), cache(env_recipe)
    defaults = cache(partial(default_options, preset=spec.preset))
    checked = []
    for flat in flats:
        with spec.blaming(_origin(spec, "algo_name")):
            if flat["algo_name"] not in ALGORITHMS:
                raise UnknownName("algorithm", str(flat["algo_name"]), ALGORITHMS)
        known, fitting = types(flat["algo_name"]), {}
        for key, value in flat.items():
            with spec.blaming(_origin(spec, key)):
                fitting[key] = _fitted(key, value, type_of(key, known))
        changes = _nested(spec, fitting)
        with spec.blaming(_origin(spec, "env")):
            options = defaults(flat["algo_name"], flat["env"])
            recipe = recipes(flat["env"])
        _try_to_build(spec, options.updated(changes), recipe, fitting)
        checked.append(fitting)
    return checked


def _try_to_build(spec: SweepSpec, options: RunOptions, recipe: EnvRecipe, flat: Variant) -> None:
    try:
        build_algo(options)
        build_sampler(options, recipe)
        affinity(options)
    except (TypeError, ValueError) as error:
        said = str(error)
        named = [key for key in flat if said.startswith(f"{key.rpartition('.')[2]}=")]
        named += [
            key for key, value in flat.items() if isinstance(value, str) and repr(value) in said
        ]
        with spec.blaming(_origin(spec, named[0]) if named else ""):
            raise


def _refuse_repeated(spec: SweepSpec, flats: list[Variant], log_dirs: list[str]) -> None:
    first: dict[Any, str] = {}
    for flat, log_dir in zip(flats, log_dirs, strict=True):
        same = first.setdefault(identity(flat), log_dir)
        if same != log_dir:
            with spec.blaming("grid"):
                raise ValueError(f"{same} and {log_dir} are the same setting; drop one.")


def _fitted(key: str, value: Any, hint: Any) -> Any:
    try:
        return fitted(value, hint)
    except TypeError as error:
        raise TypeError(f"{key}: {error}") from error


def _nested(spec: SweepSpec, flat: Mapping[str, Any]) -> Variant:
    changes: Variant = {}
    for key, value in flat.items():
        with spec.blaming(_origin(spec, key)):
            set_nested(changes, key.split("."), value)
    return changes


def _origin(spec: SweepSpec, key: str) -> str:
    """The key of the sweep file that a setting comes from."""
    for group in ("grid", "sample"):
        if key in getattr(spec, group):
            return f"{group}.{key}"
    own = {"algo_name": "train", "env": "env"}
    return own.get(key, f"options.{key}")
