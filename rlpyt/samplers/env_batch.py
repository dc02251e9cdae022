"""The environments of one process as a batch of rows, stepped one by one or as vector environments.

This is the only place where samplers step environments. ``advance`` leaves the true final
observation in the record and returns the rows that ended; the collector decides what follows.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from rlpyt.envs.base import EnvSpaces, EnvStep
from rlpyt.processes.status import ACTIVITY, RESETTING, ROW, STEPPING
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.step_checks import (
    check_batch,
    check_batched,
    check_observation,
    check_reward_and_done,
    check_step,
    explain,
    fields_of,
    steps_until_look,
)
from rlpyt.utils.buffer import NumpyArrays, shapes_of
from rlpyt.utils.collections import NamedArrayTuple
from rlpyt.utils.seed import env_seed

if TYPE_CHECKING:
    from rlpyt.envs.vector.base import VectorEnv

Array = np.ndarray[Any, Any]
# Called with (row, action, reward, done, env_info) of every step, before the record changes.
Watch = Callable[[int, Any, float, bool, Any], None]


class EnvBatch:
    """Interface of a batch [B] of environments.

    Args:
        envs: the environments, or vector environments, in order.
        context: of the process; row, activity and actions [B, ...] are recorded in it.

    Attributes:
        held: rows that are not stepped.
    """

    B: int
    can_hold = True  # held rows keep their state

    def __init__(self, envs: Sequence[Any], context: CollectorContext) -> None:
        self.envs, self.context = envs, context
        self.progress = context.progress
        self.held: set[int] = set()

    @property
    def spaces(self) -> EnvSpaces:
        """Return the spaces of one environment."""
        return EnvSpaces(self.envs[0].observation_space, self.envs[0].action_space)

    def reset(self, observation: NumpyArrays, rows: Iterable[int]) -> None:
        """Start episodes in these rows, and write their first observations."""
        raise NotImplementedError

    def advance(
        self, step: NamedArrayTuple, action: NumpyArrays, watch: Watch | None = None
    ) -> list[int]:
        """Step every row that is not held.

        Args:
            step: ``StepRecord`` [B]; observation (the true next one, also after the end of an
                episode), reward, done and env_info are written.
            action: [B, ...], for the environments.
            watch: called for every step, before its row of the record is written.

        Returns:
            rows in which an episode or a trajectory ended.
        """
        raise NotImplementedError

    def sample_action(self, b: int, seed: int, rank: int) -> Any:
        """Return a random action for row b, the environment of this global rank."""
        raise NotImplementedError

    def hold(self, rows: Iterable[int]) -> None:
        """Do not step these rows until ``release``."""
        self.held.update(rows)

    def release(self) -> None:
        """Step all rows again."""
        self.held.clear()

    def forget_infos(self) -> None:
        """Write every env_info of the next step, since the record was overwritten."""


class _ValidationSchedule:
    """Schedule of steps whose outputs are fully validated."""

    def __init__(self) -> None:
        self._n = self._steps_left = 0

    def due(self) -> bool:
        """Return True if this step's outputs should be fully validated."""
        self._steps_left -= 1
        if self._steps_left >= 0:
            return False
        self._steps_left = steps_until_look(self._n)
        self._n += 1
        return True


