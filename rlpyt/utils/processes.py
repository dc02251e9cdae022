"""Child processes: started clean, gone with their parent, and never waited for blindly."""

import contextlib
import ctypes
import multiprocessing as mp
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any

import psutil

PRELOAD = ["rlpyt.samplers.workers"]  # imported once in the fork server, shared by its children
LONGEST_TRACEBACK = 20_000  # characters
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def start_context(method: str | None = None) -> Any:
    """Return the multiprocessing context to start workers with.

    Args:
        method: "forkserver", "spawn" or "fork"; by default ``RLPYT_START_METHOD`` from the
            environment, else forkserver on Linux and spawn elsewhere.

    Raises:
        ValueError: no such method here.
    """
    default = "forkserver" if sys.platform.startswith("linux") else "spawn"
    method = method or os.environ.get("RLPYT_START_METHOD") or default
    if method not in mp.get_all_start_methods():
        raise ValueError(f"start method '{method}': use one of {mp.get_all_start_methods()}.")
    context = mp.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(PRELOAD)
    return context


_main_module_lock = threading.Lock()


@contextlib.contextmanager
def starting_children() -> Iterator[None]:
    """Start children without importing the user's script in them, and deaf to SIGTERM.

    Whatever the script defines travels by value (``utils.serialize``), so a child has no need of
    the script, and scripts without an ``if __name__ == "__main__"`` guard work. A job scheduler's
    SIGTERM reaches the whole group: the parent then still needs its workers (and the fork server
    they came from) for a checkpoint; it stops them itself.
    """
    main = sys.modules["__main__"]
    hidden = ("__file__", "__spec__")
    with _main_module_lock:
        kept = {name: main.__dict__[name] for name in hidden if name in main.__dict__}
        try:
            main.__dict__.pop("__file__", None)
            main.__spec__ = None
            resource_tracker.ensure_running()  # where it starts, it unblocks SIGTERM
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            try:
                yield
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        finally:
            main.__dict__.update(kept)


def be_a_child(cpus: Sequence[int] | None = None) -> None:
    """Set up this process as a worker: deaf to Ctrl-C, gone when its parent is, pinned.

    Call first thing in the child.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = mp.parent_process()
    if parent is not None:
        threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    if cpus:
        pin(cpus)


def _die_with(parent: Any) -> None:
    wait([parent.sentinel])
    os._exit(1)


def pin(cpus: Sequence[int]) -> bool:
    """Keep this process on these processors; a failure is a warning, not an error."""
    try:
        psutil.Process().cpu_affinity(list(cpus))
    except (OSError, ValueError, AttributeError, psutil.Error) as error:
        import warnings

        allowed = available_cpus()
        warnings.warn(f"cannot pin to cpus {list(cpus)} ({error}); this process may use {allowed}.")
        return False
    return True


def available_cpus() -> list[int]:
    """The processors this process may really use (cgroups and containers included)."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def describe_exit(exitcode: int | None) -> str:
    """Say in words how a process ended."""
    if exitcode is None:
        return "is still running"
    if exitcode >= 0:
        return f"exited with code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


def traceback_text(error: BaseException) -> str:
    """The traceback as text, whatever the exception's own methods do."""
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException as second:
        text = f"{type(error).__name__} (its traceback cannot be printed: {type(second).__name__})"
    if len(text) > LONGEST_TRACEBACK:
        half = LONGEST_TRACEBACK // 2
        text = f"{text[:half]}\n... ({len(text)} characters) ...\n{text[-half:]}"
    return text


def stop(processes: Sequence[Any], patience_s: float = 2.0) -> None:
    """End these processes: wait a little, then kill. Returns when all are gone."""
    for kill in (False, True):
        alive = [p for p in processes if p.is_alive()]
        if not alive:
            break
        if kill:
            for process in alive:
                process.kill()
        ready: list[Any] = [p.sentinel for p in alive]
        while ready:  # every wait is bounded by patience
            done = wait(ready, timeout=patience_s)
            if not done:
                break
            ready = [s for s in ready if s not in done]
    for process in processes:
        process.join(patience_s)
