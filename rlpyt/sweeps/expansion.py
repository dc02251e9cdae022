"""Expansion of a sweep into the settings and jobs of its runs, checked before the first starts."""

import itertools
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePath
from typing import Any

from rlpyt.experiments.build import EnvRecipe, build_algo, build_sampler, env_recipe
from rlpyt.experiments.hardware import affinity
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.population import check_member
from rlpyt.experiments.registry import algorithm_class
from rlpyt.experiments.settings import default_options, fitted, setting_types, type_of
from rlpyt.sweeps.jobs import Job, script_command
from rlpyt.sweeps.places import CLIENT
from rlpyt.sweeps.slots import Slot
from rlpyt.sweeps.spec import SweepSpec
from rlpyt.utils.launching.run_limit import check_count
from rlpyt.utils.launching.variant import Variant, identity, set_nested
from rlpyt.utils.names import dir_names, flattened, labels
from rlpyt.utils.seed import stream
from rlpyt.vis.grouping import RunRecord

RLPYT = (sys.executable, "-m", "rlpyt")
TRUST = "--trust"  # the sweep wrote the files; the key of another machine may differ


@dataclass(frozen=True)
class Setting:
    """One run of a sweep."""

    name: str  # directory below that of the sweep: env_CartPole-v1/epochs_4/run_0
    changes: Variant  # nested settings as in config.json; with ``script`` the variant
    seed: int  # with ``script`` the RUN_ID
    varied: Mapping[str, Any]  # settings that differ between runs, by dotted names


def count(spec: SweepSpec) -> int:
    """Return the number of runs of a sweep, without expanding it."""
    n_cells = math.prod(len(values) for values in spec.grid.values())
    return n_cells * spec.n_samples * len(spec.seeds)


def expand(spec: SweepSpec) -> list[Setting]:
    """Return the runs of a sweep: all settings with the first seed, then with the next.

    The same file gives the same runs. With further values, draws or seeds the earlier runs stay
    the same: draws depend on ``sample_seed``, key and cell of the grid alone.

    Raises:
        TooManyRuns: the sweep has more than ``spec.max_runs`` runs.
        UnknownName: a setting, algorithm or preset does not exist (with ``train``).
        TypeError, ValueError: a value has the wrong type or is out of range, or an environment
            does not exist. Messages start with file and line.
        ImportError: an environment needs a package that is missing.
    """
    with spec.blaming("max_runs"):
        check_count(count(spec), spec.max_runs, "set max_runs if this is intended, or sample")
    variants, log_dirs = _variants(spec)
    flats = _checked(spec, variants)
    first: dict[Any, str] = {}
    for flat, log_dir in zip(flats, log_dirs, strict=True):
        same = first.setdefault(identity(flat), log_dir)
        why = f"{same} and {log_dir} are the same setting; remove one"
        spec.refuse("grid", same != log_dir, why)
    return [
        _setting(spec, flat, variant, log_dir, seed)
        for seed in spec.seeds
        for log_dir, flat, variant in zip(log_dirs, flats, variants, strict=True)
    ]


def setting_for(spec: SweepSpec, varied: Mapping[str, Any], log_dir: str, seed: int = 0) -> Setting:
    """Return the run with these values by dotted keys, for example those of a search.

    Raises:
        UnknownName, TypeError, ValueError, ImportError: as for :func:`expand`.
    """
    [flat] = _checked(spec, [dict(varied)])
    return _setting(spec, flat, varied, log_dir, seed)


def run_options(spec: SweepSpec, setting: Setting) -> RunOptions:
    """Return the options with which ``rlpyt train`` would run these settings.

    Raises:
        ValueError: the sweep runs a script, whose options are unknown.
        UnknownName: a setting, algorithm or preset does not exist.
    """
    if spec.script is not None:
        raise ValueError(
            f"the sweep runs {spec.script}, whose options are known to the script only."
        )
    algo_name, env = setting.changes["algo_name"], setting.changes["env"]
    options = default_options(algo_name, env, spec.preset)
    return options.updated({**setting.changes, "seed": setting.seed})


def _variants(spec: SweepSpec) -> tuple[list[Variant], list[str]]:
    """Cross every cell of the grid with its draws.

    Returns:
        Varied values by dotted keys, and their directories.
    """
    label = labels([*spec.grid, *spec.sample])
    levels = [
        list(zip(values, dir_names([{label[key]: value} for value in values])))
        for key, values in spec.grid.items()
    ]
    variants, log_dirs = [], []
    for cell in itertools.product(*levels):
        varied = dict(zip(spec.grid, (value for value, _ in cell)))
        cell_dir = "/".join(name for _, name in cell)
        draws = _draws(spec, cell_dir) if spec.sample else [{}]
        shown = [{label[key]: value for key, value in drawn.items()} for drawn in draws]
        variants += [{**varied, **drawn} for drawn in draws]
        log_dirs += [(PurePath(cell_dir) / name).as_posix() for name in dir_names(shown)]
    return variants, log_dirs


