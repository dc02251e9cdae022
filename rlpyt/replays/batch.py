"""What replays take in and give out."""

from collections.abc import Callable
from typing import Any

from rlpyt.utils.collections import namedarraytuple

# Beside new samples: the true final observations of episodes that were cut off, which nothing else
# in the samples shows (the next row is the next episode's). T_idxs and B_idxs say in which steps of
# the samples [T, B] (done, not terminated), observation is [K, ...] for these K steps.
FinalObservations = namedarraytuple("FinalObservations", ["T_idxs", "B_idxs", "observation"])

PrioritiesSamplesToBuffer = namedarraytuple("PrioritiesSamplesToBuffer", ["priorities", "samples"])

_TRANSITION = ("agent_inputs", "action", "return_", "done", "done_n", "target_inputs")
_SEQUENCE = ("all_observation", "all_action", "all_reward", "return_", "done", "done_n",
             "init_rnn_state")  # fmt: skip


class ReplayBatch:
    """A batch has rlpyt's fields, and attributes beside them.

    The fields are what iteration and unpacking give, as documented; attributes are what came later:

    Attributes:
        discount_n: float32, in the shape of ``return_``. What the value of the target inputs is
            multiplied by: gamma to the number of rewards in ``return_``, zero after a terminal
            state. The target is ``return_ + discount_n * value(target)``, whatever happened in the
            window.
        ticket: names the rows of a prioritised batch to ``update_batch_priorities``; None in
            other batches.
        all_done: (sequences) [T + n, B] bool, ``done`` of all rows, the targets' included.
        final: (sequences) ``FinalObservations`` of episodes cut off inside [T + n, B], None where
            there are none.
        void: (sequences) [T + n, B] bool, rows to ignore, in which an environment waited for a
            reset; ``None`` if there never were any.

    ``buffer_to`` and other functions that map the arrays of a batch also map those of the
    attributes; ``_replace`` keeps all but the ticket. A batch made in another way lacks the
    attributes, and reading one raises AttributeError.
    """

    ticket: Any

    def _map(self, function: Callable[[Any], Any]) -> Any:
        """The same batch with every field and attribute replaced, but for the ticket."""
        new = type(self)._make(map(function, tuple(self)))  # type: ignore[attr-defined, call-overload]
        for name, value in self.__dict__.items():
            setattr(new, name, value if name == "ticket" else function(value))
        return new

    def _replace(self, **fields: Any) -> Any:
        """Return the batch with other values in some fields; all attributes but the ticket stay."""
        new = super()._replace(**fields)  # type: ignore[misc]
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k != "ticket"})
        return new

    def __reduce__(self) -> Any:
        fields = tuple(self)  # type: ignore[call-overload]
        return _rebuild, (type(self), fields, dict(self.__dict__))

    def __getattr__(self, name: str) -> Any:
        if name in ("discount_n", "ticket", "all_done", "final", "void"):
            raise AttributeError(
                f"this {type(self).__name__} has no '{name}': it was not made by sample_batch, or "
                f"made anew from a batch that was. Take '{name}' from that one."
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def _rebuild(cls: Any, fields: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    batch = cls._make(fields)
    batch.__dict__.update(attributes)
    return batch


_TIME_LIMIT = (*_TRANSITION, "timeout", "timeout_n")
_Transitions: Any = namedarraytuple("SamplesFromReplay", _TRANSITION)
_PrioritizedTransitions: Any = namedarraytuple("SamplesFromReplayPri", (*_TRANSITION, "is_weights"))
_TimeLimits: Any = namedarraytuple("SamplesFromReplayTL", _TIME_LIMIT)
_PrioritizedTimeLimits: Any = namedarraytuple("SamplesFromReplayTL", (*_TIME_LIMIT, "is_weights"))
_Sequences: Any = namedarraytuple("SamplesFromReplay", _SEQUENCE)
_PrioritizedSequences: Any = namedarraytuple("SamplesFromReplayPri", (*_SEQUENCE, "is_weights"))


class Transitions(ReplayBatch, _Transitions):  # type: ignore[misc]
    """A batch [B] of single steps and their n-step targets; rlpyt's ``SamplesFromReplay``."""


class PrioritizedTransitions(ReplayBatch, _PrioritizedTransitions):  # type: ignore[misc]
    """As ``Transitions``, with importance-sampling weights [B]."""


class TimeLimitTransitions(ReplayBatch, _TimeLimits):  # type: ignore[misc]
    """As ``Transitions``, with ``timeout`` of the step, and of the window's end, [B] bool."""


class PrioritizedTimeLimitTransitions(ReplayBatch, _PrioritizedTimeLimits):  # type: ignore[misc]
    """As ``TimeLimitTransitions``, with importance-sampling weights [B]."""


class Sequences(ReplayBatch, _Sequences):  # type: ignore[misc]
    """A batch [T, B] of sequences with targets; ``all_*`` are [T + n, B]."""


class PrioritizedSequences(ReplayBatch, _PrioritizedSequences):  # type: ignore[misc]
    """As ``Sequences``, with importance-sampling weights [B]."""


_WITH_WEIGHTS = {
    Transitions: PrioritizedTransitions,
    TimeLimitTransitions: PrioritizedTimeLimitTransitions,
    Sequences: PrioritizedSequences,
}


def with_is_weights(batch: Any, is_weights: Any, ticket: Any) -> Any:
    """The batch with the field ``is_weights`` behind its others, and its ticket.

    Batches of a user's own kind (from an ``extract_batch`` of their own) become the kind with that
    one field more.
    """
    cls = _WITH_WEIGHTS.get(type(batch))
    if cls is None:
        cls = namedarraytuple(f"{type(batch).__name__}Pri", (*batch._fields, "is_weights"))
    new = cls(*tuple(batch), is_weights)
    if isinstance(new, ReplayBatch):
        new.__dict__.update(batch.__dict__)
        new.ticket = ticket
    return new
