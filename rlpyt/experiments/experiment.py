"""A function of the user's, called for each configuration and seed: lagom's ``run_experiment``."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlpyt.errors import RlpytError
from rlpyt.experiments.config import ID, Config
from rlpyt.sweeps.call import CALLS, RESULT, Call
from rlpyt.sweeps.directory import About, SweepDirectory
from rlpyt.sweeps.go import command_line, launcher_of, say_now
from rlpyt.sweeps.jobs import Job
from rlpyt.utils.checks import whole_number
from rlpyt.utils.files import atomic_write
from rlpyt.utils.launching.affinity import encode_affinity
from rlpyt.utils.launching.amount import MAX_RUNS, check_count
from rlpyt.utils.launching.machine import names_of_gpus
from rlpyt.utils.seed import check_seed
from rlpyt.utils.serialize import dumps, loads

Run = Callable[[dict[str, Any], int, Any, str], Any]


class ExperimentError(RlpytError, RuntimeError):
    """Some of an experiment's calls failed; the others' results are kept.

    Attributes:
        exit_codes: of the failed calls, by their directories ``<ID>/<seed>``; negative: the signal
            that killed it; ``None``: it was not carried out, or nobody knows.
    """

    def __init__(self, said: str, exit_codes: Mapping[str, int | None]) -> None:
        super().__init__(said)
        self.exit_codes = dict(exit_codes)


def run_experiment(
    run: Run,
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

    Each call has a directory ``<log_dir>/<ID>/<seed>`` and, with workers, a process of its own.
    With workers, calling this again on the same ``log_dir`` makes the calls that are missing, those
    that failed included, with the function as it is now; ``rlpyt status`` shows how far it is.

    Args:
        run: a function; may be defined in the script, or be a lambda or closure.
        config: gives the configurations, each with its number as "ID".
        seeds: of each configuration.
        log_dir: root of all directories.
        max_workers: calls at once, each in a process; ``None``: one after the other, in this one.
        chunksize: has no effect; calls are handed out one by one.
        use_gpu: give calls a GPU as ``device``, all of them in turn; otherwise the CPU.
        gpu_ids: which GPUs; by default all.
        retries: how often a failed call is tried again, with workers.
        say: takes one line about what has happened.
        max_runs: more calls are asked about on a terminal, and refused elsewhere.

    Returns:
        Results of all calls, those of the first configuration first.

    Raises:
        ExperimentError: a call failed; the others have been made.
        FileExistsError: ``log_dir`` holds another experiment.
        NotADirectoryError: ``log_dir`` is a file, or would lie in one.
        ValueError, TypeError: there are no seeds, an argument is of the wrong kind, or there are
            more calls than ``max_runs``.
        SystemExit: with workers: 130 after Ctrl-C, 143 after SIGTERM or ``rlpyt sweep stop``.
    """
    seeds = _checked(run, config, seeds, log_dir)
    remedy = "pass max_runs to run_experiment if you mean it"
    check_count(config.n_configs * len(seeds), max_runs, os.fspath(log_dir), remedy)
    pairs = list(itertools.product(config.make_configs(), seeds))
    devices = itertools.cycle(_devices(use_gpu, gpu_ids))
    calls = [Call(one, seed, device) for (one, seed), device in zip(pairs, devices)]
    root = Path(log_dir).absolute()
    if max_workers is None:
        return [_here(run, call, root) for call in calls]
    max_workers = whole_number("max_workers", max_workers, 1)
    sweep = _sweep(root, run, calls, max_workers, retries)
    code = launcher_of(sweep, say=say).run()
    if code > 1:
        raise SystemExit(code)
    return _results(sweep)


def _checked(
    run: Run, config: Config, seeds: Sequence[int], log_dir: str | os.PathLike[str]
) -> list[int]:
    """The seeds; what cannot be is refused before anything is made."""
    if not callable(run):
        raise TypeError(f"run={run!r} must be a function: run(config, seed, device, logdir).")
    if not isinstance(config, Config):
        raise TypeError(f"config must be a Config, as in Config({{'lr': 0.1}}), got {config!r}.")
    found = [check_seed(seed) for seed in seeds]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"seeds={found} must be different, and at least one.")
    root = Path(log_dir).absolute()
    nearest = next(path for path in (root, *root.parents) if path.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"log_dir={str(log_dir)!r}: {nearest} is a file; choose another.")
    return found


