"""Environments that take a task at each reset."""

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
    """An environment whose next episodes have the tasks that it is assigned, in order.

    When the last of them is used up, it is repeated until there are more. An environment that was
    never assigned any, as in evaluation, draws all its tasks uniformly, from a stream of its own.
    ``env_info`` has one more field, ``task``; other attributes are those of the inner environment.

    Args:
        env: has in one of its layers a method ``set_task(task)``, called before each reset, or an
            attribute ``task``, set then. A numbered task is an int, others are [D] float64.
        space: the tasks.

    Attributes:
        task: of the episode.

    Raises:
        TypeError: the environment cannot be given a task.
    """

    def __init__(self, env: Any, space: TaskSpace) -> None:
        self.env, self.space = env, space
        self._set_task = _setter(env)
        self._queue: deque[Any] = deque()
        self._assigned = False
        self._rng = stream(0, "task")
        self.task: Any = None
        self._seen: tuple[Any, Any] = (None, None)  # the newest inner env_info, and ours for it

    def assign(self, tasks: Sequence[Any]) -> int:
        """Add tasks for the episodes that begin next; returns how many are waiting now."""
        self._queue.extend(self.space.check(tasks) if len(tasks) else ())
        self._assigned = self._assigned or bool(self._queue)
        return len(self._queue)

    def reset(self) -> Any:
        """Begin an episode of the next task."""
        if self._queue:
            self._take(self._queue.popleft())
        elif not self._assigned:
            self._take(self.space.draw(self._rng, 1)[0])
        else:
            self._take(self.task)
        return self.env.reset()

    def _take(self, task: Any) -> None:
        self.task = int(task) if isinstance(self.space, NumberedTasks) else np.asarray(task)
        self._seen = (None, None)
        self._set_task(self.task)

    def step(self, action: Any) -> EnvStep:
        """Step the inner environment."""
        observation, reward, done, info = self.env.step(action)
        seen, own = self._seen
        if info is not seen:
            own = _with_task(info, self.task)
            self._seen = (info, own)
        return EnvStep(observation, reward, done, own)

    def seed(self, seed: int) -> None:
        """Seed the inner environment, and the stream of tasks that are not assigned."""
        self._rng = stream(seed, "task")
        if hasattr(self.env, "seed"):
            self.env.seed(seed)

    def get_state(self) -> dict[str, Any] | None:
        """Return the inner state and the tasks; ``None`` where there is no inner state."""
        inner = self.env.get_state() if hasattr(self.env, "get_state") else None
        if inner is None:
            return None
        tasks = {"task": pack(self.task), "queue": pack(list(self._queue))}
        return {**tasks, "env": inner, "assigned": self._assigned, "rng": pack_rng(self._rng)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state of an equally made environment."""
        task = unpack(state["task"])
        if task is not None:
            self._take(task)
        self.env.set_state(state["env"])
        self._queue = deque(unpack(state["queue"]))
        self._assigned = state["assigned"]
        set_rng(self._rng, state["rng"])

    @property
    def action_space(self) -> Any:
        """The inner one."""
        return self.env.action_space

    @property
    def observation_space(self) -> Any:
        """The inner one."""
        return self.env.observation_space

    @property
    def horizon(self) -> int | None:
        """The inner one."""
        return getattr(self.env, "horizon", None)


@dataclass(frozen=True)
class TaskEnvs:
    """Makes a ``TaskEnv`` around each environment that another class or function makes.

    Attributes:
        EnvCls: that class or function.
        space: the tasks.
    """

    EnvCls: Any
    space: TaskSpace

    def __post_init__(self) -> None:
        if getattr(self.EnvCls, "batched", False):
            raise ValueError(
                f"{self.__name__} makes batches of environments, and a curriculum needs single "
                "ones: give the environment itself."
            )

    @property
    def __name__(self) -> str:
        return getattr(self.EnvCls, "__name__", repr(self.EnvCls))

    def __call__(self, **kwargs: Any) -> TaskEnv:
        """Make one; raises as ``build_env`` and ``TaskEnv`` do."""
        return TaskEnv(build_env(self.EnvCls, kwargs), self.space)


def _setter(env: Any) -> Any:
    """How the task of an environment is set: a method of one of its layers, or an attribute."""
    if hasattr(env, "reset_rows"):
        raise TypeError(f"{env} is a batch of environments; a curriculum needs single ones.")
    layers = wrappers_of(env)
    for layer in layers:
        if callable(getattr(type(layer), "set_task", None)):
            return layer.set_task
    for layer in layers:
        if "task" in vars(layer):
            return lambda task: setattr(layer, "task", task)
    raise TypeError(
        f"{env} cannot be given a task: give it a method set_task(task), called before each reset, "
        "or set self.task in its constructor and read it in reset."
    )


def _with_task(info: Any, task: Any) -> Any:
    """An ``env_info`` with the field ``task``; one that it has of its own gives way."""
    fields = getattr(info, "_fields", ())
    if "task" in fields:
        return info._replace(task=task)
    name = type(info).__name__ if fields else "EnvInfo"
    return namedtuple_class(f"{name}_task", [*fields, "task"])._make([*(info or ()), task])
