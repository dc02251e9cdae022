"""Seconds from the start of a process to its first batch, and memory of its workers.

    python -m benchmarks.startup                                   # all of the table
    python -m benchmarks.startup --env cartpole --workers 0 2      # serial, and two workers
    python -m benchmarks.startup --only script fork --rounds 5

Each program runs in a new interpreter, in turn with the others, until it has its first batch: eight
steps of 32 environments (Stable-Baselines3: one environment per worker). The reference is
``import torch, gymnasium``. CPU seconds are those of the process and its descendants, which other
programs disturb less. Megabytes are the proportional set size of a worker, the mean of all: private
pages, and its share of the pages that it shares with others.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness import OtherLoad, describe_machine, publish

TIMEOUT_S = 600.0  # for 32 workers on a busy machine
READY = """
def ready(workers=()):
    print("ready", *(worker.pid for worker in workers), flush=True)
    input()
    raise SystemExit
"""
REFERENCE = f"{READY}\nimport torch, gymnasium\nready()\n"
SCRIPT = f"""{READY}
import dataclasses
from rlpyt import {{agent}}, CpuSampler, MinibatchRl, PPO, SerialSampler
from rlpyt.samplers.layout import Hardware
{{env}}

class First({{sampler}}):
    def obtain_samples(self, itr):
        super().obtain_samples(itr)
        ready(self.workers)

n = max(1, {{workers}})
hardware = dataclasses.replace(  # more than the limit per core, too
    Hardware.of(dict(n_workers=1)), n_workers=n, workers_cpus=[None] * n
)
sampler = First(EnvCls=EnvCls, env_kwargs=kwargs, batch_T=8, batch_B=32)
MinibatchRl(
    algo=PPO(), agent={{agent}}(), sampler=sampler, n_steps=10**6, seed=0, affinity=hardware
).train()
"""
COMMAND_LINE = f"""{READY}
import importlib, sys, types
from rlpyt.cli import main as cli

def import_module(name):
    module = importlib.import_module(name)
    from rlpyt.samplers.sampler import Sampler
    obtain_samples = Sampler.obtain_samples

    def first(self, itr):
        obtain_samples(self, itr)
        ready(self.workers)

    Sampler.obtain_samples = first
    return module

cli.importlib = types.SimpleNamespace(import_module=import_module)
kind = "cpu" if {{workers}} else "serial"
sampler = f"--sampler.kind {{{{kind}}}} --sampler.batch-T 8 --sampler.batch-B 32"
workers = "--sampler.n-workers {{workers}}" if {{workers}} else ""
cli.main(f"train ppo {{id}} {{{{sampler}}}} {{{{workers}}}} --no-video".split())
"""
SB3 = f"""{READY}
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

