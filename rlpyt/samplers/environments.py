"""The environments of a sampler: tried out once, held against each other, closed quietly."""

import contextlib
import inspect
import warnings
from collections.abc import Generator, Iterable
from typing import Any

from rlpyt.envs.base import build_env
from rlpyt.processes.call import run_in_child
from rlpyt.processes.status import describe_env
from rlpyt.samplers.buffer import env_examples
from rlpyt.utils.seed import undisturbed


def try_environment(
    make: Any,
    kwargs: dict[str, Any],
    in_child: bool,
    start_method: str | None = None,
    timeout_s: float = 300.0,
) -> Any:
    """Make an environment, take a step in it, and close it.

    Args:
        make, kwargs: how it is made.
        in_child: do so in a process of its own, where the real ones will be in some too.
        start_method: of that process.
        timeout_s: seconds that it may take.

    Returns:
        ``env_examples`` of the step.

    Raises:
        WorkerError: it failed, in a child; the exception itself, if here.
    """
    if in_child:
        what = f"trying out {describe_env(make, kwargs)}"
        settings: dict[str, Any] = dict(start_method=start_method, timeout_s=timeout_s, what=what)
        return run_in_child(_try_out, make, kwargs, **settings)
    with undisturbed(), contextlib.closing(_try_out(make, kwargs)) as tried:
        return next(tried)


def _try_out(make: Any, kwargs: dict[str, Any]) -> Generator[Any, None, None]:
    """Give examples of one step; after that, when they are handed on, close the environment."""
    if getattr(make, "batched", False) and "num_envs" not in kwargs:
        kwargs = with_rows(make, kwargs, [0])
    with warnings.catch_warnings():  # shown when environment 0 of the sampler is made
        warnings.simplefilter("ignore", UserWarning)
        env = build_env(make, kwargs, "trying it out")
    try:
        yield env_examples(env)
    finally:
        close_quietly([env])


def with_rows(make: Any, kwargs: dict[str, Any], seeds: list[int]) -> dict[str, Any]:
    """Arguments of a factory of batched environments for as many rows as there are seeds."""
    more: dict[str, Any] = {"num_envs": len(seeds)}
    if "seeds" in inspect.signature(make).parameters:
        more["seeds"] = seeds
    return {**kwargs, **more}


def check_spaces(env: Any, expected: Any, where: str) -> None:
    """Check that there is room for what an environment gives and takes.

    Args:
        env: the environment.
        expected: ``EnvSpaces`` of the one that was tried out.
        where: it is, for messages.

    Raises:
        ValueError: its spaces have another form.
    """
    for name, first in expected._asdict().items():
        own = getattr(env, f"{name}_space")
        if _form_of(own) != _form_of(first):
            raise ValueError(
                f"{where}: its {name}_space {own} differs from that of the environment "
                f"tried out first, {first}; in one sampler all need the same."
            )


def _form_of(space: Any) -> tuple[Any, ...]:
    """Return the shapes and dtypes of a space, which must be those of the allocated memory."""
    parts = getattr(space, "spaces", ())
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    return shape, str(dtype), getattr(space, "n", None), [_form_of(part) for part in parts]


def close_quietly(envs: Iterable[Any]) -> None:
    """Close environments; a failure to close concerns nobody any more."""
    for env in envs:
        with contextlib.suppress(Exception, SystemExit, GeneratorExit):
            env.close()
