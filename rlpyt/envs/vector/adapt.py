"""Select the adapter for a kind of vector environments."""

from typing import Any

from rlpyt.envs.vector.base import UnsupportedVectorEnv


def adapter_of(envs: object) -> Any:
    """Return the adapter class for vector environments.

    Raises:
        UnsupportedVectorEnv: no adapter supports them; the message says what to do.
    """
    inner = envs  # inside gymnasium's vector wrappers
    while hasattr(inner, "env") and "VectorWrapper" in _names(inner):
        inner = inner.env
    names = _names(inner)
    if "EnvPoolMixin" in names:
        from rlpyt.envs.vector.envpool import EnvPoolVector

        return EnvPoolVector
    if "AtariVectorEnv" in names:
        from rlpyt.envs.vector.atari import AtariVector

        return AtariVector
    if not any(c.__module__.startswith("gymnasium.vector") for c in type(inner).__mro__):
        raise UnsupportedVectorEnv(_message(envs))
    if "CartPoleVectorEnv" in names:
        if inner is not envs:
            raise UnsupportedVectorEnv(
                f"{envs} wraps CartPoleVectorEnv, which cannot reset single rows. Adapt it without "
                "wrappers and use rlpyt.envs.vector.wrappers, or batch single environments: "
                "make_vec('CartPole-v1', vectorization_mode='sync')."
            )
        from rlpyt.envs.vector.cartpole import CartPoleVector

        return CartPoleVector
    from rlpyt.envs.vector.gymnasium_vector import GymnasiumVectorEnv

    return GymnasiumVectorEnv


def _names(envs: object) -> set[str]:
    return {c.__name__ for c in type(envs).__mro__}


def _message(envs: object) -> str:
    kind = f"{type(envs).__module__}.{type(envs).__name__}"
    if kind.startswith("stable_baselines3."):
        return (
            f"{kind} resets automatically and hides how. Pass the single environment to samplers "
            "(EnvCls=rlpyt.envs.gym.make, env_kwargs=dict(id=...)), or make_vec(id)."
        )
    return (
        f"{kind} is not a supported vector environment: rlpyt.envs.vector.VectorEnv, a "
        "gymnasium.vector.VectorEnv, ale_py's AtariVectorEnv, EnvPool. Subclass "
        "rlpyt.envs.vector.VectorEnv (reset, step, reset_rows), or pass a single environment to "
        "samplers, which batch it."
    )
