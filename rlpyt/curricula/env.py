"""Environments with a task for each episode."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpyt.curricula.tasks import NumberedTasks, TaskSpace
from rlpyt.envs.base import EnvLayer, EnvStep, build_env
from rlpyt.envs.layers import wrappers_of
from rlpyt.envs.state import pack, pack_rng, set_rng, unpack
from rlpyt.utils.collections import namedtuple_class
from rlpyt.utils.seed import stream


class TaskEnv(EnvLayer):
    """Wrapper that sets the task of each episode from a queue of assigned tasks.

    When the queue is empty, the last task is repeated. An environment without any assigned tasks,
    as in evaluation, draws them uniformly from its own random stream. ``env_info`` gets the field
    ``task``; other attributes are forwarded to the inner environment.

    Args:
        env: environment with, in one of its layers, a method ``set_task(task)`` or an attribute
            ``task``, called or set before each reset. A numbered task is an int, others are [D]
            float64.
        space: the task space.

    Attributes:
        task: task of the current episode.

    Raises:
        TypeError: ``env`` has neither ``set_task`` nor ``task``, or is a vector environment.
    """

    def __init__(self, env: Any, space: TaskSpace) -> None:
        self.env, self.space = env, space
        self._observation_space, self._action_space = env.observation_space, env.action_space
        self._known_horizon = getattr(env, "horizon", None)
        self._set_task = _setter(env)
        self._queue: deque[Any] = deque()
        self._assigned = False
        self._rng = stream(0, "task")
        self.task: Any = None
        self._last_info: tuple[Any, Any] = (None, None)  # inner env_info, the same with the task

    def assign(self, tasks: Sequence[Any]) -> int:
        """Append tasks for the next episodes; return the length of the queue."""
        self._queue.extend(self.space.check(tasks) if len(tasks) else ())
        self._assigned = self._assigned or bool(self._queue)
        return len(self._queue)

    def take_over(self, broken: "TaskEnv") -> None:
        """Continue with the tasks of an environment that this one replaces."""
        self._queue, self._assigned, self.task = broken._queue, broken._assigned, broken.task

    def reset(self) -> Any:
        """Start an episode of the next task."""
        if self._queue:
            self._start_task(self._queue.popleft())
        else:
            self._start_task(self.task if self._assigned else self.space.draw(self._rng, 1)[0])
        return self.env.reset()

    def _start_task(self, task: Any) -> None:
        self.task = int(task) if isinstance(self.space, NumberedTasks) else np.asarray(task)
        self._last_info = (None, None)
        self._set_task(self.task)

    def step(self, action: Any) -> EnvStep:
        """Step the inner environment."""
        observation, reward, done, info = self.env.step(action)
        inner, own = self._last_info
        if info is not inner:
            own = _with_task(info, self.task)
            self._last_info = (info, own)
        return EnvStep(observation, reward, done, own)

    def seed(self, seed: int) -> None:
        """Seed the inner environment and the random stream of unassigned tasks."""
        self._rng = stream(seed, "task")
        if hasattr(self.env, "seed"):
            self.env.seed(seed)

    def get_state(self) -> dict[str, Any] | None:
        """Return the inner state and the tasks; ``None`` without an inner state."""
        inner = self.env.get_state() if hasattr(self.env, "get_state") else None
        if inner is None:
            return None
        tasks = {"task": pack(self.task), "queue": pack(list(self._queue))}
        return {**tasks, "env": inner, "assigned": self._assigned, "rng": pack_rng(self._rng)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of an equally constructed environment."""
        task = unpack(state["task"])
        if task is not None:
            self._start_task(task)
        self.env.set_state(state["env"])
        self._queue = deque(unpack(state["queue"]))
        self._assigned = state["assigned"]
        set_rng(self._rng, state["rng"])


@dataclass(frozen=True)
class TaskEnvs:
    """Factory that wraps each environment of another factory in ``TaskEnv``.

    Attributes:
        EnvCls: class or function that makes an environment.
        space: the task space.
    """

    EnvCls: Any
    space: TaskSpace

    def __post_init__(self) -> None:
        if getattr(self.EnvCls, "batched", False):
            raise ValueError(
                f"{self.__name__} makes batches of environments, but curricula require single "
                "ones. Pass the single environment."
            )

    @property
    def __name__(self) -> str:
        return getattr(self.EnvCls, "__name__", repr(self.EnvCls))

    def __call__(self, **kwargs: Any) -> TaskEnv:
        """Build an environment; raises the errors of ``build_env`` and ``TaskEnv``."""
        return TaskEnv(build_env(self.EnvCls, kwargs), self.space)


def _setter(env: Any) -> Any:
    """Return a function that sets the task by a method or an attribute of a layer."""
    if hasattr(env, "reset_rows"):
        raise TypeError(
            f"{env} is a vector environment, but curricula require single environments."
        )
    layers = wrappers_of(env)
    for layer in layers:
        if callable(getattr(type(layer), "set_task", None)):
            return layer.set_task
    for layer in layers:
        if "task" in vars(layer):
            return lambda task: setattr(layer, "task", task)
    raise TypeError(
        f"{env} must have a method set_task(task), called before each reset, or an attribute task. "
        "Define set_task, or set self.task in the constructor and read it in reset."
    )


def _with_task(info: Any, task: Any) -> Any:
    """Return ``env_info`` with the field ``task``, replacing an existing one."""
    fields = getattr(info, "_fields", ())
    if "task" in fields:
        return info._replace(task=task)
    name = type(info).__name__ if fields else "EnvInfo"
    return namedtuple_class(f"{name}_task", [*fields, "task"])._make([*(info or ()), task])
