"""One environment or a batch of them, seen as rows that are played and recorded.

Everything that is asked of a single environment is asked of every row of a batch, so both are
played by one loop and compared as one kind of record.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlpyt.testing.trees import copied, difference, row_of, stacked

Actions = Callable[[int], list[Any]]  # step number -> one action per row
Inspect = Callable[..., Any]


class Moment(NamedTuple):
    """What one step did to one row; everything copied."""

    action: Any
    observation: Any
    reward: Any
    done: bool
    info: Any
    over: bool  # a reset was due after it
    first: Any = None  # the observation of that reset, or of one that was asked for


class Run(NamedTuple):
    """A record of n rows: ``first`` [n] observations, ``moments`` [T][n]."""

    first: list[Any]
    moments: list[list[Moment]]

    def before(self, t: int, row: int) -> Any:
        """What the row showed when step t was taken."""
        if t == 0:
            return self.first[row]
        last = self.moments[t - 1][row]
        return last.observation if last.first is None else last.first

    def ends(self) -> list[tuple[int, int]]:
        """(t, row) of every step after which a reset was due, in the order of time."""
        T, n = len(self.moments), len(self.first)
        return [(t, row) for t in range(T) for row in range(n) if self.moments[t][row].over]


class SingleRow:
    """A single environment as one row.

    Args:
        env: the environment.
        inspect: looks at what it returns before it is used: ``inspect.reset(observation)`` and
            ``inspect.step(result, action)``; ``None``: nobody does.

    Attributes:
        raw: what ``reset`` last returned, not copied.
    """

    n = 1
    raw: Any = None

    def __init__(self, env: Any, inspect: Any = None) -> None:
        self.env, self.inspect = env, inspect

    def seed(self, seeds: Sequence[int]) -> None:
        """Seed the environment, if it can be."""
        if hasattr(self.env, "seed"):
            self.env.seed(seeds[0])

    def reset(self) -> list[Any]:
        """Start an episode."""
        self.raw = observation = self.env.reset()
        if self.inspect is not None:
            self.inspect.reset(observation)
        return [copied(observation)]

    def reset_rows(self, rows: Sequence[int]) -> list[Any]:
        """Start an episode, unless no row is asked for."""
        return self.reset() if len(rows) else []

    def step(self, actions: list[Any]) -> list[Moment]:
        """Take one step."""
        result = self.env.step(actions[0])
        if self.inspect is not None:
            self.inspect.step(result, actions[0])
        observation, reward, done, info = result
        over = bool(getattr(info, "traj_done", done))
        moment = Moment(
            copied(actions[0]), copied(observation), np.float64(reward), bool(done), copied(info),
            over,
        )  # fmt: skip
        return [moment]


class BatchRows:
    """A ``VectorEnv``; see `SingleRow`."""

    raw: Any = None

    def __init__(self, env: Any, inspect: Any = None) -> None:
        self.env, self.inspect, self.n = env, inspect, env.n

    def seed(self, seeds: Sequence[int]) -> None:
        """Seed every row."""
        self.env.seed(list(seeds))

    def reset(self) -> list[Any]:
        """Start an episode in every row."""
        self.raw = observation = self.env.reset()
        if self.inspect is not None:
            self.inspect.reset(observation, self.n)
        return [row_of(observation, b) for b in range(self.n)]

    def reset_rows(self, rows: Sequence[int]) -> list[Any]:
        """Start an episode in these rows."""
        if not len(rows):
            return []
        observation = self.env.reset_rows(np.array(rows, np.int64))
        if self.inspect is not None:
            self.inspect.reset(observation, len(rows))
        return [row_of(observation, i) for i in range(len(rows))]

    def step(self, actions: list[Any]) -> list[Moment]:
        """Step every row."""
        action = stacked(actions)
        result = self.env.step(action)
        if self.inspect is not None:
            self.inspect.step(result, action)
        observation, reward, done, info = result
        traj_done = getattr(info, "traj_done", done)
        return [
            Moment(
                copied(actions[b]), row_of(observation, b), np.float64(reward[b]), bool(done[b]),
                row_of(info, b), bool(traj_done[b]),
            )
            for b in range(self.n)
        ]  # fmt: skip


def only(run: Run, rows: Sequence[int]) -> Run:
    """The record of some of the rows."""
    return Run([run.first[b] for b in rows], [[at[b] for b in rows] for at in run.moments])


def start(rows: Any) -> Run:
    """Reset all rows and begin a record."""
    return Run(rows.reset(), [])


def play(
    rows: Any,
    run: Run,
    actions: Actions,
    T: int,
    resets: Mapping[int, Sequence[int]] | None = None,
    enough: Callable[[Run], bool] | None = None,
) -> Run:
    """Go on with a record for T steps; rows are reset as soon as they are over.

    Args:
        rows: `SingleRow` or `BatchRows`.
        run: the record; extended in place.
        actions: of step t, counted from the beginning of the record.
        T: steps to take.
        resets: rows to reset after so many steps of the record, over or not.
        enough: asked after every step; true ends the play.
    """
    resets = resets or {}
    if not run.moments and 0 in resets:
        for row, first in zip(resets[0], rows.reset_rows(resets[0]), strict=True):
            run.first[row] = first
    for _ in range(T):
        t = len(run.moments)
        moments = rows.step(actions(t))
        due = [b for b in range(rows.n) if moments[b].over or b in resets.get(t + 1, ())]
        for b, first in zip(due, rows.reset_rows(due), strict=True):
            moments[b] = moments[b]._replace(first=first)
        run.moments.append(moments)
        if enough is not None and enough(run):
            break
    return run


def first_difference(
    a: Run,
    b: Run,
    order: Sequence[int] | None = None,
    *,
    close: bool = False,
    since: int = 0,
    info: bool = True,
) -> str | None:
    """Say where two records differ first, over the steps that both have.

    Args:
        a, b: records of equally many rows.
        order: row i of ``b`` is compared with row ``order[i]`` of ``a``.
        close: let floating-point numbers differ by rounding.
        since: the first step to compare; first observations are left out if it is not 0.
        info: compare env_info as well.
    """
    order = range(len(a.first)) if order is None else order
    if not since:
        for i, row in enumerate(order):
            found = difference(a.first[row], b.first[i], close)
            if found:
                return f"the first observation of row {i}: {found}"
    for t in range(since, min(len(a.moments), len(b.moments))):
        for i, row in enumerate(order):
            found = moment_difference(a.moments[t][row], b.moments[t][i], close, info)
            if found:
                return f"step {t} of row {i}: {found}"
    return None


def moment_difference(a: Moment, b: Moment, close: bool = False, info: bool = True) -> str | None:
    """Say in which field two moments differ; actions are not compared."""
    if (a.first is None) != (b.first is None):
        return "one of them was reset after it"
    return difference(_compared(a, info), _compared(b, info), close)


def _compared(moment: Moment, info: bool) -> Moment:
    """The moment without its action, and without env_info if that is not asked for."""
    _, observation, reward, done, kept, over, first = moment
    return Moment(None, observation, reward, done, kept if info else None, over, first)
