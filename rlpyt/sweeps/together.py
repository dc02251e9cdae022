"""Runs of a sweep that train in one process, with their agents as an axis.

    python -m rlpyt.sweeps.together PLACE LOCK N [CPU ...]

Each run keeps its job, supervisor and lock, so that it starts, fails, resumes and is pruned as any
other. Only its command is a client (`together_client`), which asks the process of its place to
train it. Both exchange files in PLACE: a request, which its client locks as long as it lives, a
wish to stop, and the outcome. The process ends when it has had no request for a while.
"""

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlpyt.experiments.finish import finish
from rlpyt.experiments.options import read_config
from rlpyt.experiments.population import Population, exit_code, in_this_process
from rlpyt.runners.lockstep import Member, run_in_lockstep
from rlpyt.sweeps.together_client import ENDED, LOCK, OVER, REQUEST, STOP, is_held, name_of_process
from rlpyt.utils.files import write_text

POLL_S, IDLE_S, LINGER_S = 0.2, 10.0, 1.0


class Place:
    """The runs of a process, and the files by which their clients and it communicate.

    Args:
        path: directory of the files.
        lock: descriptor of its lock, which is held.
        n: number of runs at once.
    """

    def __init__(self, path: Path, lock: int, n: int) -> None:
        self.path, self._lock, self._name = path, lock, name_of_process(path)
        self.population = Population(n)
        self._requests: dict[Member, Path] = {}
        self._next_poll_s = 0.0

    def serve(self) -> None:
        """Train runs that are asked for, until there has been none for a while."""
        run_in_lockstep(self.population.joining, self.population.answer, self.poll)

    def poll(self) -> None:
        """Begin runs, end those whose clients want it, and tell how runs have ended."""
        active = any(member.question is not None for member in self._requests)
        if active and time.monotonic() < self._next_poll_s:
            return
        self._next_poll_s = time.monotonic() + POLL_S
        for member in [m for m in self._requests if not m.begins and m.question is None]:
            self._tell_end(member)
        idle_since = time.monotonic()
        while not self._begin_requested() and not self._requests and self._waits(idle_since):
            time.sleep(POLL_S)
        for member, request in self._requests.items():
            if request.with_suffix(STOP).exists() or not is_held(request):
                self.population.joining[member].stop_with(signal.SIGTERM, alone=True)

    def _waits(self, idle_since: float) -> bool:
        """Return False after a while, with the lock given back."""
        if time.monotonic() < idle_since + IDLE_S and not (self.path / OVER).exists():
            return True
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        time.sleep(LINGER_S)  # a client that was started meanwhile may just be asking
        if not self._asked() or is_held(self.path / LOCK):
            return False
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return True

    def _begin_requested(self) -> bool:
        """Add the runs of new requests; return True if there are any."""
        known = {*self._requests.values()}
        new = {path: asked for path, asked in self._asked().items() if path not in known}
        for request, asked in sorted(new.items()):
            options, _ = read_config(Path(asked["config"]), trust=True)
            member = self.population.add(
                Path(asked["run_dir"]),
                in_this_process(options),
                resume=asked["resume"],
                finish=finish,
            )
            self._requests[member] = request
        return bool(new)

    def _asked(self) -> dict[Path, dict[str, Any]]:
        """Return the requests of runs that have not ended."""
        found = {}
        for path in self.path.glob(f"[0-9]*{REQUEST}"):
            with contextlib.suppress(FileNotFoundError):  # withdrawn
                asked = json.loads(path.read_text(encoding="utf-8"))
                if asked["server"] == self._name and not path.with_suffix(ENDED).exists():
                    found[path] = asked
        return found

    def _tell_end(self, member: Member) -> None:
        error, code, text = member.error, exit_code(member.error), ""
        if error is not None and (not isinstance(error, SystemExit) or type(error.code) is str):
            text = "".join(traceback.format_exception(error))
        request = self._requests.pop(member)
        del self.population.joining[member]
        if is_held(request):
            write_text(request.with_suffix(ENDED), json.dumps({"code": code, "text": text}))
        else:  # its client was killed
            request.unlink(missing_ok=True)


def main(args: Sequence[str]) -> None:
    """Serve a place."""
    path, lock, n, *cpus = args
    if cpus:
        os.sched_setaffinity(0, map(int, cpus))
    Place(Path(path), int(lock), int(n)).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
