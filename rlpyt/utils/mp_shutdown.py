"""Shutdown of multiprocessing's helper processes at the end of a program."""

import contextlib
import os
import signal
import sys
import time
from multiprocessing.util import Finalize

END_S = 3.0  # time for each helper to end


def wait_for_helpers_at_exit() -> None:
    """Let this program end only after multiprocessing's fork server and resource tracker.

    Otherwise they end up to a second after their parent, and Python 3.12 waits for them without a
    time limit. Multiprocessing's own finalizers run first, since they still need the helpers.
    """
    Finalize(None, wait_for_helpers, exitpriority=-100)


def wait_for_helpers() -> None:
    """Let the helpers of this process end, and kill those that do not end within ``END_S``.

    A helper ends when no process holds its pipe. A daemon that an environment has forked may hold
    it, and the helper holds this program's standard error.
    """
    module = sys.modules.get("multiprocessing.resource_tracker")
    tracker = getattr(module, "_resource_tracker", None)
    fork_server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    if fork_server is not None and fork_server._forkserver_pid is not None:
        ending = fork_server._forkserver_pid, fork_server._forkserver_alive_fd
        # First, since this may be interrupted and called again.
        fork_server._forkserver_alive_fd = fork_server._forkserver_pid = None
        _end(*ending)
        with contextlib.suppress(OSError, ValueError):  # it is gone, or has no path
            os.unlink(fork_server._forkserver_address)
    if tracker is not None and tracker._pid is not None:
        ending = tracker._pid, tracker._fd
        tracker._fd = tracker._pid = None
        _end(*ending)


def _end(pid: int, pipe: int) -> None:
    """Close the pipe of a helper, and wait for its end; Ctrl-C ends the wait."""
    os.close(pipe)
    deadline = time.monotonic() + END_S
    with contextlib.suppress(ChildProcessError, ProcessLookupError, KeyboardInterrupt):
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return
            time.sleep(0.005)
