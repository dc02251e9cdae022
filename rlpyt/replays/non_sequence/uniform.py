"""Uniform replays of single transitions."""

from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.replays.selection import UniformSelection


class UniformReplay(ReplayBuffer):
    """Replay that draws all valid rows with the same probability."""

    Selection = UniformSelection
    part_names = "Selection"


class UniformReplayBuffer(NStepReturnBuffer):
    """Uniform replay of whole observations."""


class AsyncUniformReplayBuffer(UniformReplayBuffer):
    """Uniform replay of whole observations in shared memory."""

    async_ = True
