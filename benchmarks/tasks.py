"""Environments of the learning experiments that are not registered anywhere: ``tasks:name``."""

from importlib import import_module
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation

from rlpyt.envs.dm_env import DmEnv

N_POSITIONS = {"Pendulum-v1": 2, "HalfCheetah-v5": 8}  # components before the velocities


def positions(id: str) -> gymnasium.Env[Any, Any]:
    """Make an environment whose observations have no velocities."""
    env, n = gymnasium.make(id), N_POSITIONS[id]
    box: Any = env.observation_space
    space = spaces.Box(box.low[:n], box.high[:n], dtype=box.dtype.type)
    return TransformObservation(env, lambda observation: observation[:n], space)


def bsuite(experiment: str, **setting: int) -> DmEnv:
    """Make an environment of bsuite: ``bsuite("memory_len", memory_length=10)``."""
    load = import_module(f"bsuite.experiments.{experiment}.{experiment}").load
    return DmEnv(lambda seed: load(**setting, seed=0 if seed is None else seed))
