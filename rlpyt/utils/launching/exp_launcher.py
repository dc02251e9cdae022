"""Launches the runs of an experiment: rlpyt's functions, over the queue of ``rlpyt.sweeps``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlpyt.sweeps.overview import log_exps_tree, log_num_launched
from rlpyt.utils.launching.affinity import prepend_run_slot
from rlpyt.utils.launching.amount import MAX_RUNS, check_count
from rlpyt.utils.launching.machine import egl_device
from rlpyt.utils.launching.variant import save_variant
from rlpyt.utils.logging.context import get_log_dir

__all__ = ["launch_experiment", "log_exps_tree", "log_num_launched", "run_experiments"]

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

    The variant is saved in ``log_dir`` first, and the process is kept on the cores of its slot.

    Args:
        script: calls its runner's ``train()``.
        run_slot: of those that ``affinity_code`` divides the machine into.
        log_dir: of the setting; runs of the same setting share it.
        variant: what this setting changes in the configuration.
        run_ID: tells the runs of a setting apart.
        args: further arguments of the script.
        python_executable: by default the one of this process.
        set_egl_device: tell the run the index of its GPU in ``EGL_DEVICE_ID``.

    Returns:
        The process; its exit code says how the run went.

    Raises:
        ValueError: there is no such slot, or the code cannot be read.
        FileNotFoundError: there is no such script.
    """
    from rlpyt.sweeps.slots import slots_of

    slots = slots_of(affinity_code)
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
            print(f"rlpyt: warning: the run cannot be kept on cores {slot.cpus}: {error}")
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
    """Run a script once for each variant and run ID, as many at once as the hardware has slots.

    Results lie in ``LOG_DIR/local/<yyyymmdd>/<hhmmss>/<experiment_title>/<log_dir>/run_<ID>``. All
    runs with ID 0 come first, then those with ID 1. Beside them ``queue`` holds what remains to be
    done: after a crash, ``rlpyt sweep DIRECTORY`` goes on; ``rlpyt status DIRECTORY`` shows where
    it stands, from another terminal, too.

    Args:
        script: called as ``launch_experiment`` says.
        affinity_code: the hardware, and how much of it a run gets.
        experiment_title: name of the directory.
        runs_per_setting: runs of each variant, with ``run_ID`` from 0.
        variants: one for each setting, saved as ``variant_config.json`` in its directory.
        log_dirs: their directories, all different.
        common_args: further arguments of the script.
        runs_args: and those of each variant, after the common ones.
        set_egl_device: tell runs the index of their GPU in ``EGL_DEVICE_ID``.
        retries: how often a failed run is tried again.
        max_runs: more are asked about on a terminal, and refused elsewhere.

    Returns:
        0 if all runs are done, 1 if one has failed; ``queue`` has their output.

    Raises:
        ValueError: numbers of variants, directories and arguments differ; directories coincide, or
            do not lie below the experiment's; the code cannot be read, or is for a larger machine;
            more than ``max_runs``.
        FileNotFoundError: there is no such script.
        SystemExit: 130 after Ctrl-C, 143 after SIGTERM or ``rlpyt sweep stop``; runs have saved
            their checkpoints.
    """
    from rlpyt.sweeps.go import launch
    from rlpyt.sweeps.old_style import script_jobs
    from rlpyt.sweeps.slots import slots_of

    remedy = "pass max_runs to run_experiments if you mean it"
    check_count(len(variants) * runs_per_setting, max_runs, experiment_title, remedy)
    exp_dir = Path(get_log_dir(experiment_title)).absolute()
    jobs = script_jobs(
        script, runs_per_setting, variants, log_dirs, common_args, runs_args, retries
    )
    slots_of(affinity_code)  # refuses what cannot be, before anything is written
    log_exps_tree(exp_dir, log_dirs, runs_per_setting)
    code = launch(exp_dir, jobs, experiment_title, affinity_code, egl_device=set_egl_device)
    if code > 1:
        raise SystemExit(code)
    return code


def script_command(
    script: PathLike,
    log_dir: PathLike,
    run_ID: int | str,
    args: Sequence[Any] = (),
    python_executable: str | None = None,
) -> tuple[str, ...]:
    """Return the call of a script, with ``{affinity}`` in place of its slot's code.

    Raises:
        FileNotFoundError: there is no such script.
    """
    if not Path(script).is_file():
        raise FileNotFoundError(f"there is no script {str(script)!r} (from {os.getcwd()}).")
    path, python = str(Path(script).absolute()), python_executable or sys.executable
    return (python, path, "{affinity}", str(log_dir), str(run_ID), *map(str, args))
