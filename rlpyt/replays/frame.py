"""rlpyt's name for replays that store each frame once."""

from typing import Any

from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.frame_storage import FrameStorage

BufferSamples: Any = None  # rlpyt's name for the type of stored rows, None as at its import


class FrameBufferMixin(ReplayBuffer):
    """Replay of observations [C, ...] that are stacks of C frames; stores each frame once."""

    Storage = FrameStorage
    part_names = "Storage"
