"""Settings known to learn, per family of environments and algorithm.

A preset is a nested dictionary of ``RunOptions`` fields. It supplies the defaults that the command
line shows; every one can be overridden by a flag. ``FAMILIES`` are starting points for any
environment of their kind, ``TUNED`` adds what one environment needs.
"""

from collections.abc import Mapping
from typing import Any

from rlpyt.experiments.configs import continuous, evolution, policy_gradient, q_learning
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
    """By environment and algorithm, from several such."""
    envs = dict.fromkeys(env for part in parts for env in part)
    return {env: {k: v for part in parts for k, v in part.get(env, {}).items()} for env in envs}


# What environments algorithms want that not all families have settings of.
WANTED = {
    **dict.fromkeys(continuous.CLASSIC, "continuous actions of vector environments"),
    **dict.fromkeys(evolution.CLASSIC, "vector environments"),
}
TUNED = _joined(policy_gradient.TUNED, q_learning.TUNED, continuous.TUNED, evolution.TUNED)


def layers(algo_name: str, env_id: str, family: str, preset: str | None = None) -> list[Preset]:
    """The presets for a run, to be applied in order.

    Args:
        algo_name: a key of ``ALGORITHMS``.
        env_id: looked up in ``TUNED``.
        family: what kind of environment it is, a key of ``FAMILIES``.
        preset: a family to use instead, and then without what is tuned for this environment.

    Raises:
        UnknownName: there is no such family, or it has no settings for this algorithm.
    """
    name = preset or family
    if name not in FAMILIES:
        raise UnknownName("preset", name, FAMILIES)
    if algo_name not in FAMILIES[name] and algo_name in WANTED:
        raise ValueError(
            f"{algo_name} is for {WANTED[algo_name]}, and {name} has images "
            f"and discrete actions; {name} takes {', '.join(FAMILIES[name])}. (Or name another "
            "preset.)"
        )
    if algo_name not in FAMILIES[name]:
        raise UnknownName(f"algorithm in preset {name!r}:", algo_name, FAMILIES[name])
    tuned = {} if preset else TUNED.get(env_id, {}).get(algo_name, {})
    return [FAMILIES[name][algo_name], tuned]
