"""rlpyt's path of the interface of replays."""

from rlpyt.replays.buffer import BaseReplayBuffer  # noqa: F401
