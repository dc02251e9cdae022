"""Groups of runs: seeds of one variant, variants of one comparison.

A run in ``<experiment>/<variant directories>/run_<ID>`` belongs to its variant's directory, and is
named by what differs in these paths. Other runs belong together if their settings are the same
apart from the seed, and are named by the settings that differ. Or the caller says which settings
count.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlpyt.utils.names import flattened, labels, nearest
from rlpyt.vis.progress import PathLike, find_runs

# config.json is written by the command line, params.json by every logger, the variant's by sweeps.
CONFIG, PARAMS, VARIANT = "config.json", "params.json", "variant_config.json"
NOT_SETTINGS = {"seed", "run_ID", "name", "format", "rlpyt", "log_dir", "run_dir"}
NOT_OF_CURVES = {"video", "plot", "tensorboard", "checkpoint_interval_steps"}  # change no result
ENVIRONMENT_KEYS = ("env", "env.id", "env_id", "eval_env.id", "env.game", "game", "env_args.id")
STEPS_KEYS = ("steps", "runner.n_steps")  # the latter in what train scripts log
BATCH_KEYS = ("sampler.batch_T", "sampler.batch_B", "ranks")
ALGORITHM = "algo_name"
DATE = re.compile(r"20\d\d-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])")
ABSENT = "default"  # what a label says of a setting that only other runs have


@dataclass(frozen=True)
class Run:
    """One run: where it lies, what it was told, and which variant it is a seed of."""

    path: Path
    settings: Mapping[str, Any] = field(default_factory=dict)  # flat, dotted: "algo.discount"
    label: str = ""

    @property
    def environment(self) -> str:
        """Name of the environment; empty if the settings do not tell."""
        known = (self.settings.get(key) for key in ENVIRONMENT_KEYS)
        return next((name for name in known if isinstance(name, str)), "")

    @property
    def total_steps(self) -> int | None:
        """Environment steps that it will make, so many whole batches as fit into those it was told.

        ``None`` if the settings do not tell. Of a batch's size they need not.
        """
        told = (self.settings.get(key) for key in STEPS_KEYS)
        steps = next((int(n) for n in told if isinstance(n, int | float)), None)
        sizes = [self.settings.get(key) for key in BATCH_KEYS]
        batch = math.prod(n for n in sizes if isinstance(n, int) and n > 0)
        return steps if steps is None or None in sizes[:2] else max(steps // batch, 1) * batch

    @property
    def seed(self) -> int | str:
        """Its seed, or the ID in its directory's name, or that name."""
        named = re.fullmatch(r"run_(.+)", self.path.name)
        seed = self.settings.get("seed", named[1] if named else self.path.name)
        return seed if isinstance(seed, int) else int(seed) if str(seed).isdigit() else str(seed)


def read_runs(*paths: PathLike, group_by: Sequence[str] = ()) -> list[Run]:
    """Find the runs at and below some paths, with their settings and labels.

    Args:
        paths: runs, or directories that hold runs.
        group_by: settings by which to group instead, as ``algo.learning_rate`` or, where only one
            setting ends so, ``learning_rate``.

    Raises:
        FileNotFoundError: a path does not exist or holds no runs.
        ValueError: no run has a setting of ``group_by``.
    """
    return label_runs([Run(path, read_settings(path)) for path in find_runs(*paths)], group_by)


def read_settings(run_dir: Path) -> dict[str, Any]:
    """A run's settings, flat: ``{"env": "CartPole-v1", "algo.discount": 0.99}``.

    The command line's config.json comes first; other runs have what their logger was given
    (params.json) and their variant. A file that cannot be read counts as absent, with a warning.
    """
    if (run_dir / CONFIG).exists():
        return _read(run_dir / CONFIG)
    settings = _read(run_dir / PARAMS)
    for directory in (run_dir.parent, run_dir):
        settings |= _read(directory / VARIANT)
    return settings


def label_runs(runs: Sequence[Run], group_by: Sequence[str] = ()) -> list[Run]:
    """The same runs with the labels that tell their variants apart."""
    if group_by:
        keys = [find_setting(key, runs) for key in group_by]
        return [replace(run, label=describe(run.settings, keys)) for run in runs]
    numbered = [run for run in runs if _variant_dir(run) is not None]
    named = _labels_by_path(numbered) | _labels_by_settings(
        [run for run in runs if run not in numbered]
    )
    return [replace(run, label=named[run.path]) for run in runs]


