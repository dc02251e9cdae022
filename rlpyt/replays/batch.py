"""Named tuples that replays take and return."""

from collections.abc import Callable
from functools import cache
from typing import Any

from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple

# True final observations of truncated episodes, which no row contains, since the next row belongs
# to the next episode. T_idxs and B_idxs [K] are the steps of samples [T, B] that are done but not
# terminated; observation is [K, ...].
FinalObservations = namedarraytuple("FinalObservations", ["T_idxs", "B_idxs", "observation"])

PrioritiesSamplesToBuffer = namedarraytuple("PrioritiesSamplesToBuffer", ["priorities", "samples"])


class ReplayBatch:
    """Base class of namedarraytuples with rlpyt's fields and additional attributes.

    Iteration and unpacking return only the fields, as in rlpyt.

    Attributes:
        discount_n: float32, in the shape of ``return_``: gamma to the power of the number of
            rewards in ``return_``, zero after a terminal state. The target is always ``return_ +
            discount_n * value(target)``.
        ticket: identifier of the rows of a prioritized batch for ``update_batch_priorities``; None
            in other batches.
        all_done: (sequences) [T + n, B] bool, ``done`` of all rows, including those of targets.
        final: (sequences) ``FinalObservations`` of episodes truncated inside [T + n, B], or None.
        void: (sequences) [T + n, B] bool, rows in which the environment waited for its reset; None
            if the replay has never stored any.

    ``buffer_to`` and other maps over arrays include the attributes, and ``_replace`` keeps all but
    the ticket. Other ways to derive a batch drop them; reading one then raises AttributeError.
    """

    ticket: Any

    def _map(self, function: Callable[[Any], Any]) -> Any:
        """Apply ``function`` to all fields and attributes except the ticket."""
        new = type(self)._make(map(function, tuple(self)))  # type: ignore[attr-defined, call-overload]
        for name, value in self.__dict__.items():
            setattr(new, name, value if name == "ticket" else function(value))
        return new

    def _replace(self, **fields: Any) -> Any:
        """Replace some fields; keep all attributes except the ticket."""
        new = super()._replace(**fields)  # type: ignore[misc]
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k != "ticket"})
        return new

    def __reduce__(self) -> Any:
        cls: Any = type(self)
        return _rebuild, (cls.__name__, cls._fields, tuple(self), dict(self.__dict__))  # type: ignore[call-overload]

    def __getattr__(self, name: str) -> Any:
        if name in ("discount_n", "ticket", "all_done", "final", "void"):
            raise AttributeError(
                f"this {type(self).__name__} has no '{name}', because it was not returned by "
                f"sample_batch but derived from a batch. Use '{name}' of that batch."
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


@cache
def batch_type(name: str, fields: tuple[str, ...]) -> Any:
    """Return the type of batches with these fields."""
    array_tuple = namedarraytuple(name, fields)
    members = {"__module__": __name__, "__doc__": ReplayBatch.__doc__}
    return type(array_tuple)(name, (ReplayBatch, array_tuple), members)


def _rebuild(name: str, fields: tuple[str, ...], values: Any, attributes: dict[str, Any]) -> Any:
    batch = batch_type(name, fields)._make(values)
    batch.__dict__.update(attributes)
    return batch


# Batches of transitions have the leading dimension [B], batches of sequences [T, B], and their
# ``all_...`` fields [T + n, B]. ``is_weights`` are [B].
_TRANSITION = ("agent_inputs", "action", "return_", "done", "done_n", "target_inputs")
_TIME_LIMIT = (*_TRANSITION, "timeout", "timeout_n")  # of the step, and of the end of its window
_SEQUENCE = ("all_observation", "all_action", "all_reward", "return_", "done", "done_n",
             "init_rnn_state")  # fmt: skip

Transitions = batch_type("Transitions", _TRANSITION)
TimeLimitTransitions = batch_type("TimeLimitTransitions", _TIME_LIMIT)
Sequences = batch_type("Sequences", _SEQUENCE)
PrioritizedTransitions = batch_type("PrioritizedTransitions", (*_TRANSITION, "is_weights"))
PrioritizedTimeLimitTransitions = batch_type(
    "PrioritizedTimeLimitTransitions", (*_TIME_LIMIT, "is_weights")
)
PrioritizedSequences = batch_type("PrioritizedSequences", (*_SEQUENCE, "is_weights"))


def with_is_weights(batch: NamedArrayTuple, is_weights: Any, ticket: Any) -> Any:
    """Return the batch with a ticket and an additional last field ``is_weights``.

    Batches of other types (from ``extract_batch`` of a subclass) only get the field.
    """
    new = _with_is_weights(type(batch))._make((*tuple(batch), is_weights))
    if isinstance(batch, ReplayBatch):
        new.__dict__.update(batch.__dict__)
        new.ticket = ticket
    return new


@cache
def _with_is_weights(cls: Any) -> Any:
    """Return the type of batches of another type with a last field ``is_weights``."""
    fields, name = (*cls._fields, "is_weights"), cls.__name__
    if issubclass(cls, ReplayBatch):
        return batch_type(f"Prioritized{name}", fields)
    return namedarraytuple(f"{name}Pri", fields)
