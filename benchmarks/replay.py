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

from benchmarks import harness
from benchmarks.harness import Contender, Progress, Setting
from benchmarks.peers import N_ENVS, Block, Replay, ReplayTask, peer

PEERS = {
    "rlpyt": "rlpyt",
    "Stable-Baselines3": "sb3",
    "Tianshou": "tianshou",
    "TorchRL": "torchrl",
    "cpprb": "cpprb",
}
CALLS = 50  # calls per measured batch
BATCHES = (32, 256, 1024)
FRAME_CAPACITY = 100_000  # transitions; more full observations may not fit into memory
FULL_FRAME_CAPACITY = 30_000  # transitions, several GB


def random_block(task: ReplayTask, T: int, seed: int = 0) -> Block:
    """Return random steps; frame stacks share frames, episodes last about 1000 steps."""
    rng = np.random.default_rng(seed)
    if task.frames:
        frames = rng.integers(1, 255, (T + 4, N_ENVS, 84, 84), np.uint8)
        stacks = np.stack([frames[i : i + T + 1] for i in range(4)], axis=2)
    else:
        stacks = rng.random((T + 1, N_ENVS, 4), np.float32)
    action = rng.integers(0, 4, (T, N_ENVS))
    reward = rng.random((T, N_ENVS), np.float32)
    done = np.zeros((T, N_ENVS), bool) if task.frames else rng.random((T, N_ENVS)) < 0.001
    return Block(stacks[:-1], stacks[1:], action, reward, done)


def calls(library: str | type, task: ReplayTask, operation: str, n: int) -> Iterator[Progress]:
    """Fill a replay and then repeat one kind of call; a "step" is a call."""
    replay = _filled(library, task) if isinstance(library, str) else _made(library, task)
    if operation == "insert":
        block = random_block(task, n)

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


def resident(library: str | type, task: ReplayTask) -> Iterator[Progress]:
    """Measure resident bytes per transition once, reported as ``return_``."""
    random_block(task, 10)
    warm = _made(library, task._replace(capacity=80))
    warm.insert(random_block(task, 10))
    del warm
    gc.collect()
    before = psutil.Process().memory_info().rss
    replay = _filled(library, task)
    gc.collect()
    bytes_ = (psutil.Process().memory_info().rss - before) / task.capacity
    while True:
        yield Progress(1, bytes_)
        assert replay is not None


class SumTreeAlone:
    """Sum tree of rlpyt without a replay."""

    def __init__(self, task: ReplayTask) -> None:
        from rlpyt.replays.sum_tree import SumTree

        self.rng = np.random.default_rng(0)
        self.tree = SumTree(task.capacity // N_ENVS, N_ENVS, 1, 1)
        self.tree.advance(self.tree.T)
        self.tree.reconstruct(np.arange(task.capacity), self.rng.random(task.capacity))

    def sample(self, n: int) -> Any:
        return self.tree.ticket(self.tree.draw(n, False, self.rng))

    def update(self, batch: Any, priorities: Any) -> None:
        self.tree.update_batch_priorities(priorities, batch)


class PlainDescent:
    """Reference binary sum tree in numpy, one level at a time."""

    def __init__(self, task: ReplayTask) -> None:
        self.rng = np.random.default_rng(0)
        self.depth = (task.capacity - 1).bit_length()
        self.first = 1 << self.depth
        self.sums = np.zeros(2 * self.first)
        self.sums[self.first : self.first + task.capacity] = self.rng.random(task.capacity)
        for node in range(self.depth - 1, -1, -1):
            here, below = 1 << node, 1 << (node + 1)
            self.sums[here:below] = self.sums[below : 2 * below].reshape(-1, 2).sum(axis=1)

    def sample(self, n: int) -> Any:
        node, rest = np.ones(n, np.int64), self.rng.random(n) * self.sums[1]
        for _ in range(self.depth):
            node = 2 * node
            left = self.sums[node]
            beyond = rest >= left
            rest = np.where(beyond, rest - left, rest)
            node = node + beyond
        return node, self.sums[node]

    def update(self, batch: Any, priorities: Any) -> None:
        node = batch[0]
        self.sums[node] = priorities
        for _ in range(self.depth):
            node = node // 2
            self.sums[node] = self.sums[2 * node] + self.sums[2 * node + 1]


TREES = {"rlpyt SumTree": SumTreeAlone, "plain numpy descent": PlainDescent}


def settings() -> dict[str, list[Setting]]:
    """Return the settings of each table, in the order measured."""
    flat, by_priority = ReplayTask(), ReplayTask(prioritized=True)
    frames = ReplayTask(frames=True, capacity=FRAME_CAPACITY)
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


def _setting(name: str, task: ReplayTask, operation: str, n: int, libraries: Any = None) -> Setting:
    return Setting(
        name,
        tuple(
            Contender(
                label,
                calls,
                {
                    "library": library,
                    "task": _fitting(library, task) if operation != "memory" else task,
                    "operation": operation,
                    "n": n,
                },
                note=_note(library, task),
            )
            for label, library in (PEERS if libraries is None else libraries).items()
        ),
    )


def _memory(name: str, task: ReplayTask) -> Setting:
    contenders = (
        Contender(label, resident, {"library": library, "task": _fitting(library, task)})
        for label, library in PEERS.items()
    )
    return Setting(name, tuple(contenders))


def _fitting(library: str | type, task: ReplayTask) -> ReplayTask:
    """Return the task with a smaller replay for libraries that store full frame stacks."""
    if task.frames and library in ("sb3", "torchrl"):
        return task._replace(capacity=min(task.capacity, FULL_FRAME_CAPACITY))
    return task


def _note(library: str | type, task: ReplayTask) -> str:
    if _fitting(library, task) != task:
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


def _made(library: str | type, task: ReplayTask) -> Replay:
    made: Replay = (peer(library).Replay if isinstance(library, str) else library)(task)
    return made


def _filled(library: str | type, task: ReplayTask) -> Replay:
    replay = _made(library, task)
    T = 25 if task.frames else 1000
    block = random_block(task, min(T, task.capacity // N_ENVS))
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
