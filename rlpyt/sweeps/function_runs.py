"""Call a function for each configuration and seed, in parallel: lagom's ``run_experiment``."""

import hashlib
import itertools
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.errors import RlpytError
from rlpyt.experiments.config import Config
from rlpyt.sweeps.directory import About, SweepDirectory
from rlpyt.sweeps.function_job import CALLS, RESULT, Function, FunctionCall
from rlpyt.sweeps.jobs import Job
from rlpyt.sweeps.start import command_line, launcher_of, say_now
from rlpyt.utils.checks import scalar, whole_number
from rlpyt.utils.files import atomic_write
from rlpyt.utils.launching.machine import n_gpus, names_of_gpus
from rlpyt.utils.launching.resources import Resources
from rlpyt.utils.launching.run_limit import MAX_RUNS, check_count
from rlpyt.utils.seed import check_seed
from rlpyt.utils.serialize import dumps, loads


class ExperimentError(RlpytError, RuntimeError):
    """Failure of some calls of an experiment; the results of the others are kept.

    Attributes:
        exit_codes: of the failed calls, by directory ``<ID>/<seed>``; negative: the number of the
            signal that killed it; ``None``: not started, or unknown.
    """

    def __init__(self, message: str, exit_codes: Mapping[str, int | None]) -> None:
        super().__init__(message)
        self.exit_codes = dict(exit_codes)


def run_experiment(
    run: Function,
    config: Config,
    seeds: Sequence[int],
    log_dir: str | os.PathLike[str],
    max_workers: int | None,
    chunksize: int = 1,
    use_gpu: bool = False,
    gpu_ids: Sequence[int] | None = None,
    retries: int = 0,
    say: Callable[[str], None] = say_now,
    max_runs: int = MAX_RUNS,
) -> list[Any]:
    """Call ``run(config, seed, device, logdir)`` for every configuration and seed.

    Each call has a directory ``<log_dir>/<ID>/<seed>`` and, with workers, its own process. With
    workers, a second call on the same ``log_dir`` runs what is missing or has failed, with the
    present version of the function; ``rlpyt status`` shows the progress.

    Args:
        run: a function; a function of the script, a lambda and a closure work, too.
        config: yields the configurations, each with its number as "ID".
        seeds: of each configuration.
        log_dir: root of all directories.
        max_workers: number of calls in parallel, each in a process; ``None``: sequential calls in
            this process.
        chunksize: has no effect; calls are distributed one by one.
        use_gpu: pass GPUs as ``device``, all of them in turn; otherwise the CPU.
        gpu_ids: indices of the GPUs; by default all.
        retries: number of retries of a failed call, with workers; that of the first call on a
            ``log_dir`` stays in force.
        say: called with each line of progress.
        max_runs: above this number of calls the experiment is refused.

    Returns:
        Results of all calls, ordered by configuration, then seed.

    Raises:
        ExperimentError: a call failed; the others have been made.
        FileExistsError: ``log_dir`` holds another experiment.
        NotADirectoryError: ``log_dir`` is a file, or is inside one.
        ValueError, TypeError: there are no seeds, an argument has the wrong type, or there are
            more calls than ``max_runs``.
        SystemExit: with workers: 130 after Ctrl-C, 143 after SIGTERM or ``rlpyt sweep stop``.
    """
    seeds = _checked(run, config, seeds, log_dir)
    remedy = "pass max_runs to run_experiment if this is intended"
    check_count(config.n_configs * len(seeds), max_runs, remedy)
    pairs = list(itertools.product(config.make_configs(), seeds))
    devices = itertools.cycle(_devices(use_gpu, gpu_ids))
    calls = [FunctionCall(one, seed, device) for (one, seed), device in zip(pairs, devices)]
    root = Path(log_dir).absolute()
    if max_workers is None:
        return [call.make(run, root / call.name) for call in calls]
    max_workers = whole_number("max_workers", max_workers, 1)
    sweep = _sweep(root, run, calls, max_workers, retries)
    code = launcher_of(sweep, say=say).run()
    if code > 1:
        raise SystemExit(code)
    return _results(sweep)


