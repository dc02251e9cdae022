"""Resume a run from its latest checkpoint, as if it had never stopped: `rlpyt resume RUN`.

RUN is the run directory printed by `rlpyt train` (with --seeds, that of all runs), or that of a
script's run. The settings are those of the run. With more --steps, schedules of settings (such as
algo.linear_lr_schedule, the default of ppo) span all of them, so a learning rate that falls rises
when the run is resumed.
"""

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import tyro

from rlpyt.cli.flags import parse
from rlpyt.errors import RunComplete
from rlpyt.experiments import hub, rundir, script_runs
from rlpyt.experiments.finish import draw_missing, finish
from rlpyt.experiments.options import CONFIG, RunOptions, read_config, sign
from rlpyt.experiments.population import members_in, train_and_evaluate
from rlpyt.experiments.run import rebuilt, train
from rlpyt.experiments.settings import hyphenated, scheduled_settings
from rlpyt.experiments.trust import blaming
from rlpyt.runners.hooks import Hook
from rlpyt.runners.progress import ProgressHook
from rlpyt.samplers.fault_policy import as_policy
from rlpyt.utils import torchrun
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.context import move_aside
from rlpyt.utils.logging.lock import RunDirectoryError, RunLock
from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.resumption import asked_to_resume

POLL_S = 1.0  # between two looks at another process's run


@dataclasses.dataclass(frozen=True)
class Resume:
    run: tyro.conf.Positional[Path]  # the run directory
    steps: int | None = None  # total steps to train for; by default those of the original run
    device: str | None = None  # cpu, cuda or cuda:N; by default that of the original run
    ranks: int | None = None  # number of processes with a copy of the agent; by default as before
    on_fault: Literal["restart", "raise"] | None = None  # heal faults or not; by default as before
    trust: bool = False  # import and call whatever a run of somebody else names (docs/trust.md)
    wait: bool = False  # if another process trains in this directory, wait for its end
    complete: bool = False  # do only what is missing; a complete run is no error

    def changes(self) -> dict[str, Any]:
        """Return the settings of the run that are given."""
        fault = None if self.on_fault is None else vars(as_policy(self.on_fault))
        given = {"steps": self.steps, "device": self.device, "ranks": self.ranks, "on_fault": fault}
        return {name: value for name, value in given.items() if value is not None}


def main(args: Sequence[str]) -> int:
    command = parse(Resume, args)
    hub.refuse(command.run)
    while True:
        if command.wait:
            _wait_for_owner(command.run)
        try:
            return _resume(command)
        except RunDirectoryError:
            # Several processes may have waited, and another one was faster.
            if not (command.wait and _owners(command.run)):
                raise


def _resume(command: Resume) -> int:
    """Resume a run in whose directory no process trains; return the exit code."""
    if script_runs.exists(command.run):
        return _resume_script(command)
    if not (command.run / CONFIG).exists() and (members := members_in(command.run)):
        return _resume_members(command, members)
    options, trusted = read_config(command.run, command.trust)
    rundir.check_files(command.run, links=trusted)
    with blaming(command.run / CONFIG, trusted):
        options = rebuilt(options, command.run)
    before = options.steps
    options = options.updated(command.changes())
    if not torchrun.is_first():
        train(options, command.run, resume=True)  # rank 0 writes files and prints
        return 0
    if command.trust:
        sign(command.run)
    announcement = f"Resuming {options.title}, up to {{steps}} steps, in {command.run}"
    following = scheduled_settings(options) if options.steps != before else []
    if following:
        announcement += (
            f"\nThe schedules of {', '.join(following)} now span {options.steps:,} steps, "
            f"no longer {before:,}: the values change."
        )
    with rundir.showing_how_to_resume(command.run), blaming(command.run / CONFIG, trusted):
        # A launcher may restart a run that only lacks its final evaluation.
        completes = command.complete or asked_to_resume(command.run)
        if command.complete and _is_complete(command.run, options):
            draw_missing(options, command.run, command.trust)
            say(f"{command.run} is complete: it has all its {options.steps:,} steps.")
            return 0
        checks = [] if completes else [RequireRemainingSteps()]
        hooks = [*checks, ProgressHook(announcement=announcement)]
        train(options, command.run, hooks=hooks, resume=True, finish=finish)
    return 0


