"""``check_sampler``: whether a sampler or collector gives what the serial sampler gives."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import torch

from rlpyt.testing import sampler_batches as batches
from rlpyt.testing.report import Report
from rlpyt.testing.sampler_runs import SamplerBench

CHECKS = {
    "batch": "Samples of tensors [T, B, ...], every entry written",
    "shift": "prev_action and prev_reward are those of the step before",
    "ends": "time limits are marked and valued where episodes end",
    "trajectories": "lengths and returns are those of the batches",
    "same-as-serial": "the serial sampler, seeded alike, collects the same",
    "repeatable": "the same seed gives the same batches",
    "evaluation": "whole episodes, as many as asked for; training goes on undisturbed",
    "state": "a new sampler goes on from state_dict()",
    "shutdown": "leaves no process and no open file, and may be repeated",
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
    """Run a sampler and compare it with `SerialSampler`; for samplers and collectors of your own.

    >>> from rlpyt.envs.toy import MemoryEnv
    >>> from rlpyt.samplers.serial.sampler import SerialSampler
    >>> from rlpyt.testing import check_sampler
    >>> check_sampler(SerialSampler, MemoryEnv).ok
    True

    Args:
        SamplerCls: class of the sampler, or a function with its arguments.
        EnvCls, env_kwargs: environments, as samplers take them; they should pass `check_env`.
        make_agent: makes an agent, or is one as constructed; ``None`` takes a ready one that fits
            the environment. It should pass `check_agent`.
        CollectorCls: the collection loop; ``None`` leaves the sampler's own.
        batch_T, batch_B, n_workers, n_batches: sizes; workers must divide environments.
        seed: of environments, actions and parameters.
        exact: whether the batches must equal the serial sampler's bit for bit, as with exact
            arithmetic or ``deterministic_acting``; ``None`` lets them differ by rounding, as when a
            network acts for another number of rows at a time.
        evaluate: whether the sampler can evaluate.
        skip: names of checks (``rlpyt.testing.sampler.CHECKS``) whose findings you know better.

    Returns:
        The report, if there are no errors; what is unwise is warned of.

    Raises:
        ConformanceError: with all findings.
        ValueError: ``skip`` has an unknown name, or there are fewer than two batches.
    """
    if n_batches < 2:
        raise ValueError(f"n_batches={n_batches} must be at least 2: much shows between batches.")
    report = Report(f"check_sampler({getattr(SamplerCls, '__name__', SamplerCls)})", CHECKS, skip)
    bench = SamplerBench(
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
    with torch.random.fork_rng(devices=[]):  # the caller's generator stays as it is
        _examine(bench, exact)
    return report.conclude()


def _examine(bench: SamplerBench, exact: bool | None) -> None:
    def run(names: str, examine: Callable[..., None], *args: Any) -> bool:
        return bench.report.run(names, partial(examine, bench, *args))

    if not run("batch", batches.check_batches):
        return
    run("shift", batches.check_shift)
    run("ends", batches.check_ends)
    run("trajectories", batches.check_trajectories)
    compared = run("same-as-serial", batches.check_serial, exact)
    if compared and "same-as-serial" not in bench.report.skip:
        run("evaluation", batches.check_evaluation)
    run("repeatable evaluation shutdown", batches.check_repetition)
    run("state", batches.check_state)
