"""Hook that records what the processes of a run are doing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rlpyt.processes.heartbeat import Heartbeat, heartbeat_path
from rlpyt.runners.hooks import Hook
from rlpyt.utils.logging import logger

if TYPE_CHECKING:
    from rlpyt.runners.runner import MinibatchRlBase


class HeartbeatHook(Hook):
    """Hook that lets this process write a `Heartbeat` while the run goes on.

    Args:
        run_dir: run directory, which only rank 0 knows; None: that of the logger.
    """

    heartbeat: Heartbeat | None = None

    def __init__(self, run_dir: str | None = None) -> None:
        self.run_dir = run_dir

    def on_start(self, runner: MinibatchRlBase) -> None:
        """Start it, if there is a run directory."""

        def own() -> tuple[str, float]:
            phase, since = runner.state.clock.current
            return f"{phase}, iteration {runner.itr}", time.perf_counter() - since

        if directory := self.run_dir or logger.get_snapshot_dir():
            self.heartbeat = Heartbeat(heartbeat_path(directory, f"rank_{runner.rank}"), own)

    def on_end(self, runner: MinibatchRlBase) -> None:
        """End it."""
        if self.heartbeat is not None:
            self.heartbeat.end()
