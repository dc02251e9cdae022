"""Checks of what an environment returns against its space, with errors that name key and type.

numpy would accept much of it silently: a number fills a whole row, ``None`` becomes NaN, "False"
is true. Checking everything costs more than some environments' steps, so the loops check shapes
and ``done`` at every step, everything else at some steps (``steps_until_look``) and at the end of
episodes, and whether numbers are finite once per batch (``first_not_finite``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.utils.buffer import NumpyArrays, _named_leaves, buffer_func, leaves_of
from rlpyt.utils.collections import NamedArrayTuple

if TYPE_CHECKING:
    from rlpyt.envs.base import EnvStep

Array = np.ndarray[Any, Any]
RARELY = 64  # steps between full validations, in the long run
NUMBERS = (float, int, np.floating, np.integer, np.bool_)
TRUTHS = (bool, np.bool_)
FINITE_REMEDY = (
    "Correct the environment. If the agent can handle such values, set check_finite = False in a "
    "subclass of the collector (CollectorCls)."
)


def steps_until_look(n_looks: int) -> int:
    """Return the number of steps before the next validation: few at first, later ``RARELY``."""
    return int(min(2**n_looks, RARELY)) - 1


def check_step(given: EnvStep, record: NamedArrayTuple) -> None:
    """Check the results of one step.

    Args:
        given: (observation, reward, done, env_info) if it is valid.
        record: ``StepRecord`` with leaves [B, ...]; the step will be written into one row.

    Raises:
        ValueError, TypeError: a part is invalid; the message names it.
    """
    check_parts(given)
    o, r, d, info = given
    check_observation(o, record.observation)
    check_reward_and_done(r, d)
    check_info(info)


def float_leaves(*trees: object) -> list[Array]:
    """Return the arrays of floating-point numbers among all leaves, flat where that is a view."""
    leaves = [leaf for tree in trees for leaf in leaves_of(tree)]
    floats = [leaf for leaf in leaves if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"]
    return [leaf.reshape(-1) if leaf.flags.c_contiguous else leaf for leaf in floats]


def all_finite(leaves: list[Array]) -> bool:
    """Return True if no number in these arrays is NaN or infinite."""
    for leaf in leaves:
        # A sum of squares takes a fifth of the time for few numbers; it may overflow.
        if leaf.ndim == 1 and math.isfinite(np.vdot(leaf, leaf)):
            continue
        if not np.isfinite(leaf).all():
            return False
    return True


def first_not_finite(
    samples_env: NamedArrayTuple, following: NumpyArrays | None
) -> tuple[int, int, str]:
    """Return the first step of a batch that gave NaN or an infinite number.

    Args:
        samples_env: leaves [T, B, ...]; one of its observations or rewards is not finite.
        following: observations [B, ...] after the last step, or ``None``.

    Returns:
        (t, b, what was found); t is the step that gave it, -1 before the batch.
    """
    T = len(samples_env.reward)
    parts = [("observation", samples_env.observation, -1), ("reward", samples_env.reward, 0)]
    if following is not None:
        parts.append(("observation", buffer_func(following, lambda x: x[None]), T - 1))
    found = []
    for key, tree, first_step in parts:
        for path, leaf in _named_leaves(tree, key):
            if float_leaves(leaf) and not np.isfinite(leaf).all():
                t, b, *index = np.argwhere(~np.isfinite(leaf))[0].tolist()
                where = f" at index {index}" if index else ""
                said = f"{path} must be finite, got {leaf[t, b][tuple(index)]}{where}"
                found.append((t + first_step, b, said))
    return min(found)


def explain(
    given: EnvStep,
    record: NamedArrayTuple,
    check: Callable[[EnvStep, NamedArrayTuple], None] = check_step,
) -> None:
    """Replace an error about the results of a step by a clear one, if they are invalid.

    Raises:
        ValueError, TypeError: in place of the error.
    """
    try:
        check(given, record)
    except (ValueError, TypeError) as clear:
        raise clear from None


def check_batch(given: EnvStep, record: NamedArrayTuple) -> None:
    """Check the results of one step of a vector environment of n rows.

    Args:
        given: (observation, reward, done, env_info) if it is valid.
        record: ``StepRecord`` with leaves [n, ...]; the step will be written into it.

    Raises:
        ValueError, TypeError: a part is invalid; the message names it.
    """
    check_parts(given)
    o, r, d, info = given
    check_batched(o, record.observation, "observation")
    check_batched(r, record.reward, "reward")
    check_batched(d, record.done, "done")
    check_info(info)


def check_batched(given: object, record: NumpyArrays, key: str = "observation") -> None:
    """Check a part of it, such as the observation, against leaves [n, ...] of the record.

    Raises:
        ValueError, TypeError: structure, shape or dtype differ.
    """
    check_observation(given, record[None], key)


def check_observation(o: object, record: NumpyArrays, key: str = "observation") -> None:
    """Check an observation against the record's leaves [B, ...].

    Conversions that keep numbers are allowed: float64 is recorded as float32, an integer as a
    float, but a float is not recorded as an integer.

    Raises:
        ValueError, TypeError: structure, shape or dtype differ.
    """
    if (
        type(o) is np.ndarray
        and isinstance(record, np.ndarray)
        and o.shape == record.shape[1:]
        and o.dtype == record.dtype
    ):
        return  # the usual case
    if isinstance(record, NamedArrayTuple):
        fields, given = record._fields, fields_of(o)
        if not isinstance(o, tuple) or given != fields:
            came = f"fields {given}" if given is not None else _kind_of(o)
            raise TypeError(f"{key} has {came}, expected a named tuple with fields {fields}.")
        for name, own, new in zip(fields, record, o, strict=True):
            if own is not None:
                check_observation(new, own, f"{key}.{name}")
        return
    if isinstance(o, tuple) and len(o) == 2 and isinstance(o[1], dict):
        raise TypeError(
            f"{key} is a pair of something and a dict, as Gymnasium's reset gives it; here reset "
            "returns the observation alone (rlpyt.envs.gym.GymEnvWrapper translates)."
        )
    like_array = hasattr(o, "__array__") or isinstance(o, (list, *NUMBERS))
    array = np.asarray(o) if like_array else None
    if array is None or array.dtype.kind not in "biuf":
        raise TypeError(f"{key} is {_kind_of(o)}, expected {_kind_of(record[0])}.")
    if array.shape != record.shape[1:]:
        raise ValueError(f"{key} has shape {array.shape}, expected {record.shape[1:]}.")
    if not np.can_cast(array.dtype, record.dtype, "same_kind"):
        raise ValueError(
            f"{key} has dtype {array.dtype}, expected {record.dtype} as in the first step; "
            "the conversion would lose digits."
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
            "same fields at every step (rlpyt.envs.gym.GymEnvWrapper makes one of a dict)."
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
        came = f"{len(step)} values" if isinstance(step, tuple | list) else _kind_of(step)
        hint = ""
        if isinstance(step, tuple | list) and len(step) == 5:
            hint = " Five are Gymnasium's: put the environment into rlpyt.envs.gym.GymEnvWrapper."
        raise TypeError(
            f"step returned {came}, expected 4: (observation, reward, done, env_info).{hint}"
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
