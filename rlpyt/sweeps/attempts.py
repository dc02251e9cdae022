"""What the next attempt of a job is: its command, in its place, from the beginning or not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.jobs import Attempt, JobDirectory
from rlpyt.sweeps.places import Place, Slot
from rlpyt.utils.launching.machine import egl_device, names_of_gpus
from rlpyt.utils.launching.variant import save_variant
from rlpyt.utils.logging.lock import RunLock
from rlpyt.utils.resumption import ASIDE, ENV_RESUME


def next_attempt(
    sweep: SweepDirectory,
    job: JobDirectory,
    before: Sequence[Attempt],
    slot: Slot,
    place: Place,
) -> Attempt:
    """Describe the next attempt, and make the run's directory ready for it.

    It goes on from the run's checkpoints, if an earlier attempt has left any; otherwise what is
    there is moved aside.

    Args:
        sweep: that the job belongs to.
        job: nobody runs it.
        before: its attempts that have begun.
        slot: of the hardware.
        place: that will carry it out.

    Raises:
        OSError: the disk does not let it.
    """
    spec, env = job.job, dict(job.job.env)
    command = spec.command
    by_code = any("{affinity}" in part for part in command)
    if place.shares_out and not by_code:
        env.setdefault("CUDA_VISIBLE_DEVICES", ",".join(names_of_gpus(slot.gpus)))
    if sweep.about.egl_device and slot.gpus:
        env["EGL_DEVICE_ID"] = egl_device(slot.gpus)
    run_dir = sweep.path / spec.run_dir
    RunLock(run_dir).forget({one.host for one in before})
    if before and has_checkpoint(run_dir):
        command = spec.resume or spec.command
        env[ENV_RESUME] = str(run_dir)
    elif not spec.continues and run_dir.exists() and any(run_dir.iterdir()):
        _move_aside(run_dir, job.path / f"{ASIDE}{len(before)}")
    if spec.variant:
        save_variant(spec.variant, run_dir.parent)
    places = {"affinity": slot.code, "sweep": sweep.path, "job": job.path, "run_dir": run_dir}
    return Attempt(
        number=before[-1].number + 1 if before else 1,
        command=tuple(_filled(part, places) for part in command),
        env=env,
        cwd=spec.cwd,
        cpus=slot.cpus if place.shares_out else None,
        slot=slot.number,
        where=place.name,
    )


def has_checkpoint(run_dir: Path) -> bool:
    """Whether a run can be gone on with."""
    return any(run_dir.glob("checkpoint-*")) or any(run_dir.glob("*/checkpoint-*"))


def _filled(part: str, places: Mapping[str, Any]) -> str:
    """Put in the places, and leave other braces alone: arguments may be JSON."""
    for name, place in places.items():
        part = part.replace(f"{{{name}}}", str(place))
    return part


def _move_aside(run_dir: Path, aside: Path) -> None:
    """Keep what an attempt has left, where it is in nobody's way."""
    while aside.exists():
        aside = aside.with_name(f"{aside.name}+")
    try:
        os.rename(run_dir, aside)
    except OSError:  # another file system
        shutil.move(run_dir, aside)
