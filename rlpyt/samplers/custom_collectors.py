"""Support for custom collectors: record the progress of their environments, explain errors."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.processes.status import ACTIVITY, COLLECTING, RESETTING, ROW, STEP, STEPPING
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.environments import close_quietly

if TYPE_CHECKING:
    from rlpyt.samplers.collectors import BaseCollector


def watch(env: Any, context: CollectorContext, b: int, n_steps: dict[int, int]) -> None:
    """Record in the context when an environment is stepped and reset.

    Args:
        env: the environment; its methods are replaced.
        context: context of the process.
        b: row of the environment, or the first of its rows.
        n_steps: number of steps in this batch by row, updated here.
    """
    progress = context.progress

    def recorded(method: Callable[..., Any], activity: int) -> Callable[..., Any]:
        def call(*args: object, **kwargs: object) -> Any:
            if activity == STEPPING:
                context.actions = {b: args[0]} if args else None
                progress[STEP] = n_steps.get(b, 0)
                n_steps[b] = n_steps.get(b, 0) + 1
            progress[ROW], progress[ACTIVITY] = b, activity
            result = method(*args, **kwargs)
            progress[ACTIVITY] = COLLECTING
            return result

        return call

    env.step, env.reset = recorded(env.step, STEPPING), recorded(env.reset, RESETTING)


class EvalSync:
    """The ``sync`` of rlpyt (2019) for custom evaluation collectors: the flag ``stop_eval``.

    Args:
        queue: queue of the trajectories that have ended.
        quota: number of episodes of each environment; ``None``: the flag is never set.
    """

    def __init__(self, queue: SimpleQueue[Any], quota: list[int] | None) -> None:
        self._queue, self._n = queue, None if quota is None else sum(quota)

    @property
    def stop_eval(self) -> SimpleNamespace:
        """Return the flag; its ``value`` is True once enough episodes have ended."""
        return SimpleNamespace(value=self._n is not None and self._queue.qsize() >= self._n)


class CustomCollectors:
    """Collectors that a custom ``initialize`` has built, with the methods of ``EnvWorker``.

    Args:
        sampler: sampler with the attributes ``collector``, ``agent_inputs``, ``traj_infos`` and
            ``samples_pyt``, and ``eval_collector`` for evaluation.
    """

    def __init__(self, sampler: Any) -> None:
        attributes = vars(sampler)
        self.collector = attributes["collector"]
        self.agent_inputs, self.traj_infos = sampler.agent_inputs, sampler.traj_infos
        self.eval_collector = attributes.get("eval_collector")

    def collect(self, itr: int, slot: int = 0) -> Any:
        """Fill a batch; return finished trajectories."""
        with torch.no_grad():
            results = self.collector.collect_batch(self.agent_inputs, self.traj_infos, itr)
            self.agent_inputs, self.traj_infos, completed = results
            self.collector.reset_if_needed(self.agent_inputs)
        return completed

    def evaluate(self, itr: int, n_steps: int, first: bool) -> tuple[Any, bool]:
        """Run a whole evaluation; return its trajectories."""
        with torch.no_grad():
            return self.eval_collector.collect_evaluation(itr), True

    def start_anew(self, seed: int, alone: bool) -> None:
        """Do nothing: whoever made the environments has seeded them."""

    def where(self) -> str:
        """Return what the collectors do, for messages."""
        return f"in {type(self.collector).__name__}"

    def close(self) -> None:
        """Close the environments."""
        for collector in (self.collector, self.eval_collector):
            close_quietly(getattr(collector, "envs", ()))


def results_of(collector: BaseCollector, method: str, results: object, expected: str) -> Any:
    """Return the results of a collector's method, after checking their number.

    Raises:
        TypeError: the number of results is wrong.
    """
    n = expected.count(",") + 1
    if isinstance(results, tuple | list) and len(results) == n:
        return results
    got = f"{len(results)}" if isinstance(results, tuple | list) else type(results).__name__
    name = type(collector).__name__
    raise TypeError(f"{name}.{method} returned {got}, expected {n}: {expected}.")


def explained(collector: BaseCollector, agent: BaseAgent | None) -> Callable[..., Any]:
    """Return ``collect_batch`` with explanations of errors that custom collectors make.

    The function raises AttributeError if the collector uses ``self.agent``, which is in another
    process, and TypeError if it returns another number of results.
    """
    expected = "(agent_inputs, traj_infos, completed traj_infos)"

    def collect_batch(agent_inputs: Any, traj_infos: list[Any], itr: int) -> Any:
        try:
            results = collector.collect_batch(agent_inputs, traj_infos, itr)
        except AttributeError as error:
            of_agent = error.obj is None and hasattr(BaseAgent, error.name or "")
            if agent is not None or not of_agent:
                raise
            raise AttributeError(
                f"{error}: self.agent is None, since the agent is in the master. In this sampler "
                f"{type(collector).__name__} gets its actions through self.sync and "
                "self.step_buffer_np (docs/sampling.md, Custom collectors). Collectors that call "
                "self.agent.step are for SerialSampler and CpuSampler."
            ) from error
        return results_of(collector, "collect_batch", results, expected)

    return collect_batch
