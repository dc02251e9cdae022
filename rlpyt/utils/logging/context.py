"""Context managers that open a run's directory and the logger's outputs in it."""

import itertools
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from rlpyt.errors import DamagedFile, RunComplete
from rlpyt.utils import torchrun
from rlpyt.utils.files import new_directory, read_regular, remove_leftovers, temporary_of
from rlpyt.utils.logging import lock, logger
from rlpyt.utils.logging.params import write_json
from rlpyt.utils.logging.tracking import TRACKERS, TrackerSink, check_installed, logger_names
from rlpyt.utils.processes import summary_of, traceback_text
from rlpyt.utils.resumption import ASIDE, asked_to_resume
from rlpyt.utils.signed import MAX_BYTES


def default_log_dir(repository: Path) -> str:
    """Return ``data`` in the repository, or in the working directory for an installed package."""
    installed = {"site-packages", "dist-packages"} & {*repository.parts}
    return os.path.abspath("data") if installed else str(repository / "data")


# Root directory of runs. Scripts may assign it; it is read at every call.
LOG_DIR = default_log_dir(Path(__file__).resolve().parents[3])

FAILED = "failed: "  # begins, after the time, what debug.log says of an error that ends a run
VARIANT_FILE = "variant_config.json"  # written by a launcher before the run starts
# Files that runs, the command line and TensorBoard write, as patterns of `fnmatch`.
OWN_FILES = (
    *("progress.csv", "debug.log", "params.json", "parts.json", "params.pkl", "best.pkl"),
    *("itr_[0-9]*.pkl", "logger_*.json"),
    *("events.out.tfevents.*", "evaluation.json", "learning_curve.png", "video.mp4", "video.gif"),
)

PathLike = str | os.PathLike[str]
RunDirectoryError = lock.RunDirectoryError


def get_log_dir(
    experiment_name: PathLike, root_log_dir: PathLike | None = None, date: bool = True
) -> str:
    """Return the directory of an experiment, ``<root>/local/<yyyymmdd>/<hhmmss>/<name>``.

    Args:
        experiment_name: one or more path parts.
        root_log_dir: root directory; ``LOG_DIR`` by default.
        date: if False, leave out date and time.
    """
    root = LOG_DIR if root_log_dir is None else root_log_dir
    now = [datetime.now().strftime("%Y%m%d"), datetime.now().strftime("%H%M%S")] if date else []
    return os.path.join(root, "local", *now, experiment_name)


@contextmanager
def logger_context(
    log_dir: PathLike,
    run_ID: int | str,
    name: str,
    log_params: dict[str, Any] | None = None,
    snapshot_mode: str = "none",
    override_prefix: bool = False,
    use_summary_writer: bool = False,
    resume: bool = False,
    loggers: str | Iterable[str] = (),
) -> Iterator[Path]:
    """Log a run to its own directory; call the runner's ``train()`` in the block.

        with logger_context("cartpole", run_ID=0, name="ppo", log_params={"lr": 3e-4}):
            runner.train()

    The directory is ``<log_dir>/run_<run_ID>``, below ``LOG_DIR/local/<yyyymmdd>/<hhmmss>`` unless
    ``log_dir`` is absolute, is in ``LOG_DIR``, or ``override_prefix`` is set. If one with the time
    in its path exists, a number is added. See ``run_context`` for its content and the errors.

    Args:
        log_dir: path of the experiment; runs with the same settings share it.
        run_ID: identifies the run in the experiment, for example the seed.
        override_prefix: use ``log_dir`` as given, relative to the working directory.
        name, log_params, snapshot_mode, use_summary_writer, resume, loggers: see ``run_context``.
    """
    path = lock.check_names(Path(log_dir, f"run_{run_ID}"))
    within_root = path.absolute().is_relative_to(Path(LOG_DIR).absolute())
    if override_prefix or path.is_absolute() or within_root:
        directory: AbstractContextManager[Path] = nullcontext(path)
    elif torchrun.is_first():
        directory = new_directory(get_log_dir(path))
    else:
        directory = nullcontext(Path(get_log_dir(path)))
    given = (run_ID, name, log_params, snapshot_mode, use_summary_writer, resume, loggers)
    with directory as run_dir, run_context(run_dir, *given) as absolute:
        yield absolute