class ListEnvBatch(EnvBatch):
    """Batch of single environments, stepped one after another."""

    def __init__(self, envs: Sequence[Any], context: CollectorContext) -> None:
        super().__init__(envs, context)
        self.B = len(envs)
        self._record = self._shape = None
        self._all = [(b, env.step) for b, env in enumerate(envs)]
        self._steps = self._all
        self.forget_infos()
        self._validation = _ValidationSchedule()

    def reset(self, observation: NumpyArrays, rows: Iterable[int]) -> None:
        """Reset the environments of these rows."""
        self.progress[ACTIVITY] = RESETTING
        for b in rows:
            self.progress[ROW] = b
            first = self.envs[b].reset()
            check_observation(first, observation, "observation after reset")
            observation[b] = first

    def advance(
        self, step: NamedArrayTuple, action: NumpyArrays, watch: Watch | None = None
    ) -> list[int]:
        """Step one environment after another.

        Raises:
            ValueError, TypeError: an output of an environment is invalid.
        """
        observation, _, reward, done, _, _ = step
        progress, last_info = self.progress, self._last_info
        if observation is not self._record:
            self._record, self._shape = observation, shapes_of(observation, 1)
        shape = self._shape
        self.context.actions = action
        progress[ACTIVITY] = STEPPING
        validate = self._validation.due()
        ended: list[int] = []
        given: Any = None
        try:
            for b, env_step in self._steps:
                progress[ROW] = b
                given = None
                given = env_step(action[b])
                o, r, d, info = given
                plain = type(o) is np.ndarray and o.shape == shape
                if validate or (shape and not plain and shapes_of(o) != shape):
                    check_step(given, step)
                if info is not last_info[b]:
                    self._note_info(step.env_info, b, info)
                if watch is not None:
                    watch(b, action[b], r, d, info)
                if d or getattr(info, "traj_done", False):
                    check_step(given, step)
                    ended.append(b)
                elif d is not False:  # None would count as False
                    check_reward_and_done(r, d)
                observation[b] = o
                reward[b] = r
                done[b] = d
        except Exception:
            if given is not None:
                explain(given, step)
            raise
        return ended

    def sample_action(self, b: int, seed: int, rank: int) -> Any:
        """Return a sample of the environment's action space."""
        return self.envs[b].action_space.sample()

    def _note_info(self, env_info: NamedArrayTuple, b: int, info: Any) -> None:
        if not info:
            return
        try:
            if info._fields == env_info._fields:  # takes half the time of writing the whole record
                for own, new in zip(env_info, info):
                    own[b] = new
            else:
                env_info[b] = info
        except (TypeError, AttributeError):
            env_info[b] = fit_info(info, env_info[b])
        # An object that was returned twice in a row and holds plain numbers is not written again.
        again = info is self._seen_infos[b]
        plain = again and all(isinstance(x, (bool, int, float)) for x in tuple(info))
        self._last_info[b] = info if plain else None
        self._seen_infos[b] = info

    def hold(self, rows: Iterable[int]) -> None:
        """Do not step these rows until ``release``."""
        super().hold(rows)
        self._steps = [(b, step) for b, step in self._all if b not in self.held]

    def release(self) -> None:
        """Step all rows again."""
        super().release()
        self._steps = self._all

    def forget_infos(self) -> None:
        """Write every env_info of the next step."""
        self._last_info: list[Any] = [None] * self.B  # not to be written again
        self._seen_infos: list[Any] = [None] * self.B


class VectorEnvBatch(EnvBatch):
    """Batch of vector environments (``rlpyt.envs.vector``), each with its range of rows.

    A held row is stepped with the others, but not recorded, and is reset afterwards.
    """

    can_hold = False

    def __init__(self, envs: Sequence[Any], context: CollectorContext) -> None:
        super().__init__(envs, context)
        edges = np.cumsum([0, *(env.n for env in envs)])
        self.B = int(edges[-1])
        self._action_spaces: dict[int, Any] = {}
        self._validation = _ValidationSchedule()
        self._record: Any = None
        self._shapes: list[Any] = []
        self._ranges = [
            (env, slice(int(first), int(last)))
            for env, first, last in zip(envs, edges, edges[1:], strict=False)
        ]

    def reset(self, observation: NumpyArrays, rows: Iterable[int]) -> None:
        """Reset these rows, all of a vector environment at once."""
        self.progress[ACTIVITY] = RESETTING
        rows = np.asarray(list(rows), np.int64)
        for env, own in self._ranges:
            mine = rows[(rows >= own.start) & (rows < own.stop)]
            if len(mine):
                self.progress[ROW] = int(mine[0])
                whole = len(mine) == env.n
                first = env.reset() if whole else env.reset_rows(mine - own.start)
                own_rows = observation[own][: len(mine)]
                check_batched(first, own_rows, "observation after reset")
                observation[own if whole else mine] = first

    def advance(
        self, step: NamedArrayTuple, action: NumpyArrays, watch: Watch | None = None
    ) -> list[int]:
        """Step one vector environment after another.

        Raises:
            ValueError, TypeError: an output of an environment is invalid.
        """
        if step.observation is not self._record:
            self._record = step.observation
            self._shapes = [shapes_of(step.observation[own]) for _, own in self._ranges]
        self.context.actions = action
        self.progress[ACTIVITY] = STEPPING
        validate = self._validation.due()
        ended: list[int] = []
        given: Any = None
        try:
            for (env, own), shape in zip(self._ranges, self._shapes):
                self.progress[ROW] = own.start
                given = None
                given = env.step(action[own])
                if validate or not _fits(given, shape, env.n):
                    check_batch(given, step[own])
                o, r, d, info = given
                if watch is not None:
                    self._watch_rows(watch, own, action, r, d, info)
                step.observation[own] = o
                step.reward[own] = r
                step.done[own] = d
                if info:
                    step.env_info[own] = info
                over = d | info.traj_done
                if over.any():
                    ended += (np.flatnonzero(over) + own.start).tolist()
        except Exception:
            if given is not None:
                explain(given, step[own], check_batch)
            raise
        if self.held:
            ended = [b for b in ended if b not in self.held]
        return ended

    def sample_action(self, b: int, seed: int, rank: int) -> Any:
        """Return a sample of a copy of the action space, one for each row."""
        if b not in self._action_spaces:
            self._action_spaces[b] = copy.deepcopy(self.spaces.action)
            self._action_spaces[b].seed(env_seed(seed, rank, "random actions"))
        return self._action_spaces[b].sample()

    def _watch_rows(
        self,
        watch: Watch,
        own: slice,
        action: NumpyArrays,
        r: Array,
        d: Array,
        info: NamedArrayTuple,
    ) -> None:
        for i, b in enumerate(range(own.start, own.stop)):
            if b not in self.held:
                row = info[i] if info else info
                watch(b, action[b], r[i].item(), bool(d[i]), row)


