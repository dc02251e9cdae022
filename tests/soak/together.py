"""Soak trials of agents that train as one: populations, and sweeps whose runs share a process."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from rlpyt.experiments.settings import default_options
from rlpyt.sweeps.directory import SweepDirectory
from rlpyt.sweeps.plan import plan_sweep
from rlpyt.sweeps.view import read_sweep
from rlpyt.utils.logging.progress_csv import read_progress
from tests.soak import trials
from tests.soak.sweeps import SweepTrial, _start_launcher
from tests.soak.trials import DEATHS, EXCEPTIONS, Strike

N = 4  # runs
ITR = 200
ENV = "tests.faulty:FaultyEnv"
RLPYT = (sys.executable, "-m", "rlpyt")
OPTIONS = {
    "sampler": dict(kind="serial", batch_T=16, batch_B=2),
    "agent": dict(hidden_sizes=[8]),
    "steps": ITR * 32,
    "log_interval_steps": 20 * 32,
    "checkpoint_interval_steps": 10 * 32,
    "eval_episodes": 0,
    "video": False,
}
ROWS = [20 * 32 * k for k in range(1, ITR // 20 + 1)]
# Those of an environment in this process that do not end the program.
RAISED = sorted({*EXCEPTIONS} - {"interrupt", "exit", "generator exit", "mute", "recursive"})


def incomplete(run_dirs: list[Path]) -> str:
    """Return the runs that do not have each row once."""
    steps = {d.name: read_progress(d).get("Diagnostics/CumSteps", np.zeros(0)) for d in run_dirs}
    return "; ".join(f"{name} has {x.tolist()}" for name, x in steps.items() if [*x] != ROWS)


class PopulationTrial(trials.Trial):
    """One population of four runs; it is killed or stopped and resumed, or one of them fails."""

    KINDS = {
        "population environment": (2, RAISED),
        "population signal": (2, ("SIGKILL", "SIGTERM", "SIGINT")),
        "population death": (1, sorted(DEATHS)),
    }
    ENDS_S = 60.0  # for the start of the program, and of the one that resumes

    def __init__(self, kind: str, rng: random.Random) -> None:
        super().__init__(kind, rng)
        self.at = rng.randint(40, 1000)
        # Each run constructs two examples before its two environments.
        self.victim = 4 * rng.randrange(N) + rng.randint(2, 3)

    def play(self, directory: Path, strike: Strike) -> None:
        path = directory / "population"
        env = dict(fault="none", length=20)
        if self.kind != "population signal":
            tally = str(directory / "tally")
            env |= dict(fault=self.fault, at=self.at, victim=self.victim, tally=tally)
        config = directory / "config.json"
        options = default_options("a2c", ENV).updated({**OPTIONS, "env_args": env})
        config.write_text(json.dumps(options.as_dict()))
        flags = [
            "--config",
            str(config),
            "--trust",
            "--seeds",
            f"0-{N - 1}",
            "--run-dir",
            str(path),
        ]
        strike.restart_clock()
        code, said = self._run(["train", *flags, "--run-dir", str(path)], path)
        if self.kind == "population environment":
            assert code == 2, f"exit code {code}: {said[-600:]}"
            assert f"1 of {N} runs failed" in said and EXCEPTIONS[self.fault] in said, said[-600:]
            strike.facts["failed"] = 1
            return
        wanted = {"SIGTERM": 143, "SIGINT": 130, "SIGKILL": -signal.SIGKILL}.get(self.fault)
        assert code == wanted or (wanted is None and code), f"exit code {code}: {said[-600:]}"
        if self.kind == "population signal":
            code, said = self._run(["resume", str(path)])
            assert code == 0, f"exit code {code} of resume: {said[-600:]}"

    def _run(self, args: list[str], path: Path | None = None) -> tuple[int, str]:
        """Run a command to its end; with ``path``, send the signal after its first checkpoints."""
        program = subprocess.Popen(
            [*RLPYT, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if path is not None and self.kind == "population signal":
            while program.poll() is None and len([*path.glob("*/checkpoint/checkpoint-*")]) < N:
                time.sleep(0.01)
            time.sleep(self.delay_s)
            program.send_signal(signal.Signals[self.fault])
        said, _ = program.communicate(timeout=100)
        return program.returncode, said

    def check(self, directory: Path, error: Any, strike: Strike) -> dict[str, str]:
        runs = sorted((directory / "population").glob("seed_*"))
        if self.kind == "population death":
            return {}
        if self.kind == "population environment":
            complete = [run for run in runs if not incomplete([run])]
            others = f"{len(complete)} of {N} are complete"
            return {"jobs": "" if len(complete) == N - 1 else others}
        return {"rows": incomplete(runs)}


class TogetherTrial(SweepTrial):
    """One sweep of eight runs, four of which share a process; one process is killed.

    It is the launcher, which is started again, a run's supervisor or client, or what they share.
    """

    KINDS = {"together": (2, ("launcher", "supervisor", "run", "trainer"))}

    def play(self, directory: Path, strike: Strike) -> None:
        options = {k: v for k, v in OPTIONS.items() if k != "video"}
        file = {
            "train": "a2c",
            "env": ENV,
            "options": {**options, "env_args": dict(fault="none", length=20)},
            "grid": {"algo.learning_rate": [1e-4, 1e-3]},
            "seeds": self.runs // 2,
            "slots": "1cpu_1cpr_0saf",
            "together": N,
        }
        path = directory / "file.json"
        path.write_text(json.dumps(file))
        plan = plan_sweep(path)
        sweep = SweepDirectory.create(directory, plan.about(), plan.jobs)
        strike.extra_s = 60.0
        strike.restart_clock()
        launcher = _start_launcher(directory)
        while len([*directory.glob("*/*/checkpoint/checkpoint-*")]) < 1:
            assert launcher.poll() is None, (directory / "launcher.log").read_text()
            time.sleep(0.01)
        time.sleep(self.delay_s)
        if self.fault == "launcher":
            launcher.kill()
            launcher.wait()
            launcher = _start_launcher(directory)
        else:
            for pid in self._find(sweep):
                os.kill(pid, signal.SIGKILL)
        launcher.wait(100)
        log = (directory / "launcher.log").read_text()
        assert launcher.returncode == 0, f"exit code {launcher.returncode}: {log}"

    def _find(self, sweep: SweepDirectory) -> list[int]:
        """Return the process to kill; none if its run has just ended."""
        if self.fault == "trainer":
            lines = {p.pid: p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])}
            place = str(sweep.queue / "together" / "0")
            return [
                x for x, line in lines.items() if "rlpyt.sweeps.together" in line and place in line
            ]
        running = [job for job in sweep.jobs() if job.state() == "running"]
        if not running:
            return []
        supervisor = psutil.Process(running[self.seed % len(running)].attempts()[-1].pid)
        return [
            x.pid for x in ([supervisor] if self.fault == "supervisor" else supervisor.children())
        ]

    def check(self, directory: Path, error: object, strike: Strike) -> dict[str, str]:
        view = read_sweep(directory)
        codes = [[attempt.exit_code for attempt in run.attempts] for run in view.runs]
        strike.facts["attempts"] = sum(map(len, codes))
        once = all(x.count(0) == 1 and x[-1] == 0 for x in codes)
        return {
            "jobs": "" if view.counts() == {"done": self.runs} and once else f"{codes}",
            "rows": incomplete([Path(run.run_dir) for run in view.runs]),
        }
