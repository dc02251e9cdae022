"""Replays of sequences with stacked frames, each of which is stored once."""

from rlpyt.replays.frame_storage import FrameStorage
from rlpyt.replays.sequence.n_step import SequenceNStepReturnBuffer
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplay


class SequenceNStepFrameBuffer(SequenceNStepReturnBuffer):
    """Replay that returns sequences [T, B] with observations rebuilt from frames."""

    Storage = FrameStorage
    part_names = "Window Storage"


class UniformSequenceReplayFrameBuffer(SequenceNStepFrameBuffer):
    """Uniform replay of sequences of frames."""


class PrioritizedSequenceReplayFrameBuffer(PrioritizedSequenceReplay):
    """Prioritized replay of sequences of frames."""

    Storage = FrameStorage


class AsyncUniformSequenceReplayFrameBuffer(UniformSequenceReplayFrameBuffer):
    """Uniform replay of sequences of frames in shared memory."""

    async_ = True


class AsyncPrioritizedSequenceReplayFrameBuffer(PrioritizedSequenceReplayFrameBuffer):
    """Prioritized replay of sequences of frames in shared memory."""

    async_ = True