def warn_of_uneven_groups(runs: Sequence[Run]) -> None:
    """Say which variants lack seeds that others have, and which hold runs of several settings."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.environment, run.label), []).append(run)
    said = []
    for (environment, label), group in groups.items():
        peers = [others for (env, _), others in groups.items() if env == environment]
        seeds = [{run.seed for run in others} for others in peers]
        missing = set().union(*seeds) - {run.seed for run in group}
        which = f"{label} in {environment}" if len(groups) > len(peers) else label
        if missing and set.intersection(*seeds):  # else they were not meant as the same set
            said.append(
                f"{which} lacks seed {', '.join(map(str, sorted(missing, key=natural_key)))}"
            )
        differing = varying_settings(group)
        if differing:
            said.append(
                f"the runs of {which} differ in {', '.join(differing[:4])} (see --group-by)"
            )
    if said:
        warnings.warn(f"{'; '.join(said)}.", stacklevel=3)


def varying_settings(runs: Sequence[Run]) -> list[str]:
    """Return the settings in which these runs differ, in the order they appear.

    The seed and settings that cannot change a curve, such as ``video``, do not count.
    """
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    return [
        key
        for key in keys
        if key.rsplit(".", 1)[-1] not in NOT_SETTINGS | NOT_OF_CURVES
        and len({setting_text(run.settings.get(key, ABSENT)) for run in runs}) > 1
    ]


def telling_settings(runs: Sequence[Run]) -> list[str]:
    """Of the settings in which these runs differ those that tell more than the environment."""
    environments = [run.environment for run in runs]
    return [
        key
        for key in varying_settings(runs)
        if not _follows([setting_text(run.settings.get(key, ABSENT)) for run in runs], environments)
    ]


def natural_key(text: object) -> list[tuple[int, float, str]]:
    """Sort key by which "lr=1e-4" comes before "lr=0.01", and "x9" before "x10"."""
    parts = re.split(r"((?<![\d.])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)", str(text))
    return [
        (1, float(part), "") if i % 2 else (0, 0.0, part.lower()) for i, part in enumerate(parts)
    ]


# By path


def _variant_dir(run: Run) -> Path | None:
    path = run.path.absolute()
    return path.parent if re.fullmatch(r"run_.+", path.name) else None


def _labels_by_path(runs: Sequence[Run]) -> dict[Path, str]:
    """Name runs by the parts of their path that differ.

    Parts that only tell the environment or the time of the launch do not count, so that a variant
    has one name in all environments and seeds launched one by one stay together.
    """
    paths = {run.path: run.path.absolute().parent for run in runs}
    if len({len(path.parts) for path in paths.values()}) > 1:
        common = os.path.commonpath(paths.values())
        inner = {run: path.relative_to(common).parts for run, path in paths.items()}
        telling = _without_environments(inner, {run.path: run.environment for run in runs})
        return {run: "/".join(parts) or paths[run].name for run, parts in telling.items()}

    environments = [run.environment for run in runs]
    every_level = list(zip(*(path.parts for path in paths.values())))
    levels = [
        level
        for above, level in itertools.pairwise(every_level)
        if len(set(level)) > 1
        and not _follows(level, environments)
        and not _tells_the_time(above, level)
    ]
    if levels:
        return dict(zip(paths, map("/".join, zip(*levels))))
    algorithms = {run.path: str(run.settings.get(ALGORITHM, "")) for run in runs}
    if len(set(environments)) > 1 and all(algorithms.values()):
        return algorithms
    return {run: path.name for run, path in paths.items()}


def _tells_the_time(above: Sequence[str], level: Sequence[str]) -> bool:
    """Return True if directories are those of launches: ``20260131``, and below it ``235959``."""
    if all(map(DATE.fullmatch, above)):
        return all(re.fullmatch(r"\d{6}", part) for part in level)
    return all(map(DATE.fullmatch, level))


def _without_environments(
    parts: Mapping[Path, tuple[str, ...]], environments: Mapping[Path, str]
) -> dict[Path, tuple[str, ...]]:
    """Paths without the parts by which, of those that begin alike, only environments branch."""
    alike: dict[tuple[str, ...], list[Path]] = {}  # by their beginning
    for run, own in parts.items():
        for at in range(len(own) + 1):
            alike.setdefault(own[:at], []).append(run)
    tells = {}  # whether the part after a beginning does
    for begin, group in alike.items():
        branches = ["".join(parts[run][len(begin) : len(begin) + 1]) for run in group]
        tells[begin] = not _follows(branches, [environments[run] for run in group])
    return {
        run: tuple(part for at, part in enumerate(own) if tells[own[:at]])
        for run, own in parts.items()
    }


def _follows(names: Sequence[str], environments: Sequence[str]) -> bool:
    """Return True if names of runs in several environments say no more than these."""
    n_environments = len(set(environments))
    return n_environments > 1 and len(set(zip(names, environments))) == n_environments


# By settings


def _labels_by_settings(runs: Sequence[Run]) -> dict[Path, str]:
    """Name runs by their algorithm and the settings that differ among its runs."""
    found, nameless = {}, []
    families: dict[tuple[str, str], list[Run]] = {}
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
    several = len({algorithm for algorithm, _ in families}) > 1
    for (algorithm, _), family in families.items():
        keys = varying_settings(family)
        for run in family:
            parts = [algorithm] * (several or not keys) + [describe(run.settings, keys)] * bool(
                keys
            )
            found[run.path] = ", ".join(filter(None, parts)) or run.path.name
    return found


def describe(settings: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Some settings as "ppo, learning_rate=0.001", by the shortest names that tell them apart."""
    names = labels(keys)
    values = {key: setting_text(settings.get(key, ABSENT)) for key in keys}
    alone = {ALGORITHM, *ENVIRONMENT_KEYS}
    return ", ".join(
        value if key in alone else f"{names[key]}={value}" for key, value in values.items()
    )


def find_setting(name: str, runs: Sequence[Run]) -> str:
    """The full key of a setting, which may be given by its end.

    Raises:
        ValueError: no run has it, or several keys end so.
    """
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    fitting = [key for key in keys if key == name] or [k for k in keys if k.endswith(f".{name}")]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ValueError(f"{name!r} may be any of {', '.join(fitting)}; give one of them in full.")
    differing = varying_settings(runs)
    close = nearest(name, [*keys, *(k.rsplit(".", 1)[-1] for k in keys)], 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(
        f"no run has the setting {name!r}.{hint} These differ: {', '.join(differing) or 'none'}."
    )


# Settings


def _read(path: Path) -> dict[str, Any]:
    """The settings in a file, flat; none if it is absent or, with a warning, not readable."""
    if not path.exists():
        return {}
    try:
        return flattened(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        warnings.warn(f"{path} is not readable, so its settings are not known: {error}.")
        return {}


def setting_text(value: Any) -> str:
    """A setting's value for people: lists as "64x64", everything else as Python writes it."""
    if isinstance(value, list):
        return "x".join(map(setting_text, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
