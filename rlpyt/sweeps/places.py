"""Places: slots whose runs train in the same process, see `rlpyt.sweeps.together`."""

import contextlib
import fcntl
import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlpyt.sweeps import together_client
from rlpyt.sweeps.executors import Handle, LocalExecutor
from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.slots import Slot
from rlpyt.sweeps.together_client import LOCK, OVER, is_held

CLIENT = (sys.executable, "-I", together_client.__file__, "{place}", "{job}", "{run_dir}")


def place_of(queue: Path, slot: Slot) -> Path:
    """Return the directory in which the process of a slot and its clients exchange files."""
    return queue / "together" / str(slot.place)


def places_in(slots: Sequence[Slot], n: int) -> list[Slot]:
    """Return n slots in place of each, whose runs share a process, of all slots in turn."""
    return [
        replace(slot, number=k * len(slots) + slot.number, place=slot.number)
        for k in range(n)
        for slot in slots
    ]


class PlaceExecutor(LocalExecutor):
    """Executor of runs that share the process of their slot's place.

    Args:
        n: number of runs of a place.
    """

    def __init__(self, n: int) -> None:
        self._n, self._places = n, set[Path]()

    def start(self, job_dir: Path, attempt: Attempt, slot: Slot) -> Handle:
        """Start a prepared attempt, and the process if there is none."""
        place = place_of(job_dir.parent, slot)
        place.mkdir(parents=True, exist_ok=True)
        (place / OVER).unlink(missing_ok=True)
        self._places.add(place)
        with open(place / LOCK, "ab") as lock, open(place / "output.log", "ab") as output:
            if not is_held(place / LOCK):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the process inherits it
                lock.truncate(0)
                lock.write(secrets.token_hex(8).encode())
                lock.flush()
                module = [sys.executable, "-m", "rlpyt.sweeps.together"]
                numbers = [lock.fileno(), self._n, *(slot.cpus or ())]
                subprocess.Popen(
                    [*module, str(place), *map(str, numbers)],
                    cwd=attempt.cwd,
                    env={**os.environ, **attempt.env},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(lock.fileno(),),
                    start_new_session=True,
                )
        return super().start(job_dir, attempt, slot)

    def close(self) -> None:
        """Let the processes end after their runs, without waiting for others."""
        for place in self._places:
            with contextlib.suppress(OSError):  # the sweep may have been removed
                (place / OVER).touch()
