"""Vector environments, stepped as one batch: interface, adapters, factories and wrappers."""

from rlpyt.envs.vector.base import (  # noqa: F401
    UnsupportedVectorEnv,
    VectorEnv,
    adapt,
    is_vector_env,
)
from rlpyt.envs.vector.make import make_atari_vec, make_envpool, make_vec  # noqa: F401
