"""Keeps one attempt of a run: starts it, waits for it, writes down how it ended.

    python -I supervisor.py JOB_DIRECTORY NUMBER

A process of its own, so that a run and the record of its end do not depend on the launcher: that
may be killed and started again meanwhile. While the run lives, the job's ``lock`` is held (by the
run's process too, so also if this one is killed), and the operating system lets go of it however
they end, a reboot included. Nobody who has not got the lock runs the job. Standard library alone,
and started without the package, so that it begins at once and weighs little.
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

NOT_MINE = 75  # exit code: another supervisor has, or had, this attempt; EX_TEMPFAIL
CANNOT_START = 127  # as shells say it
GRACE_S = 60.0  # a run asked to end has so long to save its checkpoint
NOTICE_S, ASKED_S = 1.0, 5.0  # what a run has started has so long to notice its end, then to end
WRITE_AGAIN_S = 1.0
LOOK_S = 0.5  # between two looks at whether the run shall end
LOOKS = 10  # others take the lock for an instant to see whether it is held
CLUSTERS = (signal.SIGTERM, signal.SIGUSR2)  # how SLURM says that a job's time is up
INTERRUPTED = "interrupted by the cluster"
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def keep(job_dir: Path, number: int) -> int:
    """Run the attempt that lies ready in ``job_dir``, and record its end.

    Returns:
        its exit code (negative: the signal that killed it), or ``NOT_MINE``.
    """
    lock = os.open(job_dir / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    path = attempt_file(job_dir, number)
    if not _take(lock):
        return NOT_MINE
    for heard in (signal.SIGINT, signal.SIGTERM):  # sent to whole groups; who ends, others decide
        signal.signal(heard, signal.SIG_IGN)
    attempt = json.loads(path.read_text(encoding="utf-8"))
    if attempt.get("begun") is not None:
        return NOT_MINE
    attempt |= {"begun": time.time(), "pid": os.getpid(), "host": socket.gethostname()}
    attempt |= {"boot": boot()}
    write(path, attempt)
    told = path.with_suffix(".told")
    if attempt.get("where") == "slurm":
        for heard in CLUSTERS:
            signal.signal(heard, lambda *_: _tell(told, INTERRUPTED))
    with open(job_dir / "output.log", "ab", buffering=0) as output:
        _say(output, f"attempt {number}: {shlex.join(attempt['command'])}".replace("\n", "\\n"))
        if told.exists():  # while it waited, for a cluster perhaps
            code = -signal.SIGTERM
        else:
            code = _run(attempt, output, lock, told)
    attempt |= {"ended": time.time(), "exit_code": code}
    write(path, attempt)
    return code


def is_kept(job_dir: Path) -> bool:
    """Whether a supervisor, or a run that has outlived its own, holds the job's lock now."""
    try:
        lock = os.open(job_dir / "lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def attempt_file(job_dir: Path, number: int) -> Path:
    """Where an attempt is described and its end recorded."""
    return job_dir / f"attempt_{number}.json"


def boot() -> str:
    """What tells this start of the machine from others."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def write(path: Path, content: dict[str, Any]) -> None:
    """Put a file into place whole; on a full disk wait until there is room.

    Raises:
        FileNotFoundError: somebody has removed the directory.
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
            print(f"cannot write {path} ({error}); trying again", file=sys.stderr, flush=True)
            time.sleep(WRITE_AGAIN_S)


def _take(lock: int) -> bool:
    """Get the lock, if nobody has it for longer than it takes to look."""
    for _ in range(LOOKS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            time.sleep(0.05)
    return False


def _run(attempt: dict[str, Any], output: Any, lock: int, told: Path) -> int:
    """The command's exit code; everything of its process group is gone when this returns."""
    if attempt.get("cpus"):
        try:
            os.sched_setaffinity(0, attempt["cpus"])
        except (OSError, AttributeError, ValueError) as error:
            _say(output, f"warning: cannot be kept on cores {attempt['cpus']}: {error}")
    parent, prctl = os.getpid(), _prctl()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def in_child() -> None:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # the cluster's word goes by way of told
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
        _say(output, f"cannot be started: {error}")
        return CANNOT_START
    code = _wait(child, output, told)
    _end_rest(child.pid)
    return code


def _wait(child: "subprocess.Popen[bytes]", output: Any, told: Path) -> int:
    """Wait for the end of the run, which is asked for once ``told`` exists."""
    deadline = float("inf")
    while True:
        try:
            return child.wait(timeout=LOOK_S)
        except subprocess.TimeoutExpired:
            if deadline == float("inf") and told.exists():
                child.send_signal(signal.SIGTERM)
                deadline = time.monotonic() + GRACE_S
            elif time.monotonic() > deadline:
                _say(output, f"killed: it had not ended {GRACE_S:g} s after it was asked to")
                child.kill()
                deadline = time.monotonic() + GRACE_S


def _end_rest(group: int) -> None:
    """Let what the run has started end by itself; then ask it to, then kill it.

    Where it is known who that is (Linux), also those that have left its process group.
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
    """Pids of what this process has started, or has inherited from a run."""
    own = os.getpid()
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="ascii")
        return [int(pid) for pid in text.split()]
    return []


def _prctl() -> Any:
    """Linux's function, or one that does nothing elsewhere."""
    try:
        return ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return lambda *_: None


def _tell(told: Path, why: str) -> None:
    with contextlib.suppress(OSError), open(told, "x", encoding="utf-8") as file:
        file.write(f"{why}\n")  # unless somebody else has told it before


def _say(output: Any, text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk ends no run
        output.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode())


if __name__ == "__main__":
    sys.exit(keep(Path(sys.argv[1]), int(sys.argv[2])) & 0xFF)