class First(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_end(self):
        ready(getattr(envs, "processes", ()))

kind, n = (SubprocVecEnv, {{workers}}) if {{workers}} else (DummyVecEnv, 32)
envs = {{sb3}}, n, vec_env_cls=kind)
policy = "CnnPolicy" if "atari" in "{{sb3}}" else "MlpPolicy"
PPO(policy, envs, n_steps=8, batch_size=2, device="cpu").learn(10**6, callback=First("first"))
"""
GYM = "from rlpyt.envs.gym import make as EnvCls\nkwargs = dict(id={id!r})"
ATARI = "from rlpyt.envs.atari.atari_env import AtariEnv as EnvCls\nkwargs = dict(game='pong')"
ENVS: dict[str, dict[str, str]] = {
    "cartpole": {
        "id": "CartPole-v1",
        "env": GYM.format(id="CartPole-v1"),
        "agent": "CategoricalMlpAgent",
        "sb3": "make_vec_env('CartPole-v1'",
    },
    "halfcheetah": {
        "id": "HalfCheetah-v5",
        "env": GYM.format(id="HalfCheetah-v5"),
        "agent": "GaussianMlpAgent",
        "sb3": "make_vec_env('HalfCheetah-v5'",
    },
    "pong": {
        "id": "pong",
        "env": ATARI,
        "agent": "AtariFfAgent",
        "sb3": "make_atari_env('ale_py:PongNoFrameskip-v4'",
    },
}
# Program and start method of each contender.
CONTENDERS = {
    "script": (SCRIPT, ""),
    "command line": (COMMAND_LINE, ""),
    "script, fork": (SCRIPT, "fork"),
    "script, spawn": (SCRIPT, "spawn"),
    "Stable-Baselines3": (SB3, ""),
}
DEFAULT = [name for name in CONTENDERS if name != "script, spawn"]


@dataclasses.dataclass
class Row:
    """Measurements of one program."""

    env: str
    contender: str
    workers: int
    seconds: list[float] = dataclasses.field(default_factory=list)
    cpu_seconds: list[float] = dataclasses.field(default_factory=list)
    megabytes: list[float] = dataclasses.field(default_factory=list)  # of a worker
    disturbance: float = 0.0  # fraction of all cores used by other processes
    problem: str = ""  # reason if nothing was measured

    def program(self) -> str:
        """Return the text of the program."""
        if not self.env:
            return REFERENCE
        sampler = "CpuSampler" if self.workers else "SerialSampler"
        text = CONTENDERS[self.contender][0]
        return text.format(workers=self.workers, sampler=sampler, **ENVS[self.env])

    def measure(self) -> None:
        """Run the program once, unless it has failed before."""
        if self.problem:
            return
        method = CONTENDERS[self.contender][1] if self.env else ""
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environ["PYTHONPATH"] = str(Path(__file__).parents[1])
        if method:
            environ["RLPYT_START_METHOD"] = method
        start = time.perf_counter()
        with (
            tempfile.TemporaryDirectory() as directory,
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", self.program()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environ,
                cwd=directory,
            ) as process,
            _killed_after(process, TIMEOUT_S),
        ):
            assert process.stdout and process.stderr
            line = next((x for x in process.stdout if x.startswith("ready")), "")
            seconds = time.perf_counter() - start
            if line:
                self.seconds.append(seconds)
                self.cpu_seconds.append(_cpu_seconds(process.pid))
                sizes = [proportional_megabytes(int(pid)) for pid in line.split()[1:]]
                if sizes:
                    self.megabytes.append(statistics.mean(sizes))
            with contextlib.suppress(BrokenPipeError):
                process.communicate("\n") if line else process.wait()
            if not line:
                said = process.stderr.read().strip().splitlines() or ["no first batch"]
                self.problem = said[-1]
        name = f"{self.env} {self.contender}, {self.workers} workers"
        print(f"{name}: {self.problem or f'{seconds:.2f} s'}", flush=True)


def proportional_megabytes(pid: int) -> float:
    """Return the proportional set size of a process in MB of 10**6 bytes."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of all its descendants, those that ended included."""
    process, total = psutil.Process(pid), 0.0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(each.cpu_times()[:4])
    return total


@contextlib.contextmanager
def _killed_after(process: Any, seconds: float) -> Iterator[None]:
    """Kill a process that takes too long, so that reading from it ends."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def table(rows: list[Row]) -> str:
    """Return a Markdown table of medians; the first row is the reference."""
    lines = ["| environment | program | workers | seconds | ratio | CPU seconds | ratio | MB |"]
    lines.append("| --- | --- | --: | --: | --: | --: | --: | --: |")
    reference = rows[0]
    for row in rows:
        if not row.seconds:
            continue
        values = []
        for own, other in (
            (row.seconds, reference.seconds),
            (row.cpu_seconds, reference.cpu_seconds),
        ):
            median = statistics.median(own)
            values += [f"{median:.1f}", f"{median / statistics.median(other):.2f}"]
        size = f"{statistics.median(row.megabytes):.1f}" if row.megabytes else ""
        n = str(row.workers) if row.workers else "serial" if row.env else ""
        lines.append("| " + " | ".join([row.env, row.contender, n, *values, size]) + " |")
    notes = [
        f"- {r.env}, {r.contender}, {r.workers} workers: not measured, {r.problem}"
        for r in rows
        if r.problem
    ]
    return "\n".join([*lines, "", *notes])


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", nargs="+", choices=ENVS, default=list(ENVS))
    parser.add_argument("--workers", nargs="+", type=int, default=[0, 2, 8, 32], help="0: serial")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", default="data/benchmarks/startup.json")
    args = parser.parse_args()
    rows = [Row("", "import torch, gymnasium", 0)]
    for env in args.env:
        for n in args.workers:
            methods = [name for name in args.only if n or not CONTENDERS[name][1]]
            rows += [Row(env, name, n) for name in methods]
    machine, load = describe_machine(), OtherLoad()
    for _ in range(args.rounds):
        for row in rows:
            row.measure()
    for row in rows:
        row.disturbance = load.share()
    publish(
        Path(args.output),
        machine,
        rows,  # type: ignore[arg-type]
        f"Medians of {args.rounds} rounds, in turn; ratios to the first row.\n\n{table(rows)}",
        title="startup",
        command=["benchmarks.startup", *sys.argv[1:]],
    )


if __name__ == "__main__":
    main()
