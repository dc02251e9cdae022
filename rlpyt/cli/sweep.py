"""Start many runs, as many at a time as the hardware has slots.

FILE is a sweep file with the settings that the runs share and vary (docs/sweep_files.md):

  train: ppo
  env: CartPole-v1
  options: {steps: 50_000}
  grid: {algo.learning_rate: [1e-3, 3e-4]}
  seeds: 2

DIR is the directory of a sweep that was stopped or whose launcher was killed; its remaining runs
are started.
SCRIPT.py is a launch script that calls run_experiments; further arguments are passed to it.

  rlpyt sweep FILE                  start the runs
  rlpyt sweep FILE --dry-run        list the runs without starting them
  rlpyt sweep DIR                   resume
  rlpyt sweep pause|unpause DIR     stop or resume launching new runs
  rlpyt sweep stop DIR              stop all runs, with checkpoints, and the launcher
  rlpyt sweep retry DIR             queue the failed runs again; then resume with `rlpyt sweep DIR`

Ctrl-C has the same effect as `stop`. If a launcher is killed, its runs continue, and the next
launcher takes them over. `rlpyt status DIR` shows the status.
"""

import dataclasses
import os
import runpy
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import tyro

from rlpyt.cli.flags import UsageError, parse
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.utils.files import new_directory
from rlpyt.utils.logging.console import say
from rlpyt.utils.text import counted

if TYPE_CHECKING:
    from rlpyt.sweeps.plan import SweepPlan

REQUESTS = ("pause", "unpause", "stop", "retry")


@dataclasses.dataclass(frozen=True)
class Sweep:
    what: tyro.conf.Positional[Path]  # sweep file, directory of a sweep, or launch script
    directory: Annotated[
        Path | None,
        tyro.conf.arg(name="dir", help="directory of a new sweep; by default data/TITLE-TIME"),
    ] = None
    slots: str | None = None  # affinity code: hardware of the machine and of each run
    dry_run: bool = False  # list the runs without starting them
    yes: bool = False  # start any number of runs, whatever the file's max_runs


def main(args: Sequence[str]) -> int:
    if len(args) >= 1 and args[0] in REQUESTS:
        if len(args) != 2 or args[1].startswith("-"):
            raise UsageError(f"Give the directory of a sweep, as in `rlpyt sweep {args[0]} DIR`.")
        return _request(args[0], Path(args[1]))
    if args and args[0].endswith(".py"):
        return _script(args[0], list(args[1:]))
    command = parse(Sweep, args)
    from rlpyt.sweeps.start import launch, resume

    if command.what.is_dir():
        _check_resume_flags(command)
        return resume(command.what, command.slots)
    if not command.what.is_file():
        raise FileNotFoundError(
            f"{str(command.what)!r} not found. Give a sweep file, the directory of a sweep, or a "
            "launch script."
        )
    planned = _plan(command)
    if command.dry_run:
        say("\n".join(planned.describe()))
        return 0
    given, new = command.directory, planned.default_directory()
    with nullcontext(given) if given else new_directory(new) as directory:
        say(f"{planned.describe()[0]} in {directory}")
        return launch(directory, planned.jobs, planned.about(), planned.spec.path)


def _check_resume_flags(command: Sweep) -> None:
    """Raise a UsageError for a flag that has no effect when a sweep is resumed."""
    given = {"--dir": command.directory, "--dry-run": command.dry_run, "--yes": command.yes}
    for flag in (flag for flag, value in given.items() if value):
        raise UsageError(
            f"{flag} is for a sweep file, but {command.what} is the directory of a sweep. Resume "
            f"without {flag}, or show the remaining runs with "
            f"`rlpyt status {quote(str(command.what))}`."
        )


def _plan(command: Sweep) -> "SweepPlan":
    """Return the sweep of the file."""
    from rlpyt.sweeps.plan import plan_sweep
    from rlpyt.utils.launching.run_limit import TooManyRuns

    try:
        return plan_sweep(command.what, command.slots, any_number=command.yes)
    except TooManyRuns as error:
        error.args = (f"{error} To start all of them: --yes.",)
        raise


def _request(request: str, directory: Path) -> int:
    sweep = SweepDirectory(directory)
    launcher = sweep.launcher()
    if request == "retry":
        names = sweep.forgive()
        say("\n  ".join([f"Queued again: {counted(len(names), 'failed run')}.", *names]))
    elif request == "stop":
        n_runs = sweep.stop()
        stopped = [launcher] * bool(launcher) + [counted(n_runs, "run")] * bool(n_runs)
        if stopped:
            print(f"Stopping: {' and '.join(stopped)}.")
        else:
            print("Nothing to stop: no runs are active.")
    else:
        sweep.pause(request == "pause")
        print(f"Launching of new runs {'paused' if request == 'pause' else 'resumed'}.")
    if not launcher:
        print(_without_launcher(directory))
    return 0


def _without_launcher(directory: Path) -> str:
    """Return the advice for a sweep without a launcher."""
    from rlpyt.sweeps.view import read_sweep

    if {"queued", "running"} & set(read_sweep(directory).counts()):
        return f"No launcher is running. Resume with: rlpyt sweep {quote(str(directory))}"
    return "No launcher is running: the sweep is over."


def _script(script: str, args: list[str]) -> int:
    """Run a launch script as its main program."""
    if not Path(script).is_file():
        raise FileNotFoundError(f"Launch script {script!r} not found.")
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[:0] = [script, *args], [os.path.dirname(os.path.abspath(script))]
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before
    return 0
