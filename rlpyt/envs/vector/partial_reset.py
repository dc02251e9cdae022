"""Find out whether a gymnasium vector environment can reset single rows.

Gymnasium's interface is ``reset(options={"reset_mask": mask})``, but classes that do not support
it silently reset all rows. So support is established by a list of known classes, or by a test on
the environment before it is used.
"""

import copy
from typing import Any

import numpy as np
from gymnasium.vector import (
    AsyncVectorEnv,
    SyncVectorEnv,
    VectorActionWrapper,
    VectorEnv,
    VectorObservationWrapper,
    VectorRewardWrapper,
    VectorWrapper,
)
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from rlpyt.envs.layers import wrappers_of
from rlpyt.envs.vector.base import Native, UnsupportedVectorEnv

_WRAPPERS = (VectorWrapper, VectorActionWrapper, VectorObservationWrapper, VectorRewardWrapper)
KNOWN_RESETS = {cls.reset for cls in (SyncVectorEnv, AsyncVectorEnv, *_WRAPPERS)}
MAX_TEST_STEPS = 64
# Resets that must leave other rows unchanged; with few first states one may succeed by chance.
REQUIRED_SUCCESSES = 6


def masked_reset(envs: VectorEnv[Any, Any, Any], mask: NDArray[np.bool_]) -> Any:
    """Reset the rows of ``mask`` [n] bool.

    Builds a new options dict each time, since sources remove ``reset_mask`` from it.
    """
    return envs.reset(options={"reset_mask": mask})


def resets_by_known_code(envs: VectorEnv[Any, Any, Any]) -> bool:
    """Return True if ``reset`` of all wrappers and workers is known to respect the mask."""
    layers = wrappers_of(envs, VectorWrapper)
    base = layers[-1]
    if isinstance(base, AsyncVectorEnv) and base.worker is not None:  # custom worker function
        return False
    return all(type(layer).reset in KNOWN_RESETS for layer in layers)


def try_partial_reset(envs: VectorEnv[Any, Any, Any]) -> bool | None:
    """Step, reset a row, and check that running rows are unchanged.

    A full ``reset`` is required afterwards.

    Returns:
        True or False; ``None`` if observations do not show it, as when all are equal.
    """
    n, space = envs.num_envs, envs.single_action_space
    first, successes = _rows(envs, envs.reset()[0]), 0
    if n == 1:
        try:
            masked_reset(envs, np.ones(1, bool))
        except Exception:
            return False
        return True
    for _ in range(MAX_TEST_STEPS):
        empty: Any = create_empty_array(space, n)
        actions = concatenate(space, [space.sample() for _ in range(n)], empty)
        observation, _, terminated, truncated, _ = envs.step(actions)
        now = _rows(envs, observation)
        over = np.asarray(terminated) | np.asarray(truncated)
        differs = [not _equal(a, b) for a, b in zip(now, first, strict=True)]
        running = np.array(differs) & ~over
        mask = over.copy()
        if not over.any():
            mask[np.flatnonzero(running)[:1]] = True
        if (running & ~mask).any():
            try:
                after = _rows(envs, masked_reset(envs, mask.copy())[0])
            except Exception:  # not supported; the kind of exception depends on the class
                return False
            if not all(_equal(now[i], after[i]) for i in np.flatnonzero(~mask)):
                return False
            successes += 1
            if successes == REQUIRED_SUCCESSES:
                return True
            for i in np.flatnonzero(mask):
                first[i] = after[i]
        elif over.any():
            first = _rows(envs, envs.reset()[0])
    return None


def _rows(envs: VectorEnv[Any, Any, Any], observation: Native) -> list[Any]:
    try:
        return copy.deepcopy([*iterate(envs.observation_space, observation)])
    except (TypeError, ValueError) as error:
        raise UnsupportedVectorEnv(
            f"{envs} returned the observation {observation!r:.80}, expected an element of "
            f"{envs.observation_space}: {error}"
        ) from error


def _equal(a: Native, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return all(map(_equal, a, b))
    return np.array_equal(a, b)
