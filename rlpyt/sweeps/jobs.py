"""A run that waits, goes on or is over: its description, its attempts, and what follows from them.

Every job has a directory. The launcher writes what is to be done (``job.json``, and
``attempt_N.json`` before each attempt); the attempt's supervisor adds how it went. A job's state is
never stored: it follows from these files and from who holds ``lock``, so no crash can leave a
state that is not true.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from rlpyt.errors import USAGE
from rlpyt.sweeps.supervisor import attempt_file, boot, is_kept
from rlpyt.utils.files import atomic_write
from rlpyt.utils.launching.variant import plain_value

State = Literal["queued", "running", "done", "failed", "pruned"]
STATES: tuple[State, ...] = ("queued", "running", "done", "failed", "pruned")

CANCELLED = "cancelled"
NOTES = ("told", "remote_id")  # about an attempt, in files of their own
BEGIN = r"--- \S+ \S+ attempt \d+: "  # what a supervisor writes above the output of an attempt
NO_MEMORY_OF_END = "its end was not recorded: the machine went down, or its supervisor was killed"


@dataclass(frozen=True)
class Job:
    """What a run is, whoever runs it.

    Attributes:
        number: from 0, in the order of the queue.
        name: readable and unique, such as ``learning_rate_0.001/run_0``.
        command: with ``{affinity}`` where the code of the slot belongs, and ``{sweep}``, ``{job}``
            and ``{run_dir}`` for the directories of the sweep, this job, and the run.
        run_dir: where the run writes, below the sweep's directory; moved aside before the run
            begins anew.
        resume: command that goes on from the checkpoints in ``run_dir``; without one it is
            ``command``, and ``RLPYT_RESUME`` says so.
        env: further environment variables.
        cwd: working directory.
        settings: what tells this run from the others, dotted keys; for tables and plots.
        variant: what is written to ``variant_config.json`` beside ``run_dir``, unless empty.
        config: what is written to ``config.json`` beside the job's description, unless empty.
        total_steps: that it will have made, where that is known.
        retries: how often it is tried again after a failure.
        continues: goes on with what other jobs have left in ``run_dir``, which stays there.
    """

    number: int
    name: str
    command: tuple[str, ...]
    run_dir: str
    resume: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    variant: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    total_steps: int | None = None
    retries: int = 1
    continues: bool = False

    def with_settings(self, settings: Mapping[str, Any]) -> Job:
        """The same with further entries among the settings."""
        return replace(self, settings={**self.settings, **settings})


@dataclass(frozen=True)
class Attempt:
    """One start of a job.

    Attributes:
        number: from 1.
        command, env, cwd: what was run.
        cpus: cores it was kept on; ``None``: free.
        slot: of the hardware.
        where: "local", "slurm" or "ray".
        remote_id: of the job there.
        begun, ended: seconds since 1970; ``None`` if it has not.
        exit_code: negative is the signal that killed it.
        pid, host, boot: of its supervisor.
        told: why it was asked to end, if it was: "stopped", "pruned" and others; a failure that
            no longer counts is "forgiven".
    """

    number: int
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    cpus: tuple[int, ...] | None = None
    slot: int = 0
    where: str = "local"
    remote_id: str = ""
    begun: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    pid: int | None = None
    host: str = ""
    boot: str = ""
    told: str = ""

    @property
    def failed(self) -> bool:
        """Over, without success, without having been asked to end, by a fault of its own."""
        if self.begun is None or self.told or self.exit_code == 0:
            return False
        return self.ended is not None or self.where != "local" or self.boot == boot()

    def outcome(self) -> str:
        """How it ended, in words."""
        if self.told and self.exit_code != 0:
            return self.told
        if self.ended is None:
            return "running" if self.begun is None else NO_MEMORY_OF_END
        code = self.exit_code or 0
        return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"


class DamagedFile(ValueError):
    """A file of the queue cannot be read; the message names it and says what to do."""


class JobDirectory:
    """The files of one job; reads anew at every question.

    Args:
        path: the directory.

    Raises:
        DamagedFile: at a question, if a file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._job: Job | None = None

    @property
    def job(self) -> Job:
        """The description, which never changes."""
        if self._job is None:
            remedy = f"or remove {self.path}: the run is then none of the sweep's"
            self._job = _read(Job, self.path / "job.json", remedy)
        return self._job

    @property
    def output(self) -> Path:
        """What all attempts have written to standard output and error."""
        return self.path / "output.log"

    def attempts(self) -> list[Attempt]:
        """All attempts, oldest first; the last may not have begun yet."""
        numbers = sorted(int(p.stem.rpartition("_")[2]) for p in self.path.glob("attempt_*.json"))
        found = []
        for number in numbers:
            path = attempt_file(self.path, number)
            notes = {name: _text(path.with_suffix(f".{name}")) for name in NOTES}
            remedy = "or remove it: the attempt then counts as never made"
            found.append(replace(_read(Attempt, path, remedy), **notes))
        return found

    def state(self, attempts: list[Attempt] | None = None) -> State:
        """Where the job stands."""
        attempts = self.attempts() if attempts is None else attempts
        if attempts and is_kept(self.path):
            return "running"
        if attempts and attempts[-1].ended is None:
            attempts = self.attempts()  # it may have ended since these were read
            attempts = attempts[:-1] if attempts[-1].begun is None else attempts
        if any(a.told == "pruned" for a in attempts):
            return "pruned"
        if any(a.exit_code == 0 for a in attempts):
            return "done"
        if (self.path / CANCELLED).exists():
            return "pruned"
        failures = [a for a in attempts if a.failed]
        if len(failures) > self.job.retries or any(a.exit_code == USAGE for a in failures):
            return "failed"
        return "queued"

    def prepare(self, attempt: Attempt) -> None:
        """Write down what is to be run next; a supervisor takes it from there."""
        path = attempt_file(self.path, attempt.number)
        for note in NOTES:  # of one with this number that never began
            path.with_suffix(f".{note}").unlink(missing_ok=True)
        _write(path, asdict(attempt))

    def tell(self, number: int, why: str) -> None:
        """Record that an attempt is asked to end, before it is; the first reason stays."""
        if not attempt_file(self.path, number).with_suffix(".told").exists():
            self._note(number, ".told", why)

    def cancel(self) -> None:
        """Let the job never begin, or never again."""
        (self.path / CANCELLED).touch()

    def note_remote(self, number: int, remote_id: str) -> None:
        """Record under which name a cluster knows an attempt."""
        self._note(number, ".remote_id", remote_id)

    def _note(self, number: int, suffix: str, text: str) -> None:
        # Beside the attempt's file, which is its supervisor's once that has begun.
        with atomic_write(attempt_file(self.path, number).with_suffix(suffix)) as file:
            file.write(f"{text}\n".encode())

    def last_lines(self, count: int = 20) -> list[str]:
        """The end of the output."""
        return last_lines(self.output, count)

    @classmethod
    def create(cls, path: Path, job: Job, synced: bool = True) -> JobDirectory:
        """Put a job into place; there whole, or not at all.

        Args:
            path: of its directory.
            job: what it is.
            synced: False leaves it to the caller to push the files through to the disk, as who
                writes thousands does once.
        """
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.mkdir(parents=True, exist_ok=True)  # a launcher was killed here, with the same pid
        write = _write if synced else _write_unsynced
        write(beside / "job.json", asdict(job))
        if job.config:
            write(beside / "config.json", dict(job.config))
        os.rename(beside, path)
        return cls(path)


