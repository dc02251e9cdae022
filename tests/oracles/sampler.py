"""``check_sampler``: check that a sampler or collector collects what the serial sampler does."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import torch

from rlpyt.testing.report import Report
from tests.oracles import sampler_batches as batches
from tests.oracles.sampler_runs import SamplerCase

CHECKS = {
    "batch": "Samples of tensors [T, B, ...], every entry written",
    "shift": "prev_action and prev_reward are action and reward of the step before",
    "ends": "timeout and timeout_value are set where episodes are truncated",
    "trajectories": "lengths and returns agree with the batches",
    "same-as-serial": "the serial sampler with the same seed collects the same",
    "repeatable": "the same seed gives the same batches",
    "evaluation": "complete episodes, as many as requested, without influence on training",
    "state": "a new sampler continues from state_dict()",
    "shutdown": "leaves no process and no open file, and can be repeated",
}


def check_sampler(
    SamplerCls: Any,
    EnvCls: Any,
    env_kwargs: Mapping[str, Any] | None = None,
    make_agent: Any = None,
    *,
    CollectorCls: Any = None,
    batch_T: int = 5,
    batch_B: int = 4,
    n_workers: int = 2,
    n_batches: int = 3,
    seed: int = 0,
    exact: bool | None = None,
    evaluate: bool = True,
    skip: Collection[str] = (),
) -> Report:
    """Run a custom sampler or collector and compare it with `SerialSampler`.

    >>> from rlpyt.envs.toy import MemoryEnv
    >>> from rlpyt.samplers.serial.sampler import SerialSampler
    >>> from tests.oracles.sampler import check_sampler
    >>> check_sampler(SerialSampler, MemoryEnv).ok
    True

    Args:
        SamplerCls: class of the sampler, or a function with its arguments.
        EnvCls, env_kwargs: environments, as samplers take them; they should pass `check_env`.
        make_agent: function that makes an agent, or an agent as constructed; ``None``: a ready
            agent that fits the environment. It should pass `check_agent`.
        CollectorCls: the collection loop; ``None``: the sampler's default.
        batch_T, batch_B, n_workers, n_batches: sizes; workers must divide environments.
        seed: seed of environments, actions and parameters.
        exact: True requires batches equal to the serial sampler's bit for bit (exact arithmetic or
            ``deterministic_acting``); ``None`` allows rounding differences, which arise when a
            network acts for another number of rows at a time.
        evaluate: True if the sampler can evaluate.
        skip: names of checks (``tests.oracles.sampler.CHECKS``) whose findings to leave out.

    Returns:
        The report, if there are no errors. Warnings are issued as `ConformanceWarning`.

    Raises:
        ConformanceError: there are errors; the message has all findings.
        ValueError: ``skip`` has an unknown name, or there are fewer than two batches.
    """
    if n_batches < 2:
        raise ValueError(f"n_batches={n_batches} must be at least 2, to compare batches.")
    report = Report(f"check_sampler({getattr(SamplerCls, '__name__', SamplerCls)})", CHECKS, skip)
    case = SamplerCase(
        SamplerCls,
        EnvCls,
        env_kwargs or {},
        make_agent,
        CollectorCls,
        report,
        batch_T=batch_T,
        batch_B=batch_B,
        n_workers=n_workers,
        n_batches=n_batches,
        seed=seed,
        evaluate=evaluate,
    )
    with torch.random.fork_rng(devices=[]):  # keep the caller's generator
        _examine(case, exact)
    return report.conclude()


def _examine(case: SamplerCase, exact: bool | None) -> None:
    def run(names: str, examine: Callable[..., None], *args: Any) -> bool:
        return case.report.run(names, partial(examine, case, *args))

    if not run("batch", batches.check_batches):
        return
    run("shift", batches.check_shift)
    run("ends", batches.check_ends)
    run("trajectories", batches.check_trajectories)
    compared = run("same-as-serial", batches.check_serial, exact)
    if compared and "same-as-serial" not in case.report.skip:
        run("evaluation", batches.check_evaluation)
    run("repeatable evaluation shutdown", batches.check_repetition)
    run("state", batches.check_state)
