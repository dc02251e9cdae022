"""Setup of multiprocessing's fork server, which imports this module first.

The server ends with the process that started it, even while it imports the modules shared by its
children. On Linux, programs that outlive a worker become children of the server, even if they lead
their own session, and the server ends them when it ends.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import signal
import sys
import time
import warnings

import psutil

# Imported once, shared by all children.
MODULES = [
    "rlpyt.processes.child",
    "rlpyt.samplers.env_worker",
    "rlpyt.samplers.environments",
    "rlpyt.agents.pg.vector",
    "rlpyt.envs.gym",
    "numpy.ma",
]
ENV_STARTED_BY = "RLPYT_STARTED_BY"  # pid of the process that starts a fork server
TITLE = "rlpyt-"  # prefix of the process title of rlpyt's children and of their forks
END_S = 2.0  # timeout for killed programs to end
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def end_orphans(server_pid: int) -> None:
    """Kill programs left behind by a fork server's workers, and workers whose parent has ended.

    Other children of the server are left alone. Call it in the server when it ends, and in the
    server's parent when it has no children left.
    """
    deadline = time.monotonic() + END_S
    with contextlib.suppress(psutil.Error):
        server = psutil.Process(server_pid)
        line = server.cmdline()
        while (orphans := _orphans(server, line)) and time.monotonic() < deadline:
            for process in orphans:
                with contextlib.suppress(psutil.Error):
                    for descendant in process.children(recursive=True):
                        descendant.kill()
                with contextlib.suppress(psutil.Error):
                    process.kill()
            if server_pid == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    while os.waitpid(-1, os.WNOHANG)[0]:
                        pass
            time.sleep(0.005)


def _at_exit(server_pid: int) -> None:
    if os.getpid() == server_pid:  # not in a process forked by an environment
        end_orphans(server_pid)


def _orphans(server: psutil.Process, line: list[str]) -> list[psutil.Process]:
    found = []
    for child in server.children():
        with contextlib.suppress(psutil.Error):
            if child.status() == psutil.STATUS_ZOMBIE:
                # So is the first thread of a process while others end, which keep its children.
                orphaned = bool(child.children())
            else:
                # A fork that is not (yet) one of rlpyt's children has the server's command line.
                orphaned = child.cmdline() != line or child.name().startswith(TITLE)
            if orphaned:
                found.append(child)
    return found


def _set_up() -> None:
    linux = sys.platform.startswith("linux")
    prctl = ctypes.CDLL(None, use_errno=True).prctl if linux else lambda *_: None
    parent = os.environ.pop(ENV_STARTED_BY, "")
    # Imports take seconds, during which the server does not notice that its parent has ended. The
    # signal is sent at the end of the thread that started the server, so it is disabled afterwards.
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        if parent and os.getppid() != int(parent):
            os._exit(1)
        for name in MODULES:
            importlib.import_module(name)
        # Else the children's garbage collections would write to the pages of all these objects.
        gc.collect()
        gc.freeze()
    finally:
        prctl(_PR_SET_PDEATHSIG, 0)
        if linux:
            prctl(_PR_SET_CHILD_SUBREAPER, 1)
            atexit.register(_at_exit, os.getpid())
        # The server also reaps orphans, with a warning for each.
        warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")


# A server that the script started for itself does not import this module first. It and its children
# import it here through `processes`, and need no setup.
in_a_server = any("multiprocessing.forkserver import main" in word for word in sys.orig_argv)
if in_a_server and "rlpyt.utils.processes" not in sys.modules:
    _set_up()
