"""Environments with DeepMind's interface ``dm_env`` (bsuite, dm_control), as Gymnasium's.

EnvCls=DmEnv, env_kwargs=dict(make=my_function)  # my_function(seed) returns a dm_env.Environment
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LARGEST_SEED = 2**32  # exclusive, for generators of the kind of ``np.random.RandomState``


class DmEnv(gymnasium.Env[Any, Any]):
    """Environment with the interface ``dm_env``, as a Gymnasium environment.

    ============================  ==============================================================
    spec                          space
    ============================  ==============================================================
    ``DiscreteArray``             Discrete
    ``BoundedArray``              Box
    ``Array`` of numbers          Box without bounds
    dictionary; list or tuple     Dict; Tuple
    ============================  ==============================================================

    A last step with a discount of 0 terminates the episode; with any other discount, as at a time
    limit, it truncates it. Algorithms discount by a setting of their own: a warning names a
    discount of the environment that is neither 1 nor the 0 of a termination.

    Args:
        make: function of a seed (or ``None``) that returns the environment, such as
            ``lambda seed: suite.load("cartpole", "swingup", task_kwargs={"random": seed})``. It is
            called again by ``reset(seed=...)``, as dm_env has no other way to set a seed.

    Raises:
        TypeError: ``make`` did not return such an environment, or a spec has no space.
    """

    def __init__(self, make: Callable[[int | None], Any]) -> None:
        self._make, self._warned = make, False
        self.env = make(None)
        if not callable(getattr(self.env, "action_spec", None)):
            raise TypeError(
                f"make must return an environment of dm_env, with action_spec(), got {self.env!r}."
            )
        self.observation_space = space_of(self.env.observation_spec(), "observation")
        self._action_spec = self.env.action_spec()
        self.action_space = space_of(self._action_spec, "action")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; with a seed, in a new environment."""
        super().reset(seed=seed)
        if seed is not None:
            self.env.close()
            self.env = self._make(seed % LARGEST_SEED)
        return _element(self.env.reset().observation, self.observation_space), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment."""
        step = self.env.step(_conforming(action, self._action_spec))
        observation = _element(step.observation, self.observation_space)
        last = bool(step.last())
        terminated = last and step.discount == 0
        if step.discount not in (1, None) and not terminated and not self._warned:
            self._warned = True
            warnings.warn(
                f"{type(self.env).__name__} returned a discount of {step.discount!r}, which is "
                "ignored: only a 0 at the end of an episode counts. Return 1, and set the discount "
                "of the algorithm (--algo.discount)."
            )
        return observation, float(step.reward or 0.0), terminated, last and not terminated, {}

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def space_of(spec: Any, path: str) -> Any:
    """Return the Gymnasium space of a spec.

    Args:
        spec: spec, or a nested dictionary, list or tuple of specs.
        path: name of the spec in errors.

    Raises:
        TypeError: a spec is not one of numbers.
    """
    if isinstance(spec, Mapping):
        return spaces.Dict({key: space_of(part, f"{path}[{key!r}]") for key, part in spec.items()})
    if isinstance(spec, list | tuple):
        return spaces.Tuple([space_of(part, f"{path}[{i}]") for i, part in enumerate(spec)])
    if hasattr(spec, "num_values"):
        return spaces.Discrete(int(spec.num_values))
    dtype = np.dtype(spec.dtype)
    if dtype.kind not in "biuf":
        raise TypeError(f"the spec {path} must be of numbers, got {spec!r:.100}.")
    if dtype.kind == "b":
        return spaces.Box(0, 1, spec.shape, np.int8)
    limits = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    low = np.broadcast_to(getattr(spec, "minimum", limits[0]), spec.shape).astype(dtype)
    high = np.broadcast_to(getattr(spec, "maximum", limits[1]), spec.shape).astype(dtype)
    return spaces.Box(low, high, dtype=dtype.type)


def _conforming(action: Any, spec: Any) -> Any:
    """Return an action with the dtypes of its spec."""
    if isinstance(spec, Mapping):
        return {key: _conforming(action[key], part) for key, part in spec.items()}
    if isinstance(spec, list | tuple):
        return [_conforming(part, own) for part, own in zip(action, spec, strict=True)]
    return np.asarray(action, spec.dtype)


def _element(value: Any, space: spaces.Space[Any]) -> Any:
    """Return an observation as an element of its space."""
    if isinstance(space, spaces.Dict):
        return {key: _element(value[key], part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_element(v, part) for v, part in zip(value, space.spaces, strict=True))
    if isinstance(space, spaces.Discrete):
        return np.int64(value)
    return np.asarray(value, space.dtype)
