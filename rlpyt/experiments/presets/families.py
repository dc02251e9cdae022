"""Tested settings per family of environments and algorithm.

A preset is a nested dictionary of ``RunOptions`` fields with the defaults of the command line,
which flags override. ``FAMILIES`` are starting points for any environment of a family, ``TUNED``
are changes for single environments.
"""

from collections.abc import Mapping
from typing import Any

from rlpyt.experiments.presets import continuous, evolution, policy_gradient, q_learning
from rlpyt.utils.names import UnknownName

Preset = Mapping[str, Any]

FAMILIES: dict[str, dict[str, Preset]] = {
    "classic": {
        **policy_gradient.CLASSIC,
        **q_learning.CLASSIC,
        **continuous.CLASSIC,
        **evolution.CLASSIC,
    },
    "atari": {**policy_gradient.ATARI, **q_learning.ATARI},
    "minatar": {**policy_gradient.MINATAR, **q_learning.MINATAR},
    "mujoco": {**policy_gradient.MUJOCO, **continuous.MUJOCO, **evolution.MUJOCO},
}


def _joined(*parts: Mapping[str, Mapping[str, Preset]]) -> dict[str, dict[str, Preset]]:
    """Merge settings by environment and algorithm."""
    envs = dict.fromkeys(env for part in parts for env in part)
    return {env: {k: v for part in parts for k, v in part.get(env, {}).items()} for env in envs}


# Environments required by algorithms that do not have presets in all families.
REQUIRED = {
    **dict.fromkeys(continuous.CLASSIC, "continuous actions of vector environments"),
    "sac": "vector environments",
    **dict.fromkeys(evolution.CLASSIC, "vector environments"),
}
TUNED = _joined(policy_gradient.TUNED, q_learning.TUNED, continuous.TUNED, evolution.TUNED)


def layers(algo_name: str, env_id: str, family: str, preset: str | None = None) -> list[Preset]:
    """Return the presets of a run, to be applied in order.

    Args:
        algo_name: key of ``ALGORITHMS``.
        env_id: name of the environment, a possible key of ``TUNED``.
        family: family of the environment, a key of ``FAMILIES``.
        preset: family to use instead, without settings tuned for this environment.

    Raises:
        UnknownName: the family is unknown or has no settings for this algorithm.
        ValueError: the algorithm does not support the family.
    """
    name = preset or family
    if name not in FAMILIES:
        raise UnknownName("preset", name, FAMILIES)
    if algo_name not in FAMILIES[name] and algo_name in REQUIRED:
        raise ValueError(
            f"{algo_name} is for {REQUIRED[algo_name]}, but {name} has images and discrete "
            f"actions. Use {', '.join(FAMILIES[name])}, or another preset."
        )
    if algo_name not in FAMILIES[name]:
        raise UnknownName(f"algorithm in preset {name!r}:", algo_name, FAMILIES[name])
    tuned = {} if preset else TUNED.get(env_id, {}).get(algo_name, {})
    return [FAMILIES[name][algo_name], tuned]