def _fits(given: EnvStep, shape: tuple[Any, ...], n: int) -> bool:
    """Return True if numpy would write a batch's step as it is, without broadcasting.

    Args:
        given: what the environment returned; (observation, reward, done, env_info) if correct.
        shape: of the observations of its n environments, as ``shapes_of`` returns it.
        n: number of environments.
    """
    try:
        o, r, d, _ = given
        fits = r.shape == d.shape == (n,) and d.dtype == np.bool_
        return fits and shapes_of(o) == shape  # type: ignore[no-any-return]
    except (AttributeError, TypeError, ValueError):
        return False


def make_env_batch(envs: Sequence[Any], context: CollectorContext) -> EnvBatch:
    """Return these environments as one batch."""
    return (VectorEnvBatch if is_batch(envs[0]) else ListEnvBatch)(envs, context)


def is_batch(env: object) -> TypeGuard[VectorEnv]:
    """Return True if this is a ``VectorEnv``: several rows rather than one environment."""
    return hasattr(env, "reset_rows")


def fit_info(info: Any, example: NamedArrayTuple) -> Any:
    """Return an ``env_info`` with the fields of the example: missing ones zero, others dropped.

    If the keys of an environment's info depend on events, environments return different records;
    memory is allocated for that of the first step.
    """
    odd = sorted(set(example._fields) ^ set(info._fields))
    if odd:
        warnings.warn(
            "env_info must have the fields of the first environment's first step; these differ: "
            f"{odd}. Missing ones are recorded as zero, others are dropped. Pass info_example to "
            "the environment's wrapper to name all fields."
        )
    filled = []
    for name, own in example.items():
        value = getattr(info, name, 0)
        nested = isinstance(own, NamedArrayTuple) and fields_of(value) is not None
        filled.append(fit_info(value, own) if nested else value)
    return example._make(filled)


def bounds_of(space: Any) -> tuple[Array, Array] | None:
    """Return (low, high), to which continuous actions are clipped, or ``None``."""
    try:
        low, high, dtype = space.low, space.high, space.dtype
    except AttributeError:
        return None
    if low is None or high is None or dtype is None or isinstance(low, tuple):
        return None
    if np.dtype(dtype).kind != "f" or not (np.isfinite(low).any() or np.isfinite(high).any()):
        return None
    return np.asarray(low, np.float32), np.asarray(high, np.float32)


def clipped(action: Array, low: Array, high: Array) -> Array:
    """Return clipped actions, for a few rows in a third of the time of ``np.clip``."""
    return np.minimum(np.maximum(action, low), high)  # type: ignore[no-any-return]


def needs_reset(record: NamedArrayTuple) -> Array:
    """Return where environments that are done need a reset, as a view: all but lives lost.

    Args:
        record: with ``env_info`` and ``done``.
    """
    over: Array = getattr(record.env_info, "traj_done", record.done)
    return over


def null_rows(
    action: NumpyArrays, reward: Array, null_action: NumpyArrays | int, rows: Iterable[int]
) -> None:
    """Set action and reward of these rows to null, as inputs of the next step."""
    for b in rows:
        action[b] = null_action
        reward[b] = 0
