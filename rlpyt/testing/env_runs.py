"""Build, seed and play an environment or a batch of environments, and record every step.

A single environment is treated as a batch of one row, so both are played by one loop and compared
as one kind of record.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlpyt.envs.base import build_env
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.vector.base import UnsupportedVectorEnv
from rlpyt.samplers.env_batch import is_batch
from rlpyt.samplers.environments import takes_rows, with_rows
from rlpyt.spaces.action_mask import action_mask_of, next_valid
from rlpyt.testing.env_values import ValueInspector
from rlpyt.testing.report import Report
from rlpyt.testing.trees import copied, difference, row_of, stacked
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.seed import env_seed

COMPARED_STEPS = 200  # steps that are compared when a run is repeated
ENDS = 5  # ends of episodes that the first run waits for
MOST_BYTES = 2**28  # of observations that the first run keeps

Actions = Callable[[int], list[Any]]  # step number -> one action per row


class RecordedStep(NamedTuple):
    """Copies of the inputs and outputs of one step of one row."""

    action: Any
    observation: Any
    reward: Any
    done: bool
    info: Any
    over: bool  # a reset followed because the episode had ended
    first: Any = None  # observation of the reset that followed, if any


class Recording(NamedTuple):
    """A recorded run of n rows: ``first`` [n] observations and ``steps`` [T][n]."""

    first: list[Any]
    steps: list[list[RecordedStep]]

    def before(self, t: int, row: int) -> Any:
        """Return the observation on which the action of step t was taken."""
        if t == 0:
            return self.first[row]
        last = self.steps[t - 1][row]
        return last.observation if last.first is None else last.first

    def ends(self) -> list[tuple[int, int]]:
        """Return (t, row) of all steps that ended an episode, in order of time."""
        T, n = len(self.steps), len(self.first)
        return [(t, row) for t in range(T) for row in range(n) if self.steps[t][row].over]

    def only(self, rows: Sequence[int]) -> "Recording":
        """Return the recording of some rows."""
        first = [self.first[b] for b in rows]
        return Recording(first, [[at[b] for b in rows] for at in self.steps])


class EnvRows:
    """An environment or a ``VectorEnv``, stepped with lists of one action per row.

    Args:
        env: the environment.
        inspect: checks returned values before they are used; ``None``: no checks.

    Attributes:
        raw: last observation of ``reset``, not copied.
        masks: mask of actions in each row's last observation, or ``None``.
    """

    raw: Any = None

    def __init__(self, env: Any, inspect: ValueInspector | None = None) -> None:
        self.env, self.inspect = env, inspect
        self.masks: dict[int, Any] = {}
        self.batched = is_batch(env)
        self.n = env.n if self.batched else 1

    def seed(self, seeds: Sequence[int]) -> None:
        """Seed every row, if the environment can be seeded."""
        if self.batched:
            self.env.seed(list(seeds))
        elif hasattr(self.env, "seed"):
            self.env.seed(seeds[0])

    def reset(self) -> list[Any]:
        """Start an episode in every row; return the observations."""
        self.raw = self.env.reset()
        return self._observations(self.raw, range(self.n))

    def reset_rows(self, rows: Sequence[int]) -> list[Any]:
        """Start an episode in some rows; return their observations."""
        if not len(rows):
            return []
        if not self.batched:
            return self.reset()
        return self._observations(self.env.reset_rows(np.array(rows, np.int64)), rows)

    def _observations(self, observation: Any, rows: Sequence[int]) -> list[Any]:
        if self.inspect is not None:
            self.inspect.reset(observation, len(rows))
        first = [self._row(observation, i) for i in range(len(rows))]
        self.masks.update(zip(rows, map(action_mask_of, first)))
        return first

    def _row(self, tree: Any, b: int) -> Any:
        return row_of(tree, b) if self.batched else copied(tree)

    def step(self, actions: list[Any]) -> list[RecordedStep]:
        """Step every row, with invalid choices replaced if there is a mask of actions."""
        actions = list(actions)
        for b, mask in self.masks.items():
            if mask is not None:
                actions[b] = next_valid(self.env.action_space, actions[b], mask)
        sent = [copied(action) for action in actions]
        action = stacked(actions) if self.batched else actions[0]
        result = self.env.step(action)
        if self.inspect is not None:
            self.inspect.step(result, action, sent)
        observation, reward, done, info = result
        over = getattr(info, "traj_done", done)
        if not self.batched:
            reward, done, over = [reward], [done], [over]
        steps = [
            RecordedStep(
                sent[b], self._row(observation, b), np.float64(reward[b]),
                bool(done[b]), self._row(info, b), bool(over[b]),
            )
            for b in range(self.n)
        ]  # fmt: skip
        self.masks = {b: action_mask_of(step.observation) for b, step in enumerate(steps)}
        return steps


def start(rows: EnvRows) -> Recording:
    """Reset all rows and start a recording."""
    return Recording(rows.reset(), [])


def play(
    rows: EnvRows,
    run: Recording,
    actions: Actions,
    T: int,
    resets: Mapping[int, Sequence[int]] | None = None,
    enough: Callable[[Recording], bool] | None = None,
) -> Recording:
    """Extend a recording by T steps, resetting rows whose episodes end.

    Args:
        rows: the environment.
        run: the recording; extended in place.
        actions: actions of step t, counted from the start of the recording.
        T: number of steps.
        resets: rows to reset before given steps, whether their episodes ended or not.
        enough: called after every step; True stops.
    """
    resets = resets or {}
    if not run.steps and 0 in resets:
        for row, first in zip(resets[0], rows.reset_rows(resets[0]), strict=True):
            run.first[row] = first
    for _ in range(T):
        t = len(run.steps)
        steps = rows.step(actions(t))
        due = [b for b in range(rows.n) if steps[b].over or b in resets.get(t + 1, ())]
        for b, first in zip(due, rows.reset_rows(due), strict=True):
            steps[b] = steps[b]._replace(first=first)
        run.steps.append(steps)
        if enough is not None and enough(run):
            break
    return run


def first_difference(
    a: Recording,
    b: Recording,
    order: Sequence[int] | None = None,
    *,
    close: bool = False,
    since: int = 0,
    info: bool = True,
) -> str | None:
    """Describe the first difference of two recordings over their common steps, or return None.

    Args:
        a, b: recordings of equally many rows.
        order: row i of ``b`` is compared with row ``order[i]`` of ``a``.
        close: allow rounding differences of floating-point numbers.
        since: first step to compare; first observations are compared only if it is 0.
        info: compare env_info as well.
    """
    order = range(len(a.first)) if order is None else order
    if not since:
        for i, row in enumerate(order):
            found = difference(a.first[row], b.first[i], close)
            if found:
                return f"the first observation of row {i}: {found}"
    for t in range(since, min(len(a.steps), len(b.steps))):
        for i, row in enumerate(order):
            found = step_difference(a.steps[t][row], b.steps[t][i], close, info)
            if found:
                return f"step {t} of row {i}: {found}"
    return None


def step_difference(
    a: RecordedStep, b: RecordedStep, close: bool = False, info: bool = True
) -> str | None:
    """Describe the first difference of two steps; actions are not compared."""
    if (a.first is None) != (b.first is None):
        return "one of them was followed by a reset"
    without: dict[str, Any] = dict(action=None) if info else dict(action=None, info=None)
    return difference(a._replace(**without), b._replace(**without), close)


class EnvCase:
    """The environment under test: builds it from its factory and plays it with fixed actions.

    Args:
        make_env: the factory.
        env_kwargs: its arguments.
        report: takes the findings.
        seed: seed of environments and actions.
        max_steps: limit of the first run, which waits for episodes to end.
        n_rows: number of rows, if the factory leaves it open.

    Attributes:
        batched: the factory makes a ``VectorEnv``.
        gym: the factory makes environments of Gymnasium.
        reference: recording of the first run, to which others are compared.
        unseedable: why a batch cannot be seeded; empty if it can.
        same_info: env_info was the same when the reference was repeated.
        reproducible: repeating the reference gave the same, so recordings can be compared.
    """

    def __init__(
        self,
        make_env: Any,
        env_kwargs: Mapping[str, Any],
        report: Report,
        seed: int = 0,
        max_steps: int = 2000,
        n_rows: int = 3,
    ) -> None:
        self.make_env, self.env_kwargs, self.report = make_env, dict(env_kwargs), report
        self.seed, self.max_steps, self.n = seed, max_steps, n_rows
        self.batched = self.gym = self.reproducible = False
        self.unseedable = ""
        self.same_info = True
        self.reference = Recording([], [])
        self._built: list[Any] = []
        self._actions: list[list[Any]] = []
        self.action_space: Any = None

    def seeds(self, which: int = 0) -> list[int]:
        """Return one seed per row; each ``which`` gives other seeds."""
        return [env_seed(self.seed, row, f"testing {which}") for row in range(self.n)]

    def build(self, seeds: Sequence[int] | None = None) -> Any:
        """Build an environment as samplers do; unseeded, unless its factory takes seeds."""
        arguments = self.env_kwargs
        if takes_rows(self.make_env, arguments):
            arguments = with_rows(self.make_env, arguments, list(seeds or self.seeds()))
        env = build_env(self.make_env, arguments, "conformance check")
        self._built.append(env)
        return env

    @property
    def seeds_at_construction(self) -> bool:
        """Return True if the factory takes the rows' seeds."""
        make, kwargs = self.make_env, self.env_kwargs
        return takes_rows(make, kwargs) and "seeds" in with_rows(make, kwargs, [0])

    def adopt(self, env: Any) -> None:
        """Take kind, number of rows and action space from the first environment."""
        self.batched = is_batch(env)
        self.n = env.n if self.batched else 1
        self.gym = isinstance(env, GymEnvWrapper)
        self.action_space = env.action_space
        if hasattr(self.action_space, "seed"):
            self.action_space.seed(self.seed)

    def actions(self, t: int) -> list[Any]:
        """Return the random actions [n] of step t, which are the same in every run."""
        while len(self._actions) <= t:
            row = [buffer_func(self.action_space.sample(), np.array) for _ in range(self.n)]
            self._actions.append([buffer_func(action, _scalar) for action in row])
        return [buffer_func(action, lambda leaf: leaf.copy()) for action in self._actions[t]]

    def rows(self, which: int = 0, seeds: Sequence[int] | None = None) -> EnvRows:
        """Build and seed an environment; freeze statistics, which rows share and no seed resets."""
        seeds = self.seeds(which) if seeds is None else seeds
        rows = EnvRows(self.build(seeds))
        if self.batched and hasattr(rows.env, "statistics") and rows.env.statistics():
            rows.env.freeze()
        if not self.seeds_at_construction:
            try:
                rows.seed(seeds)
            except UnsupportedVectorEnv as error:
                self.unseedable = str(error)
        return rows

    def replay(
        self,
        T: int | None = None,
        which: int = 0,
        seeds: Sequence[int] | None = None,
        actions: Actions | None = None,
        resets: Mapping[int, Sequence[int]] | None = None,
    ) -> Recording:
        """Play a new environment for T steps; by default what the reference played."""
        rows = self.rows(which, seeds)
        T = self.short if T is None else T
        return play(rows, start(rows), actions or self.actions, T, resets)

    def compare(self, run: Recording, since: int = 0) -> str | None:
        """Describe the first difference of a recording to the reference, or return None."""
        return first_difference(self.reference, run, since=since, info=self.same_info)

    def explore(self) -> None:
        """Record the reference, with all values checked, until some episodes have ended."""
        rows = self.rows()
        rows.inspect = inspect = ValueInspector(self, rows.env)
        self.reference = start(rows)
        size = sum(leaf.nbytes for first in self.reference.first for leaf in leaves_of(first))
        most = min(self.max_steps, max(COMPARED_STEPS, MOST_BYTES // max(size, 1)))
        ended = 0

        def enough(run: Recording) -> bool:
            nonlocal ended
            ended += sum(step.over for step in run.steps[-1])
            return ended >= ENDS and len(run.steps) >= COMPARED_STEPS

        play(rows, self.reference, self.actions, most, enough=enough)
        inspect.conclude()

    @property
    def short(self) -> int:
        """Return the number of the reference's steps that repetitions compare."""
        return min(COMPARED_STEPS, len(self.reference.steps))

    def close(self) -> None:
        """Close all environments that were built."""
        for env in self._built:
            try:
                env.close()
            except Exception:
                continue
        self._built.clear()


def _scalar(leaf: Any) -> Any:
    return leaf[()] if leaf.shape == () else leaf
