"""Compare replay buffers of several libraries: `python -m benchmarks.replay --help`.

Measures microseconds per call and resident bytes per transition. Libraries that are not installed
are skipped with a note. To install them in a separate environment:

    python -m venv /tmp/peers && /tmp/peers/bin/pip install -e .[bench] tianshou torchrl cpprb
    /tmp/peers/bin/python -m benchmarks.replay
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import harness, replay_peers
from benchmarks.harness import Contender, Progress, Setting
from benchmarks.replay_peers import N_ENVS, Task

PEERS = {
    "rlpyt": "Rlpyt",
    "Stable-Baselines3": "StableBaselines3",
    "Tianshou": "Tianshou",
    "TorchRL": "TorchRl",
    "cpprb": "Cpprb",
}
TREES = {"rlpyt SumTree": "SumTreeAlone", "plain numpy descent": "PlainDescent"}
CALLS = 50  # calls per measured batch
BATCHES = (32, 256, 1024)
FRAME_CAPACITY = 100_000  # transitions; more full observations may not fit into memory
FULL_FRAME_CAPACITY = 30_000  # transitions, several GB


def calls(peer: str, task: Task, operation: str, n: int) -> Iterator[Progress]:
    """Fill a replay and then repeat one kind of call; a "step" is a call."""
    replay = _filled(peer, task) if peer not in TREES.values() else _made(peer, task)
    if operation == "insert":
        block = replay_peers.random_block(task, n)

        def call() -> None:
            replay.insert(block)
    elif operation == "sample":

        def call() -> None:
            replay.sample(n)
    else:
        priorities = np.random.default_rng(0).random(n) + 0.1

        def call() -> None:
            replay.update(replay.sample(n), priorities)

    while True:
        for _ in range(CALLS):
            call()
        yield Progress(CALLS, None)


def resident(peer: str, task: Task) -> Iterator[Progress]:
    """Measure resident bytes per transition once, reported as ``return_``."""
    replay_peers.random_block(task, 10)
    warm = _made(peer, task._replace(capacity=80))
    warm.insert(replay_peers.random_block(task, 10))
    del warm
    gc.collect()
    before = psutil.Process().memory_info().rss
    replay = _filled(peer, task)
    gc.collect()
    bytes_ = (psutil.Process().memory_info().rss - before) / task.capacity
    while True:
        yield Progress(1, bytes_)
        assert replay is not None


def settings() -> dict[str, list[Setting]]:
    """Return the settings of each table, in the order measured."""
    flat, by_priority = Task(), Task(prioritized=True)
    frames = Task(frames=True, capacity=FRAME_CAPACITY)
    prioritized = {k: v for k, v in PEERS.items() if k != "Stable-Baselines3"}
    return {
        "uniform": [_setting(f"uniform sample of {n}", flat, "sample", n) for n in BATCHES],
        "prioritized": [
            _setting(f"prioritised sample + update of {n}", by_priority, "update", n, prioritized)
            for n in BATCHES
        ],
        "insert": [_setting(f"insert [{n}, {N_ENVS}]", flat, "insert", n) for n in (1, 125)]
        + [
            _setting(f"prioritised insert [{n}, {N_ENVS}]", by_priority, "insert", n, prioritized)
            for n in (1, 125)
        ],
        "frames": [
            _setting("84x84x4, uniform sample of 32", frames, "sample", 32),
            _setting(f"84x84x4, insert [1, {N_ENVS}]", frames, "insert", 1),
        ],
        "tree": [
            _setting(f"sum tree, sample + update of {n}", by_priority, "update", n, TREES)
            for n in BATCHES
        ],
        "memory": [
            _memory("bytes per transition of 4 floats", flat),
            _memory("bytes per transition of 84x84x4", frames._replace(capacity=20_000)),
        ],
    }


def main(argv: list[str] | None = None) -> None:
    """Measure, print and write a table."""
    tables = settings()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__)
    parser.add_argument("--table", choices=[*tables, "all"], default="all")
    parser.add_argument("--windows", type=int, default=5, help="windows per contender")
    parser.add_argument("--seconds", type=float, default=1.0, help="minimum length of a window")
    parser.add_argument(
        "--only", default="", help="measure contenders whose name contains this, and rlpyt"
    )
    parser.add_argument("--capacity", type=int, default=None, help="transitions, for a quick test")
    parser.add_argument("--output", default="data/benchmarks/replay.json")
    args = parser.parse_args(argv)
    harness.LIBRARIES += ("tianshou", "torchrl", "cpprb")
    machine = harness.describe_machine()
    rows: list[harness.Row] = []
    for name in tables if args.table == "all" else [args.table]:
        for setting in tables[name]:
            chosen = harness._only(_smaller(setting, args.capacity), args.only)
            windows = 1 if name == "memory" else args.windows
            rows += harness.measure_setting(chosen, windows, args.seconds)
    harness.publish(
        Path(args.output),
        machine,
        rows,
        f"{args.windows} windows of {args.seconds:g} s each, in turn, one thread; medians; ratio "
        f"to rlpyt, above 1 where rlpyt is better.\n\n{_table(rows)}",
        title="replay",
        command=["benchmarks.replay", *sys.argv[1:]],
    )


def _setting(name: str, task: Task, operation: str, n: int, peers: Any = None) -> Setting:
    peers = PEERS if peers is None else peers
    return Setting(
        name,
        tuple(
            Contender(
                label,
                calls,
                {
                    "peer": cls,
                    "task": _fitting(cls, task) if operation != "memory" else task,
                    "operation": operation,
                    "n": n,
                },
                note=_note(cls, task),
            )
            for label, cls in peers.items()
        ),
    )


def _memory(name: str, task: Task) -> Setting:
    contenders = (
        Contender(label, resident, {"peer": cls, "task": _fitting(cls, task)})
        for label, cls in PEERS.items()
    )
    return Setting(name, tuple(contenders))


def _fitting(peer: str, task: Task) -> Task:
    """Return the task with a smaller replay for libraries that store full frame stacks."""
    if task.frames and peer in ("StableBaselines3", "TorchRl"):
        return task._replace(capacity=min(task.capacity, FULL_FRAME_CAPACITY))
    return task


def _note(peer: str, task: Task) -> str:
    if _fitting(peer, task) != task:
        transitions = f"{FULL_FRAME_CAPACITY:,} transitions instead of {task.capacity:,}"
        return f"keeps full observations; {transitions}"
    return ""


def _smaller(setting: Setting, capacity: int | None) -> Setting:
    if capacity is None:
        return setting
    return dataclasses.replace(
        setting,
        contenders=tuple(
            dataclasses.replace(
                c, kwargs={**c.kwargs, "task": c.kwargs["task"]._replace(capacity=capacity)}
            )
            for c in setting.contenders
        ),
    )


def _made(peer: str, task: Task) -> Any:
    return getattr(replay_peers, peer)(task)


def _filled(peer: str, task: Task) -> Any:
    replay = _made(peer, task)
    T = 25 if task.frames else 1000
    block = replay_peers.random_block(task, min(T, task.capacity // N_ENVS))
    for _ in range(-(-task.capacity // block.reward.size)):
        replay.insert(block)
    return replay


def _table(rows: list[harness.Row]) -> str:
    lines = [["setting", "contender", "median", "min", "max", "ratio"], ["---"] * 2 + ["---:"] * 4]
    first: dict[str, float] = {}
    for row in rows:
        values = [1e6 / rate for rate in row.rates]
        if row.return_ is not None:
            values = [row.return_]
        if not values:
            continue
        middle = statistics.median(values)
        first.setdefault(row.setting, middle)
        unit = "B" if row.return_ is not None else "us"
        line = [row.setting, row.contender]
        line += [f"{value:,.1f} {unit}" for value in (middle, min(values), max(values))]
        lines.append([*line, f"{middle / first[row.setting]:.2f}"])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    notes = dict.fromkeys(f"{row.contender}: {row.note}" for row in rows if row.note)
    absent = [f"{r.setting}, {r.contender}: not measured, {r.problem}" for r in rows if r.problem]
    return "\n".join([table, "", *(f"- {line}" for line in (*notes, *absent))])


if __name__ == "__main__":
    main()
