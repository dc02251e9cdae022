"""Soak test: kill the launcher and runs of a sweep; every run must end exactly once.

    python -m tests.soak.chaos_sweep                                         # five to six minutes
    python -m tests.soak.chaos_sweep --runs 16 --seconds 4 --least-use 0     # one minute
    python -m tests.soak.chaos_sweep --supervisor-kills 3 --seed 7           # another one, harder

The runs are rlpyt-style scripts that sleep and write a mark when they end. Meanwhile the launcher
(`rlpyt sweep DIR`) is killed and started again, and runs and their supervisors are killed, at
random times. Expected: every run wrote one mark, and the queue's records (attempt_N.json) agree;
only killed runs were tried again; no process is left; the slots were in use at least 95 % of the
time from the first start to the last end, times without a launcher excluded. (Attempts whose
supervisor was killed are not recorded and do not count.) The exit code is 1 if one of these fails.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness import describe_machine
from rlpyt.sweeps.directory import About, SweepDirectory
from rlpyt.sweeps.jobs import JobDirectory
from rlpyt.sweeps.rlpyt_scripts import script_jobs
from rlpyt.sweeps.view import read_sweep
from rlpyt.utils.launching.resources import Resources
from rlpyt.utils.launching.variant import make_variants

OUTPUT = Path(__file__).parents[2] / "benchmarks" / "results" / "chaos_sweep.json"
LATEST = 0.7  # of a run's length; a run killed later may have written its mark already
DOWN_S = 1.0  # between a launcher's death and the next one's start
NAMES = ("launcher", "run", "supervisor")

SCRIPT = """
import os, sys, time
code, log_dir, run_ID, seconds = sys.argv[1:]
time.sleep(float(seconds))
run_dir = os.path.join(log_dir, f"run_{run_ID}")
os.makedirs(run_dir)  # refused where another attempt has been: a run begins in an empty place
with open(f"{run_dir}.mark", "a") as file:
    file.write("x")
