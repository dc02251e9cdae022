"""Adapt environments of the old ``gym`` package to Gymnasium, without importing ``gym``.

Both interfaces work: ``step`` returning (observation, reward, done, info), with ``reset``
returning only the observation and a method ``seed``; and ``step`` returning terminated and
truncated, as in gym 0.26. The package ``shimmy`` may cover spaces not supported here.
"""

import contextlib
import inspect
from collections.abc import Mapping
from typing import Any, TypeGuard

import gymnasium
import numpy as np
from gymnasium import spaces

from rlpyt.envs.layers import EnvLike, SingleEnv, takes_seed, wrappers_of
from rlpyt.spaces.base import Space
from rlpyt.spaces.gym_wrapper import nt_to_dict

TRUNCATED = "TimeLimit.truncated"  # key of info: a time limit ended the episode


class LegacyGymEnv(gymnasium.Env[Any, Any]):
    """Adapter around an environment of the old ``gym``.

    A time limit reported by ``info["TimeLimit.truncated"]``, or by a bool ``info["timeout"]``,
    becomes truncation.

    Raises:
        AttributeError: the environment lacks a space.
        TypeError: a space is of an unsupported kind.
    """

    def __init__(self, env: SingleEnv) -> None:
        self.env: Any = env
        for attribute in ("observation_space", "action_space"):
            if getattr(env, attribute, None) is None:
                raise AttributeError(f"{type(env).__name__} has no {attribute}.")
        self.observation_space = convert_space(env.observation_space, "observation_space")
        self.action_space = convert_space(env.action_space, "action_space")
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment; both return signatures of ``step`` are supported.

        Raises:
            TypeError: ``step`` did not return four or five values.
        """
        return five_values(self.env.step(action), self.env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment, seeding it by keyword or by its method ``seed``."""
        result = self.env.reset() if seed is None else reset_with_seed(self.env, seed)
        return result if has_info(result, self.observation_space) else (result, {})

    def render(self) -> Any:
        """Render a frame as an array, if the inner environment supports it."""
        takes_mode = "mode" in inspect.signature(self.env.render).parameters
        return self.env.render(**({"mode": "rgb_array"} if takes_mode else {}))

    def close(self) -> None:
        """Close the inner environment."""
        self.env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'.")
        return getattr(self.env, name)

    def __str__(self) -> str:
        return f"<{type(self).__name__}<{type(self.env).__name__}>>"


def five_values(result: Any, env: object) -> tuple[Any, Any, bool, bool, Any]:
    """Convert what ``step`` returned to (observation, reward, terminated, truncated, info).

    Raises:
        TypeError: `result` does not have four or five values, or its ``done`` is not a boolean.
    """
    n_values = len(result) if isinstance(result, tuple | list) else 0
    if n_values == 5:
        return result  # type: ignore[no-any-return]
    if n_values != 4:
        raise TypeError(
            f"{env}.step() returned {result!r:.120}, expected 4 or 5 values: (observation, reward, "
            "terminated, truncated, info), or (observation, reward, done, info) as in the old gym."
        ) from None
    observation, reward, done, info = result
    info = as_info(nt_to_dict(info), env)  # some return a named tuple
    done = as_flag("done", done, env)
    limit = info.get(TRUNCATED, False)
    if isinstance(info.get("timeout"), bool | np.bool_):  # as rlpyt's environments have it
        limit = info.get(TRUNCATED, info["timeout"])
        info = {key: value for key, value in info.items() if key != "timeout"}
    truncated = done and bool(limit)
    return observation, reward, done and not truncated, truncated, info


def has_info(result: object, observation_space: object) -> TypeGuard[tuple[Any, Any]]:
    """Return True if ``reset`` returned (observation, info), False if only the observation.

    An observation of a Tuple space may itself be a pair with a dict, and one of two numbers a
    tuple; the space decides.
    """
    if type(result) is not tuple or len(result) != 2:
        return False
    space = convert_space(observation_space, "observation_space")
    if isinstance(space, spaces.Tuple):
        return not _has_structure_of(space, result)
    if isinstance(result[1], Mapping) or isinstance(space, spaces.Dict) or result[1] is None:
        return True
    return type(result[0]) is np.ndarray and result[0].shape == space.shape


def _has_structure_of(space: spaces.Space[Any], value: Any) -> bool:
    """Return True if ``value`` has the nested structure of the space; leaves are not compared."""
    if isinstance(space, spaces.Dict):
        keys = isinstance(value, Mapping) and value.keys() == space.spaces.keys()
        return keys and all(_has_structure_of(s, value[key]) for key, s in space.spaces.items())
    if isinstance(space, spaces.Tuple):
        length = isinstance(value, tuple | list) and len(value) == len(space.spaces)
        return length and all(map(_has_structure_of, space.spaces, value))
    return not isinstance(value, tuple | Mapping)


