"""rlpyt's name for the base of all n-step replays."""

from rlpyt.replays.buffer import ReplayBuffer


class BaseNStepReturnBuffer(ReplayBuffer):
    """A replay with n-step returns; all are."""
