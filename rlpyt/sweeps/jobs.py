"""Jobs: the runs of a sweep, with their attempts and states.

Every job has a directory. The launcher writes ``job.json``, and ``attempt_N.json`` before each
attempt; the attempt's supervisor adds its outcome. A job's state is never stored: it is derived
from these files and from ``lock``, so that it is correct after any crash.
"""

import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Any, Literal

from rlpyt.errors import USAGE, DamagedFile
from rlpyt.sweeps.supervisor import attempt_file, boot
from rlpyt.sweeps.together_client import is_held
from rlpyt.utils.files import check_regular, read_regular, write_text
from rlpyt.utils.launching.variant import plain_value
from rlpyt.utils.signed import read_json, schema_of

State = Literal["queued", "running", "done", "failed", "pruned"]
STATES: tuple[State, ...] = ("queued", "running", "done", "failed", "pruned")

CANCELLED = "cancelled"
NOTES = ("told", "remote_id")  # of an attempt, each in its own file
MAX_NOTE_BYTES = 10_000
BEGIN = r"--- \S+ \S+ attempt \d+: "  # written by supervisors above the output of an attempt
UNRECORDED_END = "its end was not recorded: the machine stopped, or its supervisor was killed"


def is_supervised(job_dir: Path) -> bool:
    """Return True if a supervisor, or a run that has outlived it, holds the job's lock."""
    return is_held(job_dir / "lock")


@dataclass(frozen=True)
class Job:
    """Description of a run.

    In ``command``, ``{affinity}`` is replaced by the code of the slot, ``{sweep}``, ``{job}`` and
    ``{run_dir}`` by the directories of the sweep, this job, and the run. ``resume`` resumes from
    the checkpoints in ``run_dir``; by default it is ``command`` with ``RLPYT_RESUME`` set.
    """

    number: int  # from 0, in the order of the queue
    name: str  # readable and unique, such as learning_rate_0.001/run_0
    command: tuple[str, ...]
    run_dir: str  # below the sweep's directory; moved aside before the run starts again
    resume: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)  # added to the launcher's
    cwd: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # that differ, by dotted keys
    variant: Mapping[str, Any] = field(default_factory=dict)  # variant_config.json beside run_dir
    config: Mapping[str, Any] = field(default_factory=dict)  # config.json beside job.json
    total_steps: int | None = None  # environment steps of the complete run
    retries: int = 1  # after failures

    def __post_init__(self) -> None:
        path = PurePath(self.run_dir)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"run_dir must be below the sweep's directory, got {self.run_dir!r}")


@dataclass(frozen=True)
class Attempt:
    """One start of a job."""

    number: int  # from 1
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    cpus: tuple[int, ...] | None = None  # cores to which it was pinned
    slot: int = 0
    where: str = "local"  # name of the executor
    remote_id: str = ""  # of the cluster's job
    begun: float | None = None  # seconds since 1970
    ended: float | None = None
    exit_code: int | None = None  # negative for the signal that killed it
    pid: int | None = None  # of its supervisor
    host: str = ""
    boot: str = ""  # boot id of the host
    # Why it was asked to end ("stopped", ...); "forgiven" for a failure that no longer counts.
    told: str = ""

    @property
    def failed(self) -> bool:
        """Return True if it has ended unsuccessfully without having been asked to end."""
        if self.begun is None or self.told or self.exit_code == 0:
            return False
        return self.ended is not None or self.where != "local" or self.boot == boot()

    def outcome(self) -> str:
        """Describe how it ended."""
        if self.told and self.exit_code != 0:
            return self.told
        if self.ended is None:
            return "running" if self.begun is None else UNRECORDED_END
        code = self.exit_code or 0
        return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"