def _draws(spec: SweepSpec, cell_dir: str) -> list[dict[str, Any]]:
    """Return ``n_samples`` different draws; each setting has its own random stream."""
    streams = {key: stream(spec.sample_seed, f"{cell_dir}:{key}") for key in spec.sample}
    drawn: dict[Any, dict[str, Any]] = {}
    while len(drawn) < spec.n_samples:  # the spec has checked that there are enough
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
    """Return the flat settings of each variant, of their types, after trying to build them."""
    if spec.script is not None:
        flats = [{**spec.options, **variant} for variant in variants]
        for flat in flats:
            _nested(spec, flat)  # raises if a key contains another one
        return flats
    fixed = {"algo_name": spec.train, "env": spec.env, **spec.options}
    types, recipes = cache(setting_types), cache(env_recipe)
    defaults = cache(partial(default_options, preset=spec.preset))
    checked = []
    for flat in ({**fixed, **variant} for variant in variants):
        with spec.blaming(_origin(spec, "algo_name")):
            algorithm_class(str(flat["algo_name"]))
        known, fitting = types(flat["algo_name"]), {}
        for key, value in flat.items():
            with spec.blaming(_origin(spec, key)):
                fitting[key] = fitted_setting(key, value, type_of(key, known))
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
        message = str(error)
        named = [key for key in flat if message.startswith(f"{key.rpartition('.')[2]}=")]
        named += [
            key for key, value in flat.items() if isinstance(value, str) and repr(value) in message
        ]
        with spec.blaming(_origin(spec, named[0]) if named else ""):
            raise


def fitted_setting(key: str, value: Any, hint: Any) -> Any:
    """Convert a value to the type of its setting, see `fitted`; errors start with the key."""
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
    """Return the key of the sweep file that a setting comes from."""
    for group in ("grid", "sample"):
        if key in getattr(spec, group):
            return f"{group}.{key}"
    own = {"algo_name": "train", "env": "env"}
    return own.get(key, f"options.{key}")


def jobs_of(spec: SweepSpec, settings: list[Setting], share: Slot, first: int = 0) -> list[Job]:
    """Return a job for each setting, numbered from ``first``, with this share of the hardware."""
    return [_job(spec, one, share, first + at) for at, one in enumerate(settings)]


def _job(spec: SweepSpec, setting: Setting, share: Slot, number: int) -> Job:
    common: dict[str, Any] = {
        "number": number,
        "name": setting.name,
        "run_dir": setting.name,
        "cwd": os.getcwd(),
        "variant": setting.changes,
        "retries": spec.retries,
    }
    if spec.script is not None:
        log_dir = f"{{sweep}}/{Path(setting.name).parent}"
        command = script_command(spec.script, log_dir, setting.seed, spec.args)
        given = {**flattened(setting.varied), "seed": setting.seed}
        return Job(command=command, settings=given, **common)
    options = fit_options(run_options(spec, setting), setting.changes, share)
    train = "train", "--config", "{job}/config.json", "--run-dir", "{run_dir}"
    command, resume = (*RLPYT, *train, TRUST), (*RLPYT, "resume", "{run_dir}", TRUST)
    if spec.together > 1:
        with spec.blaming("together"):
            check_member(options)
        command = resume = CLIENT
    return Job(
        command=command,
        resume=resume,
        settings={**setting.varied, "seed": setting.seed},
        config=options.as_dict(),
        total_steps=RunRecord(Path(), flattened(options.as_dict())).total_steps,
        **common,
    )


def fit_options(options: RunOptions, given: Mapping[str, Any], share: Slot) -> RunOptions:
    """Fit options to a run's hardware, where the sweep does not set them.

    The sampler gets as many workers as there are cores, if they divide the environments (results
    do not depend on it); the run uses its GPU and records no video.
    """
    sampler = given.get("sampler", {})
    if "n_workers" not in sampler and options.sampler.kind in ("cpu", "gpu"):
        own = share.resources.run_cores()
        cores = len(own) if share.cpus else options.sampler.n_workers
        B = options.sampler.batch_B
        n_workers = max(n for n in range(1, min(cores, B) + 1) if B % n == 0)
        options = options.updated({"sampler": {"n_workers": n_workers}})
    if "device" not in given and share.gpus:
        options = options.updated({"device": "cuda"})
    return options if "video" in given else options.updated({"video": False})