def _is_complete(run_dir: Path, options: RunOptions) -> bool:
    """Return True if a run has all its steps, and its evaluation if one is wanted."""
    if not rundir.has_rows(run_dir):
        return False
    steps = read_progress(run_dir).get("Diagnostics/CumSteps", [0.0])  # an edited file lacks them
    samplers = 1 if options.sampler.asynchronous else options.ranks
    batch = options.sampler.batch_T * options.sampler.batch_B * samplers
    has_evaluation = not options.eval_episodes or (run_dir / rundir.EVALUATION).exists()
    return bool(has_evaluation and steps[-1] + batch > options.steps)


def _owners(run_dir: Path) -> list[str]:
    """Return the processes that train in a directory, or in those of a population's runs."""
    found = [RunLock(path).owner() for path in (run_dir, *members_in(run_dir))]
    return [owner for owner in found if owner]


def _wait_for_owner(run_dir: Path) -> None:
    """Wait until no process trains in a directory."""
    owners = _owners(run_dir)
    if owners:
        say(f"{run_dir} is in use by {owners[0]}: waiting for its end.")
    while _owners(run_dir):
        time.sleep(POLL_S)


def _resume_members(command: Resume, members: Sequence[Path]) -> int:
    """Resume the runs of a population, in lockstep."""
    runs, all_trusted = {}, True
    for path in (path.absolute() for path in members):
        options, trusted = read_config(path, command.trust)
        rundir.check_files(command.run, links=trusted)  # the members' directories
        rundir.check_files(path, links=trusted)
        with blaming(path / CONFIG, trusted):
            runs[path] = rebuilt(options, path).updated(command.changes())
        if command.trust:
            sign(path)
        all_trusted = all_trusted and trusted
    with blaming(command.run, all_trusted):
        if command.complete:
            runs = {path: own for path, own in runs.items() if not _is_complete(path, own)}
        for path in runs if any(map(rundir.has_checkpoint, members)) else ():
            if rundir.has_rows(path) and not rundir.has_checkpoint(path):
                move_aside(path)  # it ended before its first checkpoint, and begins anew
        if runs:
            train_and_evaluate(runs, resume=True)
        else:
            say(f"{command.run} is complete: its {len(members)} runs have all their steps.")
    return 0


def _resume_script(command: Resume) -> int:
    """Resume the run of a script, with the parts that it was constructed with."""
    for name in command.changes().keys() - {"steps"}:
        raise ValueError(
            f"--{hyphenated(name)} cannot be given here: {command.run} is a run of a script, which "
            "has its devices, ranks and sampler. Change the script, and resume the run in it."
        )
    script = script_runs.ScriptRun(command.run, command.trust)
    steps = script.n_steps if command.steps is None else command.steps
    say(f"Resuming {script.name}, up to {steps:,} steps, in {command.run}")
    rundir.check_files(command.run, links=script.trusted)
    with rundir.showing_how_to_resume(command.run), blaming(script.path, script.trusted):
        try:
            script.resume(steps, [RequireRemainingSteps(), ProgressHook()])
        except RunComplete:
            if not (command.complete or asked_to_resume(command.run)):
                raise
            say(f"{command.run} is complete: it has all its {steps:,} steps.")
    say(f"Next: {rundir.program()} eval {quote(str(command.run))} --episodes 100")
    return 0


class RequireRemainingSteps(Hook):
    """Hook that raises an error if the run already has all its steps."""

    def on_start(self, runner: Any) -> None:
        """Check that steps or an evaluation remain.

        Raises:
            RunComplete: neither remains.
        """
        if not runner.has_something_left:
            raise RunComplete(
                f"The run already has all its {runner.cum_steps:,} steps. "
                "Give a larger total with --steps."
            )
