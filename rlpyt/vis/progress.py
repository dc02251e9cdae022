"""Discovery of runs below given paths."""

import os
import re
import warnings
from pathlib import Path

from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.utils.resumption import ASIDE

__all__ = ["PathLike", "find_runs", "read_progress"]

PathLike = str | os.PathLike[str]


def find_runs(*paths: PathLike) -> list[Path]:
    """Return the directories at or below these paths that contain a progress.csv, sorted.

    A run reached by several paths or links counts once. Failed attempts that a sweep has moved
    aside are left out. So is ``run_0.1`` if ``run_0`` is found, with a warning: it contains earlier
    results that were moved aside. A path without runs is skipped with a warning if others have
    runs.

    Raises:
        FileNotFoundError: one of the paths does not exist, or none contains a run.
    """
    runs: dict[Path, Path] = {}  # by resolved path
    without = []
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist; expected a run or a directory of runs."
            )
        found = _run_dirs(path)
        for run in found:
            runs.setdefault(run.resolve(), run)
        if not found:
            without.append(str(path))
    message = f"no runs found in {', '.join(without)}: no progress.csv in it or below it."
    if not runs:
        raise FileNotFoundError(message)
    if without:
        warnings.warn(message, stacklevel=2)
    numbered = {real: re.fullmatch(r"(.+)\.[1-9]\d*", real.name) for real in runs}
    superseded = [
        real for real, match in numbered.items() if match and real.with_name(match[1]) in runs
    ]
    if superseded:
        warnings.warn(
            f"left out {', '.join(sorted(str(runs[real]) for real in superseded))}: results "
            "replaced by a later run in the same directory. Rename a directory to include it.",
            stacklevel=2,
        )
    return sorted(run for real, run in runs.items() if real not in superseded)


def _run_dirs(path: Path) -> list[Path]:
    """Return the directories at or below a path that contain a progress.csv.

    Links are followed, except those to directories that contain the path, such as ``/``.
    """
    found, seen = [], set()
    root = Path(os.path.realpath(path))
    waiting = [str(path)]
    while waiting:
        for directory, inner, files in os.walk(waiting.pop(0)):
            real = os.path.realpath(directory)
            if real in seen:
                inner.clear()
                continue
            seen.add(real)
            inner[:] = sorted(name for name in inner if not name.startswith(ASIDE))
            links = (os.path.join(directory, name) for name in inner)
            later = filter(os.path.islink, links)  # so that runs have their own path
            waiting += (link for link in later if not root.is_relative_to(os.path.realpath(link)))
            if "progress.csv" in files:
                found.append(Path(directory))
    return [path.parent] if path.name == "progress.csv" else found
