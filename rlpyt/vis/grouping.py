"""Grouping of runs by variant, with labels.

A run in ``<experiment>/<variant directories>/run_<ID>`` belongs to the variant of its directory,
and is labeled by the differences between these paths. Other runs are grouped by their settings
except the seed, and labeled by the settings that differ. Alternatively the caller chooses the
settings to group by.
"""

import itertools
import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlpyt.utils.names import flattened, labels, suggestion
from rlpyt.utils.signed import SIGNATURE, read_json
from rlpyt.utils.text import digits
from rlpyt.vis.progress import PathLike, find_runs

# Written by the command line, by loggers, by sweeps, and by runners in scripts.
CONFIG, PARAMS, VARIANT = "config.json", "params.json", "variant_config.json"
PARTS = "parts.json"
NOT_SETTINGS = {"seed", "run_ID", "name", "format", "rlpyt", "log_dir", "run_dir", SIGNATURE}
# Without effect on curves.
NOT_OF_CURVES = {"video", "plot", "tensorboard", "logger", "checkpoint_interval_steps"}
ENVIRONMENT_KEYS = (
    *("env", "env.id", "env_id", "eval_env.id", "env.game", "game", "env_args.id"),
    *("sampler.env_kwargs.id", "sampler.env_kwargs.game", "sampler.EnvCls"),  # parts of scripts
)
STEPS_KEYS = ("steps", "runner.n_steps")  # the latter is logged by train scripts
BATCH_KEYS = ("sampler.batch_T", "sampler.batch_B", "ranks")
ALGORITHM = "algo_name"
DATE = re.compile(r"20\d\d-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])")
ABSENT = "default"  # value in labels of a setting that only other runs have


