"""A run of a sweep that trains in the same process as others, as its supervisor sees it.

    python -I together_client.py PLACE JOB_DIRECTORY RUN_DIRECTORY

It asks the process of PLACE (`rlpyt.sweeps.together`) to train the run, asks it to end the run
after SIGTERM, and ends as the run does. It uses the standard library alone, so that it is small.
"""

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

LOCK = "lock"  # held by the process of the place; its content is the name of that process
OVER = "over"  # file of a place: there will be no further request
REQUEST, STOP, ENDED = ".json", ".stop", ".ended"  # of a run; the request is locked by its client
ENV_RESUME = "RLPYT_RESUME"
POLL_S, PATIENCE_S = 0.2, 3.0


def ask(place: Path, job_dir: Path, run_dir: str) -> int:
    """Let a run be trained, and return its exit code."""
    request = place / f"{job_dir.name}-{os.getpid()}{REQUEST}"
    beside = place / f".{request.name}"
    server, resume = name_of_process(place), bool(os.environ.get(ENV_RESUME))
    content = {"server": server, "config": str(job_dir / "config.json"), "run_dir": run_dir}
    with open(beside, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump({**content, "resume": resume}, file)
        file.flush()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: request.with_suffix(STOP).touch())
        os.rename(beside, request)
        try:
            code, text = _outcome(place, server, request.with_suffix(ENDED))
        finally:
            for suffix in (REQUEST, STOP, ENDED):
                with contextlib.suppress(FileNotFoundError):
                    request.with_suffix(suffix).unlink()
    print(text, end="", flush=True)
    return code


def _outcome(place: Path, server: str, ended: Path) -> tuple[int, str]:
    """Wait for the end of a run; return its exit code, and what is to be printed."""
    last_seen = time.monotonic()
    while not ended.exists():
        time.sleep(POLL_S)
        if is_held(place / LOCK) and name_of_process(place) == server:
            last_seen = time.monotonic()
        elif time.monotonic() > last_seen + PATIENCE_S and not ended.exists():
            output = place / "output.log"
            return 1, f"rlpyt: error: the process that trains this run has ended; see {output}\n"
    found = json.loads(ended.read_text(encoding="utf-8"))
    return int(found["code"]), str(found["text"])


def name_of_process(place: Path) -> str:
    """Return the name of the newest process of a place."""
    return (place / LOCK).read_text(encoding="ascii")


def is_held(path: Path) -> bool:
    """Return True if a process holds the lock of a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe may have no writer
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


if __name__ == "__main__":
    sys.exit(ask(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
