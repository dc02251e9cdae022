"""Record of what the processes of a run are doing, which ``rlpyt status`` reads."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rlpyt.processes.group import GROUPS
from rlpyt.runners.hooks import Hook
from rlpyt.utils.files import atomic_write
from rlpyt.utils.logging import logger
from rlpyt.utils.logging.lock import HEARTBEAT

if TYPE_CHECKING:
    from rlpyt.runners.runner import MinibatchRlBase

INTERVAL_S = 5.0


class HeartbeatHook(Hook):
    """Hook that writes what this process and its children are doing, while the run goes on.

    The file in the run directory has (text, seconds since then) by pid; it is removed at the end.
    """

    _thread: threading.Thread | None = None

    def on_start(self, runner: MinibatchRlBase) -> None:
        """Start the thread that writes, if there is a run directory."""
        if directory := logger.get_snapshot_dir():
            self._path, self._ended = Path(directory, HEARTBEAT), threading.Event()
            self._thread = threading.Thread(target=self._beat, args=(runner,), daemon=True)
            self._thread.start()

    def on_end(self, runner: MinibatchRlBase) -> None:
        """Stop the thread, and remove the file."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            with contextlib.suppress(OSError):
                self._path.unlink()

    def write(self, runner: MinibatchRlBase) -> None:
        """Write what the processes are doing now."""
        with atomic_write(self._path) as file:
            file.write(json.dumps(activities(runner)).encode())

    def _beat(self, runner: MinibatchRlBase) -> None:
        while not self._ended.is_set():
            # The directory may be gone, and a group of children may start meanwhile.
            with contextlib.suppress(OSError, RuntimeError):
                self.write(runner)
            self._ended.wait(INTERVAL_S)


def activities(runner: MinibatchRlBase) -> dict[int, tuple[str, float]]:
    """Return what this process and its children are doing, and for how many seconds, by pid."""
    phase, since = runner.state.clock.current
    own = f"{phase}, iteration {runner.itr}", time.perf_counter() - since
    found = {os.getpid(): own}
    for group in GROUPS:
        found |= group.activities()
    return found
