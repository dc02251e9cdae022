"""Soak trials of sweeps whose launcher, runs and supervisors are killed."""

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

from rlpyt.sweeps.directory import About, SweepDirectory
from rlpyt.sweeps.jobs import JobDirectory
from rlpyt.sweeps.rlpyt_scripts import script_jobs
from rlpyt.sweeps.view import read_sweep
from rlpyt.utils.launching.resources import Resources
from rlpyt.utils.launching.variant import make_variants
from tests.soak import trials
from tests.soak.trials import Strike

LATEST = 0.7  # of a run's length; a run killed later may have written its mark already
DOWN_S = 1.0  # between a launcher's death and the next one's start
SCRIPT = """
import os, sys, time
code, log_dir, run_ID, seconds = sys.argv[1:]
time.sleep(float(seconds))
run_dir = os.path.join(log_dir, f"run_{run_ID}")
os.makedirs(run_dir)  # refused where another attempt has been: a run begins in an empty place
with open(f"{run_dir}.mark", "a") as file:
    file.write("x")
"""


class SweepTrial(trials.Trial):
    """One sweep of scripts that sleep and write a mark when they end, and kills at random times.

    ``fault`` says who is killed: launchers, runs or supervisors. A killed launcher is started
    again. Every run must write one mark, and the queue's records (attempt_N.json) must agree; only
    killed runs are tried again. Attempts whose supervisor was killed do not count as use of a slot.
    """

    KINDS = {
        "sweep launcher": (1, ("launcher",)),
        "sweep run": (1, ("run",)),
        "sweep supervisor": (1, ("supervisor",)),
        "long sweep": (0, ("launcher launcher run run run run run",)),  # five to six minutes
    }
    hang_s = 900.0

    def __init__(self, kind: str, rng: random.Random) -> None:
        super().__init__(kind, rng)
        is_long = kind == "long sweep"
        self.runs, self.slots = 60 if is_long else 8, 2
        self.seconds = 10.0 if is_long else 3.0  # that each run takes
        self.least_use = 0.95 if is_long else 0.0  # share of their time in which slots have runs
        self.seed = rng.randrange(10**6)  # of times and victims

    def play(self, directory: Path, strike: Strike) -> None:
        script = directory / "sleeper.py"
        script.write_text(SCRIPT)
        kills, length_s = self.fault.split(), self.runs * self.seconds / self.slots
        launchers = (1 + kills.count("launcher")) * trials.START_S["spawn"]
        strike.extra_s = length_s + launchers + len(kills) * self.seconds + self.runs * 3.0
        settings = (script, self.runs, make_variants()[0], ["sleeper"], [self.seconds])
        jobs = script_jobs(*settings, retries=len(kills))
        resources = Resources(n_cpu_core=self.slots, set_affinity=False)
        sweep = SweepDirectory.create(directory, About(title="chaos", resources=resources), jobs)
        rng = random.Random(self.seed)
        times = sorted((rng.uniform(0.05, 0.9) * length_s, whom) for whom in kills)
        killed = strike.facts["killed"] = []
        strike.restart_clock()
        launcher = _start_launcher(directory)
        try:
            while launcher.poll() is None:
                after = time.monotonic() - strike.began
                if times and after > times[0][0]:
                    if times[0][1] == "launcher":
                        launcher.kill()
                        launcher.wait()
                        time.sleep(DOWN_S)
                        launcher = _start_launcher(directory)
                        name = str(launcher.pid)
                    else:
                        name = self._kill_one(sweep, times[0][1], rng)
                    if name:
                        killed.append(f"after {after:.0f} s: {times.pop(0)[1]} {name}")
                time.sleep(0.2)
            log = (directory / "launcher.log").read_text()
            assert launcher.returncode == 0, f"exit code {launcher.returncode}: {log}"
            assert not times, f"over before all were killed: {times} left"
        finally:
            launcher.terminate()  # asks the runs to end, too
            launcher.wait()

    def _kill_one(self, sweep: SweepDirectory, whom: str, rng: random.Random) -> str:
        """Kill a run, or its supervisor, and return the name of its job; empty if none is young."""
        young = [job for job in sweep.jobs() if 1.0 < _age(job) < LATEST * self.seconds]
        if young:
            job = rng.choice(young)  # its script has begun after one second
            with contextlib.suppress(psutil.NoSuchProcess, IndexError):
                supervisor = psutil.Process(job.attempts()[-1].pid)
                (supervisor if whom == "supervisor" else supervisor.children()[0]).kill()
                return job.job.name
        return ""

    def check(self, directory: Path, error: object, strike: Strike) -> dict[str, str]:
        view = read_sweep(directory)
        marks = [Path(f"{run.run_dir}.mark") for run in view.runs]
        marked = [len(mark.read_text()) if mark.exists() else 0 for mark in marks]
        codes = [[attempt.exit_code for attempt in run.attempts] for run in view.runs]
        spans = [(a.begun or 0.0, a.ended or 0.0) for run in view.runs for a in run.attempts]
        kills = Counter(self.fault.split())
        attempts, wanted = sum(map(len, codes)), self.runs + kills["run"] + kills["supervisor"]
        used = view.utilization() or 0.0
        strike.facts |= {
            "carried out exactly once": marked.count(1),
            "attempts": attempts,
            "slots in use": round(used, 4),
            "seconds": round(max(e for _, e in spans) - min(b for b, _ in spans), 1),
        }
        wrong = {
            f"{view.counts()}": view.counts() != {"done": self.runs},
            f"runs were carried out {marked} times": marked != [1] * self.runs,
            f"attempts disagree: {codes}": any(x.count(0) != 1 or x[-1] != 0 for x in codes),
            f"{attempts} attempts, {wanted} expected": attempts != wanted,
            f"slots in use {used:.1%}": used < self.least_use,
        }
        return {"jobs": "; ".join(text for text, is_wrong in wrong.items() if is_wrong)}


def _start_launcher(root: Path) -> "subprocess.Popen[bytes]":
    """Start the real command in a process group of its own."""
    with open(root / "launcher.log", "ab") as log:
        command = [sys.executable, "-m", "rlpyt", "sweep", str(root)]
        return subprocess.Popen(command, stdout=log, stderr=log, process_group=0)


def _age(job: JobDirectory) -> float:
    """Return the seconds since the running attempt of a job began; zero if there is none."""
    attempts = job.attempts()
    if not attempts or attempts[-1].begun is None or job.state(attempts) != "running":
        return 0.0
    return time.time() - attempts[-1].begun
