"""Environments of the old ``gym`` package as Gymnasium ones, without importing ``gym``.

Both generations work: ``step`` returning (observation, reward, done, info), with ``reset``
returning the observation alone and ``seed`` a method; and ``step`` returning terminated and
truncated, as in gym 0.26. What the space types below do not cover, the package ``shimmy`` may.
"""

import inspect
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class LegacyGymEnv(gymnasium.Env[Any, Any]):
    """Adapter around one environment object of the old ``gym``.

    A time limit of the old kind (``info["TimeLimit.truncated"]``) becomes truncation.

    Raises:
        AttributeError: the environment lacks a space.
        TypeError: a space is of a kind that is not known here.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        for attribute in ("observation_space", "action_space"):
            if getattr(env, attribute, None) is None:
                raise AttributeError(f"{type(env).__name__} has no {attribute}.")
        self.observation_space = convert_space(env.observation_space, "observation_space")
        self.action_space = convert_space(env.action_space, "action_space")
        self.metadata = dict(getattr(env, "metadata", None) or {})
        self.render_mode = getattr(env, "render_mode", None)
        self._reset_takes_seed = _takes_seed(env.reset)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step; either signature of the inner ``step`` is understood.

        Raises:
            TypeError: it returned neither four nor five values.
        """
        result = self.env.step(action)
        n_values = len(result) if isinstance(result, tuple) else 0
        if n_values == 5:
            return result  # type: ignore[no-any-return]
        if n_values != 4:
            raise TypeError(f"{self.env}.step() returned {result!r:.120}, expected 4 or 5 values.")
        observation, reward, done, info = result
        truncated = bool(done and info.get("TimeLimit.truncated", False))
        return observation, reward, bool(done) and not truncated, truncated, info

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset, seeding the way the inner environment knows."""
        if seed is not None and not self._reset_takes_seed and hasattr(self.env, "seed"):
            self.env.seed(seed)
        result = self.env.reset(**({"seed": seed} if self._reset_takes_seed else {}))
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result  # type: ignore[return-value]
        return result, {}

    def render(self) -> Any:
        """Render a frame as an array, where the inner environment can."""
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


def convert_space(space: Any, path: str = "space") -> spaces.Space[Any]:
    """Return the Gymnasium space that equals one of the old ``gym``, found by its class name.

    Raises:
        TypeError: unknown kind; the message has the path of the space inside its parents.
    """
    kinds = [cls.__name__ for cls in type(space).__mro__]
    if "Box" in kinds:
        return spaces.Box(space.low, space.high, tuple(space.shape), np.dtype(space.dtype).type)
    if "Discrete" in kinds:
        return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if "MultiDiscrete" in kinds:
        return spaces.MultiDiscrete(space.nvec)
    if "MultiBinary" in kinds:
        return spaces.MultiBinary(space.n)
    if "Dict" in kinds:
        return spaces.Dict({k: convert_space(s, f"{path}[{k!r}]") for k, s in space.spaces.items()})
    if "Tuple" in kinds:
        return spaces.Tuple(
            tuple(convert_space(s, f"{path}[{i}]") for i, s in enumerate(space.spaces))
        )
    raise TypeError(
        f"{path} is a {kinds[0]} of the old gym package, which has no known equal here. "
        'pip install shimmy, then gymnasium.make("GymV21Environment-v0", env=env), or port the '
        "environment to gymnasium."
    )


def _takes_seed(reset: Any) -> bool:
    try:
        parameters = inspect.signature(reset).parameters
    except (TypeError, ValueError):
        return False
    return "seed" in parameters