def _checked(
    run: Function, config: Config, seeds: Sequence[int], log_dir: str | os.PathLike[str]
) -> list[int]:
    """Check the arguments before any file is written, and return the seeds."""
    if not callable(run):
        raise TypeError(f"run={run!r} must be a function: run(config, seed, device, logdir).")
    if not isinstance(config, Config):
        raise TypeError(f"config must be a Config, as in Config({{'lr': 0.1}}), got {config!r}.")
    found = [check_seed(seed) for seed in seeds]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"seeds must be one or more different integers, got {found}.")
    root = Path(log_dir).absolute()
    nearest = next(path for path in (root, *root.parents) if path.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(
            f"log_dir must be a directory, got {str(log_dir)!r}: {nearest} is a file."
        )
    return found


def _devices(use_gpu: bool, gpu_ids: Sequence[int] | None) -> list[str]:
    if not use_gpu:
        return ["cpu"]
    n = n_gpus()
    if not n:
        raise ValueError("use_gpu=True needs a GPU, and this machine has none.")
    ids = range(n) if gpu_ids is None else gpu_ids
    if not all(i in range(n) for i in ids):
        raise ValueError(f"gpu_ids must be below {n}, the number of GPUs, got {list(ids)}.")
    return [f"cuda:{i}" for i in ids]


def _sweep(
    root: Path, run: Function, calls: Sequence[FunctionCall], max_workers: int, retries: int
) -> SweepDirectory:
    """Return the experiment's directory, new or of the same experiment started before."""
    jobs = [
        Job(
            number=number,
            name=call.name,
            command=(sys.executable, "-m", "rlpyt.sweeps.function_job", f"{{sweep}}/queue/{CALLS}",
                     str(number), "{job}", "{run_dir}"),
            run_dir=call.name,
            cwd=os.getcwd(),
            settings={k: _plain(v) for k, v in call.config.items()} | {"seed": call.seed},
            env=_gpus_for(call.device),
            retries=retries,
        )
        for number, call in enumerate(calls)
    ]  # fmt: skip
    content = dumps((run, list(calls)))
    resources = Resources(n_cpu_core=max_workers, set_affinity=False)
    try:
        sweep = SweepDirectory(root)
    except FileNotFoundError:
        title = getattr(run, "__name__", "experiment")
        about = About(title=title, resources=resources, made_by=command_line())
        return SweepDirectory.create(root, about, jobs, {CALLS: content})
    before = [(one.job.name, one.job.settings) for one in sweep.jobs()]
    if before != [(job.name, job.settings) for job in jobs]:
        raise FileExistsError(
            f"{root} holds another experiment, with other configurations or seeds. Choose another "
            "log_dir, or remove this one. (Config draws new samples unless it is given a seed.)"
        )
    if not sweep.launcher():  # otherwise the launch below is refused
        with atomic_write(sweep.queue / CALLS) as file:
            file.write(content)
        sweep.divide(resources)
        sweep.forgive()
    return sweep


def _gpus_for(device: str) -> dict[str, str]:
    """Return the variables by which a call's process sees the same GPUs as this one."""
    if device == "cpu":
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(names_of_gpus(range(n_gpus())))}


def _plain(value: Any) -> Any:
    """Return a value as JSON returns it, equal in a second start of the script."""
    value = scalar(value)
    if isinstance(value, str | int | float | bool | None):
        is_nan = isinstance(value, float) and math.isnan(value)  # differs from itself
        is_long = isinstance(value, int) and value.bit_length() > 64  # the files hold 64 bits
        return str(value) if is_nan or is_long else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return [str(array.dtype), *array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
    return str(getattr(value, "__qualname__", f"a {type(value).__name__}"))


def _results(sweep: SweepDirectory) -> list[Any]:
    failed = [job for job in sweep.jobs() if job.state() != "done"]
    if failed:
        ends = {job.job.name: next(reversed(job.attempts()), None) for job in failed}
        outcomes = [
            f"{k} ({last.outcome() if last else 'not started'})" for k, last in ends.items()
        ]
        first, output = failed[0].job.name, "\n".join(failed[0].last_lines())
        raise ExperimentError(
            f"{len(failed)} of {len(sweep.jobs())} calls failed: {', '.join(outcomes)}. "
            f"Last output of {first}:\n{output}",
            {name: last.exit_code if last else None for name, last in ends.items()},
        )
    return [loads((job.path / RESULT).read_bytes()) for job in sweep.jobs()]
