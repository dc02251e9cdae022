"""Uniform replays of sequences."""

from rlpyt.replays.non_sequence.uniform import UniformReplay
from rlpyt.replays.sequence.n_step import SequenceNStepReturnBuffer
from rlpyt.replays.window import SequenceWindow


class UniformSequenceReplay(UniformReplay):
    """Replay of sequences that draws all valid starts with the same probability."""

    Window = SequenceWindow
    part_names = "Selection Window"


class UniformSequenceReplayBuffer(SequenceNStepReturnBuffer):
    """Uniform replay of sequences."""


class AsyncUniformSequenceReplayBuffer(UniformSequenceReplayBuffer):
    """Uniform replay of sequences in shared memory."""

    async_ = True
