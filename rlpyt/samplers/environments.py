"""Functions on the environments of a sampler: take a trial step, compare spaces, close."""

from __future__ import annotations

import contextlib
import inspect
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from rlpyt.envs.base import Env, EnvSpaces, build_env
from rlpyt.processes.call import run_in_child
from rlpyt.processes.status import describe_env
from rlpyt.samplers.buffer import env_examples
from rlpyt.spaces.action_mask import mask_sizes, unwrapped
from rlpyt.spaces.elements import leaf_spaces
from rlpyt.spaces.record import record_of
from rlpyt.utils.logging.console import say
from rlpyt.utils.processes import without_exit
from rlpyt.utils.seed import undisturbed

if TYPE_CHECKING:
    from rlpyt.envs.vector.base import VectorEnv

GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
Around = Callable[[], contextlib.AbstractContextManager[None]]
CLOSE_S, GIVE_UP_S = 10.0, 30.0  # after which a close that does not return is said, interrupted
NOT_CLOSED = (
    f"rlpyt: warning: close() of {{}} has not returned for {CLOSE_S:g} s. In the main "
    f"thread it is interrupted after {GIVE_UP_S:g} s, unless it is inside native code. Correct it, "
    "or stop with Ctrl-C."
)


def try_environment(
    make: Callable[..., Any],
    kwargs: dict[str, Any],
    in_child: bool,
    start_method: str | None = None,
    timeout_s: float = 300.0,
    around: Around = contextlib.nullcontext,
) -> Any:
    """Make an environment, take a step, close it, and return ``env_examples`` of the step.

    Args:
        make, kwargs: the environment's class and arguments.
        in_child: True to do this in a child process, as samplers with workers do.
        start_method: start method of the child process.
        timeout_s: time limit in seconds.
        around: context for the environment's calls in this process.

    Raises:
        WorkerError: the environment failed in a child; without a child its exception is passed on.
    """
    if in_child:
        what = f"trying out {describe_env(make, kwargs)}"
        settings: dict[str, Any] = dict(start_method=start_method, timeout_s=timeout_s, what=what)
        return run_in_child(_try_out_in_child, make, kwargs, **settings)
    with undisturbed(), contextlib.closing(_try_out(make, kwargs, around)) as generator:
        return next(generator)


def _try_out(
    make: Callable[..., Any], kwargs: dict[str, Any], around: Around = contextlib.nullcontext
) -> Generator[Any, None, None]:
    """Yield examples of one step, then close the environment."""
    if takes_rows(make, kwargs):
        kwargs = with_rows(make, kwargs, [0])
    # Environment 0 of the sampler shows its warnings.
    with around(), warnings.catch_warnings(action="ignore", category=UserWarning):
        env = build_env(make, kwargs, "trying it out")
    try:
        action_space = env.action_space
        action_space.sample()  # seeds the space from the global generator
        with around(), without_exit(f"trying out {describe_env(make, kwargs)}"):
            if hasattr(env, "seed"):  # agents may keep statistics of what they are tried out with
                env.seed([*range(env.n)] if hasattr(env, "reset_rows") else 0)
            examples = env_examples(env, action_space)
        yield examples
    finally:
        with around():
            close_quietly([env])


def _try_out_in_child(
    make: Callable[..., Any], kwargs: dict[str, Any]
) -> Generator[Any, None, None]:
    """Yield examples of one step that another process can read.

    Spaces lose functions that hide their methods, such as the ``space.sample = self.sample_action``
    of environments for rlpyt (2019), which would take the environment along.
    """
    with contextlib.closing(_try_out(make, kwargs)) as generator:
        examples = next(generator)
        for space in examples.spaces:
            for _, part in leaf_spaces(space):
                for owner in (part, unwrapped(part)):
                    for name in ("sample", "contains", "seed"):
                        getattr(owner, "__dict__", {}).pop(name, None)
        yield examples


def has_generator(make: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Return True if the arguments that environments are made with have a random generator."""
    bound = (make.args, make.keywords) if isinstance(make, partial) else ()
    return any(isinstance(x, GENERATORS) for x in tree_leaves((bound, dict(kwargs))))


def takes_rows(make: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Return True if a function makes vector environments with any number of rows."""
    return getattr(make, "batched", False) and "num_envs" not in kwargs


def with_rows(make: Callable[..., Any], kwargs: dict[str, Any], seeds: list[int]) -> dict[str, Any]:
    """Return the arguments of a vector environment with one row per seed."""
    more: dict[str, Any] = {"num_envs": len(seeds)}
    if "seeds" in inspect.signature(make).parameters:
        more["seeds"] = seeds
    return {**kwargs, **more}


def check_spaces(env: Env | VectorEnv, expected: EnvSpaces, where: str) -> None:
    """Check that an environment has the spaces for which memory was allocated.

    Args:
        env: the environment.
        expected: ``EnvSpaces`` of the first environment.
        where: name of the environment, for messages.

    Raises:
        ValueError: names, shapes, dtypes or numbers of choices of its spaces differ.
    """
    spaces = EnvSpaces(env.observation_space, env.action_space)
    for name, first, space in zip(expected._fields, expected, spaces, strict=True):
        if _signature(space) != _signature(first):
            raise ValueError(
                f"{where}: {name}_space must be that of the sampler's first environment, {first}, "
                f"got {space}."
            )


def other_bounds(env: Env | VectorEnv, expected: EnvSpaces, where: str) -> str | None:
    """Return a warning if the actions of an environment have other bounds than ``expected``."""
    own = EnvSpaces(env.observation_space, env.action_space)
    bounds = [
        [(part.get("low"), part.get("high")) for part in record_of(spaces)["action"]]
        for spaces in (expected, own)
    ]
    if bounds[0] == bounds[1]:
        return None
    return (
        f"{where}: actions must have the bounds of the sampler's first environment, "
        f"{expected.action}, got {env.action_space}. The policy acts in the former. Let all "
        "declare the same bounds, for example by gymnasium.wrappers.RescaleAction."
    )


def _signature(space: object) -> list[tuple[Any, ...]]:
    """Return name, shape, dtype and numbers of choices of each part of a space."""
    return [
        (name, leaf.shape, str(leaf.dtype), mask_sizes(leaf)) for name, leaf in leaf_spaces(space)
    ]


def close_quietly(envs: Iterable[Any]) -> None:
    """Close environments, ignoring errors; say so if one does not return, and interrupt it."""
    for env in envs:
        name = type(getattr(env, "unwrapped", env)).__name__
        with (
            contextlib.suppress(Exception, SystemExit, GeneratorExit),
            _later(CLOSE_S, say, NOT_CLOSED.format(name), sys.stderr),
            _interrupted(GIVE_UP_S),
        ):
            env.close()


@contextlib.contextmanager
def _later(seconds: float, function: Callable[..., Any], *args: Any) -> Iterator[None]:
    """Call a function in a thread, unless the block ends before."""
    timer = threading.Timer(seconds, function, args)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # no thread starts while the interpreter ends
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _interrupted(seconds: float) -> Iterator[None]:
    """Raise SystemExit in a block of the main thread that lasts for longer."""
    main = threading.main_thread()
    if threading.current_thread() is not main or main.ident is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: sys.exit())
    try:
        with _later(seconds, signal.pthread_kill, main.ident, signal.SIGALRM):
            yield
    finally:
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


@contextlib.contextmanager
def closing_quietly(env: Any) -> Iterator[Any]:
    """Close an environment after a block, ignoring errors of its ``close``."""
    try:
        yield env
    finally:
        close_quietly([env])
