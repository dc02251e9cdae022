"""Detect leaked child processes, shared memory and open files.

>>> before = take_stock()
>>> left_since(before)
{}
"""

import gc
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psutil

SHARED = Path("/dev/shm")
HELPERS = ("multiprocessing.forkserver", "multiprocessing.resource_tracker")


@dataclass(frozen=True)
class Stock:
    """Snapshot of this program's processes, shared memory and open files.

    Attributes:
        processes: PIDs of all descendants, zombies included, without the idle helpers of
            multiprocessing.
        names: names in shared memory, of any program.
        files: number of open descriptors by target.
    """

    processes: frozenset[int]
    names: frozenset[str]
    files: Counter[str]


def take_stock() -> Stock:
    """Collect garbage, then return a snapshot of this program."""
    gc.collect()
    names = frozenset(os.listdir(SHARED)) if SHARED.is_dir() else frozenset()
    return Stock(frozenset(_children()), names, _open_files())


def left_since(before: Stock, patience_s: float = 10.0) -> dict[str, list[str]]:
    """Return what was not there before and stays for ``patience_s``; empty if there is no leak.

    Names in shared memory that other programs on the machine have mapped do not count. Those that
    no process has mapped may be left by a program that another worker of pytest has killed, until
    its resource tracker removes them: they count after six times as long.
    """
    start = time.monotonic()
    suspects: frozenset[str] | None = None  # names created during the wait are not leaks
    while True:
        now = take_stock()
        new_names = now.names - before.names
        suspects = new_names if suspects is None else suspects & new_names
        left = {
            "processes": [_describe(pid) for pid in sorted(now.processes - before.processes)],
            "names": sorted(suspects - _used_by_others(suspects)),
            "files": sorted((now.files - before.files).elements()),
        }
        left = {kind: things for kind, things in left.items() if things}
        patience = patience_s if left.keys() - {"names"} else 6 * patience_s
        if not left or time.monotonic() > start + patience:
            return left
        time.sleep(0.05)


def _children() -> list[int]:
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            line = " ".join(child.cmdline())
            idle = child.ppid() == os.getpid() and any(name in line for name in HELPERS)
        except psutil.ZombieProcess:
            idle = False
        except psutil.Error:
            continue
        if not idle:
            found.append(child.pid)
    return found


def _describe(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid} {process.status()} {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return str(pid)


def _open_files() -> Counter[str]:
    """Count open descriptors by path; pipes and sockets by kind."""
    files: Counter[str] = Counter()
    for fd in Path("/proc/self/fd").glob("*") if Path("/proc/self/fd").is_dir() else ():
        try:
            files[os.readlink(fd).partition(":[")[0]] += 1
        except OSError:
            continue  # the descriptor of this listing
    return files


def _used_by_others(names: frozenset[str]) -> set[str]:
    """Return the names that a process outside of this program has mapped, or has put its pid in.

    joblib creates ``sem.loky-<pid>-...`` when it is imported, here or in another worker of pytest.
    """
    if not names:
        return set()
    ours = {os.getpid(), *(p.pid for p in psutil.Process().children(recursive=True))}
    used: set[str] = set()
    for pid in set(psutil.pids()) - ours:
        used.update(name for name in names if name.startswith(f"sem.loky-{pid}-"))
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            continue
        used.update(name for name in names if f"{SHARED}/{name}" in maps)
    return used
