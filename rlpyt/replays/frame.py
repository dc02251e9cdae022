"""rlpyt's name for what makes a replay keep each frame once."""

from typing import Any

from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.frame_storage import FrameStorage

BufferSamples: Any = (
    None  # rlpyt's name for the class of the stored rows, ``None`` as at its import
)


class FrameBufferMixin(ReplayBuffer):
    """Observations [C, ...] are stacks of C frames, oldest first; each frame is kept once."""

    Storage = FrameStorage

    @property
    def n_frames(self) -> int:
        """Frames in an observation, C."""
        return int(self.storage.n_frames)

    @property
    def samples_frames(self) -> Any:
        """[T + C - 1, B, ...] frames."""
        return self.storage.frames

    @property
    def samples_new_frames(self) -> Any:
        """[T, B, ...] newest frame of every row's observation."""
        return self.storage.new_frames
