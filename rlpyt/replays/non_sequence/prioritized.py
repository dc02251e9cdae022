"""Prioritized replays of single transitions."""

from typing import Any

from rlpyt.replays.batch import PrioritiesSamplesToBuffer  # noqa: F401
from rlpyt.replays.batch import PrioritizedTransitions as SamplesFromReplayPri  # noqa: F401
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.replays.selection import PrioritizedSelection, PrioritySettings
from rlpyt.replays.sum_tree import SumTree

EPS = 1e-6  # not used; rlpyt added it to priorities. Rows of priority zero are never drawn.


class PrioritizedReplay(ReplayBuffer):
    """Replay that draws rows in proportion to priority ** alpha (Schaul et al. 2016).

    Args:
        alpha: exponent of priorities; 0: uniform sampling.
        beta: exponent of importance weights; see ``set_beta``.
        default_priority: priority of new samples; ``None``: 1, as algorithms begin that raise it.
        unique: True to draw no row twice in a batch.
        input_priorities: True if new samples may have priorities (``PrioritiesSamplesToBuffer``).
        input_priority_shift: number of rows (for sequences, of multiples of ``rnn_state_interval``)
            by which the rows of these priorities are older.
        kwargs: see ``ReplayBuffer``.
    """

    Selection = PrioritizedSelection

    def __init__(
        self,
        alpha: float = 0.6,
        beta: float = 0.4,
        default_priority: float | None = 1,
        unique: bool = False,
        input_priorities: bool = False,
        input_priority_shift: int = 0,
        **kwargs: Any,
    ) -> None:
        default_priority = 1 if default_priority is None else default_priority
        settings = PrioritySettings(
            alpha, beta, default_priority, unique, input_priorities, input_priority_shift
        )
        self.alpha, self.default_priority, self.unique = alpha, default_priority, unique
        self.input_priorities, self.input_priority_shift = input_priorities, input_priority_shift
        super().__init__(priorities=settings, **kwargs)
        if type(self).init_priority_tree is not PrioritizedReplay.init_priority_tree:
            self.init_priority_tree()

    @property
    def beta(self) -> float:
        """Return the exponent of importance weights."""
        return float(self.selection.beta)

    def set_default_priority(self, priority: float) -> None:
        """Set the priority of future samples without priorities.

        Raises:
            ValueError: ``priority`` is not above zero.
        """
        self.priority_tree.default_value = priority**self.alpha
        self.default_priority = priority

    @property
    def priority_tree(self) -> Any:
        """Sum tree of priorities; subclasses may set another one in ``init_priority_tree``."""
        return self.selection.tree

    @priority_tree.setter
    def priority_tree(self, tree: Any) -> None:
        if isinstance(tree, SumTree):
            self.selection.tree = tree
        else:
            from rlpyt.replays.custom_tree import CustomTreeSelection

            self.selection = CustomTreeSelection(self.selection, tree)
            self._bind()

    def init_priority_tree(self) -> None:
        """Reset the priorities of all rows to the default; called when a subclass overrides it."""
        self.priority_tree.reset_priorities(self.selection.void)


class PrioritizedReplayBuffer(PrioritizedReplay):
    """Prioritized replay of whole observations."""


class AsyncPrioritizedReplayBuffer(PrioritizedReplayBuffer):
    """Prioritized replay of whole observations in shared memory."""

    async_ = True
