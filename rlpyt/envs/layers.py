"""What an environment is wrapped in, single or batched, gymnasium's or ours."""

from collections.abc import Iterator
from typing import Any


def wrappers_of(env: Any) -> list[Any]:
    """The environment and what is in it, from the outside in; the last is the bare one."""
    return list(_inwards(env))


def find_wrapper(env: Any, which: str | type) -> Any:
    """The outermost layer of a class, given itself or by its name, or ``None``."""
    name = which if isinstance(which, str) else which.__name__
    layers = (layer for layer in _inwards(env) if type(layer).__name__ == name)
    return next((layer for layer in layers if which in (name, type(layer))), None)


def _inwards(env: Any) -> Iterator[Any]:
    while env is not None:
        yield env
        # Not getattr, because wrappers forward attributes.
        env = vars(env).get("env") if hasattr(env, "__dict__") else None
