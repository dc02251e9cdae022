"""Wrappers of vector environments: observations, rewards and episode statistics."""

from rlpyt.envs.vector.wrappers.base import VectorWrapper
from rlpyt.envs.vector.wrappers.monitor import EpisodeMonitor
from rlpyt.envs.vector.wrappers.observation import (
    ExtractField,
    FrameStack,
    TimeAwareObservation,
)
from rlpyt.envs.vector.wrappers.reward import ClipReward, ScaleReward, SignReward
from rlpyt.envs.vector.wrappers.standardize import (
    StandardizeObservation,
    StandardizeReward,
)
from rlpyt.utils.running import merge_statistics

__all__ = [
    "ClipReward",
    "EpisodeMonitor",
    "ExtractField",
    "FrameStack",
    "ScaleReward",
    "SignReward",
    "StandardizeObservation",
    "StandardizeReward",
    "TimeAwareObservation",
    "VectorWrapper",
    "merge_statistics",
]
