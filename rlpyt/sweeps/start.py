"""Begin a sweep, or go on with one."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from rlpyt.sweeps.directory import About, SweepDirectory
from rlpyt.sweeps.jobs import Job
from rlpyt.sweeps.launcher import Launcher
from rlpyt.sweeps.places import Place, Slot, place
from rlpyt.sweeps.slots import slots_of
from rlpyt.sweeps.sources import NoSource, Source, SourceError
from rlpyt.sweeps.view import read_sweep
from rlpyt.utils.text import counted

Say = Callable[[str], None]
Hardware = tuple[list[Slot], Place]


def say_now(line: str) -> None:
    """Print a line without delay; a full disk or a closed pipe ends no launcher."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


def command_line() -> str:
    """The command of this process, as a person types it."""
    program, *args = sys.argv
    name = Path(program).name
    if name == "rlpyt" or Path(program).parts[-3:] == ("rlpyt", "cli", "main.py"):
        return shlex.join(["rlpyt", *args])
    return shlex.join((["python"] if name.endswith(".py") else []) + sys.argv)


def launch(
    directory: Path,
    jobs: Iterable[Job],
    title: str,
    slots: str,
    where: str = "local",
    place_settings: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | None = None,
    egl_device: bool = False,
    file: Path | None = None,
    say: Say = say_now,
) -> int:
    """Put a sweep into a directory, and run it.

    Args:
        directory: must not hold a sweep.
        jobs: known from the start.
        title: for people.
        slots: affinity code; as many runs at once as it has slots.
        where: "local", "slurm" or "ray".
        place_settings: see the place; and ``at_once``, see ``slots_of``.
        search: what adds further jobs, see ``rlpyt.sweeps.search``.
        egl_device: tell runs the index of their GPU in ``EGL_DEVICE_ID``.
        file: the sweep file, of which the queue keeps a copy.
        say: takes one line about what has happened.

    Returns:
        Exit code, see ``Launcher.run``.

    Raises:
        FileExistsError: the directory holds a sweep.
        ValueError, ImportError: slots or place cannot be had; nothing is written.
    """
    about = About(
        title=title,
        slots=slots,
        where=where,
        place=dict(place_settings or {}),
        search=dict(search or {}),
        made_by=command_line(),
        egl_device=egl_device,
        file_name=file.name if file is not None else "",
    )
    beside = {} if file is None else {file.name: file.read_bytes()}
    hardware = _hardware(about)
    sweep = SweepDirectory.create(directory, about, jobs, beside)
    return _run(_launcher(sweep, hardware, say))


def resume(directory: Path | str, slots: str | None = None, say: Say = say_now) -> int:
    """Run what is left of a sweep.

    Args:
        directory: of the sweep.
        slots: affinity code of the hardware now; by default that of the beginning.
        say: takes one line about what has happened.

    Returns:
        Exit code, see ``Launcher.run``.
    """
    return _run(launcher_of(SweepDirectory(directory), slots, say))


def launcher_of(sweep: SweepDirectory, slots: str | None = None, say: Say = say_now) -> Launcher:
    """The launcher that a sweep's settings ask for."""
    return _launcher(sweep, _hardware(sweep.about, slots), say)


def _launcher(sweep: SweepDirectory, hardware: Hardware, say: Say) -> Launcher:
    def source() -> Source:
        if not sweep.about.search:
            return NoSource()
        from rlpyt.sweeps.search import source_of

        return source_of(sweep, slots[0])

    slots, where = hardware
    return Launcher(sweep, slots, where, source, say)


def _hardware(about: About, slots: str | None = None) -> Hardware:
    """Slots, and the place that has them."""
    settings = dict(about.place)
    own = slots_of(slots or about.slots, about.where, settings.pop("at_once", None))
    return own, place(about.where, own[0], settings)


def _run(launcher: Launcher) -> int:
    """Launch, and say where it stands then."""
    launcher.say(f"From another terminal: rlpyt status {launcher.sweep.path}")
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
    path, sweep = launcher.sweep.path, read_sweep(launcher.sweep.path)
    counts = sweep.counts()
    told = ", ".join(f"{number} {state}" for state, number in counts.items())
    lines = [f"{counted(len(sweep.runs), 'run')}: {told or 'none'}."]
    for run in sweep.runs:
        if run.state == "failed":
            lines.append(f"  failed: {run.name}: {run.outcome}; {run.output}")
    if {"queued", "running"} & set(counts):
        lines.append(f"Go on with: rlpyt sweep {path}")
    else:
        if "failed" in counts:
            lines.append(f"Try the failed again: rlpyt sweep retry {path}")
        lines.append(f"Look at it: rlpyt report {path}")
    return "\n".join(lines)
