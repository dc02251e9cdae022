"""Replays of single transitions with marks of episodes that ended by a time limit."""

from rlpyt.replays.batch import TimeLimitTransitions as SamplesFromReplayTL  # noqa: F401
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay


class NStepTimeLimitBuffer(NStepReturnBuffer):
    """Replay with ``timeout`` in samples and batches, and ``timeout_n`` in batches."""

    time_limits = True
    part_names = "Window time_limits"


class TlUniformReplayBuffer(NStepTimeLimitBuffer):
    """Uniform replay with time limits."""


class TlPrioritizedReplayBuffer(PrioritizedReplay):
    """Prioritized replay with time limits."""

    time_limits = True


class AsyncTlUniformReplayBuffer(TlUniformReplayBuffer):
    """Uniform replay with time limits in shared memory."""

    async_ = True


class AsyncTlPrioritizedReplayBuffer(TlPrioritizedReplayBuffer):
    """Prioritized replay with time limits in shared memory."""

    async_ = True