def reset_with_seed(env: EnvLike, seed: int) -> Any:
    """Reset an environment with a seed, by keyword argument or by its method ``seed``."""
    try:
        return env.reset(seed=seed)
    except TypeError as error:  # also of an environment inside wrappers that does not take it
        if takes_seed(env.reset) and "unexpected keyword argument 'seed'" not in str(error):
            raise
    seed_by_method(env, seed)
    return env.reset()


def seed_by_method(env: Any, seed: int) -> None:
    """Seed an environment by its method ``seed`` of the old ``gym``, if it has one."""
    if callable(getattr(env, "seed", None)):
        env.seed(seed)


def adapt_wrapped(env: object) -> None:
    """Adapt an environment of the old interface inside Gymnasium's wrappers, in place.

    The wrappers pass keyword arguments that an old ``reset`` does not accept. Some of them, such
    as ``TimeLimit``, also need the five return values of ``step``.

    Args:
        env: an environment; unchanged unless it is a wrapper of Gymnasium.
    """
    layers = [layer for layer in wrappers_of(env) if isinstance(layer, gymnasium.Wrapper)]
    if not layers:
        return
    inner: Any = layers[-1].env  # not further: an adapter's own ``env`` has another interface
    if takes_seed(inner.reset):
        return
    passing = (gymnasium.Wrapper.reset, gymnasium.Wrapper.step)
    methods = [method for layer in layers for method in (type(layer).reset, type(layer).step)]
    if any(m.__module__.startswith("gymnasium.") and m not in passing for m in methods):
        layers[-1].env = LegacyGymEnv(inner)
        return
    reset = inner.reset

    def reset_and_seed(*, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        if seed is not None:
            seed_by_method(inner, seed)
        return reset()

    inner.reset = reset_and_seed


def convert_space(space: Any, path: str = "space") -> Any:
    """Convert a space of the old ``gym`` to a Gymnasium space, by its class name.

    Spaces of rlpyt and Gymnasium are returned unchanged.

    Raises:
        TypeError: the kind of space is not supported; the message has its path.
    """
    if isinstance(space, Space | spaces.Space):
        return space
    kinds = [cls.__name__ for cls in type(space).__mro__]
    converted: Any = None
    if "Box" in kinds:
        converted = spaces.Box(
            space.low, space.high, tuple(space.shape), np.dtype(space.dtype).type
        )
    elif "Discrete" in kinds:
        converted = spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    elif "MultiDiscrete" in kinds:
        converted = spaces.MultiDiscrete(space.nvec)
    elif "MultiBinary" in kinds:
        converted = spaces.MultiBinary(space.n)
    elif "Dict" in kinds:
        parts = {k: convert_space(s, f"{path}[{k!r}]") for k, s in space.spaces.items()}
        converted = spaces.Dict(parts)
    elif "Tuple" in kinds:
        items = [convert_space(s, f"{path}[{i}]") for i, s in enumerate(space.spaces)]
        converted = spaces.Tuple(items)
    if converted is not None:
        return converted
    raise TypeError(
        f"{path} is a {kinds[0]} of the old gym package, which is not supported. Run pip install "
        'shimmy, then gymnasium.make("GymV21Environment-v0", env=env), or port the environment to '
        "gymnasium."
    )


def as_info(info: object, env: object, method: str = "step") -> Mapping[Any, Any]:
    """Return the info of a step or reset; ``None`` is empty.

    Raises:
        TypeError: ``info`` is something else than a dict.
    """
    if info is None:
        return {}
    if isinstance(info, Mapping):
        return info
    raise TypeError(
        f"{env}.{method}() returned info={info!r:.80} ({type(info).__name__}), expected a dict. "
        "Return {} if there is nothing to report."
    )


def as_flag(name: str, value: Any, env: object) -> bool:
    """Return the flag of an episode's end as a bool.

    Args:
        name: name of the value that ``step`` returned, such as "terminated".
        value: True, False, 1 or 0, possibly as an array or tensor of one element.
        env: the environment, named in the error.

    Raises:
        TypeError: ``value`` is something else, such as "False", ``None`` or NaN.
    """
    single = value
    with contextlib.suppress(AttributeError, TypeError, ValueError, RuntimeError):
        single = value.item()  # of numpy or torch
    if isinstance(single, bool | int | float) and single in (0, 1):
        return bool(single)
    raise TypeError(
        f"{env}.step() returned {name}={value!r:.80} ({type(value).__name__}), expected True or "
        f"False. Return bool({name})."
    )
