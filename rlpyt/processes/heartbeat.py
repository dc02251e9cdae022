"""Record of what the processes of a run are doing, which ``rlpyt status`` reads."""

import contextlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from rlpyt.processes.group import GROUPS
from rlpyt.utils.files import atomic_write

INTERVAL_S = 5.0
PATTERN = "heartbeat_*.json"


def heartbeat_path(run_dir: str | Path, name: str) -> Path:
    """Return the path of the file that a process of a run writes."""
    return Path(run_dir, PATTERN.replace("*", name))


def remove_heartbeat(path: Path) -> None:
    """Remove the file of a process that has ended."""
    with contextlib.suppress(OSError):
        path.unlink()


class Heartbeat:
    """File in a run directory with what a process and its children are doing, by pid.

    A thread writes it every few seconds until the end; each entry is (text, seconds since then).

    Args:
        path: path of the file, from `heartbeat_path`.
        own: returns the entry of this process, if its parent does not write it.
    """

    def __init__(self, path: Path, own: Callable[[], tuple[str, float]] | None = None) -> None:
        self._path, self._own, self._ended = path, own, threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def write(self) -> None:
        """Write what the processes are doing now."""
        found = {} if self._own is None else {os.getpid(): self._own()}
        for group in GROUPS:
            found |= group.activities()
        with atomic_write(self._path) as file:
            file.write(json.dumps(found).encode())

    def end(self) -> None:
        """Stop the thread, and remove the file."""
        self._ended.set()
        self._thread.join()
        remove_heartbeat(self._path)

    def _beat(self) -> None:
        while not self._ended.is_set():
            # The directory may be gone, and a group of children may start meanwhile.
            with contextlib.suppress(OSError, RuntimeError):
                self.write()
            self._ended.wait(INTERVAL_S)
