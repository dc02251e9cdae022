"""Single transitions, drawn by priority."""

from typing import Any

from rlpyt.replays.async_ import AsyncReplayBufferMixin
from rlpyt.replays.batch import PrioritiesSamplesToBuffer  # noqa: F401
from rlpyt.replays.batch import PrioritizedTransitions as SamplesFromReplayPri  # noqa: F401
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.non_sequence.n_step import NStepReturnBuffer
from rlpyt.replays.selection import PrioritizedSelection, PrioritySettings
from rlpyt.replays.sum_tree import SumTree

EPS = 1e-6  # rlpyt added it to priorities before dividing; leaves of zero are never drawn here


class PrioritizedReplay(ReplayBuffer):
    """Draws rows in proportion to priority ** alpha (Schaul et al. 2016).

    Args:
        alpha: how much priorities matter; 0 is uniform.
        beta: exponent of importance weights; see ``set_beta``.
        default_priority: of new samples.
        unique: a batch holds no row twice.
        input_priorities: new samples may bring priorities, in ``PrioritiesSamplesToBuffer``.
        input_priority_shift: ... which are those of rows so much older (in multiples of
            ``rnn_state_interval``, for sequences).
        kwargs: as for ``ReplayBuffer``.
    """

    Selection = PrioritizedSelection

    def __init__(
        self,
        alpha: float = 0.6,
        beta: float = 0.4,
        default_priority: float = 1,
        unique: bool = False,
        input_priorities: bool = False,
        input_priority_shift: int = 0,
        **kwargs: Any,
    ) -> None:
        settings = PrioritySettings(
            alpha, beta, default_priority, unique, input_priorities, input_priority_shift
        )
        self.alpha, self.default_priority, self.unique = alpha, default_priority, unique
        self.input_priorities, self.input_priority_shift = input_priorities, input_priority_shift
        super().__init__(priorities=settings, **kwargs)

    @property
    def beta(self) -> float:
        """Exponent of importance weights."""
        return float(self.selection.beta)

    def set_default_priority(self, priority: float) -> None:
        """Set the priority of samples to come that bring none.

        Raises:
            ValueError: it is not above zero.
        """
        self.priority_tree.default_value = priority**self.alpha
        self.default_priority = priority

    @property
    def priority_tree(self) -> SumTree:
        """The tree of priorities."""
        return self.selection.tree  # type: ignore[no-any-return]

    def init_priority_tree(self) -> None:
        """Give all rows the default priority anew; construction has made the tree."""
        self.priority_tree.level(self.selection.void)


class PrioritizedReplayBuffer(PrioritizedReplay, NStepReturnBuffer):
    """Prioritised replay of whole observations."""


class AsyncPrioritizedReplayBuffer(AsyncReplayBufferMixin, PrioritizedReplayBuffer):
    """The same in shared memory."""
