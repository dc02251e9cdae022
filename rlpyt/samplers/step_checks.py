"""Checks of an environment's outputs against the step record, with errors that name key and type.

numpy would accept many errors silently: a number fills a whole row, ``None`` becomes NaN, "False"
is true. Full validation costs more than some environments' steps, so shapes and ``done`` are
checked at every step, everything else at some steps (``validated_steps``) and at the end of
episodes, and NaN and infinity once per batch (``first_not_finite``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.models.observation import CategoryShape, leaf_shapes, marked_shape
from rlpyt.spaces.action_mask import unwrapped
from rlpyt.spaces.elements import leaf_spaces
from rlpyt.utils.buffer import NumpyArrays, _named_leaves, buffer_func, keeps_numbers, leaves_of
from rlpyt.utils.collections import NamedArrayTuple

if TYPE_CHECKING:
    from rlpyt.envs.base import EnvStep

Array = np.ndarray[Any, Any]
MAX_INTERVAL = 64  # steps between full validations, in the long run
BOUNDS_TOLERANCE = 1e-5  # relative to the larger bound, absolute for bounds below 1
NUMBERS = (float, int, np.floating, np.integer, np.bool_)
TRUTHS = (bool, np.bool_)
FINITE_REMEDY = (
    "Correct the environment. If the agent can handle such values, set check_finite = False in a "
    "subclass of the collector (CollectorCls)."
)


def validated_steps() -> Iterator[bool]:
    """Yield True for each step to be fully validated: at first many, later few."""
    interval = 1
    while True:
        yield True
        yield from itertools.repeat(False, interval - 1)
        interval = min(2 * interval, MAX_INTERVAL)


def check_step(result: EnvStep, record: NamedArrayTuple) -> None:
    """Check the results of one step.

    Args:
        result: (observation, reward, done, env_info) if it is valid.
        record: ``StepRecord`` with leaves [B, ...]; the step will be written into one row.

    Raises:
        ValueError, TypeError: a part is invalid; the message names it.
    """
    check_parts(result)
    o, r, d, info = result
    check_observation(o, record.observation)
    check_reward_and_done(r, d)
    check_info(info)


def float_leaves(*trees: object) -> list[Array]:
    """Return all floating-point leaves, flattened if that needs no copy."""
    leaves = [leaf for tree in trees for leaf in leaves_of(tree)]
    # Single numbers, which are no arrays in numpy, count as well.
    arrays: list[Any] = [x for x in leaves if isinstance(x, np.ndarray | np.generic)]
    floats = [leaf for leaf in arrays if leaf.dtype.kind == "f"]
    return [leaf.reshape(-1) if leaf.flags.c_contiguous else leaf for leaf in floats]


def all_finite(leaves: list[Array]) -> bool:
    """Return True if no number in these arrays is NaN or infinite."""
    for leaf in leaves:
        # For few numbers a sum of squares is five times as fast; it may overflow.
        if leaf.ndim == 1 and math.isfinite(np.vdot(leaf, leaf)):
            continue
        if not np.isfinite(leaf).all():
            return False
    return True


def first_not_finite(
    samples_env: NamedArrayTuple, next_observation: NumpyArrays | None
) -> tuple[int, int, str]:
    """Find the first step of a batch that returned NaN or an infinite number.

    Args:
        samples_env: leaves [T, B, ...]; one of its observations or rewards is not finite.
        next_observation: observations [B, ...] after the last step, or ``None``.

    Returns:
        (t, b, message); t is the step that returned it, -1 before the batch.
    """
    T = len(samples_env.reward)
    parts = [("observation", samples_env.observation, -1), ("reward", samples_env.reward, 0)]
    if next_observation is not None:
        parts.append(("observation", buffer_func(next_observation, lambda x: x[None]), T - 1))
    found = []
    for key, tree, first_step in parts:
        for path, leaf in _named_leaves(tree, key):
            if float_leaves(leaf) and not np.isfinite(leaf).all():
                t, b, *index = np.argwhere(~np.isfinite(leaf))[0].tolist()
                where = f" at index {index}" if index else ""
                message = f"{path} must be finite, got {leaf[t, b][tuple(index)]}{where}"
                found.append((t + first_step, b, message))
    return min(found)


def explain(
    result: EnvStep,
    record: NamedArrayTuple,
    check: Callable[[EnvStep, NamedArrayTuple], None] = check_step,
) -> None:
    """Raise a clear error, in place of the one being handled, if the results of a step are invalid.

    Raises:
        ValueError, TypeError: the results are invalid.
    """
    try:
        check(result, record)
    except (ValueError, TypeError) as clear_error:
        raise clear_error from None


def check_batch(result: EnvStep, record: NamedArrayTuple) -> None:
    """Check the results of one step of a vector environment of n rows.

    Args:
        result: (observation, reward, done, env_info) if it is valid.
        record: ``StepRecord`` with leaves [n, ...]; the step will be written into it.

    Raises:
        ValueError, TypeError: a part is invalid; the message names it.
    """
    check_parts(result)
    o, r, d, info = result
    check_batched(o, record.observation, "observation")
    check_batched(r, record.reward, "reward")
    check_batched(d, record.done, "done")
    check_info(info)


def check_batched(part: object, record: NumpyArrays, key: str = "observation") -> None:
    """Check one part of the results, such as the observation, against leaves [n, ...].

    Raises:
        ValueError, TypeError: structure, shape or dtype differ.
    """
    check_observation(part, record[None], key)


def check_observation(o: object, record: NumpyArrays, key: str = "observation") -> None:
    """Check an observation against the record's leaves [B, ...].

    Conversions that keep numbers are allowed: float64 is recorded as float32, an integer as a
    float, but a float is not recorded as an integer.

    Raises:
        ValueError, TypeError: structure, shape or dtype differ.
    """
    if _is_like(o, record):  # the usual case
        return
    if isinstance(record, NamedArrayTuple):
        expected, actual = record._fields, fields_of(o)
        if not isinstance(o, tuple) or actual != expected:
            got = f"has fields {actual}" if actual is not None else f"is {_kind_of(o)}"
            raise TypeError(f"{key} {got}, expected a named tuple with fields {expected}.")
        for name, leaf, new in zip(expected, record, o, strict=True):
            if leaf is not None and not _is_like(new, leaf):
                check_observation(new, leaf, f"{key}.{name}")
        return
    if isinstance(o, tuple) and len(o) == 2 and isinstance(o[1], dict):
        raise TypeError(
            f"{key} is a pair with a dict, as Gymnasium's reset returns it, expected the "
            "observation alone. Wrap the environment in rlpyt.envs.gym.GymEnvWrapper."
        )
    like_array = hasattr(o, "__array__") or isinstance(o, (list, *NUMBERS))
    array = np.asarray(o) if like_array else None
    if array is None or array.dtype.kind not in "biuf":
        raise TypeError(f"{key} is {_kind_of(o)}, expected {_kind_of(record[0])}.")
    if array.shape != record.shape[1:]:
        raise ValueError(f"{key} has shape {array.shape}, expected {record.shape[1:]}.")
    if not keeps_numbers(array, record.dtype):
        raise ValueError(
            f"{key} has dtype {array.dtype}, expected {record.dtype} as in the first step; "
            "the conversion would lose digits."
        )


def fitting_dtypes(record: Array) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes of arrays that this record holds without loss of integers."""
    casting: Any = "same_kind" if record.dtype.kind == "f" else "safe"
    fitting = [np.dtype(x) for x in "?bBhHiIlLqQefd" if np.can_cast(x, record.dtype, casting)]
    return (record.dtype, *fitting)


