"""Find the wrappers around an environment, single or batched, of gymnasium or rlpyt."""

from collections.abc import Iterator
from typing import Any


def wrappers_of(env: Any) -> list[Any]:
    """Return the environment and everything it wraps, outermost first, the bare one last."""
    return list(_layers(env))


def find_wrapper(env: Any, cls: str | type) -> Any:
    """Return the outermost layer of a class, given as a type or a name, or ``None``."""
    name = cls if isinstance(cls, str) else cls.__name__
    layers = (layer for layer in _layers(env) if type(layer).__name__ == name)
    return next((layer for layer in layers if cls in (name, type(layer))), None)


def _layers(env: Any) -> Iterator[Any]:
    while env is not None:
        yield env
        # Not getattr: wrappers forward attributes.
        env = vars(env).get("env") if hasattr(env, "__dict__") else None
