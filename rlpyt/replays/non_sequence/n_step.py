"""Replays of single transitions with n-step targets."""

from rlpyt.replays.batch import Transitions as SamplesFromReplay  # noqa: F401  (rlpyt's name)
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.window import TransitionWindow


class NStepReturnBuffer(ReplayBuffer):
    """Replay that returns single steps [B] and their n-step targets."""

    Window = TransitionWindow
    part_names = "Window"
