"""Run directories: names, contents, and how to resume from them."""

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from shlex import quote

from rlpyt.errors import UntrustedFile, WorkerError, itr_of
from rlpyt.experiments.options import CONFIG, RunOptions
from rlpyt.runners import failure
from rlpyt.utils.files import check_regular, new_directory
from rlpyt.utils.logging.console import say
from rlpyt.utils.logging.lock import LONGEST_NAME, RunDirectoryError, check_names
from rlpyt.utils.names import shortened
from rlpyt.utils.recorded import label

ROOT = Path("data")  # below the current directory

SNAPSHOT = "params.pkl"
BEST = "best.pkl"  # of `rlpyt.runners.hooks.KeepBest`
CHECKPOINTS = "checkpoint"
CURVE = "learning_curve.png"
VIDEO = "video.mp4"
EVALUATION = "evaluation.json"
AGENT = "agent"  # checkpoint of the agent alone, in models of the hub

CONTENTS = {
    "progress.csv": "statistics, one row per log interval",
    "debug.log": "all messages; after a failure also the traceback",
    CONFIG: "options, from which the run can be rebuilt",
    "params.json": "settings as logged",
    SNAPSHOT: "trained agent, for torch.load and rlpyt.load",
    BEST: "agent with the highest return so far, for `rlpyt eval --best`",
    CHECKPOINTS: "checkpoints for `rlpyt resume`",
    failure.DIRECTORY: "what ended a run in NaN or infinity, for `rlpyt replay`",
    EVALUATION: "returns of the trained agent",
    CURVE: "learning curve",
    VIDEO: "video of the trained agent",
}


def has_checkpoint(run_dir: Path) -> bool:
    """Return True if the run has a checkpoint to resume from."""
    return any((run_dir / CHECKPOINTS).glob("checkpoint-*"))


def newest_checkpoint(run_dir: Path) -> str:
    """Return the name of the newest checkpoint of a run that has one."""
    names = [path.name for path in (run_dir / CHECKPOINTS).glob("checkpoint-*")]
    return max(names, key=lambda name: (len(name), name))


@contextmanager
def showing_how_to_resume(run_dir: Path, how: str | None = None) -> Iterator[None]:
    """Say how to resume if training in this context stops early with a checkpoint.

    Args:
        run_dir: run directory.
        how: command or call that resumes; ``None``: ``rlpyt resume``.
    """
    hint = f"Resume with: {how or f'{program()} resume {quote(str(run_dir))}'}"
    run_dir = run_dir.absolute()
    try:
        yield
    except SystemExit:
        if has_checkpoint(run_dir):
            say(hint)
        raise
    except Exception as error:
        failed = isinstance(error, WorkerError) or itr_of(error) >= 0
        if failed and has_checkpoint(run_dir):
            error.add_note(hint)
        raise


def program() -> str:
    """Return the command of this program: ``rlpyt``, or its path if it is not on PATH."""
    if shutil.which("rlpyt"):
        return "rlpyt"
    called = sys.argv[0]
    return f"{quote(sys.executable)} -m rlpyt" if called.endswith(".py") else quote(called)


def check_files(run_dir: Path, links: bool) -> None:
    """Check that a run directory consists of regular files, which can be read without blocking.

    Args:
        run_dir: the directory.
        links: allow symbolic links that lead out of the directory.

    Raises:
        DamagedFile: a file is a pipe, device, socket or directory.
        UntrustedFile: a file is a link that leads out of the directory.
    """
    inner = (run_dir.glob(f"{name}/checkpoint-*") for name in (CHECKPOINTS, failure.DIRECTORY))
    names = (".", AGENT, CHECKPOINTS, failure.DIRECTORY)
    for directory in (*(run_dir / name for name in names), *chain.from_iterable(inner)):
        for path in directory.iterdir() if directory.is_dir() else ():
            outside = path.is_symlink() and not path.resolve().is_relative_to(run_dir.resolve())
            if outside and not links:
                raise UntrustedFile(
                    f"{path} must not be a link out of the run directory of somebody else. If you "
                    "trust its author, add --trust (trust=True in Python)."
                )
            is_file = not path.is_dir() or (path.name in CONTENTS and path.suffix)
            if path.exists() and is_file:
                check_regular(path)


def has_rows(run_dir: Path) -> bool:
    """Return True if a run has written statistics here; without them nothing is worth keeping."""
    progress = run_dir / "progress.csv"
    return progress.exists() and progress.stat().st_size > 0


def given_directory(run_dir: str | Path | None) -> Path | None:
    """Return the run directory that was given, as a path.

    Raises:
        ValueError: it is an empty string, which as a path is the working directory.
        RunDirectoryError: a name in it is too long.
    """
    if run_dir == "":
        raise ValueError(
            "run_dir (--run-dir) must not be empty, got ''. Leave it out for a new directory below "
            f"{ROOT}/, or give . for the working directory."
        )
    return None if run_dir is None else check_names(Path(run_dir))


def run_directory(options: RunOptions, given: Path | None) -> AbstractContextManager[Path]:
    """Return a context with the directory given for a run, or with a new one.

    The new one is ``data/<algorithm>-<environment>-<timestamp>``, with a number if that exists.

    Raises:
        RunDirectoryError: the working directory was deleted, without which torch cannot be used.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        raise RunDirectoryError(
            "the working directory was deleted. Change to one that exists (cd)."
        ) from None
    if given is not None:
        return nullcontext(given)
    parts = (re.sub(r"[^\w.-]+", "-", label(x)) for x in (options.algo_name, options.env))
    name = "-".join(part.strip("-") for part in parts)
    if len(os.fsencode(name)) > LONGEST_NAME - len("-yyyymmdd-hhmmss-nnn"):
        name = shortened(name)
    return new_directory(ROOT / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")


def time_of(path: Path) -> float:
    """Return the time of a file's last change, 0 if there is none."""
    return path.stat().st_mtime if path.exists() else 0.0
