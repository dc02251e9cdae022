"""One live process per run directory: a lock file with the owner's process id."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from rlpyt.errors import RlpytError
from rlpyt.utils.files import naming

_START_TOLERANCE_S = 5.0  # start times come from the boot time, which clock corrections move
_WRITING_S = 5.0  # an unreadable lock this young may be in the middle of being written


class RunDirectoryError(RlpytError, RuntimeError):
    """A run directory cannot be used; the message says why and what to do."""


class RunLock:
    """Holds ``<directory>/run.lock`` for the length of a ``with`` block; subclasses say otherwise.

    The lock of a process that has died (pid gone, or in use by a younger process) is replaced.

    Raises:
        RunDirectoryError: on entering, when another live process holds the lock; names its pid.
        OSError: on entering, when the directory is not writable.
    """

    name = "run.lock"

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = Path(directory) / self.name

    def refusal(self, owner: dict[str, Any]) -> str:
        """Return the message for a second process."""
        return (
            f"{self.path.parent} is in use by process {owner.get('pid', 'unknown')} on "
            f"{owner.get('host', 'this machine')}: wait for it to end, choose another "
            f"run_ID, or remove {self.path} if you are sure it is not running."
        )

    def owner(self) -> str:
        """Describe the holder for people; empty if no live process holds it."""
        content = self._read()
        owner = {} if content is None else _parse(content)
        if content is None or not self._is_live(owner):
            return ""
        return f"process {owner.get('pid', 'unknown')} on {owner.get('host', 'this machine')}"

    def forget(self, hosts: Collection[str] | None = None) -> None:
        """Remove it if it was left behind on one of these hosts; only their own can look.

        For whoever knows that what was begun there is over; ``None``: wherever it was begun.
        """
        content = self._read() or b""
        owner = _parse(content)
        here = owner.get("host") == socket.gethostname()
        theirs = owner and (hosts is None or owner["host"] in hosts)
        if theirs and not (here and self._is_live(owner)):
            self._discard(content)

    def __enter__(self) -> RunLock:
        me = psutil.Process()
        self._owner = {"pid": me.pid, "started": me.create_time(), "host": socket.gethostname()}
        with _one_at_a_time(self.path.parent):
            while not self._create():
                content = self._read()
                if content is None and not self.path.is_symlink():
                    continue
                if content is None:  # a link to nowhere, which can neither be read nor created
                    raise RunDirectoryError(
                        f"{self.path} must be a file, got a symbolic link to "
                        f"{os.readlink(self.path)}, which does not exist. Remove it."
                    )
                owner = _parse(content)
                if self._is_live(owner):
                    raise RunDirectoryError(self.refusal(owner))
                self._discard(content)
        return self

    def __exit__(
        self,
        etype: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if os.getpid() == self._owner["pid"]:  # a forked child leaves its parent's lock alone
            self.path.unlink(missing_ok=True)

    def _create(self) -> bool:
        try:
            descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        try:
            with naming(self.path):
                os.write(descriptor, json.dumps(self._owner).encode())
        except OSError:
            self.path.unlink()
            raise
        finally:
            os.close(descriptor)
        return True

    def _read(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def _is_live(self, owner: dict[str, Any]) -> bool:
        if not owner:
            with contextlib.suppress(FileNotFoundError):
                return time.time() - self.path.stat().st_mtime < _WRITING_S
            return False
        if owner["host"] != socket.gethostname():
            return True  # cannot be looked up from here
        try:
            process = psutil.Process(owner["pid"])
            same = abs(process.create_time() - owner["started"]) < _START_TOLERANCE_S
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return True

    def _discard(self, content: bytes) -> None:
        """Move a stale lock away; two starters may both try, and only the stale one may go."""
        aside = self.path.with_name(f".run.lock.stale-{os.getpid()}")
        try:
            os.rename(self.path, aside)
        except FileNotFoundError:
            return
        if aside.read_bytes() == content:
            aside.unlink()
        else:  # meanwhile replaced by another starter's: give it back
            with contextlib.suppress(FileExistsError):
                os.link(aside, self.path)
            aside.unlink()


@contextlib.contextmanager
def _one_at_a_time(directory: Path) -> Iterator[None]:
    """Let nobody else look at the directory's lock meanwhile, where the system can."""
    try:
        import fcntl

        descriptor = os.open(directory, os.O_RDONLY)
    except (ImportError, OSError):  # not there on Windows
        yield
        return
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _parse(content: bytes) -> dict[str, Any]:
    try:
        owner = json.loads(content)
        return {"pid": int(owner["pid"]), "started": float(owner["started"]), "host": owner["host"]}
    except (ValueError, KeyError, TypeError):
        return {}
