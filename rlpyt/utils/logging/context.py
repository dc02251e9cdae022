"""The directory of a run and the logger's outputs in it, open for the length of a block."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from rlpyt.utils import torchrun
from rlpyt.utils.logging import lock, logger
from rlpyt.utils.logging.params import write_json
from rlpyt.utils.processes import traceback_text
from rlpyt.utils.resumption import ASIDE, asked_to_resume


def default_log_dir(home: Path) -> str:
    """``data`` beside the package; in the working directory, if it lies among installed ones."""
    installed = {"site-packages", "dist-packages"} & {*home.parts}
    return os.path.abspath("data") if installed else str(home / "data")


# Where runs land. Scripts may assign it; it is read at every call.
LOG_DIR = default_log_dir(Path(__file__).resolve().parents[3])

VARIANT_FILE = "variant_config.json"  # a launcher writes it before the run begins
# Files that runs, the command line and TensorBoard write, as patterns of `fnmatch`.
OWN_FILES = (
    *("progress.csv", "debug.log", "params.json", "params.pkl", "itr_[0-9]*.pkl"),
    *("events.out.tfevents.*", "evaluation.json", "learning_curve.png", "video.mp4", "video.gif"),
)

PathLike = str | os.PathLike[str]
RunDirectoryError = lock.RunDirectoryError


def get_log_dir(
    experiment_name: PathLike, root_log_dir: PathLike | None = None, date: bool = True
) -> str:
    """Name the directory of an experiment, ``<root>/local/<yyyymmdd>/<hhmmss>/<name>``.

    Args:
        experiment_name: one or more path parts.
        root_log_dir: instead of ``LOG_DIR``.
        date: False leaves date and time out.
    """
    root = LOG_DIR if root_log_dir is None else root_log_dir
    now = [datetime.now().strftime("%Y%m%d"), datetime.now().strftime("%H%M%S")] if date else []
    return os.path.join(root, "local", *now, experiment_name)


def logger_context(
    log_dir: PathLike,
    run_ID: int | str,
    name: str,
    log_params: dict[str, Any] | None = None,
    snapshot_mode: str = "none",
    override_prefix: bool = False,
    use_summary_writer: bool = False,
    resume: bool = False,
) -> AbstractContextManager[Path]:
    """Log one run into its own directory; put the runner's ``train()`` inside.

        with logger_context("cartpole", run_ID=0, name="ppo", log_params={"lr": 3e-4}):
            runner.train()

    The directory is ``<log_dir>/run_<run_ID>``, below ``LOG_DIR/local/<yyyymmdd>/<hhmmss>`` unless
    ``log_dir`` is absolute, lies within ``LOG_DIR``, or ``override_prefix`` is set. What happens
    in it, the other arguments and the errors are those of ``run_context``.

    Args:
        log_dir: path of the experiment; runs of the same settings share it.
        run_ID: tells them apart, for example the seed.
        name: of the experiment, written to params.json with ``run_ID``.
        log_params: further settings for params.json.
        snapshot_mode: "none", "last", "all", "gap" or "last+gap".
        override_prefix: use ``log_dir`` as given, relative to the working directory.
        use_summary_writer: write for TensorBoard as well.
        resume: go on in a directory that holds a run.
    """
    return run_context(
        _run_dir(log_dir, run_ID, override_prefix),
        run_ID,
        name,
        log_params,
        snapshot_mode,
        use_summary_writer,
        resume,
    )


@contextmanager
def run_context(
    run_dir: PathLike,
    run_ID: int | str,
    name: str,
    log_params: dict[str, Any] | None = None,
    snapshot_mode: str = "none",
    use_summary_writer: bool = False,
    resume: bool = False,
) -> Iterator[Path]:
    """Log one run into exactly this directory.

    Results of an earlier run in it are moved aside first, with a warning: those of ``run_0`` to
    ``run_0.1``, or the next free number. Other files and directories stay. It receives
    progress.csv, debug.log, params.json, the snapshots, and while in use run.lock. At the end of
    the block, also after an error, all of them are closed and the logger is as before; debug.log
    then ends with the error's traceback.

    Of several processes that torchrun has started, rank 0 does all this and others nothing; what
    torchrun starts anew resumes.

    Args:
        run_dir: the directory; it is created.
        run_ID, name: written to params.json.
        log_params: settings to write to params.json; objects without a JSON form as their ``repr``.
        snapshot_mode: "none", "last" (params.pkl, overwritten), "all" (itr_<n>.pkl), "gap" (every
            n-th, see ``logger.set_snapshot_gap``) or "last+gap".
        use_summary_writer: write for TensorBoard as well (extra ``tensorboard``).
        resume: go on in a directory that holds a run: progress.csv is appended to (see
            ``logger.rewind``), and params.json kept unless ``log_params`` are given. A launcher
            that starts a run once more asks for it, too.

    Yields:
        The directory, absolute.

    Raises:
        RunDirectoryError: the directory is a file, is not writable, or is in use by another
            process. The message says which, and what to do.
        ValueError: unknown ``snapshot_mode``.
        ImportError: ``use_summary_writer`` without TensorBoard.
    """
    run_dir = Path(run_dir).absolute()
    if not torchrun.is_first():
        yield run_dir
        return
    resume = resume or asked_to_resume(run_dir) or begun_by_this_job(run_dir)
    _make_dir(run_dir)
    with lock.RunLock(run_dir), logger.session():
        progress = run_dir / "progress.csv"
        if not resume and progress.exists() and progress.stat().st_size > 0:
            _move_aside(run_dir)
        logger.set_snapshot_mode(snapshot_mode)
        logger.set_snapshot_dir(run_dir)
        logger.add_text_output(run_dir / "debug.log")
        logger.add_tabular_output(progress, append=resume)
        if use_summary_writer:
            logger.set_tf_summary_dir(run_dir)

        params = run_dir / "params.json"
        if log_params is not None or not (resume and params.exists()):
            write_params(run_dir, run_ID, name, log_params or {})
        logger.log(f"logging to {run_dir}")
        try:
            yield run_dir
        except BaseException as error:
            _log_end(error)
            raise


def _move_aside(run_dir: Path) -> None:
    """Move the results of an earlier run into a directory of the next free number.

    Files and directories that rlpyt does not write stay, and so does the lock, which is held.
    """
    numbers = itertools.count(1)
    aside = next(p for n in numbers if not (p := Path(f"{run_dir}.{n}")).exists())
    aside.mkdir()
    for path in [*run_dir.iterdir()]:
        if path.name == VARIANT_FILE:  # a launcher has written it for this run
            shutil.copy2(path, aside)
        elif _is_result(path):
            shutil.move(path, aside)  # a mounted directory is on another file system
    warnings.warn(f"{run_dir} held the results of another run: they were moved to {aside}.")


def _is_result(path: Path) -> bool:
    """Return True for what rlpyt has written into the directory of a run."""
    if path.is_dir():
        one = path.name.startswith("checkpoint-") and (path / "manifest.json").exists()
        return one or (path.name == "checkpoint" and any(path.glob("checkpoint-*/manifest.json")))
    if path.name == "config.json":  # other programs have one, too
        return b'"rlpyt":' in path.read_bytes()
    return any(fnmatch(path.name, pattern) for pattern in OWN_FILES)


def write_params(
    run_dir: PathLike, run_ID: int | str, name: str, log_params: dict[str, Any]
) -> None:
    """Write params.json; arguments are those of ``run_context``."""
    here = torchrun.place()
    job = {"torchrun": here.run_id} if here is not None and here.run_id else {}
    whole = {**log_params, "name": name, "run_ID": run_ID, **job}
    write_json(Path(run_dir, "params.json"), whole)


def _log_end(error: BaseException) -> None:
    """Write into debug.log why a run ends early; the terminal hears of it from others."""
    stopped = isinstance(error, (SystemExit, KeyboardInterrupt, GeneratorExit))
    said = f"ended early: {error!r}" if stopped else f"failed:\n{traceback_text(error)}"
    with logger.session():
        logger.set_console(False)
        logger.log(said, with_prefix=False)


def begun_by_this_job(run_dir: PathLike) -> bool:
    """Return True if torchrun has started these processes before, and they have begun this run."""
    here, params = torchrun.place(), Path(run_dir, "params.json")
    if here is None or not params.exists():
        return False
    begun_by = json.loads(params.read_text(encoding="utf-8")).get("torchrun", "")
    return here.restarts > 0 or (here.run_id != "" and here.run_id == begun_by)


def add_exp_param(
    param_name: str, param_val: Any, exp_dir: PathLike | None = None, overwrite: bool = False
) -> None:
    """Put a parameter into the params.json of every immediate subdirectory, after the fact.

    Where none of those is a run, as at the root of a sweep, it is every run below.

    Args:
        param_name, param_val: the entry.
        exp_dir: directory of the experiment; the working directory by default.
        overwrite: replace the value where the parameter is already present; otherwise such files
            are left as they are, and named on standard output.

    Raises:
        FileNotFoundError: there is no run.
    """
    root = Path(exp_dir or ".")
    found = sorted(root.glob("*/params.json")) or _files_of_runs(root, "params.json")
    if not found:
        raise FileNotFoundError(f"no run in {root}: there is no params.json in it or below it.")
    for params_file in found:
        params = json.loads(params_file.read_text(encoding="utf-8"))
        if param_name in params and not overwrite:
            print(f"{params_file} has {param_name}={params[param_name]!r} already; left as it is.")
        else:
            write_json(params_file, {**params, param_name: param_val})


def check_progress(exp_dir: PathLike | None = None) -> None:
    """Print the number of lines of every progress.csv below a directory.

    Args:
        exp_dir: the working directory by default.
    """
    for progress in _files_of_runs(Path(exp_dir or "."), "progress.csv"):
        n_lines = progress.read_bytes().count(b"\n")
        print(f"{n_lines:8d} {progress}")


def _files_of_runs(root: Path, name: str) -> list[Path]:
    """Those of all runs below a directory; not of attempts that a sweep has put aside."""
    found = sorted(root.rglob(name))
    return [path for path in found if not any(part.startswith(ASIDE) for part in path.parts)]


def _run_dir(log_dir: PathLike, run_ID: int | str, override_prefix: bool) -> Path:
    path = Path(log_dir, f"run_{run_ID}")
    within_root = path.absolute().is_relative_to(Path(LOG_DIR).absolute())
    if override_prefix or path.is_absolute() or within_root:
        return path.absolute()
    return Path(get_log_dir(path)).absolute()


def _make_dir(run_dir: Path) -> None:
    try:
        nearest = next(path for path in [run_dir, *run_dir.parents] if path.exists())
        if not nearest.is_dir():
            raise RunDirectoryError(
                f"cannot log to {run_dir}: {nearest} is a file; remove it or use another log_dir."
            )
        run_dir.mkdir(parents=True, exist_ok=True)
        probe = run_dir / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RunDirectoryError(
            f"cannot log to {run_dir}: not writable ({error.strerror or error}); choose another "
            "log_dir, or assign rlpyt.utils.logging.context.LOG_DIR."
        ) from error