class CategoryCheck:
    """Check that category numbers of observations are in their spaces.

    Models read them one-hot, which fails for others without naming the environment, or on a GPU
    ends the process.

    Args:
        space: observation space of one environment.
        record: record of observations, leaves [B, ...].
    """

    def __init__(self, space: Any, record: NumpyArrays) -> None:
        self.parts: list[tuple[str, Any, Array, Array, Any]] = []
        shapes, leaves = leaf_shapes(marked_shape(space)), leaves_of(record)
        rows = zip(leaf_spaces(space), shapes, leaves) if len(shapes) == len(leaves) else ()
        for (path, part), shape, leaf in rows:
            if isinstance(shape, CategoryShape) and leaf.dtype.kind in "iu" and shape.low == 0:
                # As unsigned numbers, negative ones are too large: one comparison is enough.
                unsigned = leaf.view(np.dtype(f"u{leaf.dtype.itemsize}"))
                highest = np.reshape(np.array(shape.sizes, unsigned.dtype) - 1, shape)
                self.parts.append((f"observation{path}", part, leaf, unsigned, highest))

    def first_row(self) -> int | None:
        """Return the first row [B] with a number outside its space; ``None``: there is none."""
        found = [
            int(np.flatnonzero(outside.reshape(len(outside), -1).any(1))[0])
            for _, _, _, unsigned, highest in self.parts
            if (outside := unsigned > highest).any()
        ]
        return min(found, default=None)

    def error(self, b: int) -> ValueError:
        """Return the error about row b."""
        path, part, leaf = next(
            (path, part, leaf)
            for path, part, leaf, unsigned, highest in self.parts
            if (unsigned[b] > highest).any()
        )
        value = leaf[b] + getattr(part, "start", 0)  # as the environment returned it
        return ValueError(
            f"{path} must be an element of {unwrapped(part)}, got {value}. Correct its space, or "
            "what the environment returns."
        )


