"""``check_env``: check that an environment, or a batch of them, keeps the contract."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from rlpyt.envs.vector.base import UnsupportedVectorEnv
from rlpyt.errors import WorkerError
from rlpyt.processes.call import run_in_child
from rlpyt.testing import env_batches, env_checks
from rlpyt.testing.env_runs import EnvCase
from rlpyt.testing.report import Report

CHECKS = {
    "return": "every call returns, and leaves the process running",
    "factory": "every call builds a new environment",
    "spaces": "both exist, are equal each time, and contain their samples",
    "gymnasium": "Gymnasium's own checker finds no error (environments of Gymnasium)",
    "image-layout": "images are clearly [C, H, W] or [H, W, C]",
    "structure": "reset and step return what the contract says",
    "observation": "elements of the space: structure, shape, dtype, bounds",
    "action-mask": "observations' part action_mask, if any, allows an action",
    "reward": "finite numbers",
    "done": "bool",
    "env-info": "a record of numbers with the same fields, shapes and dtypes at every step",
    "actions": "are not written to",
    "buffers": "returned observations stay unchanged until the next call",
    "episodes": "end, and can be reset",
    "time-limit": "timeout, traj_done and horizon agree with each other",
    "final-observation": "belongs to the last step, not to the next reset",
    "seeding": "same seed, same episodes; reset honors the seed",
    "independence": "environments in one process do not influence each other",
    "worker": "the factory works in a worker process, with the same result",
    "state": "set_state(get_state()) continues exactly, where it is offered",
    "close": "harmless at any time and when repeated",
    "rows": "rows of a batch do not depend on each other",
    "reset-rows": "resets the given rows, in their order, and leaves the others unchanged",
    "waiting-rows": "rows that wait for reset_rows return reward zero and done",
    "autoreset": "no step is lost to a reset that the batch does by itself",
    "action-check": "wrong actions are refused and change nothing",
    "statistics": "statistics of wrappers can be loaded and frozen",
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
    """Check what a factory makes: a single environment or a ``VectorEnv``.

    Environments are built as samplers build them (those of Gymnasium, ale_py and EnvPool are
    adapted), played with random actions, and played again under other conditions.

    >>> from rlpyt.envs.toy import MemoryEnv
    >>> from rlpyt.testing import check_env
    >>> check_env(MemoryEnv, dict(delay=3), skip=["time-limit"]).ok
    True

    Args:
        make_env: class or function that makes an environment; ``EnvCls`` of samplers.
        env_kwargs: its keyword arguments.
        seed: seed of environments and actions.
        max_steps: largest number of steps to wait for episodes to end.
        n_rows: rows of a batch, if its factory leaves the number open.
        skip: names of checks (``rlpyt.testing.env.CHECKS``) whose findings to leave out.

    Returns:
        The report, if there are no errors. Warnings are issued as `ConformanceWarning`.

    Raises:
        ConformanceError: there are errors; the message has all findings.
        ValueError: ``skip`` has an unknown name.
    """
    return examine_env(
        make_env, env_kwargs, seed=seed, max_steps=max_steps, n_rows=n_rows, skip=skip
    ).conclude()


def examine_env(
    make_env: Any,
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    skip: Collection[str] = (),
    **settings: Any,
) -> Report:
    """Check like `check_env`, but return errors in the report."""
    report = _empty_report(make_env, env_kwargs, skip)
    _examine(EnvCase(make_env, env_kwargs or {}, report, **settings))
    return report


def examine_env_in_child(
    make_env: Any,
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = 300.0,
    skip: Collection[str] = (),
    **settings: Any,
) -> Report:
    """Check like `examine_env`, in a child process: hangs and exits become findings.

    Args:
        make_env, env_kwargs, skip, settings: as there.
        timeout_s: limit of the whole check.
    """
    report = _empty_report(make_env, env_kwargs, skip)
    examine = partial(examine_env, make_env, env_kwargs, skip=skip, **settings)
    try:
        result: Report = run_in_child(examine, timeout_s=timeout_s, what="examining it")
        return result
    except WorkerError as error:
        fix = "let every call return: no endless wait, no exit. A slow environment needs "
        report.error(f"{error}", f"{fix}a larger --timeout or fewer --max-steps.", check="return")
    return report


def _empty_report(
    make_env: Any, env_kwargs: Mapping[str, Any] | None, skip: Collection[str]
) -> Report:
    name = getattr(make_env, "__name__", None) or type(make_env).__name__
    arguments = ", ".join(f"{key}={value!r:.40}" for key, value in (env_kwargs or {}).items())
    return Report(f"check_env({name}({arguments}))", CHECKS, skip)


def _examine(case: EnvCase) -> None:
    def run(names: str, check: Callable[[EnvCase], None], **how: Any) -> bool:
        try:
            return case.report.run(names, partial(check, case), **how)
        finally:
            case.close()

    if not run("factory", env_checks.check_factory, needed=True):
        return
    if case.gym:
        run("gymnasium", env_checks.check_gymnasium)
    if not run("spaces", env_checks.check_spaces, needed=True):
        return
    run("image-layout", env_checks.check_images)
    values = "structure observation action-mask reward done env-info actions buffers"
    if not run(values, EnvCase.explore, needed=True):
        return
    run("episodes time-limit", env_checks.check_time_limit)
    run("seeding", env_checks.check_seeding, needed=True)
    run("worker", env_checks.check_worker)
    if case.reproducible:
        run("independence", env_checks.check_independence)
        run("final-observation", env_checks.check_final_observation)
        run("state", env_checks.check_state)
    if case.reproducible and case.batched:
        for name, check in env_batches.CHECKS_OF_ROWS.items():
            run(name, check, refusal=UnsupportedVectorEnv)
    if case.batched:
        run("statistics", env_batches.check_statistics)
    run("close", env_checks.check_close)
