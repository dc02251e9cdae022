"""Single trajectories, extracted from a sampler's batches [T, B].

They are for code that works on episodes: returns of a trajectory (`rlpyt.compat.lagom`),
imitation, plots. rlpyt's algorithms train on the batches themselves.
"""

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rlpyt.utils.buffer import buffer_func, concatenated, numpify_buffer
from rlpyt.utils.collections import NamedArrayTuple


class StepType(enum.Enum):
    """Position of an observation in its episode."""

    FIRST = 0
    MID = 1
    LAST = 2


class TimeStep(NamedTuple):
    """An observation, with the reward and the done of the previous step."""

    step_type: StepType
    observation: Any
    reward: float  # reward of the previous action; 0 at the start of an episode
    done: bool
    info: dict[str, Any]  # the fields of ``env_info``

    def first(self) -> bool:
        """Return True at the start of an episode."""
        return self.step_type is StepType.FIRST

    def mid(self) -> bool:
        """Return True if the episode continues."""
        return self.step_type is StepType.MID

    def last(self) -> bool:
        """Return True if the episode has ended."""
        return self.step_type is StepType.LAST

    def time_limit(self) -> bool:
        """Return True if the episode was truncated by a time limit."""
        return self.last() and bool(self.info.get("timeout", False))

    def terminal(self) -> bool:
        """Return True if the episode has terminated."""
        return self.last() and not self.time_limit()


@dataclass(eq=False)
class Trajectory:
    """T steps of one environment, in their own numpy arrays.

    Args:
        observations: tree of [T, ...], the observation before each step.
        actions: actions [T, ...].
        rewards: [T] float32, the reward of each step.
        env_info, agent_info: trees of [T, ...].
        env: column of the batch.
        from_start: True if the first observation is the first of an episode.
        reach_terminal: True if the episode terminated with the last step.
        reach_time_limit: True if a time limit truncated it there. With neither, the episode
            continues.
        last_observation: the true final observation after a time limit, if the batch has the field
            ``final_observation``; otherwise ``None``.
        last_value: V of the observation after the last step, 0 if the episode terminated; ``None``
            if the batch has no bootstrap values.
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
        """Return the number of steps."""
        return len(self)

    @property
    def complete(self) -> bool:
        """Return True for a complete episode."""
        return self.from_start and (self.reach_terminal or self.reach_time_limit)

    @property
    def values(self) -> Any:
        """Return V of each observation [T]; the agent must record it."""
        return self.agent_info.value

    def time_steps(self) -> Iterator[TimeStep]:
        """Yield T + 1 time steps.

        The observation of the last one is ``last_observation``, which may be ``None``.
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
    """Divides consecutive batches into trajectories.

    A trajectory ends where ``done`` is true; in games with lives, with each life. Steps that are
    marked as void (``on_fault``) belong to none.

    Args:
        from_start: True if episodes start in the first row of the first batch. After random
            decorrelation steps they do not.
    """

    def __init__(self, from_start: bool = True) -> None:
        self._first = from_start
        self._open: list[_Open] = []
        self._bootstrap: Any = None

    def add(self, samples: NamedArrayTuple) -> list[Trajectory]:
        """Add a batch; return the trajectories that ended, sorted by environment, then time.

        Args:
            samples: ``Samples`` [T, B], torch or numpy; copied.
        """
        samples = numpify_buffer(samples)
        env, agent = samples.env, samples.agent
        T, B = env.done.shape
        if not self._open:
            self._open = [_Open([], self._first) for _ in range(B)]
        if len(self._open) != B:
            raise ValueError(f"samples must have {len(self._open)} environments, got {B}.")
        steps = env.observation, agent.action, env.reward, env.env_info, agent.agent_info
        self._bootstrap = buffer_func(getattr(agent, "bootstrap_value", None), np.copy)
        finished = []
        void = env.void if "void" in env._fields else np.zeros_like(env.done)
        for b in range(B):
            start = 0
            for end in np.flatnonzero(env.done[:, b] | void[:, b]).tolist():
                if void[end, b]:  # of an episode that a fault has broken, or of waiting
                    self._open[b], start = _Open([], True), end + 1
                    continue
                self._open[b].pieces.append(_copied(steps, start, end + 1, b))
                finished.append(self._ended(samples, end, b))
                self._open[b] = _Open([], True)
                start = end + 1
            if start < T:
                self._open[b].pieces.append(_copied(steps, start, T, b))
        return finished

    def _ended(self, samples: NamedArrayTuple, t: int, b: int) -> Trajectory:
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
        """Return the trajectories in progress, and start new ones with the next batch."""
        cut = []
        for b, open_ in enumerate(self._open):
            if open_.pieces:
                value = None if self._bootstrap is None else float(self._bootstrap[0, b])
                cut.append(
                    _trajectory(
                        open_, b, reach_terminal=False, reach_time_limit=False, last_value=value
                    )
                )
                self._open[b] = _Open([], False)
        return cut


def cut_trajectories(samples: NamedArrayTuple, from_start: bool = False) -> list[Trajectory]:
    """Divide one batch [T, B] into trajectories, sorted by environment, then time.

    Args:
        samples: ``Samples`` [T, B], torch or numpy; copied.
        from_start: True if episodes start in the first row.
    """
    cutter = TrajectoryCutter(from_start)
    found = cutter.add(samples) + cutter.cut()
    return sorted(found, key=lambda trajectory: trajectory.env)  # stable: ends come last


class _Open(NamedTuple):
    pieces: list[Any]
    from_start: bool


def _copied(steps: Iterable[Any], start: int, stop: int, b: int) -> list[Any]:
    return [buffer_func(tree, lambda x: x[start:stop, b].copy()) for tree in steps]


def _trajectory(open_: _Open, b: int, **end: Any) -> Trajectory:
    steps: list[Any] = [concatenated(trees) for trees in zip(*open_.pieces, strict=True)]
    return Trajectory(*steps, env=b, from_start=open_.from_start, **end)  # type: ignore[misc]
