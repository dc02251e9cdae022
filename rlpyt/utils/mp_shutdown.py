"""Shutdown of multiprocessing's helper processes at the end of a program."""

import atexit
import contextlib
import sys


def wait_for_helpers_at_exit() -> None:
    """Let this program end only after multiprocessing's fork server and resource tracker.

    Otherwise they end up to a second after their parent. Call it before multiprocessing is
    imported: exit handlers run in reverse order of registration, and those of multiprocessing
    still need the helpers.
    """
    atexit.register(_wait_for_helpers)


def _wait_for_helpers() -> None:
    for name in ("forkserver", "resource_tracker"):
        module = sys.modules.get(f"multiprocessing.{name}")
        if module is not None:
            with contextlib.suppress(FileNotFoundError):  # its socket may already be gone
                getattr(module, f"_{name}")._stop()
