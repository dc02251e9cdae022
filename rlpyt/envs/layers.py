"""Find the wrappers around an environment, single or batched, of gymnasium or rlpyt."""

import inspect
from collections.abc import Callable
from typing import Any, Protocol


class EnvLike(Protocol):
    """Environment of any interface, single or batched: rlpyt, Gymnasium, the old gym, EnvPool."""

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""

    def step(self, action: Any, /) -> Any:
        """Run one step."""


class SingleEnv(EnvLike, Protocol):
    """Single environment of any interface, with the spaces of any library."""

    @property
    def observation_space(self) -> Any:
        """Space of observations."""

    @property
    def action_space(self) -> Any:
        """Space of actions."""


def wrappers_of(env: object, cls: type = object) -> list[Any]:
    """Return the environment and everything it wraps, outermost first, the bare one last.

    Args:
        env: the environment.
        cls: class of the wrappers; what another layer wraps is left out.
    """
    layers = []
    while env is not None:
        layers.append(env)
        # Not getattr: wrappers forward attributes.
        is_wrapper = isinstance(env, cls) and hasattr(env, "__dict__")
        env = vars(env).get("env") if is_wrapper else None
    return layers


def find_wrapper(env: object, cls: str | type) -> Any:
    """Return the outermost layer of a class, given as a type or a name, or ``None``."""
    name = cls if isinstance(cls, str) else cls.__name__
    layers = (layer for layer in wrappers_of(env) if type(layer).__name__ == name)
    return next((layer for layer in layers if cls in (name, type(layer))), None)


def takes_seed(reset: Callable[..., Any]) -> bool:
    """Return True if a method ``reset`` accepts the argument ``seed``."""
    try:
        parameters = inspect.signature(reset).parameters
    except (TypeError, ValueError):
        return False
    return "seed" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def missing_seed(env: object) -> tuple[str, str] | None:
    """Return (what, fix) if a layer of an adapted Gymnasium environment cannot be seeded."""
    adapter = find_wrapper(env, "GymEnvWrapper")
    for layer in () if adapter is None else wrappers_of(adapter)[1:]:
        cls = type(layer)
        if not hasattr(cls, "reset"):  # forwards that of the environment inside
            continue
        if not takes_seed(cls.reset) and not callable(getattr(layer, "seed", None)):
            return (
                f"{cls.__name__}.reset takes no seed, so runs with the same seed differ if it "
                "draws random numbers",
                "declare reset(self, *, seed=None, options=None), and call "
                "super().reset(seed=seed).",
            )
        if "env" not in getattr(layer, "__dict__", {}) or not _passes_seed(cls):
            return None
    return None


def _passes_seed(cls: type) -> bool:
    """Return True for wrappers whose ``reset`` passes the seed to the environment inside."""
    return cls.__name__ == "LegacyGymEnv" or any(c.__name__ == "Wrapper" for c in cls.__mro__)
