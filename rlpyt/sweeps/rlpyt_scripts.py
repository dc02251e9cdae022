"""Experiments of rlpyt's scripts: ``python SCRIPT SLOT_AFFINITY_CODE LOG_DIR RUN_ID *ARGS``."""

import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rlpyt.sweeps.directory import QUEUE, About, log_exps_tree
from rlpyt.sweeps.jobs import Job, script_command
from rlpyt.sweeps.slots import read_code, slots_of
from rlpyt.sweeps.start import launch
from rlpyt.utils.files import new_directory
from rlpyt.utils.launching.affinity import prepend_run_slot
from rlpyt.utils.launching.machine import egl_device
from rlpyt.utils.launching.run_limit import MAX_RUNS, check_count
from rlpyt.utils.launching.variant import save_variant
from rlpyt.utils.logging.context import get_log_dir
from rlpyt.utils.names import flattened

PathLike = str | os.PathLike[str]


def launch_experiment(
    script: PathLike,
    run_slot: int,
    affinity_code: str,
    log_dir: PathLike,
    variant: Mapping[str, Any],
    run_ID: int | str,
    args: Sequence[Any] = (),
    python_executable: str | None = None,
    set_egl_device: bool = False,
) -> subprocess.Popen[bytes]:
    """Start one run: ``python SCRIPT SLOT_AFFINITY_CODE LOG_DIR RUN_ID *ARGS``.

    The variant is saved in ``log_dir`` first, and the process is pinned to the cores of its slot.

    Args:
        script: Python file that calls its runner's ``train()``.
        run_slot: number of a slot of ``affinity_code``.
        log_dir: directory of the setting, shared by its runs.
        variant: changes of this setting to the configuration.
        run_ID: number of the run within its setting.
        args: additional arguments of the script.
        python_executable: interpreter; by default that of this process.
        set_egl_device: True to give the run the index of its GPU in ``EGL_DEVICE_ID``.

    Returns:
        The process.

    Raises:
        ValueError: the slot does not exist, or the code is invalid.
        FileNotFoundError: the script does not exist.
    """
    slots = slots_of(read_code(affinity_code))
    if not 0 <= run_slot < len(slots):
        raise ValueError(
            f"run_slot={run_slot}: {affinity_code!r} has the slots 0 to {len(slots) - 1}."
        )
    slot, env = slots[run_slot], dict(os.environ)
    if set_egl_device and slot.gpus:
        env["EGL_DEVICE_ID"] = egl_device(slot.gpus)
    save_variant(variant, log_dir)
    command = script_command(script, log_dir, run_ID, args, python_executable)
    code = prepend_run_slot(run_slot, affinity_code)
    process = subprocess.Popen([p.replace("{affinity}", code) for p in command], env=env)
    if slot.cpus is not None and hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(process.pid, slot.cpus)
        except OSError as error:
            print(f"rlpyt: warning: the run cannot be pinned to cores {slot.cpus}: {error}")
    return process


def run_experiments(
    script: PathLike,
    affinity_code: str,
    experiment_title: str,
    runs_per_setting: int,
    variants: Sequence[Mapping[str, Any]],
    log_dirs: Sequence[PathLike],
    common_args: Sequence[Any] | None = None,
    runs_args: Sequence[Sequence[Any]] | None = None,
    set_egl_device: bool = False,
    retries: int = 1,
    max_runs: int = MAX_RUNS,
) -> int:
    """Run a script once for each variant and run ID, in parallel in the slots of the hardware.

    Results are in ``LOG_DIR/local/<yyyymmdd>/<hhmmss>/<experiment_title>/<log_dir>/run_<ID>``. All
    runs with ID 0 come first, then those with ID 1. The directory ``queue`` beside them holds the
    remaining runs: ``rlpyt sweep DIRECTORY`` resumes after a crash, and ``rlpyt status DIRECTORY``
    shows the status.

    Args:
        script: Python file, called as by ``launch_experiment``.
        affinity_code: the hardware, and each run's share of it.
        experiment_title: name of the directory.
        runs_per_setting: number of runs of each variant, with ``run_ID`` from 0.
        variants: one for each setting, saved as ``variant_config.json`` in its directory.
        log_dirs: directories of the variants, all different.
        common_args: additional arguments of the script.
        runs_args: additional arguments of each variant, after the common ones.
        set_egl_device: True to give runs the index of their GPU in ``EGL_DEVICE_ID``.
        retries: number of retries of a failed run.
        max_runs: above this number the experiment is refused.

    Returns:
        0 if all runs are done, 1 if one has failed; ``queue`` has their output.

    Raises:
        ValueError: the numbers of variants, directories and arguments differ; directories repeat
            or are not below the experiment's; the code is invalid or for a larger machine; or
            there are more than ``max_runs`` runs.
        FileNotFoundError: the script does not exist.
        SystemExit: 130 after Ctrl-C, 143 after SIGTERM or ``rlpyt sweep stop``; runs have saved
            their checkpoints.
    """
    remedy = "pass max_runs to run_experiments if this is intended"
    check_count(len(variants) * runs_per_setting, max_runs, remedy)
    jobs = script_jobs(
        script, runs_per_setting, variants, log_dirs, common_args, runs_args, retries
    )
    resources = read_code(affinity_code)
    slots_of(resources)  # raises for missing hardware, before anything is written
    with new_directory(os.path.abspath(get_log_dir(experiment_title))) as exp_dir:
        log_exps_tree(exp_dir, log_dirs, runs_per_setting)
        about = About(experiment_title, resources, egl_device=set_egl_device)
        code = launch(exp_dir, jobs, about)
    if code > 1:
        raise SystemExit(code)
    return code


def script_jobs(
    script: PathLike,
    runs_per_setting: int,
    variants: Sequence[Mapping[str, Any]],
    log_dirs: Sequence[PathLike],
    common_args: Sequence[Any] | None = None,
    runs_args: Sequence[Sequence[Any]] | None = None,
    retries: int = 1,
) -> list[Job]:
    """Return one job for each run ID and variant.

    Raises:
        ValueError: lengths differ, directories repeat or are outside, or there are no runs.
        FileNotFoundError: the script does not exist.
        TypeError: arguments are a string instead of a sequence.
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
