"""Replays of single transitions with stacked frames, each of which is stored once."""

from rlpyt.replays.frame_storage import FrameStorage
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay


class NStepFrameBuffer(NStepReturnBuffer):
    """Replay that returns single steps [B] with observations rebuilt from frames."""

    Storage = FrameStorage
    part_names = "Window Storage"


class UniformReplayFrameBuffer(NStepFrameBuffer):
    """Uniform replay of frames."""


class PrioritizedReplayFrameBuffer(PrioritizedReplay):
    """Prioritized replay of frames."""

    Storage = FrameStorage


class AsyncUniformReplayFrameBuffer(UniformReplayFrameBuffer):
    """Uniform replay of frames in shared memory."""

    async_ = True


class AsyncPrioritizedReplayFrameBuffer(PrioritizedReplayFrameBuffer):
    """Prioritized replay of frames in shared memory."""

    async_ = True
