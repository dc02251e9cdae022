"""Compare the wall time and waiting times of the same training in every mode.

    python -m benchmarks.modes                       # CartPole, all modes, in turn
    python -m benchmarks.modes --env pong --steps 6000 --replay-ratio 1
    python -m benchmarks.modes --only async --rounds 5

All modes use the same algorithm and replay ratio: asynchronous samplers may lead by two batches,
so the ratio is kept. Time is measured from the first iteration to the last; startup is reported
separately. The waiting time of a process is the fraction of that time without CPU use.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.harness import THREAD_VARIABLES, describe_machine

T, B = 16, 8
LEARNING_STARTS = 1024
LEAD = 2


class Mode(NamedTuple):
    """Sampler, runner and processes of one training."""

    sampler: str  # module:class below rlpyt.samplers
    runner: str = "minibatch_rl:MinibatchRl"
    workers: int = 1
    ranks: int = 1


ASYNC = "async_rl:AsyncRl"
# Descriptions; R2D1 uses smaller batches than published, and fewer updates.
ENVIRONMENTS = {
    "cartpole": "DQN on CartPole-v1",
    "pong": "DQN on Pong",
    "pong-r2d1": "R2D1 on Pong, sequences of 20 + 40 steps",
}
MODES = {
    "serial": Mode("serial.sampler:SerialSampler"),
    "cpu, 2 workers": Mode("parallel.cpu.sampler:CpuSampler", workers=2),
    "served, 2 workers": Mode("parallel.gpu.sampler:GpuSampler", workers=2),
    "alternating, 2 workers": Mode(
        "parallel.gpu.alternating_sampler:AlternatingSampler", workers=2
    ),
    "async serial": Mode("async_.serial_sampler:AsyncSerialSampler", ASYNC),
    "async cpu, 2 workers": Mode("async_.cpu_sampler:AsyncCpuSampler", ASYNC, 2),
    "async alternating, 2 workers": Mode(
        "async_.alternating_sampler:AsyncAlternatingSampler", ASYNC, 2
    ),
    "ddp, 2 ranks": Mode("serial.sampler:SerialSampler", "sync_rl:SyncRl", ranks=2),
}


class Clock:
    """Hook that measures wall time and the CPU time of every process from start to end."""

    def __init__(self, path: str) -> None:
        self.path = path

    def on_start(self, runner: Any) -> None:
        """Start measuring, when all processes have been started."""
        self.started, self.used = time.monotonic(), _processor_times()

    def on_end(self, runner: Any) -> None:
        """Write the result, before processes are stopped."""
        seconds = time.monotonic() - self.started
        waiting = {}
        for pid, used in _processor_times().items():
            share = (used - self.used.get(pid, 0.0)) / seconds
            if share > 0.01 or pid == os.getpid():  # skip helpers such as the fork server
                waiting[_name_of(pid, runner)] = 1 - share
        result = {
            "seconds": seconds,
            "updates": runner.algo.update_counter,
            "steps": runner.cum_steps,
            "waiting": waiting,
        }
        Path(self.path).write_text(json.dumps(result))


def _processor_times() -> dict[int, float]:
    """Return the CPU seconds of this process and its descendants, by process id."""
    me = psutil.Process()
    times = {}
    for process in [me, *me.children(recursive=True)]:
        try:
            own = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        times[process.pid] = own.user + own.system
    return times


def _name_of(pid: int, runner: Any) -> str:
    if pid == os.getpid():
        return "optimizer"
    hosts = [process.pid for process in getattr(runner.sampler, "processes", [])]
    if pid in hosts:
        return f"sampler {hosts.index(pid)}"
    copier = getattr(runner, "_replay_writer", None)
    if copier is not None and pid in [process.pid for process in copier.processes]:
        return "replay writer"
    return f"process {pid}"


def train(name: str, args: argparse.Namespace) -> None:
    """Run one training in this process and write its result to ``args.result``."""
    import torch

    from rlpyt.envs.atari.atari_env import AtariEnv
    from rlpyt.envs.gym import make

    mode, env = MODES[name], args.env
    torch.set_num_threads(1)
    pong = env != "cartpole"
    sampler = _import_class("samplers", mode.sampler)(
        EnvCls=AtariEnv if pong else make,
        env_kwargs=dict(game="pong") if pong else dict(id="CartPole-v1"),
        batch_T=T,
        batch_B=B // mode.ranks,
    )
    algo, agent = learner(env, mode.ranks, args.replay_ratio)
    asynchronous = mode.runner == ASYNC
    sampling = dict(n_workers=mode.workers, master_torch_threads=1)
    affinity: Any = dict(sampler=sampling, optimizer=[{}]) if asynchronous else sampling
    runner = _import_class("runners", mode.runner)(
        algo=algo,
        agent=agent,
        sampler=sampler,
        n_steps=args.steps,
        seed=0,
        affinity=[sampling] * mode.ranks if mode.ranks > 1 else affinity,
        log_interval_steps=10**9,
        hooks=[Clock(args.result)],
        **(dict(max_lead=LEAD) if asynchronous else {}),
    )
    runner.train()


def learner(env: str, n_ranks: int, replay_ratio: float) -> tuple[Any, Any]:
    """Return algorithm and agent; several ranks split a batch."""
    from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
    from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1Agent
    from rlpyt.agents.dqn.vector import DqnMlpAgent
    from rlpyt.algos.dqn.dqn import DQN
    from rlpyt.algos.dqn.r2d1 import R2D1

    settings: dict[str, Any] = dict(
        min_steps_learn=LEARNING_STARTS, replay_size=20_000, replay_ratio=replay_ratio
    )
    if env == "pong-r2d1":
        algo = R2D1(
            batch_T=40, batch_B=8 // n_ranks, warmup_T=20, store_rnn_state_interval=20,
            **settings,
        )  # fmt: skip
        return algo, AtariR2d1Agent()
    agent = (
        AtariDqnAgent() if env == "pong" else DqnMlpAgent(model_kwargs=dict(hidden_sizes=[64, 64]))
    )
    return DQN(batch_size=32 // n_ranks, learning_rate=5e-4, **settings), agent


def _import_class(package: str, path: str) -> Any:
    module, cls = path.split(":")
    return getattr(importlib.import_module(f"rlpyt.{package}.{module}"), cls)


def run(name: str, args: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """Run one training in a separate process; return its measurements and startup time."""
    path = directory / "result.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.modes", "--one", name, "--result", str(path)]
    command += ["--env", args.env, "--steps", str(args.steps)]
    command += ["--replay-ratio", str(args.replay_ratio)]
    started = time.monotonic()
    done = subprocess.run(
        command,
        env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not path.exists():
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(path.read_text())
    result["start_s"] = time.monotonic() - started - result["seconds"]
    return result


def report(results: dict[str, list[dict[str, Any]]], args: argparse.Namespace) -> str:
    """Return a Markdown table; speeds are relative to the first mode, by medians of seconds."""
    first = statistics.median(r["seconds"] for r in next(iter(results.values())))
    machine = describe_machine()
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    lines = [
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores; {versions}.",
        "",
        f"{ENVIRONMENTS[args.env]}, replay ratio {args.replay_ratio:g}; {args.steps:,} steps in "
        f"batches of {T} x {B}; {args.rounds} rounds in turns, medians.",
        "",
        "| mode | seconds | speed | updates | start s | waiting |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, rows in results.items():
        seconds = statistics.median(r["seconds"] for r in rows)
        start = statistics.median(r["start_s"] for r in rows)
        waiting = ", ".join(f"{who} {100 * w:.0f} %" for who, w in _waiting(rows).items())
        lines.append(
            f"| {name} | {seconds:.1f} | {first / seconds:.2f} | {rows[0]['updates']:,} "
            f"| {start:.1f} | {waiting} |"
        )
    return "\n".join(lines) + "\n"


def _waiting(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the median waiting time by process; numbered processes are merged."""
    shares: dict[str, list[float]] = {}
    for row in rows:
        for who, share in row["waiting"].items():
            kind = "workers" if who.startswith("process") else who
            shares.setdefault(kind, []).append(share)
    return {who: max(0.0, statistics.median(values)) for who, values in shares.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", choices=ENVIRONMENTS, default="cartpole")
    parser.add_argument(
        "--steps", type=int, default=20_000, help="environment steps of each training"
    )
    parser.add_argument("--replay-ratio", type=float, default=8.0, help="updates by samples")
    parser.add_argument("--rounds", type=int, default=3, help="number of runs of each mode")
    parser.add_argument(
        "--only", default="", help="run modes whose name contains this, and the first"
    )
    parser.add_argument("--output", type=Path, help="JSON file; the table is written next to it")
    parser.add_argument("--one", choices=MODES, help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        train(args.one, args)
        return
    names = [name for i, name in enumerate(MODES) if not i or args.only in name]
    output = args.output or Path(f"data/benchmarks/modes_{args.env}.json")
    output.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for i in range(args.rounds):
        for name in names:
            results[name].append(run(name, args, output.parent))
            print(f"round {i + 1}, {name}: {results[name][-1]['seconds']:.1f} s", flush=True)
    output.write_text(json.dumps(results, indent=1))
    table = report(results, args)
    output.with_suffix(".md").write_text(table)
    print(f"\n{table}")


if __name__ == "__main__":
    main()
