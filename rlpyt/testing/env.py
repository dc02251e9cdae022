"""``check_env``: whether an environment, or a batch of them, keeps the contract."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from rlpyt.envs.vector.base import UnsupportedVectorEnv
from rlpyt.errors import WorkerError
from rlpyt.processes.call import run_in_child
from rlpyt.testing import batches, door, endings, repeats, worker
from rlpyt.testing.bench import Bench
from rlpyt.testing.report import Report

CHECKS = {
    "return": "every call comes back, and leaves the process running",
    "factory": "every call builds a new environment",
    "spaces": "both are there, equal each time; what they sample they contain",
    "image-layout": "pictures come as [C, H, W]",
    "structure": "reset and step return what the contract says",
    "observation": "elements of the space: structure, shape, dtype, bounds",
    "reward": "finite numbers",
    "done": "bool",
    "env-info": "a record of numbers, the same fields, shapes and dtypes at every step",
    "actions": "are only read",
    "buffers": "what was returned stays as it is until the next call",
    "episodes": "end, and can be reset",
    "time-limit": "timeout, traj_done and horizon agree with each other",
    "final-observation": "belongs to the ending step, not to the next reset",
    "seeding": "same seed, same episodes; reset honours the seed",
    "independence": "environments in one process do not touch each other",
    "worker": "the factory travels to a worker process, and works there as here",
    "state": "set_state(get_state()) goes on exactly, where it is offered",
    "close": "harmless at any time and when repeated",
    "rows": "rows of a batch do not depend on their neighbours",
    "reset-rows": "starts these rows, in their order, and leaves the others alone",
    "waiting-rows": "rows that wait for reset_rows show reward zero and done",
    "autoreset": "no step is lost to a reset that the batch does by itself",
    "action-check": "wrong actions are refused and change nothing",
    "statistics": "what wrappers learn can be handed on and frozen",
}


def check_env(
    make_env: Any,
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    max_steps: int = 2000,
    n_rows: int = 3,
    skip: Collection[str] = (),
) -> Report:
    """Examine what a factory makes: a single environment or a ``VectorEnv``.

    Environments are built as samplers build them (those of gymnasium, ale_py and EnvPool are
    adapted), played with random actions, and played again in other circumstances.

    >>> from rlpyt.envs.toy import MemoryEnv
    >>> from rlpyt.testing import check_env
    >>> check_env(MemoryEnv, dict(delay=3), skip=["time-limit"]).ok
    True

    Args:
        make_env: class or function that makes an environment; what samplers get as ``EnvCls``.
        env_kwargs: its keyword arguments.
        seed: of environments and actions.
        max_steps: how many steps are made, at most, to see episodes end.
        n_rows: rows of a batch, if its factory leaves the number to samplers.
        skip: names of checks (``rlpyt.testing.env.CHECKS``) whose findings you know better.

    Returns:
        The report, if there are no errors; what is unwise is warned of.

    Raises:
        ConformanceError: with all findings.
        ValueError: ``skip`` has an unknown name.
    """
    return examine_env(
        make_env, env_kwargs, seed=seed, max_steps=max_steps, n_rows=n_rows, skip=skip
    ).conclude()


def examine_env(
    make_env: Any,
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    max_steps: int = 2000,
    n_rows: int = 3,
    skip: Collection[str] = (),
) -> Report:
    """As `check_env`, but errors are left in the report."""
    report = _empty_report(make_env, env_kwargs, skip)
    _examine(Bench(make_env, env_kwargs or {}, report, seed, max_steps, n_rows))
    return report


def examine_env_in_child(
    make_env: Any,
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = 300.0,
    skip: Collection[str] = (),
    **settings: Any,
) -> Report:
    """As `examine_env`, in a process of its own: a hang and an exit are findings like others.

    Args:
        make_env, env_kwargs, skip, settings: as there.
        timeout_s: seconds for the whole examination.
    """
    report = _empty_report(make_env, env_kwargs, skip)
    examine = partial(examine_env, make_env, env_kwargs, skip=skip, **settings)
    try:
        there: Report = run_in_child(
            examine, timeout_s=timeout_s, what="examining it", starts_others=True
        )
        return there
    except WorkerError as error:
        report.error(
            "return",
            f"{error}",
            "let every call return: no waiting without a limit, no exit. A slow environment is "
            "given more time by --timeout, or fewer steps by --max-steps.",
        )
    return report


def _empty_report(
    make_env: Any, env_kwargs: Mapping[str, Any] | None, skip: Collection[str]
) -> Report:
    name = getattr(make_env, "__name__", None) or type(make_env).__name__
    arguments = ", ".join(f"{key}={value!r:.40}" for key, value in (env_kwargs or {}).items())
    return Report(f"check_env({name}({arguments}))", CHECKS, skip)


def _examine(bench: Bench) -> None:
    def run(
        names: str, examine: Callable[[Bench], None], refusal: type[Exception] | None = None
    ) -> bool:
        try:
            return bench.report.run(names, partial(examine, bench), refusal)
        finally:
            bench.close()

    if not run("factory", door.check_factory) or not run("spaces", door.check_spaces):
        return
    run("image-layout", door.check_images)
    play = "structure observation reward done env-info actions buffers"
    if not run(play, Bench.explore):
        return
    run("episodes time-limit", endings.check_time_limit)
    run("seeding", repeats.check_seeding)
    run("worker", worker.check_worker)
    if bench.reproducible:
        run("independence", repeats.check_independence)
        run("final-observation", endings.check_final_observation)
        run("state", repeats.check_state)
    for name, examine in batches.BY_ROWS.items() if bench.batched else ():
        if bench.reproducible:
            run(name, examine, refusal=UnsupportedVectorEnv)
    if bench.batched:
        run("statistics", batches.check_statistics)
    run("close", door.check_close)
