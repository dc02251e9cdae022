"""Status board of child processes: numbers that a child writes, and their description in words.

A child records its activity in ``progress``, in memory shared with its parent. So the parent knows
that it makes progress, which time limit applies, and what it was doing when it was killed.
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

# The numbers: row of the environment, time step in the batch, iteration, activity, 1 for evaluation
# environments, index of the batch, and a count of the times the process has watched others.
ROW, STEP, ITR, DOING, EVAL, SLOT, BEAT = range(7)
N_NUMBERS = 7
# Activities. A child is building until it is ready for commands.
BUILDING, RESETTING, STEPPING, ACTING, IDLE, COLLECTING = range(6)
WORDS = {BUILDING: "building", RESETTING: "resetting", STEPPING: "stepping"}
WORDS_FOR_ALL = {
    ACTING: "while choosing actions for",
    IDLE: "between batches with",
    COLLECTING: "in the collector's loop over",  # the user's own
}
MOST_SETTINGS = 200  # characters

# The numbers of a process: a list of its own, or its row in shared memory.
Progress = list[int] | memoryview | np.ndarray[Any, Any]


def fresh_progress() -> list[int]:
    """Return the numbers of a process that has not started."""
    return [-1, -1, -1, BUILDING, 0, 0, 0]


def allocate_progress(n: int) -> Any:
    """Return the numbers of n processes, [n, N_NUMBERS] int64 in shared memory."""
    progress = Arena().allocate((n, N_NUMBERS), np.int64)
    progress[...] = fresh_progress()
    return progress


@dataclass(frozen=True, kw_only=True)
class ChildEnvs:
    """Environments of a child process, as far as its status shows them.

    Attributes:
        EnvCls: a class, or a function that makes an environment.
        env_kwargs, eval_env_kwargs: arguments of each environment, for training and evaluation.
        env_ranks, eval_env_ranks: their global indices.
        seed: of the run.
    """

    EnvCls: Callable[..., Any]
    env_kwargs: list[dict[str, Any]]
    env_ranks: list[int]
    eval_env_kwargs: list[dict[str, Any]] = field(default_factory=list)
    eval_env_ranks: list[int] = field(default_factory=list)
    seed: int


@dataclass(frozen=True)
class WorkerStatus:
    """Activity of a child; its text is a part of error messages.

    Attributes:
        doing: one of the activities.
        itr: iteration of the run, or -1 before the first.
        env_index: global index of the environment, or -1 if it is not about a single one.
        evaluation: it is an evaluation environment; these have their own indices.
        step: time step in the batch, evaluation, or decorrelation before both; -1 outside.
        env: class and arguments of the environment.
        seed: of the environment, or ``None``.
        action: last action as text, or ``None`` if unknown.
        text: the description, if it is not about environments; may be empty.
    """

    doing: int
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
        said = [f"{self._occupation()} {self.env}"]
        if self.doing in WORDS and self.seed is not None:
            said.append(f"seed {self.seed}")
        said.append(self._when())
        if self.action is not None:
            said.append(f"last action {self.action}")
        return "; ".join(said)

    def _when(self) -> str:
        begun, stepped = self.itr >= 0, self.step >= 0
        if stepped and not begun and not self.evaluation:
            return f"step {self.step} of the random steps before the first batch"
        when = f"iteration {self.itr}" if begun else "before the first iteration"
        whole = "evaluation" if self.evaluation else "batch"
        return f"{when}, step {self.step} of the {whole}" if stepped else when

    def _occupation(self) -> str:
        kind = "evaluation environment" if self.evaluation else "environment"
        if self.doing in WORDS_FOR_ALL:
            return f"{WORDS_FOR_ALL[self.doing]} {kind}s"
        if self.env_index < 0:
            return "before making"
        return f"while {WORDS.get(self.doing, 'occupied with')} {kind} {self.env_index},"


def activity(spec: ChildSpec) -> WorkerStatus:
    """Describe the child of a ``ChildSpec`` as starting, idle or working."""
    doing = int(spec.progress[DOING])
    text = {BUILDING: "while starting", IDLE: "between two commands"}.get(doing, "while working")
    return WorkerStatus(doing, text=text)


def environment_status(progress: Progress, envs: ChildEnvs, action: object = None) -> WorkerStatus:
    """Describe a child that steps environments.

    Args:
        progress: its activity numbers.
        envs: its environments.
        action: of the last step.
    """
    row, step, itr, doing, evaluation, *_ = (int(number) for number in progress)
    ranks = envs.eval_env_ranks if evaluation else envs.env_ranks
    kwargs = envs.eval_env_kwargs if evaluation else envs.env_kwargs
    known = doing in WORDS and 0 <= row < len(ranks)
    purpose = "eval env" if evaluation else "env"
    return WorkerStatus(
        doing=doing,
        env_index=ranks[row] if known else -1,
        evaluation=bool(evaluation),
        itr=itr,
        step=step,
        env=describe_env(envs.EnvCls, kwargs[row if known else 0] if kwargs else {}),
        seed=env_seed(envs.seed, ranks[row], purpose) if known else None,
        action=None if doing != STEPPING or action is None else _short(action),
    )


def describe_env(EnvCls: Callable[..., Any], env_kwargs: Mapping[str, Any]) -> str:
    """Return class and arguments of an environment in one line: ``make(id='CartPole-v1')``."""
    name = getattr(EnvCls, "__qualname__", None) or type(EnvCls).__qualname__
    settings = ", ".join(
        f"{key}={value!r}" if isinstance(value, str) else f"{key}={_short(value)}"
        for key, value in env_kwargs.items()
    )
    if len(settings) > MOST_SETTINGS:
        settings = f"{settings[:MOST_SETTINGS]}..."
    return f"{name}({settings})"


def _short(value: object) -> str:
    """Return a short text for a value, even if its ``__repr__`` raises."""
    if isinstance(value, str):
        return value[:MOST_SETTINGS]
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    shortener = reprlib.Repr()
    shortener.maxother = shortener.maxstring = MOST_SETTINGS // 2
    try:
        return " ".join(shortener.repr(value).split())
    except Exception:
        return f"<{type(value).__name__}>"
