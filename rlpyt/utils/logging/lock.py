"""Locks: one live process per run directory, and one training per process."""

import contextlib
import errno
import json
import os
import socket
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, SoftFileLock, Timeout

from rlpyt.errors import ConcurrentRunError, RlpytError
from rlpyt.utils.files import is_running, naming, read_regular

LONGEST_NAME = 255  # bytes of the name of a file or directory
MAX_BYTES = 10_000  # of a lock's content
SAME_S = 0.1  # between two readings of the time at which a process began
_PATIENCE_S = 0.5  # `owner` holds the lock for microseconds
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of some network file systems


class RunDirectoryError(RlpytError, RuntimeError):
    """Unusable run directory; the message gives the reason and the remedy."""


def check_names(path: Path) -> Path:
    """Return the path of a run directory whose names are not too long for a file system.

    Raises:
        RunDirectoryError: one of them is.
    """
    longest = max(map(os.fsencode, path.parts), key=len, default=b"")
    if len(longest) > LONGEST_NAME:
        raise RunDirectoryError(
            f"names in the path of a run directory must be at most {LONGEST_NAME} bytes, got "
            f"{len(longest)} for {os.fsdecode(longest[:40])}... Choose a shorter run_dir, or "
            "log_dir and run_ID."
        )
    return path