def last_lines(path: Path, count: int = 20, most_bytes: int = 20_000) -> list[str]:
    """The last lines that the newest attempt has written, as far as they fit."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most_bytes))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    # A progress bar redraws its line; what it last said is enough.
    lines = [line.rsplit("\r", 1)[-1] for line in text.rstrip("\n").split("\n")]
    begins = [at for at, line in enumerate(lines) if re.match(BEGIN, line)]
    return lines[begins[-1] + 1 if begins else 0 :][-count:]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def _read(cls: Any, path: Path, remedy: str) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = {item.name for item in fields(cls)}
        lists = {k: tuple(v) if isinstance(v, list) else v for k, v in content.items()}
        return cls(**{name: value for name, value in lists.items() if name in known})
    except (ValueError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{path} is damaged ({error}): restore it, {remedy}.") from error


def _write(path: Path, content: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(_as_json(content))


def _write_unsynced(path: Path, content: dict[str, Any]) -> None:
    path.write_bytes(_as_json(content))


def _as_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, default=plain_value) + "\n").encode()


def script_command(
    script: str | os.PathLike[str],
    log_dir: str | os.PathLike[str],
    run_ID: int | str,
    args: Sequence[Any] = (),
    python_executable: str | None = None,
) -> tuple[str, ...]:
    """Return the call of a script, with ``{affinity}`` in place of its slot's code.

    Raises:
        FileNotFoundError: there is no such script.
    """
    if not Path(script).is_file():
        raise FileNotFoundError(f"there is no script {str(script)!r} (from {os.getcwd()}).")
    path, python = str(Path(script).absolute()), python_executable or sys.executable
    return (python, path, "{affinity}", str(log_dir), str(run_ID), *map(str, args))