@dataclass(frozen=True)
class RunRecord:
    """Directory and settings of a run, and the label of its variant."""

    path: Path
    settings: Mapping[str, Any] = field(default_factory=dict)  # flat, dotted: "algo.discount"
    label: str = ""

    @property
    def environment(self) -> str:
        """Name of the environment, empty if unknown."""
        known = (self.settings.get(key) for key in ENVIRONMENT_KEYS)
        return next((name for name in known if isinstance(name, str)), "")

    @property
    def total_steps(self) -> int | None:
        """Number of environment steps, rounded down to complete batches if their size is known.

        ``None`` if the settings do not contain it.
        """
        given = (self.settings.get(key) for key in STEPS_KEYS)
        steps = next((int(n) for n in given if isinstance(n, int | float)), None)
        sizes = [self.settings.get(key) for key in BATCH_KEYS]
        batch = math.prod(n for n in sizes if isinstance(n, int) and n > 0)
        return steps if steps is None or None in sizes[:2] else max(steps // batch, 1) * batch

    @property
    def seed(self) -> int | str:
        """The seed, else the ID in the directory's name, else that name."""
        named = re.fullmatch(r"run_(.+)", self.path.name)
        seed = self.settings.get("seed", named[1] if named else self.path.name)
        number = seed if isinstance(seed, int) else digits(str(seed))
        return str(seed) if number is None else number


def read_runs(*paths: PathLike, group_by: Sequence[str] = ()) -> list[RunRecord]:
    """Return the runs at and below some paths, with their settings and labels.

    Args:
        paths: runs, or directories that contain runs.
        group_by: settings to group by instead, such as ``algo.learning_rate`` or, if unique,
            ``learning_rate``.

    Raises:
        FileNotFoundError: a path does not exist or contains no runs.
        ValueError: no run has a setting of ``group_by``.
    """
    runs = [RunRecord(path, read_settings(path)) for path in find_runs(*paths)]
    if group_by:
        runs = [
            replace(run, settings={**_settings_of_parts(run.path), **run.settings}) for run in runs
        ]
    return label_runs(runs, group_by)


def read_settings(run_dir: Path) -> dict[str, Any]:
    """Return a run's settings by dotted name: ``{"env": "CartPole-v1", "algo.discount": 0.99}``.

    They come from config.json if the run was started by the command line, otherwise from the
    logger's params.json and the variant; the environment's name, if these lack it, from parts.json.
    An unreadable file is ignored with a warning.
    """
    if (run_dir / CONFIG).exists():
        return _read(run_dir / CONFIG)
    settings = _read(run_dir / PARAMS)
    for directory in (run_dir.parent, run_dir):
        settings |= _read(directory / VARIANT)
    if not any(key in settings for key in ENVIRONMENT_KEYS):
        parts = _settings_of_parts(run_dir)
        settings |= {key: parts[key] for key in ENVIRONMENT_KEYS if key in parts}
    return settings


def label_runs(runs: Sequence[RunRecord], group_by: Sequence[str] = ()) -> list[RunRecord]:
    """Return the runs with labels that distinguish their variants."""
    if group_by:
        keys = [find_setting(key, runs) for key in group_by]
        return [replace(run, label=describe(run.settings, keys)) for run in runs]
    numbered = [run for run in runs if re.fullmatch(r"run_.+", run.path.absolute().name)]
    named = _labels_by_path(numbered) | _labels_by_settings(
        [run for run in runs if run not in numbered]
    )
    return [replace(run, label=named[run.path]) for run in runs]


def warn_of_uneven_groups(runs: Sequence[RunRecord], seeds_too: bool = True) -> None:
    """Warn about variants with several settings and equal runs, and about missing seeds.

    Equal runs have equal settings and seeds. Seeds that other variants have are missing; they are
    ignored without ``seeds_too``. Runs of scripts whose logged settings are equal are compared by
    the parts in parts.json.
    """
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for run in runs:
        groups.setdefault((run.environment, run.label), []).append(run)
    problems = []
    for (environment, label), group in groups.items():
        peers = [others for (env, _), others in groups.items() if env == environment]
        seeds = [{run.seed for run in others} for others in peers]
        missing = set().union(*seeds) - {run.seed for run in group}
        name = f"{label} in {environment}" if len(groups) > len(peers) else label
        shared = set.intersection(*seeds)  # disjoint sets of seeds are intentional
        if seeds_too and missing and shared:
            problems.append(
                f"{name} lacks seed {', '.join(map(str, sorted(missing, key=natural_key)))}"
            )
        if differing := _differences(group):
            problems.append(
                f"the runs of {name} differ in {', '.join(differing[:4])} (see --group-by)"
            )
        problems += _equal_runs(group, name)
    if problems:
        warnings.warn(f"{'; '.join(problems)}.", stacklevel=3)


def _equal_runs(runs: Sequence[RunRecord], name: str) -> list[str]:
    """Return a problem for each seed that several runs with equal settings have."""
    by_seed: dict[int | str, list[RunRecord]] = {}
    for run in runs:
        if run.settings.get("seed") is not None:  # without one, every start has another
            by_seed.setdefault(run.seed, []).append(run)
    problems = []
    for seed, equal in by_seed.items():
        if len(equal) > 1 and not _differences(equal):
            paths = ", ".join(str(run.path) for run in equal[:4])
            problems.append(
                f"{len(equal)} runs of {name} have seed {seed} ({paths}), so they are not "
                "independent, and intervals are too narrow"
            )
    return problems


def _differences(runs: Sequence[RunRecord]) -> list[str]:
    """Return the settings in which runs differ, if none, those of the parts of scripts."""
    return varying_settings(runs) or varying_settings(
        [replace(run, settings=_settings_of_parts(run.path)) for run in runs]
    )


def _settings_of_parts(run_dir: Path) -> dict[str, Any]:
    """Return arguments of a script's algorithm, agent and sampler, such as "algo.discount"."""
    if (run_dir / CONFIG).exists():
        return {}
    parts = {
        re.sub(r"\.kwargs(?=\.)|\.\$\w+$", "", key).removeprefix("runner."): value
        for key, value in _read(run_dir / PARTS).items()
        if not key.endswith(("$missing", ".kwargs"))
    }
    return {k: v for k, v in parts.items() if k.partition(".")[0] in ("algo", "agent", "sampler")}


def varying_settings(runs: Sequence[RunRecord]) -> list[str]:
    """Return the settings in which these runs differ, in order of appearance.

    The seed and settings without effect on results, such as ``video``, are ignored.
    """
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    return [
        key
        for key in keys
        if key.removeprefix("runner.") not in NOT_SETTINGS | NOT_OF_CURVES
        and len({setting_text(run.settings.get(key, ABSENT)) for run in runs}) > 1
    ]


def telling_settings(runs: Sequence[RunRecord]) -> list[str]:
    """Return the settings in which these runs differ beyond their environment."""
    environments = [run.environment for run in runs]
    return [
        key
        for key in varying_settings(runs)
        if not _follows([setting_text(run.settings.get(key, ABSENT)) for run in runs], environments)
    ]


def natural_key(text: object) -> list[tuple[int, float, str]]:
    """Return a sort key that puts "lr=1e-4" before "lr=0.01", and "x9" before "x10"."""
    parts = re.split(r"((?<![\d.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)", str(text))
    return [
        (1, float(part), "") if i % 2 else (0, 0.0, part.lower()) for i, part in enumerate(parts)
    ]


# By path


def _labels_by_path(runs: Sequence[RunRecord]) -> dict[Path, str]:
    """Label runs by the parts of their path that differ.

    Parts that only give the environment or the time of the launch are ignored, so that a variant
    has the same label in all environments, and seeds launched separately stay together.
    """
    paths = {run.path: run.path.absolute().parent for run in runs}
    if len({len(path.parts) for path in paths.values()}) > 1:
        common = os.path.commonpath(paths.values())
        inner = {run: path.relative_to(common).parts for run, path in paths.items()}
        kept = _without_environments(inner, {run.path: run.environment for run in runs})
        return {run: "/".join(parts) or paths[run].name for run, parts in kept.items()}

    environments = [run.environment for run in runs]
    every_level = list(zip(*(path.parts for path in paths.values())))
    levels = [
        level
        for above, level in itertools.pairwise(every_level)
        if len(set(level)) > 1
        and not _follows(level, environments)
        and not _is_launch_time(above, level)
    ]
    if levels:
        return dict(zip(paths, map("/".join, zip(*levels))))
    algorithms = {run.path: str(run.settings.get(ALGORITHM, "")) for run in runs}
    if len(set(environments)) > 1 and all(algorithms.values()):
        return algorithms
    return {run: path.name for run, path in paths.items()}


def _is_launch_time(above: Sequence[str], level: Sequence[str]) -> bool:
    """Return True if directories give the time of a launch: ``20260131``, below it ``235959``."""
    if all(map(DATE.fullmatch, above)):
        return all(re.fullmatch(r"\d{6}", part) for part in level)
    return all(map(DATE.fullmatch, level))


def _without_environments(
    parts: Mapping[Path, tuple[str, ...]], environments: Mapping[Path, str]
) -> dict[Path, tuple[str, ...]]:
    """Remove path parts that, among paths with the same prefix, only give the environment."""
    by_prefix: dict[tuple[str, ...], list[Path]] = {}
    for run, own in parts.items():
        for at in range(len(own) + 1):
            by_prefix.setdefault(own[:at], []).append(run)
    is_kept = {}  # by prefix: whether to keep the part after it
    for prefix, group in by_prefix.items():
        branches = ["".join(parts[run][len(prefix) : len(prefix) + 1]) for run in group]
        is_kept[prefix] = not _follows(branches, [environments[run] for run in group])
    return {
        run: tuple(part for at, part in enumerate(own) if is_kept[own[:at]])
        for run, own in parts.items()
    }


def _follows(names: Sequence[str], environments: Sequence[str]) -> bool:
    """Return True if the names of runs correspond one to one to several environments."""
    n_environments = len(set(environments))
    return n_environments > 1 and len(set(zip(names, environments))) == n_environments


# By settings


def _labels_by_settings(runs: Sequence[RunRecord]) -> dict[Path, str]:
    """Label runs by their algorithm and the settings that differ among its runs."""
    found, nameless = {}, []
    families: dict[tuple[str, str], list[RunRecord]] = {}
    for run in runs:
        if (run.path / CONFIG).exists():
            algorithm = str(run.settings.get(ALGORITHM, ""))
            families.setdefault((algorithm, run.environment), []).append(run)
        elif isinstance(name := run.settings.get("name"), str) and name:
            found[run.path] = name
        else:
            nameless.append(run)
    keys = varying_settings(nameless)
    for run in nameless:
        found[run.path] = describe(run.settings, keys) if keys else run.path.name
    # A variant has the same label in all environments, also where it is alone.
    telling: dict[str, dict[str, None]] = {}
    for (algorithm, _), family in families.items():
        telling.setdefault(algorithm, {}).update(dict.fromkeys(varying_settings(family)))
    several = len(telling) > 1
    for (algorithm, _), family in families.items():
        keys = [*telling[algorithm]]
        for run in family:
            parts = [algorithm if several or not keys else "", describe(run.settings, keys)]
            found[run.path] = ", ".join(filter(None, parts)) or run.path.name
    return found


def describe(settings: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Format settings with their shortest unique names: "ppo, learning_rate=0.001"."""
    names = labels(keys)
    values = {key: setting_text(settings.get(key, ABSENT)) for key in keys}
    alone = {ALGORITHM, *ENVIRONMENT_KEYS}
    return ", ".join(
        value if key in alone else f"{names[key]}={value}" for key, value in values.items()
    )


def find_setting(name: str, runs: Sequence[RunRecord]) -> str:
    """Return the full key of a setting, which may be given by its last parts.

    Raises:
        ValueError: no run has the setting, or the name is ambiguous.
    """
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    fitting = [key for key in keys if key == name] or [k for k in keys if k.endswith(f".{name}")]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ValueError(f"setting {name!r} is ambiguous. Use one of {', '.join(fitting)}.")
    differing = varying_settings(runs)
    meant = suggestion(name, [*keys, *(k.rsplit(".", 1)[-1] for k in keys)])
    raise ValueError(
        f"no run has the setting {name!r}{meant} These differ: {', '.join(differing) or 'none'}."
    )


# Settings


def _read(path: Path) -> dict[str, Any]:
    """Return the settings in a file; empty if it is absent or, with a warning, unreadable."""
    if not path.exists():
        return {}
    try:
        return flattened(read_json(path, "a dictionary of settings"))
    except (OSError, ValueError, TypeError) as error:
        warnings.warn(f"settings in {path} are ignored, since it is not readable: {error}")
        return {}


def setting_text(value: Any) -> str:
    """Format a setting's value: lists as "64x64", other values as in Python."""
    if isinstance(value, list):
        return "x".join(map(setting_text, value)) or "none"
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else str(value)