class BoundsCheck:
    """Check that numbers of observations are in the bounds of their spaces.

    Args:
        space: observation space of one environment.
        record: record of observations, leaves [B, ...].
    """

    def __init__(self, space: Any, record: NumpyArrays) -> None:
        self.parts: list[tuple[str, Array, Array, Array, Any]] = []
        spaces, leaves = leaf_spaces(space), leaves_of(record)
        for (path, part), leaf in zip(spaces, leaves) if len(spaces) == len(leaves) else ():
            low, high = getattr(part, "low", None), getattr(part, "high", None)
            if type(unwrapped(part)).__name__ == "MultiBinary":  # Gymnasium may not be imported
                low, high = 0, 1
            if low is None or high is None or leaf.dtype.kind not in "fiu":
                continue
            shape = leaf.shape[1:]
            low, high = (np.broadcast_to(np.float64(bound), shape) for bound in (low, high))
            limits = np.iinfo(leaf.dtype) if leaf.dtype.kind in "iu" else None
            if limits and (low <= limits.min).all() and (high >= limits.max).all():
                continue  # such as images
            finite = [np.where(np.isfinite(bound), np.abs(bound), 0) for bound in (low, high)]
            if np.isfinite(low).any() or np.isfinite(high).any():
                # Bounds may be rounded to float32.
                tolerance = BOUNDS_TOLERANCE * np.maximum(np.maximum(*finite), 1)
                self.parts.append((f"observation{path}", leaf, low, high, tolerance))

    def first(self, ignored: Collection[int]) -> tuple[int, str] | None:
        """Return (row, message) of the first number outside its bounds; ``None``: there is none.

        Args:
            ignored: rows without an observation.
        """
        for path, leaf, low, high, tolerance in self.parts:
            outside = (leaf < low - tolerance) | (leaf > high + tolerance)
            outside &= np.isfinite(leaf)  # others are errors
            outside[list(ignored)] = False
            if outside.any():
                b, *at = np.argwhere(outside)[0].tolist()
                index = f" at index {at}" if at else ""
                bounds = f"[{low[tuple(at)]:g}, {high[tuple(at)]:g}]"
                return b, (
                    f"{path} must be in {bounds}, the bounds of its space, got "
                    f"{leaf[b][tuple(at)]:g}{index}. Correct the space, with infinite bounds if "
                    "there are none, or what the environment returns."
                )
        return None


def _is_like(o: object, record: object) -> bool:
    """Return True if an array has shape and dtype of one row of the record."""
    return (
        type(o) is np.ndarray
        and isinstance(record, np.ndarray)
        and o.shape == record.shape[1:]
        and o.dtype == record.dtype
    )


def check_reward_and_done(r: object, d: object) -> None:
    """Check that the reward is one number, and done is True or False.

    Raises:
        TypeError: one of them has another type.
    """
    if type(r) is float and type(d) is bool:  # the usual case
        return
    if not _is_scalar(r, NUMBERS):
        raise TypeError(f"reward is {_kind_of(r)}, expected one number; return float(reward).")
    if not (_is_scalar(d, TRUTHS) or (isinstance(d, int | np.integer) and d in (0, 1))):
        raise TypeError(f"done is {_kind_of(d)}, expected True or False; return bool(done).")


def check_info(info: object) -> None:
    """Check that env_info is a named tuple, or None.

    Raises:
        TypeError: it has another type.
    """
    empty = isinstance(info, tuple) and not info
    if info is not None and not empty and fields_of(info) is None:
        raise TypeError(
            f"env_info is {_kind_of(info)}, expected a named tuple of numbers and arrays, the "
            "same fields at every step (rlpyt.envs.gym.GymEnvWrapper converts a dict)."
        )


def fields_of(value: object) -> tuple[str, ...] | None:
    """Return the field names of a named tuple, ``None`` for anything else."""
    return getattr(value, "_fields", None) if isinstance(value, tuple) else None


def check_parts(step: object) -> None:
    """Check that a step has four parts.

    Raises:
        TypeError: it has another number of parts.
    """
    if not isinstance(step, tuple | list) or len(step) != 4:
        got = f"{len(step)} values" if isinstance(step, tuple | list) else _kind_of(step)
        hint = ""
        if isinstance(step, tuple | list) and len(step) == 5:
            hint = " Wrap a Gymnasium environment in rlpyt.envs.gym.GymEnvWrapper."
        raise TypeError(
            f"step returned {got}, expected 4: (observation, reward, done, env_info).{hint}"
        )


def _is_scalar(x: object, kinds: tuple[type, ...]) -> bool:
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x[()]
    return isinstance(x, kinds)


def _kind_of(x: object) -> str:
    """Describe a value in a few words."""
    if isinstance(x, np.ndarray):
        return f"an array of shape {x.shape} and dtype {x.dtype}"
    if x is None:
        return "None"
    return f"a {type(x).__name__} ({x!r:.60})" if isinstance(x, str) else f"a {type(x).__name__}"
