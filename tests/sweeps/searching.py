"""Helpers: searches over programs that end at once."""

import json
import time
from dataclasses import replace

from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.jobs import Attempt
from rlpyt.sweeps.plan import plan_sweep
from rlpyt.sweeps.search import source_of
from rlpyt.sweeps.slots import Slot
from rlpyt.sweeps.start import _hardware, launcher_of
from rlpyt.utils.launching.resources import Resources
from rlpyt.utils.processes import available_cpus

SLOTS = "1cpu_1cpr_0hto_1skt"
SHARE = Slot(0, Resources(hyperthread_offset=0, run_slot=0))
# A run whose score is greatest at x = 3; its rows approach it from below.
SCRIPT = """
import json, os, sys
slot, log_dir, seed = sys.argv[1:4]
x = json.load(open(log_dir + "/variant_config.json"))["x"]
run = log_dir + "/run_" + seed
os.makedirs(run, exist_ok=True)
score = -(x - 3) ** 2 + float(seed)
with open(run + "/progress.csv", "w") as file:
    file.write("Diagnostics/CumSteps,ReturnAverage,Loss\\n")
    for i in range(1, 6):
        file.write(f"{100 * i},{score - 5 + i},{-score}\\n")
json.dump({"return_mean": score}, open(run + "/evaluation.json", "w"))
"""


def write_file(
    directory, search="{trials: 4}", sample="x: {uniform: [0, 5]}", script=SCRIPT, **more
):
    """A sweep file with its script; further keys as texts."""
    (directory / "program.py").write_text(script)
    lines = ["script: program.py", f"sample: {{{sample}}}", f"search: {search}"]
    lines += [f"{key}: {value}" for key, value in more.items()]
    path = directory / "search.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def sweep_at(directory, path):
    """A sweep of the file, that nobody has launched yet."""
    about = replace(plan_sweep(path, SLOTS).about(), file_name=path.name)
    return SweepDirectory.create(directory, about, (), {path.name: path.read_bytes()})


def launch(sweep, resources=None):
    """Run a launcher to its end; what it said."""
    said = []
    launcher_of(sweep, resources and _hardware(sweep.about, resources), said.append).run()
    return said


def cores(n):
    """Return the resources of a machine with so many slots."""
    return Resources(n_cpu_core=min(n, len(available_cpus())), hyperthread_offset=0)


def source(sweep):
    """Return the queries of a launcher that takes over and knows all ended runs."""
    found = source_of(sweep, SHARE)
    for job in sweep.jobs():
        if job.state() not in ("queued", "running"):
            found.ended(job, job.state())
    return found


def carry_out(sweep, job, score=None, rows=(), exit_code=0):
    """Leave behind what a run would."""
    run_dir = sweep.path / job.job.run_dir
    write_rows(sweep, job, rows)
    if score is not None:
        (run_dir / "evaluation.json").write_text(json.dumps({"return_mean": score}))
    now = time.time()
    number = len(job.attempts()) + 1
    job.prepare(Attempt(number, ("run",), begun=now - 1, ended=now, exit_code=exit_code))


def write_rows(sweep, job, rows):
    """Statistics of a run: (steps, return) of each row."""
    run_dir = sweep.path / job.job.run_dir
    run_dir.mkdir(parents=True, exist_ok=True)
    lines = [f"{at},{value}\n" for at, value in rows]
    text = "".join(["Diagnostics/CumSteps,ReturnAverage\n", *lines])
    (run_dir / "progress.csv").write_text(text)


def score_of(job):
    """Of the script, with these settings."""
    return -((job.job.settings["x"] - 3) ** 2) + job.job.settings["seed"]