"""


def make_sweep(root: Path, n_runs: int, seconds: float, n_slots: int, retries: int) -> None:
    """Create a sweep of sleeping scripts."""
    script = root / "sleeper.py"
    script.write_text(SCRIPT)
    variants, _ = make_variants()
    jobs = script_jobs(script, n_runs, variants, ["sleeper"], [seconds], retries=retries)
    resources = Resources(n_cpu_core=n_slots, set_affinity=False)
    SweepDirectory.create(root, About(title="chaos", resources=resources), jobs)


def start_launcher(root: Path) -> "subprocess.Popen[bytes]":
    """Start the real command in a process group of its own."""
    with open(root / "launcher.log", "ab") as log:
        command = [sys.executable, "-m", "rlpyt.cli.main", "sweep", str(root)]
        return subprocess.Popen(command, stdout=log, stderr=log, process_group=0)


class Chaos:
    """Kills processes of a sweep at given times.

    Args:
        root: directory of the sweep.
        rng: chooses the victims.
        times: sorted (seconds after the start, one of ``NAMES``).
        seconds: duration of a run.
    """

    def __init__(
        self, root: Path, rng: random.Random, times: Sequence[tuple[float, str]], seconds: float
    ) -> None:
        self.root, self.rng, self.times, self.seconds = root, rng, list(times), seconds
        self.sweep = SweepDirectory(root)
        self.killed: list[str] = []
        self.launcher = start_launcher(root)
        self.begun = time.monotonic()

    def advance(self) -> bool:
        """Kill what is due; return False when the launcher has ended."""
        if self.launcher.poll() is not None:
            return False
        if self.times and time.monotonic() - self.begun > self.times[0][0]:
            kill: dict[str, Callable[[], bool]] = {
                "launcher": self._kill_launcher,
                "run": self._kill_run,
                "supervisor": self._kill_supervisor,
            }
            if kill[self.times[0][1]]():
                self.times.pop(0)
        time.sleep(0.2)
        return True

    def _kill_launcher(self) -> bool:
        self.launcher.kill()
        self.launcher.wait()
        time.sleep(DOWN_S)
        self.launcher = start_launcher(self.root)
        self._note(f"launcher {self.launcher.pid}")
        return True

    def _kill_run(self) -> bool:
        return self._kill_one("run", lambda supervisor: supervisor.children()[0])

    def _kill_supervisor(self) -> bool:
        return self._kill_one("supervisor", lambda supervisor: supervisor)

    def _kill_one(self, what: str, whom: Callable[[psutil.Process], psutil.Process]) -> bool:
        young = [job for job in self.sweep.jobs() if self._age(job) < LATEST * self.seconds]
        if not young:
            return False
        job = self.rng.choice(young)
        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            whom(psutil.Process(job.attempts()[-1].pid)).kill()
            self._note(f"{what} of {job.job.name}")
            return True
        return False

    def _age(self, job: JobDirectory) -> float:
        attempts = job.attempts()
        if not attempts or attempts[-1].begun is None or job.state(attempts) != "running":
            return float("inf")
        age = time.time() - attempts[-1].begun
        return age if age > 1.0 else float("inf")  # the script itself has not begun

    def _note(self, who: str) -> None:
        self.killed.append(f"{time.monotonic() - self.begun:.0f} s: {who}")
        print(f"  killed after {self.killed[-1]}", flush=True)


def judge(root: Path, kills: dict[str, int], exit_code: int, least_use: float) -> dict[str, Any]:
    """Return the results with all complaints."""
    view = read_sweep(root)
    marks = [len(_text(Path(f"{run.run_dir}.mark"))) for run in view.runs]
    codes = [[attempt.exit_code for attempt in run.attempts] for run in view.runs]
    left = _processes_of(root)
    attempts, wanted = sum(map(len, codes)), len(codes) + kills["run"] + kills["supervisor"]
    used = view.utilization() or 0.0
    spans = [(a.begun or 0.0, a.ended or 0.0) for run in view.runs for a in run.attempts]
    complaints = []
    if exit_code or view.counts() != {"done": len(codes)}:
        complaints.append(f"exit code {exit_code}, {view.counts()}")
    if marks != [1] * len(marks):
        complaints.append(f"runs were carried out {marks} times")
    if any(one.count(0) != 1 or one[-1] != 0 for one in codes):
        complaints.append(f"attempts disagree: {codes}")
    if attempts != wanted:
        complaints.append(f"{attempts} attempts, {wanted} expected")
    if left:
        complaints.append(f"processes left: {left}")
    if used < least_use:
        complaints.append(f"slots in use {used:.1%}")
    return {
        "runs": len(codes),
        "carried out exactly once": marks.count(1),
        "attempts": attempts,
        "killed": kills,
        "processes left": len(left),
        "slots in use": round(used, 4),
        "seconds": round(max(e for _, e in spans) - min(b for b, _ in spans), 1),
        "complaints": complaints,
    }


def _processes_of(root: Path, patience_s: float = 10.0) -> list[str]:
    """Return processes of the sweep that do not end within ``patience_s``."""
    deadline = time.monotonic() + patience_s
    while True:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                command = " ".join(process.cmdline())
                if str(root) in command and process.pid != os.getpid():
                    found.append(f"{process.pid}: {command}")
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sweep, kill, and write the results; return 1 if there are complaints."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.chaos_sweep", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=60, help="of the sweep (60)")
    parser.add_argument("--seconds", type=float, default=10.0, help="that each takes (10)")
    parser.add_argument("--slots", type=int, default=2, help="runs at once (2)")
    for name, default in zip(NAMES, (2, 5, 0)):
        flag, text = f"--{name}-kills", f"how often a {name} is killed ({default})"
        parser.add_argument(flag, type=int, default=default, help=text)
    text = "share of their time in which slots have runs (0.95)"
    parser.add_argument("--least-use", type=float, default=0.95, help=text)
    parser.add_argument("--seed", type=int, default=0, help="says who is killed, and when (0)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the JSON goes")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs ignore it
    rng = random.Random(given.seed)
    kills = {name: getattr(given, f"{name}_kills") for name in NAMES}
    length = given.runs * given.seconds / given.slots
    times = sorted(
        (rng.uniform(0.05, 0.9) * length, name) for name, n in kills.items() for _ in range(n)
    )
    with tempfile.TemporaryDirectory(prefix="chaos_sweep_") as directory:
        root = Path(directory)
        make_sweep(root, given.runs, given.seconds, given.slots, sum(kills.values()))
        chaos = Chaos(root, rng, times, given.seconds)
        try:
            while chaos.advance():
                pass
            result = judge(root, kills, chaos.launcher.returncode, given.least_use)
            if chaos.times:
                result["complaints"].append(f"over before all were killed: {chaos.times} left")
        finally:
            chaos.launcher.terminate()  # asks the runs to end, too
            chaos.launcher.wait()
        log = _text(root / "launcher.log")
    result |= {"kills": chaos.killed, "machine": describe_machine()}
    shown = {k: v for k, v in result.items() if k not in ("machine", "kills", "complaints")}
    width = max(map(len, shown))
    print("\n".join(f"{name:{width}}  {value}" for name, value in shown.items()))
    print("\n".join(result["complaints"] + ["", log]) if result["complaints"] else "all is well")
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(result, indent=1) + "\n")
    return int(bool(result["complaints"]))


if __name__ == "__main__":
    sys.exit(main())
