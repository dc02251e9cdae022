"""``rlpyt sweep``: many runs, queued on this machine or a cluster."""

import dataclasses
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rlpyt.cli.flags import UsageError, parse
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.utils.text import counted

if TYPE_CHECKING:
    from rlpyt.sweeps.runs import Planned

DESCRIPTION = """Carry out many runs, as many at once as the hardware has slots for.

FILE is a sweep file (docs/sweep_files.md): what the runs share, and what differs between them.
DIR is the directory of a sweep that was stopped, or whose launcher was killed; its remaining runs
are carried out.
SCRIPT.py is a launch script that calls run_experiments; what follows it is given to it.

  rlpyt sweep FILE                  start the runs
  rlpyt sweep FILE --dry-run        show what would be run
  rlpyt sweep DIR                   resume
  rlpyt sweep pause|unpause DIR     start no further run; start runs again
  rlpyt sweep stop DIR              end all runs, with checkpoints, and the launcher
  rlpyt sweep retry DIR             queue the failed runs again, then resume with `rlpyt sweep DIR`

Ctrl-C stops as `stop` does. A launcher that is killed leaves its runs going, and the next one takes
them over. `rlpyt status DIR` shows where everything stands."""

REQUESTS = ("pause", "unpause", "stop", "retry")


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Arguments of the command."""

    what: tyro.conf.Positional[Path]  # sweep file, directory of a sweep, or launch script
    directory: Annotated[
        Path | None,
        tyro.conf.arg(name="dir", help="directory of a new sweep; by default data/TITLE-TIME"),
    ] = None
    slots: str | None = None  # affinity code: the machine, and what of it a run gets
    dry_run: bool = False  # show the runs, start none
    yes: bool = False  # start without asking, however many runs there are


def main(args: Sequence[str]) -> int:
    """Run the command with these arguments; the exit code."""
    if len(args) >= 1 and args[0] in REQUESTS:
        return _request(*_one_directory(args))
    if args and args[0].endswith(".py"):
        return _script(args[0], list(args[1:]))
    command = parse(Sweep, args, prog="rlpyt sweep", description=DESCRIPTION)
    from rlpyt.sweeps.start import launch, resume

    if command.what.is_dir():
        _refuse_for_directory(command)
        return resume(command.what, command.slots)
    if not command.what.is_file():
        raise FileNotFoundError(
            f"there is no {str(command.what)!r}; give a sweep file, the directory of a sweep, or a "
            "launch script."
        )
    planned = _plan(command)
    if planned is None:
        return 1
    if command.dry_run:
        print("\n".join(planned.described()))
        return 0
    directory = command.directory or planned.default_directory()
    print(f"{planned.described()[0]} in {directory}", flush=True)
    return launch(directory, **planned.arguments())


def _refuse_for_directory(command: Sweep) -> None:
    """A flag of a sweep that begins would be ignored where one is gone on with."""
    given = {"--dir": command.directory, "--dry-run": command.dry_run, "--yes": command.yes}
    for flag in (flag for flag, value in given.items() if value):
        raise UsageError(
            f"{flag} is for a sweep file, and {command.what} is the directory of a sweep: see what "
            f"is left with `rlpyt status {command.what}`, or go on without {flag}."
        )


def _plan(command: Sweep) -> "Planned | None":
    """Return the sweep of the file; ``None`` if it has many runs and the user declines."""
    from rlpyt.sweeps.runs import sweep_of
    from rlpyt.utils.launching.run_limit import TooManyRuns, is_confirmed

    try:
        return sweep_of(command.what, command.slots, any_number=command.yes)
    except TooManyRuns as error:
        error.args = (f"{error} To begin them as they are: --yes.",)
        if command.dry_run:
            raise
        if not is_confirmed(error, str(command.what)):
            return None
    return sweep_of(command.what, command.slots, any_number=True)


def _request(request: str, directory: Path) -> int:
    sweep = SweepDirectory(directory)
    who = sweep.launcher()
    if request == "retry":
        names = sweep.forgive()
        print(f"Queued again: {counted(len(names), 'failed run')}.", *names, sep="\n  ")
    elif request == "stop":
        asked = sweep.stop()
        whom = [who] * bool(who) + [counted(asked, "run")] * bool(asked)
        print(f"Asked to end: {' and '.join(whom) or 'nobody, as nothing runs there'}.")
    else:
        sweep.pause(request == "pause")
        print("No further run begins." if request == "pause" else "Runs begin again.")
    if not who:
        print(_unattended(directory))
    return 0


def _unattended(directory: Path) -> str:
    """Return what to do about a sweep that nobody launches."""
    from rlpyt.sweeps.view import read_sweep

    if {"queued", "running"} & set(read_sweep(directory).counts()):
        return f"No launcher is at work; go on with: rlpyt sweep {directory}"
    return "No launcher is at work, as the sweep is over."


def _one_directory(args: Sequence[str]) -> tuple[str, Path]:
    if len(args) != 2 or args[1].startswith("-"):
        raise UsageError(f"give the directory of a sweep, as in `rlpyt sweep {args[0]} DIR`.")
    return args[0], Path(args[1])


def _script(script: str, args: list[str]) -> int:
    """Run a launch script as Python would."""
    if not Path(script).is_file():
        raise FileNotFoundError(f"there is no launch script {script!r}.")
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[:0] = [script, *args], [os.path.dirname(os.path.abspath(script))]
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = before
    return 0
