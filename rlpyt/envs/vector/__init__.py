"""Vector environments, stepped as one batch: interface, adapters, factories and wrappers."""

from rlpyt.envs.vector.base import (
    UnsupportedVectorEnv,
    VectorEnv,
    adapt,
    is_vector_env,
)
from rlpyt.envs.vector.make import make_atari_vec, make_envpool, make_vec

__all__ = [
    "UnsupportedVectorEnv",
    "VectorEnv",
    "adapt",
    "is_vector_env",
    "make_atari_vec",
    "make_envpool",
    "make_vec",
]
