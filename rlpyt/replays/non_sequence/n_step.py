"""Single transitions with n-step targets."""

from rlpyt.replays.batch import Transitions as SamplesFromReplay  # noqa: F401  (rlpyt's name)
from rlpyt.replays.n_step import BaseNStepReturnBuffer
from rlpyt.replays.window import TransitionWindow


class NStepReturnBuffer(BaseNStepReturnBuffer):
    """Gives out single steps [B] and their n-step targets."""

    Window = TransitionWindow
