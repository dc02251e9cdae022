"""Helpers: sweeps of small programs in place of training runs."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from rlpyt.sweeps.directory import About, SweepDirectory
from rlpyt.sweeps.executors import LocalExecutor
from rlpyt.sweeps.jobs import Job
from rlpyt.sweeps.launcher import Launcher
from rlpyt.sweeps.slots import Slot
from rlpyt.utils.launching.resources import Resources
from rlpyt.utils.processes import available_cpus

RESOURCES = Resources(n_cpu_core=2)
ABOUT = About(title="test", resources=RESOURCES)
# Leaves a line behind for every time it was carried out to the end.
COUNTS = "open('{run_dir}.done', 'a').write('x')"


def python(code):
    return (sys.executable, "-S", "-c", code)


def job(number, code=COUNTS, **more):
    name = f"setting_{number}/run_0"
    given = {"name": name, "run_dir": name, "command": python(code), **more}
    return Job(number=number, **given)


def sweep_of(path, jobs, about=ABOUT):
    for one in jobs:
        (path / one.run_dir).parent.mkdir(parents=True, exist_ok=True)
    return SweepDirectory.create(path, about, jobs)


def launcher_of(sweep, n_slots=2, said=None, **more):
    cpus = tuple(available_cpus())
    slots = [Slot(i, replace(RESOURCES, run_slot=i), cpus) for i in range(n_slots)]
    return Launcher(
        sweep,
        slots,
        LocalExecutor(),
        say=(lambda line: None) if said is None else said.append,
        **more,
    )


def times_done(sweep):
    return [
        len(path.read_text())
        if (path := Path(f"{sweep.path / one.job.run_dir}.done")).exists()
        else 0
        for one in sweep.jobs()
    ]


LAUNCH = """
import sys
from rlpyt.sweeps.directory import SweepDirectory
from tests.sweeps.launching import launcher_of
sys.exit(launcher_of(SweepDirectory(sys.argv[1])).run())
"""


def start_launcher(sweep):
    return subprocess.Popen([sys.executable, "-c", LAUNCH, str(sweep.path)])


def until(condition, limit_s=60):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def states(sweep):
    return [one.state() for one in sweep.jobs()]
