"""Message of a launcher to a process whose run was begun before."""

import os
from pathlib import Path

ASIDE = "run_dir_of_attempt_"  # and a number: where a sweep puts what a failed attempt has left
ENV_RESUME = "RLPYT_RESUME"  # the directory of the run that shall go on from its checkpoints


def asked_to_resume(path: str | os.PathLike[str] | None) -> bool:
    """Return True if the run of this directory shall go on, rather than begin.

    True only of that run's directory and what lies in it, so runs that a run itself starts
    elsewhere are not meant.
    """
    run_dir = os.environ.get(ENV_RESUME)
    if not run_dir or path is None:
        return False
    return Path(path).resolve().is_relative_to(Path(run_dir).resolve())