class OneThread:
    """Lock for what only one thread of a process may do at a time; the same thread may nest it.

    Args:
        what: what the threads do, for the message.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._holders: dict[int, list[int]] = {}  # process -> [thread]; forked children inherit it

    @contextlib.contextmanager
    def hold(self) -> Iterator[bool]:
        """Hold the lock during a block; the value is True if this thread holds it already.

        Raises:
            ConcurrentRunError: another thread holds the lock.
        """
        own, process = [threading.get_ident()], os.getpid()
        holder = self._holders.setdefault(process, own)
        if holder != own:
            raise ConcurrentRunError(
                f"{self.what} must run in one thread of a process at a time, and another thread "
                "has one: they would share random generators, the logger, signals and CPU cores. "
                "Run each in a process of its own, for example by `rlpyt sweep`; with Optuna use "
                "n_jobs=1 in several processes that share a storage."
            )
        try:
            yield holder is not own
        finally:
            if holder is own:
                del self._holders[process]


TRAINING, RUN = OneThread("a training"), OneThread("a logged run")


class RunLock:
    """Context manager that holds ``<directory>/run.lock``; subclasses change name and message.

    The operating system releases the lock of a process that has died. Network file systems may not
    share locks between machines, so a file that names another host counts as locked. Where the file
    system has no locks at all, a file that names a live process does, and when that began: in a
    container that was started again, another process has the number of the dead one.

    Raises:
        RunDirectoryError: another live process holds the lock on entry; the message gives its pid.
            Or the file system has no locks, and the subclass requires them.
        OSError: the directory is not writable on entry.
    """

    name = "run.lock"
    requires_locks = False  # other processes test the lock without reading the file

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = Path(directory) / self.name
        self._lock = FileLock(self.path, mode=0o644)
        self._holder: int | None = None  # the process that holds it, not its forked children

    def refusal(self, owner: dict[str, Any]) -> str:
        """Return the error message for a second process."""
        return (
            f"{self.path.parent} is in use by process {owner.get('pid', 'unknown')} on "
            f"{owner.get('host', 'this machine')}. Wait for it to end, choose another "
            f"run_ID, or remove {self.path} if you are sure it is not running."
        )

    def owner(self) -> str:
        """Return a description of the owner, empty if no live process holds the lock."""
        if not self.path.is_file() or self.path.is_symlink():  # no process has locked it
            return ""
        owner = self._written_owner()
        if not _is_elsewhere(owner):
            try:
                self._acquire(0)
                self._release()
                return ""
            except (Timeout, RunDirectoryError):
                pass
            except OSError as error:  # the directory is read-only here, or another user's
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                if "pid" in owner and not _is_alive(owner):
                    return ""
        return f"process {owner.get('pid', 'unknown')} on {owner.get('host', 'this machine')}"

    def process(self) -> int | None:
        """Return the pid of the owner, ``None`` if it is on another host or there is none."""
        owner = self._written_owner()
        return owner.get("pid") if self.owner() and not _is_elsewhere(owner) else None

    def forget(self, hosts: Collection[str]) -> None:
        """Remove a lock whose owner is on one of these other hosts, where it has ended."""
        owner = self._written_owner()
        if _is_elsewhere(owner) and owner["host"] in hosts:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> "RunLock":
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            raise RunDirectoryError(
                f"{self.path} must be a regular file, not a symbolic link, pipe or directory. "
                "Remove it."
            )
        if _is_elsewhere(owner := self._written_owner()):
            raise RunDirectoryError(self.refusal(owner))
        try:
            self._acquire(_PATIENCE_S)
        except Timeout:
            raise RunDirectoryError(self.refusal(self._written_owner())) from None
        try:
            with naming(self.path):
                own = {"pid": os.getpid(), "host": socket.gethostname()}
                self.path.write_text(json.dumps(own | {"began": _began(os.getpid())}))
        except OSError:
            self._release()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._holder == os.getpid():
            self._release()

    def _acquire(self, timeout_s: float) -> None:
        """Acquire the lock; without locks in the file system, unless a live process is named.

        Raises:
            Timeout: another process holds it.
        """
        failed: Exception | None = None
        try:
            with naming(self.path):
                self._lock.acquire(timeout=timeout_s)
        except NotImplementedError as error:  # of early versions of filelock
            failed = error
        except OSError as error:
            is_held = isinstance(error, Timeout) and not isinstance(self._lock, SoftFileLock)
            if is_held or not (isinstance(error, Timeout) or error.errno in _NO_LOCKS):
                raise
            failed = error
        if self.requires_locks and (failed or isinstance(self._lock, SoftFileLock)):
            self._release()
            raise RunDirectoryError(
                f"{self.path} is on a file system without locks (flock), which sweeps require. "
                "Choose a directory on another file system."
            )
        owner = self._written_owner()
        unknown = not owner and isinstance(failed, Timeout)  # its owner has not written it yet
        if failed and (unknown or (owner and _is_alive(owner))):
            raise Timeout(str(self.path)) from failed
        self._holder = os.getpid()

    def _release(self) -> None:
        self._holder = None
        with contextlib.suppress(NotADirectoryError):  # the directory was replaced by a file
            self.path.unlink(missing_ok=True)  # before the release: waiting processes reopen it
        with naming(self.path):
            self._lock.release()

    def _written_owner(self) -> dict[str, Any]:
        """Return what the owner has written, empty if it has not yet or the file is damaged."""
        try:
            owner = json.loads(read_regular(self.path, MAX_BYTES))
            pid, host = int(owner["pid"]), str(owner["host"])
            began = owner.get("began")  # earlier versions have not written it
            began = None if began is None else float(began)
        except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
            return {}
        return {"pid": pid, "host": host, "began": began} if 0 < pid < 2**31 else {}


def _began(pid: int) -> float | None:
    """Return when a process of this machine began, in seconds since the machine did.

    A clock that is set does not change it. ``None`` if it is not known.
    """
    try:
        start = psutil.boot_time()  # first: psutil computes with the latest value
        return psutil.Process(pid).create_time() - start
    except (psutil.Error, OSError, RuntimeError):  # /proc/stat may be hidden
        return None


def _is_alive(owner: dict[str, Any]) -> bool:
    """Return True if the process lives that wrote a file of a lock, not one with its number."""
    if not is_running(owner["pid"]):
        return False
    began, written = _began(owner["pid"]), owner["began"]
    return began is None or written is None or abs(began - written) < SAME_S


def _is_elsewhere(owner: dict[str, Any]) -> bool:
    return bool(owner) and owner["host"] != socket.gethostname()
