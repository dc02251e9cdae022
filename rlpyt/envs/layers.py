"""What an environment is wrapped in, single or batched, gymnasium's or ours."""

from collections.abc import Iterator
from typing import Any


def wrappers_of(env: Any) -> list[Any]:
    """The environment and what is in it, from the outside in; the last is the bare one."""
    return list(_inwards(env))


def find_wrapper(env: Any, name: str) -> Any:
    """The outermost layer whose class is called ``name``, or ``None``."""
    return next((layer for layer in _inwards(env) if type(layer).__name__ == name), None)


def _inwards(env: Any) -> Iterator[Any]:
    while env is not None:
        yield env
        env = vars(env).get("env")  # not getattr, which wrappers pass on
