"""Activity of child processes: numbers written by a child, and their description in words.

A child records its activity in ``progress``, in memory shared with its parent. From it the parent
knows whether the child makes progress, which time limit applies, and what it was doing when it
died.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.utils.seed import env_seed
from rlpyt.utils.shared import Arena

if TYPE_CHECKING:
    from rlpyt.processes.child import ChildSpec

# Activity numbers: row of the environment, time step in the batch, iteration, activity, 1 for
# evaluation environments, index of the batch, number of checks of the process's own children.
ROW, STEP, ITR, ACTIVITY, EVAL, SLOT, BEAT = range(7)
N_NUMBERS = 7
# Values of ACTIVITY. A child is building until it is ready for commands.
BUILDING, RESETTING, STEPPING, ACTING, IDLE, COLLECTING = range(6)
VERBS = {BUILDING: "building", RESETTING: "resetting", STEPPING: "stepping"}
PHRASES = {
    ACTING: "while choosing actions for",
    IDLE: "between batches with",
    COLLECTING: "in the collector's loop over",  # a custom collector
}
MAX_SETTINGS = 200  # characters

# Activity numbers of a process: a list, or a row of an array in shared memory.
Progress = list[int] | memoryview | np.ndarray[Any, Any]


def fresh_progress() -> list[int]:
    """Return the activity numbers of a process that has not started."""
    return [-1, -1, -1, BUILDING, 0, 0, 0]


def allocate_progress(n: int) -> Any:
    """Allocate activity numbers of n processes, [n, N_NUMBERS] int64 in shared memory."""
    progress = Arena().allocate((n, N_NUMBERS), np.int64)
    progress[...] = fresh_progress()
    return progress


@dataclass(frozen=True, kw_only=True)
class ChildEnvs:
    """Environments of a child process, for the description of its status.

    Attributes:
        EnvCls: class of the environment, or function that makes one.
        env_kwargs, eval_env_kwargs: arguments of each environment, for training and evaluation.
        env_ranks, eval_env_ranks: global indices of the environments.
        seed: seed of the run.
    """

    EnvCls: Callable[..., Any]
    env_kwargs: list[dict[str, Any]]
    env_ranks: list[int]
    eval_env_kwargs: list[dict[str, Any]] = field(default_factory=list)
    eval_env_ranks: list[int] = field(default_factory=list)
    seed: int


@dataclass(frozen=True)
class WorkerStatus:
    """Activity of a child; ``str`` describes it for error messages.

    Attributes:
        activity: one of the values of ``ACTIVITY``.
        itr: iteration of the run, or -1 before the first.
        env_index: global index of the environment, or -1 if the activity is not about one.
        evaluation: True for an evaluation environment; these have their own indices.
        step: time step in the batch, in the evaluation, or in the decorrelation before both; else
            -1.
        env: class and arguments of the environment.
        seed: seed of the environment, or ``None``.
        action: last action as text, or ``None`` if unknown.
        text: complete description of a child without environments; may be empty.
    """

    activity: int
    itr: int = -1
    env_index: int = -1
    evaluation: bool = False
    step: int = -1
    env: str = ""
    seed: int | None = None
    action: str | None = None
    text: str | None = None

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        parts = [f"{self._task()} {self.env}"]
        if self.activity in VERBS and self.seed is not None:
            parts.append(f"seed {self.seed}")
        parts.append(self._time())
        if self.action is not None:
            parts.append(f"last action {self.action}")
        return "; ".join(parts)

    def _time(self) -> str:
        started, stepped = self.itr >= 0, self.step >= 0
        if stepped and not started and not self.evaluation:
            return f"step {self.step} of the random steps before the first batch"
        when = f"iteration {self.itr}" if started else "before the first iteration"
        whole = "evaluation" if self.evaluation else "batch"
        return f"{when}, step {self.step} of the {whole}" if stepped else when

    def _task(self) -> str:
        kind = "evaluation environment" if self.evaluation else "environment"
        if self.activity in PHRASES:
            return f"{PHRASES[self.activity]} {kind}s"
        if self.env_index < 0:
            return "before making"
        return f"while {VERBS.get(self.activity, 'occupied with')} {kind} {self.env_index},"


def child_status(spec: ChildSpec) -> WorkerStatus:
    """Describe the child of a ``ChildSpec`` as starting, idle or working."""
    activity = int(spec.progress[ACTIVITY])
    text = {BUILDING: "while starting", IDLE: "between two commands"}.get(activity, "while working")
    return WorkerStatus(activity, text=text)


def environment_status(progress: Progress, envs: ChildEnvs, action: object = None) -> WorkerStatus:
    """Describe a child that steps environments.

    Args:
        progress: activity numbers of the child.
        envs: environments of the child.
        action: action of the last step.
    """
    row, step, itr, activity, evaluation, *_ = (int(number) for number in progress)
    ranks = envs.eval_env_ranks if evaluation else envs.env_ranks
    kwargs = envs.eval_env_kwargs if evaluation else envs.env_kwargs
    known = activity in VERBS and 0 <= row < len(ranks)
    purpose = "eval env" if evaluation else "env"
    return WorkerStatus(
        activity=activity,
        env_index=ranks[row] if known else -1,
        evaluation=bool(evaluation),
        itr=itr,
        step=step,
        env=describe_env(envs.EnvCls, kwargs[row if known else 0] if kwargs else {}),
        seed=env_seed(envs.seed, ranks[row], purpose) if known else None,
        action=None if activity != STEPPING or action is None else _short(action),
    )


def describe_env(EnvCls: Callable[..., Any], env_kwargs: Mapping[str, Any]) -> str:
    """Return an environment's class and arguments, such as ``make(id='CartPole-v1')``."""
    names = (getattr(EnvCls, known, None) for known in ("__qualname__", "__name__"))
    name = next(filter(None, names), type(EnvCls).__qualname__)
    settings = ", ".join(
        f"{key}={value!r}" if isinstance(value, str) else f"{key}={_short(value)}"
        for key, value in env_kwargs.items()
    )
    if len(settings) > MAX_SETTINGS:
        settings = f"{settings[:MAX_SETTINGS]}..."
    return f"{name}({settings})"


def _short(value: object) -> str:
    """Return a short text for a value, even if its ``__repr__`` raises."""
    if isinstance(value, str):
        return value[:MAX_SETTINGS]
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    shortener = reprlib.Repr()
    shortener.maxother = shortener.maxstring = MAX_SETTINGS // 2
    try:
        return " ".join(shortener.repr(value).split())
    except Exception:
        return f"<{type(value).__name__}>"
