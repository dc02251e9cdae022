"""Conversion of vector observations of any structure to one float vector."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlpyt.utils.buffer import leaves_of


def observation_size(shape: Any) -> int:
    """Return the number of components of an observation.

    Args:
        shape: of an observation space: a tuple of integers, or for nested (Dict, Tuple) spaces a
            named tuple of shapes.
    """
    if hasattr(shape, "_fields"):
        return sum(observation_size(part) for part in tuple(shape))
    return int(np.prod(shape, dtype=np.int64))


def flatten_observation(observation: Any, shape: Any) -> Tensor:
    """Concatenate all components of an observation.

    Args:
        observation: tensor [*lead, *shape] of any number type, or a named tuple of them.
        shape: as in ``observation_size``.

    Returns:
        [*lead, size] float32.

    Raises:
        ValueError: the observation does not end with ``shape``.
    """
    if hasattr(shape, "_fields"):
        parts = zip(tuple(observation), tuple(shape), strict=True)
        return torch.cat([flatten_observation(*part) for part in parts], dim=-1)
    n_dim = len(shape)
    if n_dim != 1:
        lead = observation.shape[: observation.dim() - n_dim]
        _check(observation, tuple(shape), lead)
        return observation.reshape(*lead, observation_size(shape)).float()  # type: ignore[no-any-return]
    return observation.float()  # type: ignore[no-any-return]


def flatten_numpy(observation: Any, shape: Any) -> NDArray[np.float32]:
    """Concatenate numpy arrays [B, *shape] to [B, size]; without a copy if possible."""
    if hasattr(shape, "_fields"):
        parts = zip(tuple(observation), tuple(shape), strict=True)
        return np.concatenate([flatten_numpy(*part) for part in parts], axis=1)
    return observation.reshape(len(observation), -1).astype(np.float32, copy=False)  # type: ignore[no-any-return]


def check_normalized(models: Iterable[Any], observation_space: Any) -> None:
    """Check that models normalize floating-point observations only.

    Running statistics of category numbers or switches are not meaningful.

    Raises:
        ValueError: a model has ``normalize_observation``, and observations are not floating point.
    """
    if not any(getattr(model, "normalize_observation", False) for model in models):
        return
    leaves = leaves_of(observation_space.null_value())
    others = sorted({str(x.dtype) for x in map(np.asarray, leaves) if x.dtype.kind != "f"})
    if others:
        raise ValueError(
            f"normalize_observation is for real numbers, but observations, {observation_space}, "
            f"have entries of {', '.join(others)}. Turn it off (normalize_observation=False, or "
            "--agent.no-normalize-observation)."
        )


def _check(observation: Tensor, shape: tuple[int, ...], lead: tuple[int, ...]) -> None:
    if observation.shape[len(lead) :] != shape:
        raise ValueError(
            f"observation of shape {tuple(observation.shape)} must end with the shape of the "
            f"observation space, {shape}."
        )
