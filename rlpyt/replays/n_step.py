"""rlpyt's name for the base of all n-step replays."""

from rlpyt.replays.buffer import ReplayBuffer as BaseNStepReturnBuffer  # noqa: F401
