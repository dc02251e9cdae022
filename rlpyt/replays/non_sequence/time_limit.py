"""Single transitions that say which episodes ended by a time limit."""

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.batch import TimeLimitTransitions as SamplesFromReplayTL  # noqa: F401
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplay
from rlpyt.replays.non_sequence.uniform import UniformReplay


class NStepTimeLimitBuffer(NStepReturnBuffer):
    """Samples bring ``timeout``; batches have it, and ``timeout_n``: the window ended by one."""

    time_limits = True


class TlUniformReplayBuffer(UniformReplay, NStepTimeLimitBuffer):
    """Uniform replay with time limits."""


class TlPrioritizedReplayBuffer(PrioritizedReplay, NStepTimeLimitBuffer):
    """Prioritised replay with time limits."""


class AsyncTlUniformReplayBuffer(AsyncReplayBufferMixin, TlUniformReplayBuffer):
    """Uniform replay with time limits in shared memory."""


class AsyncTlPrioritizedReplayBuffer(AsyncReplayBufferMixin, TlPrioritizedReplayBuffer):
    """Prioritised replay with time limits in shared memory."""
