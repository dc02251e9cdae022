"""Start a sweep, or resume one."""

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from rlpyt.sweeps.directory import ABOUT, About, SweepDirectory
from rlpyt.sweeps.executors import Executor, build_executor
from rlpyt.sweeps.jobs import Job
from rlpyt.sweeps.launcher import Launcher, Source, SourceError
from rlpyt.sweeps.places import PlaceExecutor, places_in
from rlpyt.sweeps.slots import Slot, read_code, slots_of
from rlpyt.sweeps.view import read_sweep
from rlpyt.utils.launching.resources import AffinityError, Resources
from rlpyt.utils.logging.console import printable
from rlpyt.utils.text import counted

Say = Callable[[str], None]
Hardware = tuple[list[Slot], Executor]


def say_now(line: str) -> None:
    """Print a line and flush; errors of the output are ignored, so that the launcher continues."""
    with contextlib.suppress(OSError):
        print(printable(line), flush=True)


def command_line() -> str:
    """Return the command line of this process, as typed."""
    program, *args = sys.argv
    name = Path(program).name
    if name == "rlpyt" or Path(program).parts[-2:] == ("rlpyt", "__main__.py"):
        return shlex.join(["rlpyt", *args])
    return shlex.join((["python"] if name.endswith(".py") else []) + sys.argv)


def launch(
    directory: Path,
    jobs: Iterable[Job],
    about: About,
    file: Path | None = None,
    say: Say = say_now,
) -> int:
    """Create a sweep with a copy of its file, and run it. Return the code of ``Launcher.run``.

    Raises:
        FileExistsError: the directory holds a sweep.
        ValueError, ImportError: hardware or executor are not available; nothing is written.
    """
    beside = {}
    if file is not None:
        name = f"file_{file.name}" if file.name == ABOUT else file.name
        beside = {name: file.read_bytes()}
    about = replace(about, made_by=command_line(), file_name="".join(beside))
    hardware = _hardware(about)
    return _run(launcher_of(SweepDirectory.create(directory, about, jobs, beside), hardware, say))


def resume(directory: Path | str, slots: str | None = None, say: Say = say_now) -> int:
    """Run the remaining jobs of a sweep. Return the code of ``Launcher.run``.

    Args:
        slots: affinity code of the hardware, in place of the sweep's resources.

    Raises:
        FileNotFoundError, ValueError: see ``SweepDirectory``.
        ValueError, ImportError: hardware or executor are not available.
    """
    sweep = SweepDirectory(directory)
    try:
        hardware = _hardware(sweep.about, None if slots is None else read_code(slots))
    except AffinityError as error:
        if slots is None:
            error.args = (
                f"{error} Resume on other hardware: rlpyt sweep {shlex.quote(str(directory))} "
                "--slots CODE",
            )
        raise
    return _run(launcher_of(sweep, hardware, say))


def launcher_of(
    sweep: SweepDirectory, hardware: Hardware | None = None, say: Say = say_now
) -> Launcher:
    """Return the launcher of a sweep, on its own hardware by default."""
    slots, executor = hardware or _hardware(sweep.about)

    def source() -> Source:
        if not sweep.about.search:
            return Source()
        from rlpyt.sweeps.search import source_of

        return source_of(sweep, slots[0])

    return Launcher(sweep, slots, executor, source, say)


def _hardware(about: About, resources: Resources | None = None) -> Hardware:
    """Return slots and executor."""
    slots = slots_of(resources or about.resources, about.where)
    if about.together > 1:
        return places_in(slots, about.together), PlaceExecutor(about.together)
    return slots, build_executor(about.where, slots[0], about.place)


def _run(launcher: Launcher) -> int:
    """Run the launcher, and print a summary."""
    launcher.say(f"From another terminal: rlpyt status {shlex.quote(str(launcher.sweep.path))}")
    try:
        code = launcher.run()
    except SourceError as error:
        launcher.say(f"rlpyt: error: {error}")
        return 1
    launcher.say(_summary(launcher))
    if launcher.sweep.about.search:
        from rlpyt.sweeps.search_results import write_best

        launcher.say("\n".join(write_best(launcher.sweep)))
    return code


def _summary(launcher: Launcher) -> str:
    path, sweep = shlex.quote(str(launcher.sweep.path)), read_sweep(launcher.sweep.path)
    counts = sweep.counts()
    counted_states = ", ".join(f"{number} {state}" for state, number in counts.items())
    lines = [f"{counted(len(sweep.runs), 'run')}: {counted_states or 'none'}."]
    for run in sweep.runs:
        if run.state == "failed":
            lines.append(f"  failed: {run.name}: {run.outcome}; {run.output}")
    if {"queued", "running"} & set(counts):
        lines.append(f"Resume with: rlpyt sweep {path}")
    else:
        if "failed" in counts:
            lines.append(f"Retry failed runs: rlpyt sweep retry {path}")
        lines.append(f"Write a report: rlpyt report {path}")
    return "\n".join(lines)