def _here(run: Run, call: Call, root: Path) -> Any:
    import torch

    logdir = root / _name(call)
    logdir.mkdir(parents=True, exist_ok=True)
    return run(call.config, call.seed, torch.device(call.device), str(logdir))


def _name(call: Call) -> str:
    return f"{call.config[ID]}/{call.seed}"


def _devices(use_gpu: bool, gpu_ids: Sequence[int] | None) -> list[str]:
    import torch

    n_gpus = torch.cuda.device_count() if use_gpu else 0
    if use_gpu and not n_gpus:
        raise ValueError("use_gpu=True, and there is no GPU here.")
    ids = range(n_gpus) if gpu_ids is None else gpu_ids
    missing = [i for i in ids if i not in range(n_gpus)] if use_gpu else []
    if missing:
        raise ValueError(f"gpu_ids={list(ids)}: there are {n_gpus} GPUs here.")
    return [f"cuda:{i}" for i in ids] if use_gpu else ["cpu"]


def _sweep(
    root: Path, run: Run, calls: Sequence[Call], max_workers: int, retries: int
) -> SweepDirectory:
    """The experiment on disk: a new one, or the same that was begun before."""
    jobs = [
        Job(
            number=number,
            name=_name(call),
            command=(sys.executable, "-m", "rlpyt.sweeps.call", f"{{sweep}}/queue/{CALLS}",
                     str(number), "{job}", "{run_dir}"),
            run_dir=_name(call),
            cwd=os.getcwd(),
            settings={k: _plain(v) for k, v in call.config.items()} | {"seed": call.seed},
            env=_gpus_for(call.device),
            retries=retries,
        )
        for number, call in enumerate(calls)
    ]  # fmt: skip
    content = dumps((run, list(calls)))
    try:
        sweep = SweepDirectory(root)
    except FileNotFoundError:
        slots = encode_affinity(n_cpu_core=max_workers, set_affinity=False)
        title = getattr(run, "__name__", "experiment")
        about = About(title=title, slots=str(slots), made_by=command_line())
        return SweepDirectory.create(root, about, jobs, {CALLS: content})
    before = [(one.job.name, one.job.settings) for one in sweep.jobs()]
    if before != [(job.name, job.settings) for job in jobs]:
        raise FileExistsError(
            f"{root} holds another experiment, with other configurations or seeds: choose another "
            "log_dir, or remove this one. (Samples are drawn anew, unless Config is given a seed.)"
        )
    if not sweep.launcher():  # otherwise that is left alone, and this one refused
        with atomic_write(sweep.queue / CALLS) as file:
            file.write(content)
        sweep.forgive()
    return sweep


def _gpus_for(device: str) -> dict[str, str]:
    """All GPUs that this process sees, so that their numbers mean the same in the call's."""
    import torch

    if device == "cpu":
        return {}
    names = names_of_gpus(range(torch.cuda.device_count()))
    return {"CUDA_VISIBLE_DEVICES": ",".join(names)}


def _plain(value: Any) -> Any:
    """A value as JSON gives it back, and a second start of the script has it again."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(getattr(value, "__qualname__", f"a {type(value).__name__}"))


def _results(sweep: SweepDirectory) -> list[Any]:
    failed = [job for job in sweep.jobs() if job.state() != "done"]
    if failed:
        ends = {job.job.name: attempts[-1] for job in failed if (attempts := job.attempts())}
        told = [f"{name} ({last.outcome()})" for name, last in ends.items()]
        first, said = failed[0].job.name, "\n".join(failed[0].last_lines())
        raise ExperimentError(
            f"{len(failed)} of {len(sweep.jobs())} calls did not end well: {', '.join(told)}. "
            f"{first} said last:\n{said}",
            {name: last.exit_code for name, last in ends.items()},
        )
    return [loads((job.path / RESULT).read_bytes()) for job in sweep.jobs()]
