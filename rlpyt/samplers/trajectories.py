"""Single trajectories, cut out of a sampler's batches [T, B].

For code that thinks in episodes: returns of a trajectory (`rlpyt.compat.lagom`), imitation,
plots. Our algorithms learn from the batches as they are.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rlpyt.utils.buffer import buffer_func, numpify_buffer


class StepType(enum.Enum):
    """Position of an observation in its episode."""

    FIRST = 0
    MID = 1
    LAST = 2


class TimeStep(NamedTuple):
    """An observation, and the reward and the end that came with it."""

    step_type: StepType
    observation: Any
    reward: float  # for the action before; 0 where an episode begins
    done: bool
    info: dict[str, Any]  # the fields of ``env_info``

    def first(self) -> bool:
        """True at the beginning of an episode."""
        return self.step_type is StepType.FIRST

    def mid(self) -> bool:
        """True if the episode goes on."""
        return self.step_type is StepType.MID

    def last(self) -> bool:
        """True if the episode has ended."""
        return self.step_type is StepType.LAST

    def time_limit(self) -> bool:
        """True if the episode was truncated by a time limit."""
        return self.last() and bool(self.info.get("timeout", False))

    def terminal(self) -> bool:
        """True if the episode has terminated."""
        return self.last() and not self.time_limit()


@dataclass(eq=False)
class Trajectory:
    """T steps of one environment, numpy arrays of its own; the last may be an episode's end.

    Args:
        observations: tree of [T, ...], before each step.
        actions: [T, ...].
        rewards: [T] float32, after each.
        env_info, agent_info: trees of [T, ...].
        env: column of the batch.
        from_start: whether the first observation is an episode's first.
        reach_terminal: whether nothing follows the last step.
        reach_time_limit: whether a time limit cut the episode off there. With neither, it goes on.
        last_observation: the true final one after a time limit, where the batch has the field
            ``final_observation``; ``None`` otherwise.
        last_value: V of what follows the last step, 0 if that is nothing; ``None`` where the
            batch has no values for bootstrapping.
    """

    observations: Any
    actions: Any
    rewards: Any
    env_info: Any
    agent_info: Any
    env: int
    from_start: bool
    reach_terminal: bool
    reach_time_limit: bool
    last_observation: Any = None
    last_value: float | None = None

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def T(self) -> int:
        """Number of steps."""
        return len(self)

    @property
    def complete(self) -> bool:
        """True for a complete episode."""
        return self.from_start and (self.reach_terminal or self.reach_time_limit)

    @property
    def values(self) -> Any:
        """V of each observation [T], where the agent recorded it."""
        return self.agent_info.value

    def time_steps(self) -> Iterator[TimeStep]:
        """Go through it as T + 1 time steps.

        The last one's observation is ``last_observation``, and may be ``None``.
        """
        first = StepType.FIRST if self.from_start else StepType.MID
        yield TimeStep(first, buffer_func(self.observations, lambda x: x[0]), 0.0, False, {})
        ended = self.reach_terminal or self.reach_time_limit
        for t in range(self.T):
            last = t + 1 == self.T
            info = {key: value[t] for key, value in zip(self.env_info._fields, self.env_info)}
            observation = self.last_observation
            if not last:
                observation = buffer_func(self.observations, lambda x, t=t: x[t + 1])
            step_type = StepType.LAST if last and ended else StepType.MID
            done = last and ended
            yield TimeStep(step_type, observation, float(self.rewards[t]), done, info)


class TrajectoryCutter:
    """Takes in one batch after the other, and gives out trajectories as they end.

    A trajectory ends where ``done`` is true, as its return does; of games with lives, each life.

    Args:
        from_start: whether the first batch's first row begins an episode in every environment;
            after a sampler's random decorrelation steps it does not.
    """

    def __init__(self, from_start: bool = True) -> None:
        self._first = from_start
        self._open: list[_Open] = []
        self._bootstrap: Any = None

    def add(self, samples: Any) -> list[Trajectory]:
        """Take in a batch; returns trajectories that ended in it, by environment, then time.

        Args:
            samples: ``Samples`` [T, B], torch or numpy; what is needed of it is copied.
        """
        samples = numpify_buffer(samples)
        env, agent = samples.env, samples.agent
        T, B = env.done.shape
        if not self._open:
            self._open = [_Open([], self._first) for _ in range(B)]
        if len(self._open) != B:
            raise ValueError(f"a batch of {B} environments came after one of {len(self._open)}.")
        steps = _Steps(env.observation, agent.action, env.reward, env.env_info, agent.agent_info)
        self._bootstrap = buffer_func(getattr(agent, "bootstrap_value", None), np.copy)
        finished = []
        for b in range(B):
            start = 0
            for end in np.flatnonzero(env.done[:, b]).tolist():
                self._open[b].pieces.append(_copied(steps, start, end + 1, b))
                finished.append(self._ended(samples, end, b))
                self._open[b] = _Open([], True)
                start = end + 1
            if start < T:
                self._open[b].pieces.append(_copied(steps, start, T, b))
        return finished

    def _ended(self, samples: Any, t: int, b: int) -> Trajectory:
        timeout = getattr(samples.env.env_info, "timeout", None)
        timed_out = timeout is not None and bool(timeout[t, b])
        value = getattr(samples.agent, "timeout_value", None)
        last_value = None if value is None else float(value[t, b])
        last = getattr(samples.env, "final_observation", None) if timed_out else None
        return _trajectory(
            self._open[b],
            b,
            reach_terminal=not timed_out,
            reach_time_limit=timed_out,
            last_observation=buffer_func(last, lambda x: x[t, b].copy()),
            last_value=last_value if timed_out else 0.0,
        )

    def cut(self) -> list[Trajectory]:
        """Give out what has not ended, as it is, and begin anew with the next batch."""
        cut = []
        for b, open_ in enumerate(self._open):
            if open_.pieces:
                value = None if self._bootstrap is None else float(self._bootstrap[0, b])
                cut.append(_trajectory(open_, b, False, False, None, value))
                self._open[b] = _Open([], False)
        return cut


def cut_trajectories(samples: Any, from_start: bool = False) -> list[Trajectory]:
    """Cut one batch [T, B] into trajectories, by environment, then time; ends are cut off too.

    Args:
        samples: ``Samples`` [T, B], torch or numpy; copied.
        from_start: whether its first row begins an episode in every environment.
    """
    cutter = TrajectoryCutter(from_start)
    found = cutter.add(samples) + cutter.cut()
    return sorted(found, key=lambda trajectory: trajectory.env)  # stable: ends come last


class _Steps(NamedTuple):
    observation: Any
    action: Any
    reward: Any
    env_info: Any
    agent_info: Any


class _Open(NamedTuple):
    pieces: list[Any]
    from_start: bool


def _copied(steps: _Steps, start: int, stop: int, b: int) -> list[Any]:
    return [buffer_func(tree, lambda x: x[start:stop, b].copy()) for tree in steps]


def _trajectory(
    open_: _Open,
    b: int,
    reach_terminal: bool,
    reach_time_limit: bool,
    last_observation: Any,
    last_value: float | None,
) -> Trajectory:
    columns: Any = (_joined(trees) for trees in zip(*open_.pieces, strict=True))
    observations, actions, rewards, env_info, agent_info = columns
    return Trajectory(
        observations,
        actions,
        rewards,
        env_info,
        agent_info,
        b,
        open_.from_start,
        reach_terminal,
        reach_time_limit,
        last_observation,
        last_value,
    )


def _joined(trees: Sequence[Any]) -> Any:
    """Trees of [t_i, ...] as one of [sum t_i, ...]."""
    first = trees[0]
    if first is None or len(trees) == 1:
        return first
    if isinstance(first, tuple):
        parts: Iterable[Any] = zip(*(tuple(tree) for tree in trees), strict=True)
        return first._make(_joined(part) for part in parts)  # type: ignore[attr-defined]
    return np.concatenate(trees)
