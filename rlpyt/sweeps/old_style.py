"""Jobs of rlpyt's scripts: ``python SCRIPT SLOT_AFFINITY_CODE LOG_DIR RUN_ID *ARGS``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rlpyt.sweeps.directory import QUEUE
from rlpyt.sweeps.jobs import Job
from rlpyt.utils.launching.exp_launcher import script_command
from rlpyt.utils.names import flattened

PathLike = str | os.PathLike[str]


def script_jobs(
    script: PathLike,
    runs_per_setting: int,
    variants: Sequence[Mapping[str, Any]],
    log_dirs: Sequence[PathLike],
    common_args: Sequence[Any] | None = None,
    runs_args: Sequence[Sequence[Any]] | None = None,
    retries: int = 1,
) -> list[Job]:
    """One job for each run ID and variant.

    Raises:
        ValueError: lengths differ, directories coincide or lie elsewhere, or nothing is to be run.
        FileNotFoundError: there is no such script.
        TypeError: arguments are one string.
    """
    names = [os.path.normpath(log_dir) for log_dir in log_dirs]
    runs_args = [()] * len(variants) if runs_args is None else runs_args
    for args in (common_args or (), *runs_args):
        if isinstance(args, str):
            raise TypeError(f"{args!r} must be a sequence of arguments: ({args!r},).")
    if not len(variants) == len(names) == len(runs_args):
        raise ValueError(
            f"{len(variants)} variants, {len(names)} log_dirs, {len(runs_args)} runs_args: give "
            "one of each for every setting."
        )
    if not variants or runs_per_setting < 1:
        raise ValueError(
            f"nothing to run: {len(variants)} variants, runs_per_setting={runs_per_setting}."
        )
    for name in names:
        parts = PurePath(name).parts
        if os.path.isabs(name) or ".." in parts or parts[:1] == (QUEUE,):
            raise ValueError(
                f"log_dir {name!r} must be a path below the experiment, and not {QUEUE!r}, where "
                "the launcher has its files."
            )
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise ValueError(f"log_dirs must differ, or runs would mix; given twice: {twice}.")
    jobs: list[Job] = []
    for run_ID in range(runs_per_setting):
        for variant, name, own_args in zip(variants, names, runs_args):
            args = [*(common_args or ()), *own_args]
            jobs.append(
                Job(
                    number=len(jobs),
                    name=f"{name}/run_{run_ID}",
                    command=script_command(script, f"{{sweep}}/{name}", run_ID, args),
                    run_dir=f"{name}/run_{run_ID}",
                    cwd=os.getcwd(),
                    settings={**flattened(variant), "run_ID": run_ID},
                    variant=variant,
                    retries=retries,
                )
            )
    return jobs
