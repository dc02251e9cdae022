"""Leaving no process behind when a program ends, not even for a second."""

import atexit
import contextlib
import sys


def wait_for_helpers_at_exit() -> None:
    """Let this program end only after multiprocessing's fork server and resource tracker.

    They go by themselves once their parent has gone, but take up to a second. Call it early, before
    multiprocessing is imported: what is registered first is done last, and multiprocessing still
    needs its helpers for what it does at exit.
    """
    atexit.register(_wait_for_helpers)


def _wait_for_helpers() -> None:
    for name in ("forkserver", "resource_tracker"):
        module = sys.modules.get(f"multiprocessing.{name}")
        if module is not None:
            with contextlib.suppress(FileNotFoundError):  # its socket may be gone already
                getattr(module, f"_{name}")._stop()
