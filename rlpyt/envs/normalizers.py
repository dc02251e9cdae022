"""Gymnasium's wrappers of rewards and observations: warnings, and rewards before they are changed.

Each environment of each worker has its own NormalizeObservation or NormalizeReward with its own
statistics, which are not part of the agent. rlpyt's normalization is: that of observations in the
agent (``normalize_observation``), that of rewards in the algorithm (``normalize_reward``).
"""

import warnings
from collections.abc import Mapping
from typing import Any

from gymnasium import Env, RewardWrapper, Wrapper
from gymnasium.vector import (
    AsyncVectorEnv,
    SyncVectorEnv,
    VectorEnv,
    VectorRewardWrapper,
    VectorWrapper,
)

from rlpyt.envs.layers import wrappers_of

RAW_REWARD = "raw_reward"  # entry of info, of which returns are logged
OBSERVATION, REWARD = "NormalizeObservation", "NormalizeReward"
STATISTICS = "RecordEpisodeStatistics"
ATTRIBUTES = {OBSERVATION: "obs_rms", REWARD: "return_rms"}  # by which other processes tell them
MODULES = ("gymnasium.", "gym.")
REMEDIES = {
    OBSERVATION: "an evaluation or a loaded run starts without them. Remove it, and normalize in "
    "the agent: normalize_observation=True (--normalize-observation)",
    REWARD: "workers scale rewards differently. Remove it, and normalize in the algorithm: "
    "normalize_reward=True of PPO, A2C and V-trace (--normalize-reward)",
}


class _RawReward(Wrapper[Any, Any, Any, Any]):
    """Wrapper that sums rewards until they are read, inside those that change them.

    A wrapper in between may take several steps in one, or steps in its reset.
    """

    reward: Any = 0.0

    def reset(self, **kwargs: Any) -> Any:
        self.reward = 0.0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self.reward = self.reward + result[1]
        return result

    def take(self) -> Any:
        """Return the sum of the rewards since the last call."""
        reward, self.reward = self.reward, 0.0
        return reward


class _WithRawReward(Wrapper[Any, Any, Any, Any]):
    """Wrapper around all others that adds the summed rewards to info."""

    def __init__(self, env: Env[Any, Any], source: _RawReward) -> None:
        super().__init__(env)
        self._source = source

    def step(self, action: Any) -> Any:
        *others, info = self.env.step(action)
        return *others, {**info, RAW_REWARD: float(self._source.take())}


class _RawVectorReward(VectorWrapper):
    """As ``_RawReward``, for vector environments."""

    reward: Any = 0.0
    step: Any = _RawReward.step
    take: Any = _RawReward.take


class _WithRawVectorReward(VectorWrapper):
    """As ``_WithRawReward``, for vector environments."""

    def __init__(self, env: VectorEnv[Any, Any, Any], source: _RawVectorReward) -> None:
        super().__init__(env)
        self._source = source

    def step(self, actions: Any) -> Any:
        *others, info = self.env.step(actions)
        raw = {RAW_REWARD: self._source.take()}
        final = info.get("final_info")  # read instead of info where an episode has ended
        ends = {"final_info": {**final, **raw}} if isinstance(final, Mapping) else {}
        return *others, {**info, **raw, **ends}


def with_raw_rewards(env: Env[Any, Any] | VectorEnv[Any, Any, Any]) -> tuple[Any, bool]:
    """Warn of normalizing wrappers, and add the rewards before they are changed to info.

    These are the rewards before NormalizeReward, or those that RecordEpisodeStatistics reads if
    wrappers are around it that may change rewards: reward wrappers, and custom ones with a `step`.

    Args:
        env: a single or a vector environment of Gymnasium, wrapped or not. One of the two wrappers
            gets a further layer inside.

    Returns:
        (environment, True if info has ``raw_reward``): the same environment, or a wrapper of it.
    """
    found: dict[str, Any] = {}
    layer: Any = env
    reader, scaled = None, False
    while isinstance(layer, Wrapper | VectorWrapper):
        found |= dict.fromkeys(_names_of(layer) & REMEDIES.keys(), layer)  # the innermost one
        scaled = scaled or _may_change_rewards(layer)
        if scaled and STATISTICS in _names_of(layer):
            reader = layer
        layer = layer.env
    if isinstance(layer, AsyncVectorEnv):  # whose environments are in other processes
        for name, attribute in ATTRIBUTES.items():
            if any(layer.call("has_wrapper_attr", attribute)):
                warn_of(name, "with")
    for name in found:
        warn_of(name, "without")
    if (outer := found.get(REWARD, reader)) is not None:
        if isinstance(env, VectorEnv):
            outer.env = _RawVectorReward(outer.env)
            return _WithRawVectorReward(env, outer.env), True
        outer.env = _RawReward(outer.env)
        return _WithRawReward(env, outer.env), True
    has_raw = False
    if isinstance(layer, SyncVectorEnv):
        pairs = [with_raw_rewards(single) for single in layer.envs]
        layer.envs, flags = map(list, zip(*pairs, strict=True))
        has_raw = any(flags)
        for i in [i for i, flag in enumerate(flags) if has_raw and not flag]:
            raw = _RawReward(layer.envs[i])  # whose rewards are raw
            layer.envs[i] = _WithRawReward(raw, raw)
    return env, has_raw


def keys_of_statistics(env: object) -> list[str]:
    """Return the entries of info by RecordEpisodeStatistics, in place of which rlpyt's are used."""
    found = (layer for layer in wrappers_of(env) if STATISTICS in _names_of(layer))
    return [getattr(layer, "_stats_key", "episode") for layer in found]  # the old gym has no other


def warn_of(name: str, logged: str) -> None:
    """Warn of a normalizing wrapper of Gymnasium; returns are logged "with" or "without" it."""
    returns = f" Returns are logged {logged} it." if name == REWARD else ""
    warnings.warn(
        f"gymnasium's {name} keeps statistics in each environment, which are not saved with the "
        f"agent; {REMEDIES[name]}.{returns}"
    )


def _may_change_rewards(layer: object) -> bool:
    """Return True for reward wrappers, and for custom wrappers with a ``step`` of their own."""
    return isinstance(layer, RewardWrapper | VectorRewardWrapper) or any(
        "step" in vars(cls) and not cls.__module__.startswith((*MODULES, "rlpyt."))
        for cls in type(layer).__mro__
    )


def _names_of(layer: object) -> set[str]:
    """Return the names of a wrapper's classes that are Gymnasium's."""
    return {cls.__name__ for cls in type(layer).__mro__ if cls.__module__.startswith(MODULES)}
