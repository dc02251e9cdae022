"""Request by a launcher that a process resume an earlier run."""

import os
from pathlib import Path

ASIDE = "run_dir_of_attempt_"  # and a number: directory to which a sweep moves a failed attempt
ENV_RESUME = "RLPYT_RESUME"  # directory of the run to resume from its checkpoints


def asked_to_resume(path: str | os.PathLike[str] | None) -> bool:
    """Return True if the run in this directory should be resumed rather than started.

    This applies only to the run's directory and its content, not to runs that the run itself
    starts elsewhere.
    """
    run_dir = os.environ.get(ENV_RESUME)
    if not run_dir or path is None:
        return False
    return Path(path).resolve().is_relative_to(Path(run_dir).resolve())
