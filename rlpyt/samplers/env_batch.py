"""The environments of one process as a batch of rows, stepped one by one or as vector environments.

Samplers step environments only here. ``advance`` leaves the true final observation in the record
and returns the rows that ended; the collector resets them or lets them wait.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from rlpyt.envs.base import EnvSpaces
from rlpyt.envs.layers import find_wrapper, missing_seed
from rlpyt.processes.status import ACTIVITY, RESETTING, ROW, STEPPING
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.step_checks import (
    BoundsCheck,
    CategoryCheck,
    check_batch,
    check_batched,
    check_observation,
    check_reward_and_done,
    check_step,
    explain,
    fields_of,
    fitting_dtypes,
    validated_steps,
)
from rlpyt.spaces.action_mask import sample_valid, unwrapped
from rlpyt.spaces.elements import check_first
from rlpyt.utils.buffer import NumpyArrays, buffer_func, leaves_of, shapes_of
from rlpyt.utils.collections import NamedArrayTuple
from rlpyt.utils.seed import env_seed

if TYPE_CHECKING:
    from rlpyt.envs.vector.base import VectorEnv

Array = np.ndarray[Any, Any]
# Called with (row, action, reward, done, env_info) of every step, before the record is written.
Watch = Callable[[int, Any, float, bool, Any], None]


class EnvBatch:
    """Interface of a batch [B] of environments.

    Args:
        envs: the environments, or vector environments, in order.
        context: the process's ``CollectorContext``; its progress and last actions are updated here.

    Attributes:
        held: rows excluded from the results of ``advance``.
    """

    B: int
    can_hold = True  # True if held rows are not stepped and keep their state
    _random_actions = "env"  # purpose of the random stream of ``sample_action``

    def __init__(self, envs: Sequence[Any], context: CollectorContext) -> None:
        self.envs, self.context = envs, context
        self.progress = context.progress
        self.held: set[int] = set()
        self._validated = validated_steps()
        self._record: Any = None  # the observations that are written
        self._categories: CategoryCheck | None = None
        self._bounds: BoundsCheck | None = None
        self._action_spaces: dict[Any, Any] = {}  # by row and seed, for random actions

    @property
    def spaces(self) -> EnvSpaces:
        """Return the spaces of one environment."""
        return EnvSpaces(self.envs[0].observation_space, self.envs[0].action_space)

    def reset(self, observation: NumpyArrays, rows: Iterable[int]) -> None:
        """Start new episodes in these rows, and write their first observations."""
        raise NotImplementedError

    def advance(
        self, step: NamedArrayTuple, action: NumpyArrays, watch: Watch | None = None
    ) -> list[int]:
        """Step the environments; results of held rows are not reported.

        Args:
            step: ``StepRecord`` [B] to write observation (the true final one at the end of an
                episode), reward, done and env_info into.
            action: actions [B, ...].
            watch: function called for every step, before its row of the record is written.

        Returns:
            Rows in which an episode or a trajectory ended.
        """
        raise NotImplementedError

    def sample_action(self, b: int, seed: int, rank: int, mask: Array | None = None) -> Any:
        """Return a random action for row b, the environment of this global rank.

        Args:
            b, seed, rank: row, seed of the run, global rank.
            mask: [n], see `rlpyt.spaces.action_mask`; ``None``: every action is valid.

        Raises:
            ValueError: no action is valid.
        """
        space = self._action_spaces.get((b, seed))
        if space is None:  # a copy, since environments may share theirs, as rows of a batch do
            own = self.envs[b if self.can_hold else 0].action_space
            # One that samples by a method of the environment cannot be copied without it.
            is_bound = any("sample" in getattr(x, "__dict__", {}) for x in (own, unwrapped(own)))
            space = copy.copy(own) if is_bound else copy.deepcopy(own)
            self._action_spaces[b, seed] = space
            space.seed(env_seed(seed, rank, self._random_actions))
        return space.sample() if mask is None else sample_valid(space, mask)

    def hold(self, rows: Iterable[int]) -> None:
        """Exclude these rows from the results of ``advance`` until ``release``."""
        self.held.update(rows)

    def release(self) -> None:
        """Release all held rows."""
        self.held.clear()

    def forget_infos(self) -> None:
        """Forget cached infos, so that the next step writes every env_info."""

    def _write_into(self, observation: NumpyArrays) -> None:
        """Prepare for writing observations into this record."""
        self._record = observation
        space = getattr(self.envs[0], "observation_space", None)
        if space is not None:
            categories, bounds = CategoryCheck(space, observation), BoundsCheck(space, observation)
            self._categories = categories if categories.parts else None
            self._bounds = bounds if bounds.parts else None

    def _check_first(self, env: Any, observation: Any, lead: tuple[int, ...] = ()) -> None:
        """Check the first observation [*lead, ...] of an environment, and that it takes a seed.

        Raises:
            ValueError, TypeError: an agent would misread the observation.
        """
        space = getattr(env, "observation_space", None)
        warning = None if space is None else check_first(space, observation, lead)
        unseeded = missing_seed(env)
        seedable = unseeded and f"{unseeded[0]}. To make it seedable, {unseeded[1]}"
        adapter = find_wrapper(env, "GymEnvWrapper")
        replaced = None if adapter is None else adapter.replaced_space()
        for text in (warning, seedable, replaced):
            self.context.warn(text)

    def _check_categories(self) -> None:
        """Check that category numbers are in their spaces.

        Raises:
            ValueError: a number is not.
        """
        assert self._categories is not None
        b = self._categories.first_row()
        if b is not None:
            self.progress[ROW] = b
            raise self._categories.error(b)

    def _warn_outside_bounds(self, ignored: Collection[int]) -> None:
        """Warn, once in a process, if an observation is outside the bounds of its space.

        Args:
            ignored: rows without an observation.
        """
        if self._bounds is None or not self.context.warns:
            return
        found = self._bounds.first(ignored)
        if found is not None:
            self.progress[ROW], message = found
            where = "" if self.context.where is None else f" ({self.context.where()})"
            self.context.warns = False
            warnings.warn(f"{message}{where}")


class ListEnvBatch(EnvBatch):
    """Batch of single environments, stepped one after another."""

    def __init__(self, envs: Sequence[Any], context: CollectorContext) -> None:
        super().__init__(envs, context)
        self.B = len(envs)
        # Set by ``_bind`` for a record.
        self._step: Any = None
        self._bound: Any = None
        self._has_parts = False  # observations have parts, all of them arrays
        self._part_class: Any = None  # class of such observations, once one was checked
        self._exact = True  # no observation had to be converted to the record's dtype
        self._vectors: list[Any] | None = None  # rows of observations that are vectors
        self._all = [(b, env.step) for b, env in enumerate(envs)]
        self._steps = self._all
        self.forget_infos()

    def reset(self, observation: NumpyArrays, rows: Iterable[int]) -> None:
        """Reset the environments of these rows."""
        is_new = observation is not self._record
        if is_new:
            self._write_into(observation)
            rows = list(rows)
        self.progress[ACTIVITY] = RESETTING
        for b in rows:
            self.progress[ROW] = b
            first = self.envs[b].reset()
            check_observation(first, observation, "observation after reset")
            if is_new:
                self._check_first(self.envs[b], first)
            if self._bound is not None and observation is self._bound[0] and self._has_parts:
                for row, part in zip(self._bound[1][b], first):
                    row[...] = part
            else:
                observation[b] = first
            if self._categories is not None:
                self._check_categories()
        if is_new:
            self._warn_outside_bounds(set(range(self.B)).difference(rows))

    def advance(  # noqa: PLR0912, PLR0915 - the usual cases of the innermost loop
        self, step: NamedArrayTuple, action: NumpyArrays, watch: Watch | None = None
    ) -> list[int]:
        """Step one environment after another.

        Raises:
            ValueError, TypeError: an output of an environment is invalid.
        """
        if step is not self._step:
            self._bind(step)
        observation, rows, shape, dtypes, scalars, reward, done = self._bound
        part_class, progress, last_info = self._part_class, self.progress, self._last_info
        vectors, array = self._vectors, np.ndarray
        self.context.actions = action
        progress[ACTIVITY] = STEPPING
        validate = next(self._validated)
        ended: list[int] = []
        result: Any = None
        try:
            for b, env_step in self._steps:
                progress[ROW] = b
                result = None
                result = env_step(action[b])
                o, r, d, info = result
                if vectors is None:
                    is_alike = type(o) is array and o.shape == shape and o.dtype in dtypes
                    has_parts = type(o) is part_class  # each of them is checked below
                    if not (is_alike or has_parts or type(o) in scalars):
                        check_observation(o, observation)
                if validate:
                    check_step(result, step)
                if info is not last_info[b]:
                    self._write_info(step.env_info, b, info)
                if watch is not None:
                    watch(b, action[b], r, d, info)
                if d or getattr(info, "traj_done", False):
                    check_step(result, step)
                    ended.append(b)
                elif d is not False:  # None would count as False
                    check_reward_and_done(r, d)
                if vectors is not None:
                    try:  # memoryviews accept arrays of their own shape and dtype only
                        if part_class is None:
                            vectors[b][:] = o
                        elif type(o) is part_class:
                            for row, part in zip(vectors[b], o):
                                row[:] = part
                        else:
                            raise TypeError
                    except (TypeError, ValueError):
                        check_step(result, step)
                        observation[b] = o
                        self._exact = False
                        self._vectors = vectors = None
                elif is_alike:
                    rows[b][...] = o
                elif has_parts:
                    for row, part, part_shape, kinds in zip(rows[b], o, shape, dtypes):
                        if (
                            type(part) is not array
                            or part.shape != part_shape
                            or part.dtype not in kinds
                        ):
                            check_observation(o, observation)
                        row[...] = part
                else:
                    observation[b] = o
                reward[b] = r
                done[b] = d
        except Exception:
            if result is not None:
                explain(result, step)
            raise
        if validate:
            if part_class is None and self._has_parts and result is not None:
                self._part_class = type(result[0])  # checked above
                self._vectors = self._vectors_of(step.observation)
            self._warn_outside_bounds(self.held)
        if self._categories is not None:
            self._check_categories()
        return ended

    def _bind(self, step: NamedArrayTuple) -> None:
        """Prepare to write rows of this record without indexing its leaves at every step."""
        observation = step.observation
        if observation is not self._record:
            self._write_into(observation)
        parts = tuple(observation) if isinstance(observation, tuple) else ()
        self._part_class = None
        self._has_parts = bool(parts) and all(isinstance(part, np.ndarray) for part in parts)
        rows: list[Any] = []
        dtypes: tuple[Any, ...] = ()
        scalars: tuple[type, ...] = ()
        if self._has_parts:
            rows = [[part[b, ...] for part in parts] for b in range(self.B)]
            dtypes = tuple(fitting_dtypes(part) for part in parts)
        elif isinstance(observation, np.ndarray):
            rows = [observation[b, ...] for b in range(self.B)]
            dtypes = fitting_dtypes(observation)
            if observation.ndim == 1:  # of scalars
                scalars = (int, *(dtype.type for dtype in dtypes))
                scalars += (float,) if observation.dtype.kind == "f" else ()
        self._vectors = None if parts else self._vectors_of(observation)
        # Memoryviews are written faster than arrays.
        shape = shapes_of(observation, 1)
        reward, done = step.reward.data, step.done.data
        self._bound = observation, rows, shape, dtypes, scalars, reward, done
        self._step = step

    def _vectors_of(self, observation: NumpyArrays) -> list[Any] | None:
        """Return a memoryview of each row, or a tuple of those of its parts.

        Returns:
            ``None`` if not all leaves are arrays [B, n], or observations have to be converted.
        """
        leaves = observation if isinstance(observation, tuple) else (observation,)
        vectors = all(isinstance(leaf, np.ndarray) and leaf.ndim == 2 for leaf in leaves)
        if not (vectors and self._exact):
            return None
        rows = [tuple(leaf[b].data for leaf in leaves) for b in range(self.B)]
        return rows if leaves is observation else [row for (row,) in rows]

    def _write_info(self, env_info: NamedArrayTuple, b: int, info: Any) -> None:
        if not info:
            return
        try:
            if info._fields == env_info._fields:  # twice as fast as writing the whole record
                for leaf, new in zip(env_info, info):
                    leaf[b] = new
            else:
                env_info[b] = info
        except (TypeError, AttributeError):
            env_info[b] = fit_info(info, env_info[b])
        # If the same info object of plain numbers is returned again, skip further writes.
        again = info is self._previous_info[b]
        immutable = again and all(isinstance(x, (bool, int, float)) for x in tuple(info))
        self._last_info[b] = info if immutable else None
        self._previous_info[b] = info

    def hold(self, rows: Iterable[int]) -> None:
        """Do not step these rows until ``release``; their environments keep their state."""
        super().hold(rows)
        self._steps = [(b, step) for b, step in self._all if b not in self.held]

    def release(self) -> None:
        """Release all held rows."""
        super().release()
        self._steps = self._all

    def forget_infos(self) -> None:
        """See ``EnvBatch``."""
        self._last_info: list[Any] = [None] * self.B  # infos that are already in the record
        self._previous_info: list[Any] = [None] * self.B  # infos of the previous step


class VectorEnvBatch(EnvBatch):
    """Batch of vector environments (``rlpyt.envs.vector``), each with its range of rows.

    A held row is stepped with the others, but its results are not reported; reset it afterwards.
    """

    can_hold = False
    _random_actions = "random actions"

    def __init__(self, envs: Sequence[Any], context: CollectorContext) -> None:
        super().__init__(envs, context)
        edges = np.cumsum([0, *(env.n for env in envs)])
        self.B = int(edges[-1])
        self._shapes: list[Any] = []
        self._dtypes: list[Any] = []  # of each leaf of the observations
        self._ranges = [
            (env, slice(int(first), int(last)))
            for env, first, last in zip(envs, edges, edges[1:], strict=False)
        ]

    def reset(self, observation: NumpyArrays, rows: Iterable[int]) -> None:
        """Reset these rows, all of a vector environment at once."""
        is_new = observation is not self._record
        if is_new:
            self._write_into(observation)
        self.progress[ACTIVITY] = RESETTING
        rows = np.asarray(list(rows), np.int64)
        for env, env_rows in self._ranges:
            chosen = rows[(rows >= env_rows.start) & (rows < env_rows.stop)]
            if len(chosen):
                self.progress[ROW] = int(chosen[0])
                all_rows = len(chosen) == env.n
                first = env.reset() if all_rows else env.reset_rows(chosen - env_rows.start)
                like = observation[env_rows][: len(chosen)]
                check_batched(first, like, "observation after reset")
                if is_new:
                    self._check_first(env, first, (len(chosen),))
                observation[env_rows if all_rows else chosen] = first
                if self._categories is not None:
                    self._check_categories()
        if is_new:
            self._warn_outside_bounds(set(range(self.B)).difference(rows))

    def advance(  # noqa: PLR0912 - the usual cases of the innermost loop
        self, step: NamedArrayTuple, action: NumpyArrays, watch: Watch | None = None
    ) -> list[int]:
        """Step one vector environment after another.

        Raises:
            ValueError, TypeError: an output of an environment is invalid.
        """
        if step.observation is not self._record:
            self._write_into(step.observation)
        self.context.actions = action
        self.progress[ACTIVITY] = STEPPING
        validate = next(self._validated)
        ended: list[int] = []
        result: Any = None
        dtypes = self._dtypes
        try:
            for (env, rows), shape in zip(self._ranges, self._shapes):
                self.progress[ROW] = rows.start
                result = None
                result = env.step(action[rows])
                if validate or not _fits(result, shape, dtypes, env.n):
                    check_batch(result, step[rows])
                o, r, d, info = result
                if watch is not None:
                    for i, b in enumerate(range(rows.start, rows.stop)):
                        if b not in self.held:
                            own = info[i] if info else info
                            watch(b, action[b], r[i].item(), bool(d[i]), own)
                step.observation[rows] = o
                step.reward[rows] = r
                step.done[rows] = d
                if info:
                    step.env_info[rows] = info
                ends = d | info.traj_done
                if ends.any():
                    ended += (np.flatnonzero(ends) + rows.start).tolist()
        except Exception:
            if result is not None:
                explain(result, step[rows], check_batch)
            raise
        if self._categories is not None:
            self._check_categories()
        if validate:
            self._warn_outside_bounds(self.held)
        if self.held:
            ended = [b for b in ended if b not in self.held]
        return ended

    def _write_into(self, observation: NumpyArrays) -> None:
        super()._write_into(observation)
        self._shapes = [shapes_of(observation[rows]) for _, rows in self._ranges]
        self._dtypes = [fitting_dtypes(leaf) for leaf in leaves_of(observation)]


def _fits(result: Any, shape: tuple[Any, ...], dtypes: Sequence[tuple[Any, ...]], n: int) -> bool:
    """Return True if the record holds the results without broadcasting or loss of integers.

    Args:
        result: the environment's output, (observation, reward, done, env_info) if correct.
        shape: shapes of the observations of its n environments, from ``shapes_of``.
        dtypes: of each leaf of the observations, from ``fitting_dtypes``.
        n: number of environments.
    """
    try:
        o, r, d, _ = result
        fits = r.shape == d.shape == (n,) and d.dtype == np.bool_
        fits = fits and shapes_of(o) == shape
        return fits and all(x.dtype in known for x, known in zip(leaves_of(o), dtypes))
    except (AttributeError, TypeError, ValueError):
        return False


def make_env_batch(envs: Sequence[Any], context: CollectorContext) -> EnvBatch:
    """Return these environments as one batch."""
    return (VectorEnvBatch if is_batch(envs[0]) else ListEnvBatch)(envs, context)


def is_batch(env: object) -> TypeGuard[VectorEnv]:
    """Return True if this is a ``VectorEnv``."""
    return hasattr(env, "reset_rows")


def fit_info(info: Any, example: NamedArrayTuple) -> Any:
    """Convert an ``env_info`` to the example's fields; fill missing ones with zero, drop others.

    Memory is allocated for the fields of the first step; later infos may have other fields.
    """
    mismatched = sorted(set(example._fields) ^ set(info._fields))
    if mismatched:
        warnings.warn(
            "env_info must have the same fields in all environments and at every step; missing or "
            f"unexpected: {mismatched}. Missing fields are recorded as zero, others are dropped. "
            "Pass info_example to the environment's wrapper to name all fields."
        )
    filled = []
    for name, example_value in example.items():
        value = getattr(info, name, 0)
        nested = isinstance(example_value, NamedArrayTuple) and fields_of(value) is not None
        filled.append(fit_info(value, example_value) if nested else value)
    return example._make(filled)


Bounds = tuple[Array, Array] | list[Any]  # (low, high), or of each part, ``None`` without bounds


def bounds_of(space: Any) -> Bounds | None:
    """Return the bounds of continuous actions for ``clipped``, or ``None`` if there are none."""
    if hasattr(getattr(space, "shape", None), "_fields"):
        parts = [bounds_of(part) for part in unwrapped(space).spaces]
        return parts if any(part is not None for part in parts) else None
    try:
        low, high, dtype = space.low, space.high, space.dtype
    except AttributeError:
        return None
    if low is None or high is None or dtype is None or isinstance(low, tuple):
        return None
    if np.dtype(dtype).kind != "f" or not (np.isfinite(low).any() or np.isfinite(high).any()):
        return None
    return np.asarray(low, np.float32), np.asarray(high, np.float32)


def clipped(action: Any, bounds: Bounds) -> Any:
    """Return clipped actions in new arrays, three times as fast as ``np.clip`` for few rows.

    Args:
        action: actions [*lead, ...], a (nested) named tuple for bounds of several parts.
        bounds: result of ``bounds_of``.
    """
    if isinstance(bounds, list):
        rows = zip(tuple(action), bounds, strict=True)
        parts = [
            buffer_func(part, np.copy) if own is None else clipped(part, own) for part, own in rows
        ]
        return action._make(parts)
    low, high = bounds
    return np.minimum(np.maximum(action, low), high)


def needs_reset(record: NamedArrayTuple) -> Array:
    """Return a mask, as a view, of environments whose episode is over.

    It is ``env_info.traj_done`` if that exists, else ``done``. A lost life sets only ``done``.

    Args:
        record: record with ``env_info`` and ``done``.
    """
    mask: Array = getattr(record.env_info, "traj_done", record.done)
    return mask


def null_rows(
    action: NumpyArrays, reward: Array, null_action: NumpyArrays | int, rows: Iterable[int]
) -> None:
    """Set action and reward of these rows to null, as the previous ones of a first step."""
    for b in rows:
        action[b] = null_action
        reward[b] = 0
