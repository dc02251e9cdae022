"""Around loops that users write: what their environments do is noted, and misfits are explained."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.processes.status import COLLECTING, DOING, RESETTING, ROW, STEP, STEPPING
from rlpyt.samplers.context import CollectorContext


def watch(env: Any, context: CollectorContext, b: int, n_steps: dict[int, int]) -> None:
    """Let an environment note in the context when it is stepped and reset.

    Args:
        env: whose methods are replaced.
        context: of the process.
        b: its row, or the first of its rows.
        n_steps: how many steps each row has taken, counted here; cleared when a batch begins.
    """
    env.step = _noted(env.step, context, b, STEPPING, n_steps)
    env.reset = _noted(env.reset, context, b, RESETTING, n_steps)


def _noted(
    method: Callable[..., Any],
    context: CollectorContext,
    b: int,
    doing: int,
    n_steps: dict[int, int],
) -> Callable[..., Any]:
    progress = context.progress

    def noted(*args: Any, **kwargs: Any) -> Any:
        if doing == STEPPING:
            context.actions = {b: args[0]} if args else None
            progress[STEP] = n_steps.get(b, 0)
            n_steps[b] = n_steps.get(b, 0) + 1
        progress[ROW], progress[DOING] = b, doing
        result = method(*args, **kwargs)
        progress[DOING] = COLLECTING
        return result

    return noted


def results_of(collector: Any, method: str, given: Any, expected: str) -> Any:
    """Return a collector method's results after checking their number.

    Raises:
        TypeError: it is not.
    """
    n = expected.count(",") + 1
    if isinstance(given, tuple | list) and len(given) == n:
        return given
    came = f"{len(given)}" if isinstance(given, tuple | list) else type(given).__name__
    raise TypeError(
        f"{type(collector).__name__}.{method} returned {came}, expected {n}: {expected}."
    )


@contextlib.contextmanager
def explaining_absence(collector: Any, agent: Any) -> Iterator[None]:
    """Say where the agent is, to a loop that asks for it in vain.

    Raises:
        AttributeError: in place of the one about ``None``.
    """
    try:
        yield
    except AttributeError as error:
        asked = error.obj is None and hasattr(BaseAgent, error.name or "")
        if agent is not None or not asked:
            raise
        raise AttributeError(
            f"{error}: self.agent is None, since the agent is in the master. In this sampler "
            f"{type(collector).__name__} gets its actions through self.sync and "
            "self.step_buffer_np (docs/sampling.md, Your own collector); with self.agent.step it "
            "is for SerialSampler and CpuSampler."
        ) from error
