"""The two files that say at a glance what a sweep consists of, and how far it has come."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rlpyt.utils.files import write_text
from rlpyt.utils.text import counted

PathLike = str | os.PathLike[str]

TREE = "experiments_tree.txt"
NUM_LAUNCHED = "num_launched.txt"


def log_exps_tree(exp_dir: PathLike, log_dirs: Sequence[PathLike], runs_per_setting: int) -> None:
    """Write ``experiments_tree.txt``: how many runs there will be, and where each setting lies."""
    lines = [
        f"launched by process {os.getpid()}",
        f"{counted(len(log_dirs), 'setting')} x {counted(runs_per_setting, 'run')} = "
        f"{len(log_dirs) * runs_per_setting}",
        "",
        *map(str, log_dirs),
    ]
    Path(exp_dir).mkdir(parents=True, exist_ok=True)
    write_text(Path(exp_dir, TREE), "\n".join(lines) + "\n")


def log_num_launched(exp_dir: PathLike, n: int, total: int) -> None:
    """Write ``num_launched.txt``: how many runs have begun so far; a full disk does not matter."""
    try:
        write_text(Path(exp_dir, NUM_LAUNCHED), f"{n} of {total} launched\n")
    except OSError:
        return
