"""The status of a sweep, for ``rlpyt status`` and ``rlpyt report``."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlpyt.errors import DamagedFile
from rlpyt.sweeps.directory import QUEUE, About, SweepDirectory
from rlpyt.sweeps.jobs import STATES, Attempt, Job, JobDirectory, State
from rlpyt.utils.logging.progress_csv import last_row
from rlpyt.vis.grouping import RunRecord, read_settings

RETURN = "ReturnAverage"


@dataclass(frozen=True)
class RunView:
    """The status of a run; None for what is unknown."""

    number: int
    name: str
    state: str  # one of STATES; in a report of runs without a sweep, also "unfinished" or "ended"
    settings: Mapping[str, Any]  # see Job
    run_dir: Path
    steps: int | None  # environment steps so far
    total_steps: int | None
    return_: float | None  # mean return in the newest row
    seconds: float  # duration of all attempts so far
    attempts: tuple[Attempt, ...] = ()  # oldest first
    output: Path = Path()  # standard output and error
    steps_per_second: float | None = None  # in the newest row
    seconds_left: float | None = None  # estimate, of running ones
    damage: str = ""  # description of damaged files in the queue; such a run counts as failed

    @property
    def outcome(self) -> str:
        """Describe how the last attempt ended; empty before there is one."""
        if self.damage:
            return self.damage
        return self.attempts[-1].outcome() if self.attempts else ""


@dataclass(frozen=True)
class SweepView:
    """The status of a sweep."""

    directory: Path
    about: About
    n_slots: int  # the maximum over launchers with different slots
    launcher: str  # description of the active launcher; empty without one
    paused: bool  # True if no further run starts
    waits: str  # reason why no run starts now; empty if there is none
    runs: tuple[RunView, ...]  # in the order of the queue

    def counts(self) -> dict[str, int]:
        """Return the number of runs in each state, in the order of ``STATES``."""
        found = Counter(run.state for run in self.runs)
        return {state: found[state] for state in STATES if found[state]}

    def utilization(self) -> float | None:
        """Return the fraction of the slots' time with a run, from the first start to the last end.

        None before the first run.
        """
        spans = [span for run in self.runs for span in _spans(run.attempts, run.state)]
        if not spans:
            return None
        total = max(end for _, end in spans) - min(begin for begin, _ in spans)
        busy = sum(end - begin for begin, end in spans)
        return busy / (total * self.n_slots) if total > 0 else None


def read_sweep(directory: Path | str) -> SweepView:
    """Read the status of a sweep from its files.

    Raises:
        FileNotFoundError, ValueError: see ``SweepDirectory``.
    """
    sweep = SweepDirectory(directory)
    about = sweep.about
    runs = [_view(sweep.path, job) for job in sweep.jobs()]
    used = max((attempt.slot for run in runs for attempt in run.attempts), default=0) + 1
    return SweepView(
        directory=sweep.path,
        about=about,
        n_slots=max(used, about.resources.n_run_slots),
        launcher=sweep.launcher(),
        paused=sweep.paused,
        waits=sweep.waits_for(),
        runs=tuple(runs),
    )


def _view(root: Path, directory: JobDirectory) -> RunView:
    job, attempts, state, damage = _read(directory)
    run_dir = root / job.run_dir
    row = last_row(run_dir / "progress.csv", newest=[RETURN])
    steps, speed = row.get("Diagnostics/CumSteps"), row.get("Diagnostics/StepsPerSecond")
    total = job.total_steps or RunRecord(run_dir, read_settings(run_dir)).total_steps
    left = None
    if state == "running" and total and speed and steps is not None:
        left = max(0.0, (total - steps) / speed)
    return RunView(
        number=job.number,
        name=job.name,
        state=state,
        settings=job.settings,
        run_dir=run_dir,
        attempts=tuple(attempts),
        output=directory.output,
        steps=None if steps is None else int(steps),
        total_steps=total,
        steps_per_second=speed,
        return_=row.get(RETURN),
        seconds=sum(max(0.0, end - begun) for begun, end in _spans(attempts, state)),
        seconds_left=left,
        damage=damage,
    )


def _read(directory: JobDirectory) -> tuple[Job, list[Attempt], State, str]:
    """Return job, attempts, state, and a description of damaged files."""
    name = f"{QUEUE}/{directory.path.name}"
    job = Job(number=int(directory.path.name), name=name, command=(), run_dir=name)
    try:
        job = directory.job
        attempts = directory.attempts()
        return job, attempts, directory.state(attempts), ""
    except DamagedFile as error:
        return job, [], "failed", str(error)


def _spans(attempts: Sequence[Attempt], state: str) -> list[tuple[float, float]]:
    """Return start and end of each attempt, now for a running one; without unrecorded ends."""
    ends = [attempt.ended for attempt in attempts]
    if state == "running" and ends and ends[-1] is None:
        ends[-1] = time.time()
    pairs = [(attempt.begun, end) for attempt, end in zip(attempts, ends)]
    return [(begun, end) for begun, end in pairs if begun is not None and end is not None]