class JobDirectory:
    """The files of one job, read again by every method.

    Raises:
        DamagedFile: in any method, if a file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._job: Job | None = None

    @property
    def job(self) -> Job:
        """Return the description, which never changes."""
        if self._job is None:
            remedy = f"or remove {self.path} to drop the run from the sweep"
            self._job = _read(Job, self.path / "job.json", remedy)
        return self._job

    @property
    def output(self) -> Path:
        """Return the path of the standard output and error of all attempts."""
        return self.path / "output.log"

    def attempts(self) -> list[Attempt]:
        """Return all attempts, oldest first; the last one may not have started yet."""
        names = [p.stem.removeprefix("attempt_") for p in self.path.glob("attempt_*.json")]
        numbers = sorted(int(name) for name in names if re.fullmatch("[0-9]+", name))
        found = []
        for number in numbers:
            path = attempt_file(self.path, number)
            notes = {name: _text(path.with_suffix(f".{name}")) for name in NOTES}
            remedy = "or remove it to drop the attempt"
            found.append(replace(_read(Attempt, path, remedy), **notes))
        return found

    def state(self, attempts: list[Attempt] | None = None) -> State:
        """Return the job's state."""
        attempts = self.attempts() if attempts is None else attempts
        if attempts and is_supervised(self.path):
            return "running"
        if attempts and attempts[-1].ended is None:
            attempts = self.attempts()  # it may have ended since these were read
            attempts = attempts[:-1] if attempts[-1].begun is None else attempts
        if any(a.told == "pruned" for a in attempts):
            return "pruned"
        if any(a.exit_code == 0 for a in attempts):
            return "done"
        if (self.path / CANCELLED).exists() or not self.path.is_dir():  # removed: dropped
            return "pruned"
        failures = [a for a in attempts if a.failed]
        if len(failures) > self.job.retries or any(a.exit_code == USAGE for a in failures):
            return "failed"
        return "queued"

    def prepare(self, attempt: Attempt) -> None:
        """Write the description of the next attempt for its supervisor."""
        path = attempt_file(self.path, attempt.number)
        for note in NOTES:  # of an attempt with this number that never started
            path.with_suffix(f".{note}").unlink(missing_ok=True)
        write_text(path, _as_json(asdict(attempt)))

    def request_end(self, number: int, why: str) -> None:
        """Ask an attempt to end; the first reason is kept."""
        if self.path.is_dir() and not attempt_file(self.path, number).with_suffix(".told").exists():
            self._note(number, ".told", why)

    def cancel(self) -> None:
        """Never start the job again."""
        (self.path / CANCELLED).touch()

    def note_remote(self, number: int, remote_id: str) -> None:
        """Record the id of an attempt's job on the cluster."""
        self._note(number, ".remote_id", remote_id)

    def _note(self, number: int, suffix: str, text: str) -> None:
        # In its own file: once started, the supervisor owns the attempt's.
        write_text(attempt_file(self.path, number).with_suffix(suffix), f"{text}\n")

    def last_lines(self, count: int = 20) -> list[str]:
        """Return the last lines of the output."""
        return last_lines(self.output, count)

    @classmethod
    def create(cls, path: Path, job: Job, synced: bool = True) -> "JobDirectory":
        """Create a job's directory, atomically.

        Without ``synced``, the caller syncs the disk once after writing many jobs.
        """
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        # It may be left by a killed launcher with the same pid.
        beside.mkdir(parents=True, exist_ok=True)
        write = write_text if synced else Path.write_text
        write(beside / "job.json", _as_json(asdict(job)))
        if job.config:
            write(beside / "config.json", _as_json(dict(job.config)))
        os.rename(beside, path)
        return cls(path)


def last_lines(path: Path, count: int = 20, most_bytes: int = 20_000) -> list[str]:
    """Return the last lines of the newest attempt's output, of at most this many bytes."""
    try:
        check_regular(path)
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most_bytes))
            text = file.read().decode(errors="replace")
    except (OSError, DamagedFile):
        return []
    # A progress bar redraws its line; only the last state is kept.
    lines = [line.rsplit("\r", 1)[-1] for line in text.rstrip("\n").split("\n")]
    begins = [at for at, line in enumerate(lines) if re.match(BEGIN, line)]
    return lines[begins[-1] + 1 if begins else 0 :][-count:]


def _text(path: Path) -> str:
    return (
        read_regular(path, MAX_NOTE_BYTES).decode(errors="replace").strip() if path.exists() else ""
    )


def _read(cls: Any, path: Path, remedy: str) -> Any:
    try:
        content = read_json(path, "a file of a sweep", schema_of(cls))
        if wrong := [k for k, v in content.items() if isinstance(v, float) and math.isnan(v)]:
            raise ValueError(f"{wrong[0]} is not a number")
        known = {item.name for item in fields(cls)}
        lists = {k: tuple(v) if isinstance(v, list) else v for k, v in content.items()}
        return cls(**{name: value for name, value in lists.items() if name in known})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{path} is damaged ({error}): restore it, {remedy}.") from error


def _as_json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, default=plain_value) + "\n"


def script_command(
    script: str | os.PathLike[str],
    log_dir: str | os.PathLike[str],
    run_ID: int | str,
    args: Sequence[Any] = (),
    python_executable: str | None = None,
) -> tuple[str, ...]:
    """Return the call of a script, with ``{affinity}`` in place of its slot's code.

    Raises:
        FileNotFoundError: the script does not exist.
    """
    if not Path(script).is_file():
        raise FileNotFoundError(f"script {str(script)!r} not found (from {os.getcwd()}).")
    path, python = str(Path(script).absolute()), python_executable or sys.executable
    return (python, path, "{affinity}", str(log_dir), str(run_ID), *map(str, args))