@contextmanager
def run_context(
    run_dir: PathLike,
    run_ID: int | str,
    name: str,
    log_params: dict[str, Any] | None = None,
    snapshot_mode: str = "none",
    use_summary_writer: bool = False,
    resume: bool = False,
    loggers: str | Iterable[str] = (),
) -> Iterator[Path]:
    """Log a run to exactly this directory.

    Results of an earlier run are first moved aside, with a warning: those of ``run_0`` to
    ``run_0.1``, or the next free number. Other files and directories stay. The directory receives
    progress.csv, debug.log, params.json, the snapshots, and while in use run.lock. At the end of
    the block, even after an error, all of them are closed and the logger is restored; after an
    error debug.log ends with its traceback.

    A run inside another one, in a hook for example, has outputs of its own: the other one's receive
    none of its rows. Threads must log their runs one after the other.

    If the directory is deleted or moved during a training, it ends with `RunDirectoryError`.

    Among processes started by torchrun, only rank 0 does this. A run that torchrun restarts is
    resumed.

    Args:
        run_dir: the directory; it is created.
        run_ID, name: identifier of the run and name of the experiment, written to params.json.
        log_params: settings to write to params.json; objects without a JSON form as their ``repr``.
        snapshot_mode: "none", "last" (params.pkl, overwritten), "all" (itr_<n>.pkl), "gap" (every
            n-th, see ``logger.set_snapshot_gap``) or "last+gap".
        use_summary_writer: also write for TensorBoard, like the logger "tensorboard".
        resume: continue in a directory that contains a run: append to progress.csv (see
            ``logger.rewind``), and keep params.json unless ``log_params`` are given. Also enabled
            by a launcher that restarts a run.
        loggers: outputs besides progress.csv, as a list or with commas between them: "tensorboard",
            "wandb", "mlflow", "trackio" (extras of these names). Experiment trackers receive rows,
            settings and files from processes of their own; see docs/logging.md.

    Yields:
        The absolute path of the directory.

    Raises:
        RunDirectoryError: the directory is a file, is not writable, is in use by another
            process, or has too long a name; the message gives the reason and the remedy.
        ConcurrentRunError: another thread of this process logs a run.
        ValueError: ``snapshot_mode`` or a logger is unknown.
        ImportError: the package of a logger is not installed.
    """
    run_dir = lock.check_names(Path(run_dir).absolute())
    chosen = logger_names(loggers)
    chosen += ("tensorboard",) * use_summary_writer
    if not torchrun.is_first():
        yield run_dir
        return
    check_installed(chosen)
    resume = resume or asked_to_resume(run_dir) or started_by_this_job(run_dir)
    with lock.RUN.hold(), lock.RunLock(_made(run_dir)), logger.run_session():
        remove_leftovers(run_dir)
        progress = run_dir / "progress.csv"
        if not resume and progress.exists() and progress.stat().st_size > 0:
            move_aside(run_dir)
        logger.set_snapshot_mode(snapshot_mode)
        logger.set_snapshot_dir(run_dir)
        logger.add_text_output(run_dir / "debug.log")
        logger.add_tabular_output(progress, append=resume)
        if "tensorboard" in chosen:
            logger.set_tf_summary_dir(run_dir)

        params = run_dir / "params.json"
        if log_params is not None or not (resume and params.exists()):
            write_params(run_dir, run_ID, name, log_params or {})
        logger.set_settings_file(params)
        logger.log(f"logging to {run_dir}")
        trackers = [TrackerSink(run_dir, name) for name in chosen if name in TRACKERS]
        for tracker in trackers:
            logger.add_sink(tracker)
        failed = True
        try:
            yield run_dir
            failed = False
        except BaseException as error:
            _log_end(error)
            raise
        finally:
            for tracker in trackers:  # all at once, before the logger waits for each
                tracker.end(failed)


def move_aside(run_dir: Path) -> None:
    """Move the results of an earlier run to a directory with the next free number.

    Files and directories that rlpyt does not write stay, and so does the lock, which is held.
    """
    numbers = itertools.count(1)
    aside = next(p for n in numbers if not (p := Path(f"{run_dir}.{n}")).exists())
    aside.mkdir()
    for path in [*run_dir.iterdir()]:
        if path.name == VARIANT_FILE:  # written by a launcher for this run
            shutil.copy2(path, aside)
        elif is_result(path):
            shutil.move(path, aside)  # `rename` fails if the directory is a mount point
    warnings.warn(f"{run_dir} contained the results of another run; they were moved to {aside}.")


