"""Single transitions, all as likely."""

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.replays.selection import UniformSelection


class UniformReplay(ReplayBuffer):
    """Chooses all valid rows with the same probability."""

    Selection = UniformSelection


class UniformReplayBuffer(UniformReplay, NStepReturnBuffer):
    """Uniform replay of whole observations."""


class AsyncUniformReplayBuffer(AsyncReplayBufferMixin, UniformReplayBuffer):
    """The same in shared memory."""
