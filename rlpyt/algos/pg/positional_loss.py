"""Losses of PPO written for rlpyt of 2020, whose inputs are single arguments, not one batch."""

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from rlpyt.algos.pg.base import PgBatch

Loss = Callable[..., Any]


def single_arguments(
    agent_inputs: Any,
    action: Any,
    return_: Any,
    advantage: Any,
    valid: Any,
    old_dist_info: Any,
    init_rnn_state: Any = None,
    old_value: Any = None,
) -> Any:
    """Return the single arguments of a loss, in the order of rlpyt of 2020, as one batch."""
    return PgBatch(**locals(), done=None)


NAMES = tuple(inspect.signature(single_arguments).parameters)


def accepts_single_arguments(loss: Loss) -> Loss:
    """Return a method ``loss(batch)`` that subclasses may also call with single arguments."""

    @functools.wraps(loss)
    def either(self: Any, *inputs: Any, **named: Any) -> Any:
        if len(inputs) == 1 and not named:
            return loss(self, *inputs)
        return loss(self, single_arguments(*inputs, **named))

    return either


def adapt_single_arguments(cls: type) -> None:
    """Let the loss of a subclass take a batch if it is written with single arguments; warn once."""
    loss: Loss = cls.loss  # type: ignore[attr-defined]
    if hasattr(loss, "takes_single_arguments"):
        return
    parameters = list(inspect.signature(loss).parameters.values())[1:]
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
    if len(required) == 1 and required[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        return

    @functools.wraps(loss)
    def from_batch(self: Any, *inputs: Any, **named: Any) -> Any:
        if len(inputs) != 1 or named:
            return loss(self, *inputs, **named)
        values = [getattr(*inputs, name) for name in NAMES]
        return loss(self, *values[: None if values[-1] is not None else -1])  # as few as possible

    from_batch.takes_single_arguments = True  # type: ignore[attr-defined]
    cls.loss = from_batch  # type: ignore[attr-defined]
    warnings.warn(
        f"{cls.__name__}.loss takes single arguments, as in rlpyt of 2020. It works. New code "
        "writes loss(self, batch) and reads batch.advantage and so on.",
        stacklevel=3,
    )