def is_result(path: Path) -> bool:
    """Return True if rlpyt has written this path in a run's directory."""
    if path.is_dir():
        one = path.name.startswith("checkpoint-") and (path / "manifest.json").exists()
        return one or (path.name == "checkpoint" and any(path.glob("checkpoint-*/manifest.json")))
    if path.name == "config.json":  # other programs also use this name
        with suppress(DamagedFile):
            return b'"rlpyt":' in read_regular(path, MAX_BYTES)
        return False
    return any(fnmatch(path.name, pattern) for pattern in OWN_FILES)


def write_params(
    run_dir: PathLike, run_ID: int | str, name: str, log_params: dict[str, Any]
) -> None:
    """Write params.json; arguments are those of ``run_context``."""
    here = torchrun.place()
    job = {"torchrun": here.run_id} if here is not None and here.run_id else {}
    params = {**log_params, "name": name, "run_ID": run_ID, **job}
    write_json(Path(run_dir, "params.json"), params)


def _log_end(error: BaseException) -> None:
    """Log to debug.log why a run ends early; the terminal is notified elsewhere."""
    stopped = isinstance(error, (SystemExit, KeyboardInterrupt, GeneratorExit, RunComplete))
    message = f"ended early: {error!r}"
    if not stopped:
        reason = summary_of(error).partition("\n")[0]
        message = f"{FAILED}{reason}\n{traceback_text(error)}"
    with logger.session():
        logger.set_console(False)
        logger.log(message, with_prefix=False)


def started_by_this_job(run_dir: PathLike) -> bool:
    """Return True if this torchrun job has already started this run and has been restarted."""
    here, params = torchrun.place(), Path(run_dir, "params.json")
    if here is None or not params.exists():
        return False
    try:
        started_by = json.loads(params.read_text(encoding="utf-8")).get("torchrun", "")
    except (ValueError, AttributeError, RecursionError) as error:
        raise DamagedFile(
            f"{params} does not contain the settings of a run ({error}). Delete or restore it."
        ) from error
    return here.restarts > 0 or (here.run_id != "" and here.run_id == started_by)


def add_exp_param(
    param_name: str, param_val: Any, exp_dir: PathLike | None = None, overwrite: bool = False
) -> None:
    """Add a parameter to the params.json of every existing run in the immediate subdirectories.

    If none of these is a run, as at the root of a sweep, all runs below are changed.

    Args:
        param_name, param_val: name and value of the parameter.
        exp_dir: directory of the experiment; the working directory by default.
        overwrite: replace existing values; otherwise files that have the parameter are left
            unchanged and printed.

    Raises:
        FileNotFoundError: the directory contains no run.
    """
    root = Path(exp_dir or ".")
    found = sorted(root.glob("*/params.json")) or _files_of_runs(root, "params.json")
    if not found:
        raise FileNotFoundError(f"no run in {root}: no params.json found in it or below it.")
    for params_file in found:
        params = json.loads(params_file.read_text(encoding="utf-8"))
        if param_name in params and not overwrite:
            print(f"{params_file} already has {param_name}={params[param_name]!r}; unchanged.")
        else:
            write_json(params_file, {**params, param_name: param_val})


def check_progress(exp_dir: PathLike | None = None) -> None:
    """Print the number of lines of every progress.csv below a directory.

    Args:
        exp_dir: directory of the experiment; the working directory by default.
    """
    for progress in _files_of_runs(Path(exp_dir or "."), "progress.csv"):
        n_lines = progress.read_bytes().count(b"\n")
        print(f"{n_lines:8d} {progress}")


def _files_of_runs(root: Path, name: str) -> list[Path]:
    """Return these files of all runs below a directory, without attempts that a sweep set aside."""
    found = sorted(root.rglob(name))
    return [path for path in found if not any(part.startswith(ASIDE) for part in path.parts)]


def _made(run_dir: Path) -> Path:
    """Create a run's directory; return it."""
    try:
        nearest = next(path for path in [run_dir, *run_dir.parents] if path.exists())
        if not nearest.is_dir():
            raise RunDirectoryError(
                f"cannot log to {run_dir}: {nearest} is a file. Remove it or use another log_dir."
            )
        run_dir.mkdir(parents=True, exist_ok=True)
        probe = temporary_of(run_dir / "writable")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RunDirectoryError(
            f"cannot log to {run_dir}: not writable ({error.strerror or error}). Choose another "
            "log_dir, or assign rlpyt.utils.logging.context.LOG_DIR."
        ) from error
    return run_dir
