"""The supervisor of an attempt: starts the run, waits for it, and records its end.

    python -I supervisor.py JOB_DIRECTORY NUMBER

It is a separate process, so that runs do not depend on the launcher, which may be killed and
restarted. While a run is active, the job's ``lock`` is held by the supervisor and the run; the
operating system releases it however they end. A job runs only under its lock. The module uses the
standard library alone and is started without the package, so that it is fast and small.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ALREADY_TAKEN = 75  # exit code EX_TEMPFAIL: another supervisor has started this attempt
CANNOT_START = 127  # as in shells
GRACE_S = 60.0  # for a run to save its checkpoint after it was asked to end
# For processes that a run has started: to notice its end, and to end after SIGTERM.
NOTICE_S, ASKED_S = 1.0, 5.0
WRITE_RETRY_S = 1.0
POLL_INTERVAL_S = 0.5  # of requests to end
LOCK_TRIALS = 10  # others hold the lock briefly to test it
WARNINGS = (signal.SIGUSR1, signal.SIGUSR2)  # of clusters before a time limit
CLUSTER_SIGNALS = (signal.SIGTERM, *WARNINGS)
INTERRUPTED = "interrupted by the cluster"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def supervise(job_dir: Path, number: int) -> int:
    """Run the prepared attempt in ``job_dir``, and record its end.

    Returns:
        The exit code (negative for the signal that killed it), or ``ALREADY_TAKEN``.
    """
    lock = os.open(job_dir / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    path = attempt_file(job_dir, number)
    if not _take(lock):
        return ALREADY_TAKEN
    for received in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):  # sent to process groups
        signal.signal(received, signal.SIG_IGN)
    attempt = json.loads(path.read_text(encoding="utf-8"))
    if attempt.get("begun") is not None:
        return ALREADY_TAKEN
    attempt |= {"begun": time.time(), "pid": os.getpid(), "host": socket.gethostname()}
    attempt |= {"boot": boot()}
    write(path, attempt)
    told = path.with_suffix(".told")
    if attempt.get("where") != "local":
        for received in CLUSTER_SIGNALS:
            signal.signal(received, lambda *_: _record_reason(told, INTERRUPTED))
    with open(job_dir / "output.log", "ab", buffering=0) as output:
        _log(output, f"attempt {number}: {shlex.join(attempt['command'])}".replace("\n", "\\n"))
        if told.exists():  # it was stopped while it waited
            code = -signal.SIGTERM
        else:
            code = _run(attempt, output, lock, told)
    attempt |= {"ended": time.time(), "exit_code": code}
    write(path, attempt)
    return code


def attempt_file(job_dir: Path, number: int) -> Path:
    """Return the path of an attempt's description and outcome."""
    return job_dir / f"attempt_{number}.json"


def boot() -> str:
    """Return the boot id of the machine, empty if it has none."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a file atomically; on a full disk wait until there is room.

    Raises:
        FileNotFoundError: the directory was removed.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps(content, indent=1) + "\n"
    while True:
        try:
            with open(beside, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
            return
        except OSError as error:
            if not path.parent.is_dir():
                raise
            print(f"cannot write {path} ({error}); retrying", file=sys.stderr, flush=True)
            time.sleep(WRITE_RETRY_S)


def _take(lock: int) -> bool:
    """Take the lock; return False if it is held for longer than a test takes."""
    for _ in range(LOCK_TRIALS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            time.sleep(0.05)
    return False


def _run(attempt: dict[str, Any], output: Any, lock: int, told: Path) -> int:
    """Run the command and end its process group; return its exit code."""
    if attempt.get("cpus"):
        try:
            os.sched_setaffinity(0, attempt["cpus"])
        except (OSError, AttributeError, ValueError) as error:
            _log(output, f"warning: cannot be pinned to cores {attempt['cpus']}: {error}")
    parent, prctl = os.getpid(), getattr(ctypes.CDLL(None), "prctl", lambda *_: None)  # of Linux
    prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def in_child() -> None:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        for number in WARNINGS if attempt.get("where") != "local" else ():
            signal.signal(number, signal.SIG_IGN)  # handled by this process
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        child = subprocess.Popen(
            attempt["command"],
            cwd=attempt.get("cwd"),
            env={**os.environ, **attempt.get("env", {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
            preexec_fn=in_child,  # noqa: PLW1509 (there is one thread)
        )
    except OSError as error:
        _log(output, f"cannot be started: {error}")
        return CANNOT_START
    code = _wait(child, output, told)
    _end_rest(child.pid)
    return code


def _wait(child: "subprocess.Popen[bytes]", output: Any, told: Path) -> int:
    """Wait for the end of the run; end it once ``told`` exists, or its directory does not."""
    deadline = float("inf")
    while True:
        try:
            return child.wait(timeout=POLL_INTERVAL_S)
        except subprocess.TimeoutExpired:
            if deadline == float("inf") and (told.exists() or not told.parent.is_dir()):
                child.send_signal(signal.SIGTERM)
                deadline = time.monotonic() + GRACE_S
            elif time.monotonic() > deadline:
                _log(
                    output, f"killed: it was still running {GRACE_S:g} s after it was asked to end"
                )
                child.kill()
                deadline = time.monotonic() + GRACE_S


def _end_rest(group: int) -> None:
    """Wait for processes that the run has started; then terminate, then kill them.

    On Linux this includes processes that have left its process group.
    """
    for patience_s, number in ((NOTICE_S, signal.SIGTERM), (ASKED_S, signal.SIGKILL)):
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if not _any_left(group):
                return
            time.sleep(0.02)
        with contextlib.suppress(OSError):
            os.killpg(group, number)
        for pid in _children():
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def _any_left(group: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _children() -> list[int]:
    """Return the pids of children, also those inherited from a run."""
    own = os.getpid()
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="ascii")
        return [int(pid) for pid in text.split()]
    return []


def _record_reason(told: Path, why: str) -> None:
    with contextlib.suppress(OSError), open(told, "x", encoding="utf-8") as file:
        file.write(f"{why}\n")  # the first reason is kept


def _log(output: Any, text: str) -> None:
    with contextlib.suppress(OSError):  # e.g. a full disk
        output.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode())


if __name__ == "__main__":
    sys.exit(supervise(Path(sys.argv[1]), int(sys.argv[2])) & 0xFF)
