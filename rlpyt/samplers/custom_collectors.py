"""Support for custom collectors: progress of their environments, and explained errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rlpyt.agents.base import BaseAgent
from rlpyt.processes.status import ACTIVITY, COLLECTING, RESETTING, ROW, STEP, STEPPING
from rlpyt.samplers.context import CollectorContext

if TYPE_CHECKING:
    from rlpyt.samplers.collectors import BaseCollector


def watch(env: Any, context: CollectorContext, b: int, n_steps: dict[int, int]) -> None:
    """Record in the context when an environment is stepped and reset.

    Args:
        env: the environment; its methods are replaced.
        context: of the process.
        b: row of the environment, or the first of its rows.
        n_steps: steps that each row has taken in this batch, counted here.
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

    def noted(*args: object, **kwargs: object) -> Any:
        if doing == STEPPING:
            context.actions = {b: args[0]} if args else None
            progress[STEP] = n_steps.get(b, 0)
            n_steps[b] = n_steps.get(b, 0) + 1
        progress[ROW], progress[ACTIVITY] = b, doing
        result = method(*args, **kwargs)
        progress[ACTIVITY] = COLLECTING
        return result

    return noted


def results_of(collector: BaseCollector, method: str, given: object, expected: str) -> Any:
    """Return the results of a collector's method, after a check of their number.

    Raises:
        TypeError: the number is wrong.
    """
    n = expected.count(",") + 1
    if isinstance(given, tuple | list) and len(given) == n:
        return given
    came = f"{len(given)}" if isinstance(given, tuple | list) else type(given).__name__
    raise TypeError(
        f"{type(collector).__name__}.{method} returned {came}, expected {n}: {expected}."
    )


@contextlib.contextmanager
def explaining_absence(collector: BaseCollector, agent: BaseAgent | None) -> Iterator[None]:
    """Explain the AttributeError of a collector that uses an agent which is in another process.

    Raises:
        AttributeError: with the explanation, instead of the one about ``None``.
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
            "self.step_buffer_np (docs/sampling.md, Custom collectors). Collectors that call "
            "self.agent.step are for SerialSampler and CpuSampler."
        ) from error
