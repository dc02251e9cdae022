"""Wrappers of vector environments: observations, rewards and episode statistics."""

from rlpyt.envs.vector.wrappers.base import VectorWrapper  # noqa: F401
from rlpyt.envs.vector.wrappers.monitor import EpisodeMonitor  # noqa: F401
from rlpyt.envs.vector.wrappers.observation import (  # noqa: F401
    ExtractField,
    FrameStack,
    TimeAwareObservation,
)
from rlpyt.envs.vector.wrappers.reward import ClipReward, ScaleReward, SignReward  # noqa: F401
from rlpyt.envs.vector.wrappers.standardize import (  # noqa: F401
    StandardizeObservation,
    StandardizeReward,
)
from rlpyt.utils.running import merge_statistics  # noqa: F401
