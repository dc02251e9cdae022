"""Environments of the learning experiments that are not registered anywhere: ``tasks:name``."""

from importlib import import_module
from typing import Any

import gymnasium
import torch
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation
from torch import Tensor, nn

from rlpyt.envs.dm_env import DmEnv

N_POSITIONS = {"Pendulum-v1": 2, "HalfCheetah-v5": 8}  # components before the velocities


def positions(id: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Make an environment whose observations have no velocities.

    Args:
        kwargs: further arguments of ``gymnasium.make``.
    """
    env, n = gymnasium.make(id, **kwargs), N_POSITIONS[id]
    box: Any = env.observation_space
    space = spaces.Box(box.low[:n], box.high[:n], dtype=box.dtype.type)
    return TransformObservation(env, lambda observation: observation[:n], space)


def bsuite(experiment: str, **setting: int) -> DmEnv:
    """Make an environment of bsuite: ``bsuite("memory_len", memory_length=10)``."""
    load = import_module(f"bsuite.experiments.{experiment}.{experiment}").load
    return DmEnv(lambda seed: load(**setting, seed=0 if seed is None else seed))


class ShowQuery(nn.Module):
    """Encoder of bsuite's memory_size that shows the number of the query as a one-hot vector.

    Args:
        shape: (1, 2 + n), of time, query and context of n bits.
        scale: of the one-hot vector. From small differences gates learn slowly which bit to let
            pass.
    """

    def __init__(self, shape: tuple[int, ...], scale: float = 10.0) -> None:
        super().__init__()
        self.n_bits, self.scale = shape[-1] - 2, scale
        self.output_size = 1 + 2 * self.n_bits

    def forward(self, observation: Tensor) -> Tensor:
        """Return features [*lead, 1 + 2 n] of observations [*lead, 1, 2 + n]."""
        time, query, context = observation.float().squeeze(-2).split((1, 1, self.n_bits), -1)
        one_hot = nn.functional.one_hot(query.squeeze(-1).long(), self.n_bits)
        return torch.cat((time, self.scale * one_hot, context), -1)
