"""Measure recurrent layers in training: `python -m benchmarks.memory --help`.

A pass is forward and backward over a sequence of T=1024 steps of B=16 environments, 128 inputs and
128 outputs, on the CPU with one thread. With episodes, these end after 100 steps on average, and
the batch is prepared as algorithms do: cut into episodes, or with resets inside its rows. The loop
calls an LSTM step by step, and zeroes states where episodes end.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.harness import Contender, Progress, Row, Setting, Workload

T, B, SIZE, EPISODE = 1024, 16, 128, 100
LAYERS: dict[str, Any] = {
    "lstm": "lstm",
    "lstm, loop": "lstm",
    "gru": "gru",
    "ln_lstm": "ln_lstm",
    "mingru": "mingru",
    "mingru, 2 layers": {"kind": "mingru", "num_layers": 2},
    "gtrxl, 1 layer, window 16": {"kind": "gtrxl", "num_layers": 1},
    "gtrxl, 2 layers, window 16": {"kind": "gtrxl"},
}


def passes(memory: Any, episodes: bool, loop: bool) -> Workload:
    """Run forward and backward passes of a layer."""
    import torch

    from rlpyt.algos.episodes import EpisodePacking, zeroed
    from rlpyt.models.recurrent import add_memory, run_layer

    torch.manual_seed(0)
    parent = torch.nn.Module()
    layer: Any = getattr(parent, add_memory(parent, memory, SIZE, SIZE))
    inputs = torch.randn(T, B, SIZE)
    done = torch.rand(T, B) < (1 / EPISODE if episodes else 0)
    _, state = run_layer(layer, inputs[:1], None)
    state = state.detach() if torch.is_tensor(state) else type(state)(*(x.detach() for x in state))

    def step_by_step() -> Any:
        outputs, h = [], state
        for t in range(T):
            h = zeroed(h, done[t - 1]) if t else h
            output, h = run_layer(layer, inputs[t : t + 1], h)
            outputs.append(output)
        return torch.cat(outputs)

    def at_once() -> Any:
        packing = EpisodePacking(done, takes_starts=getattr(layer, "takes_starts", False))
        output, _ = run_layer(layer, packing.pack(inputs), packing.pack_state(state))
        return packing.unpack(output)

    run = step_by_step if loop else at_once
    while True:
        run().square().mean().backward()
        layer.zero_grad()
        yield Progress(1, None)


def settings() -> list[Setting]:
    """Return the settings, each with all layers."""
    return [
        Setting(
            setting,
            tuple(
                Contender(name, passes, dict(memory=x, episodes=episodes, loop="loop" in name))
                for name, x in LAYERS.items()
            ),
        )
        for setting, episodes in (("one episode", False), (f"episodes of {EPISODE} steps", True))
    ]


def main(argv: list[str] | None = None) -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--windows", type=int, default=5, help="windows per layer")
    parser.add_argument("--seconds", type=float, default=2.0, help="minimum length of a window")
    parser.add_argument("--only", default="", help="layers whose name contains this, and lstm")
    parser.add_argument("--output", default="data/benchmarks/memory.json")
    args = parser.parse_args(argv)
    machine = harness.describe_machine()
    rows: list[Row] = []
    for setting in settings():
        rows += harness.measure_setting(
            harness._only(setting, args.only), args.windows, args.seconds
        )
    harness.publish(
        Path(args.output),
        machine,
        rows,
        f"Forward and backward, T={T}, B={B}, {SIZE} inputs and outputs, one thread; "
        f"{args.windows} windows of {args.seconds:g} s each, in turn; medians; ratio to lstm, "
        f"above 1 where it is faster.\n\n{_table(rows)}",
        title="memory",
        command=["benchmarks.memory", *sys.argv[1:]],
    )


def _table(rows: list[Row]) -> str:
    lines = [["batch", "memory", "median ms", "min", "max", "ratio"], ["---"] * 2 + ["---:"] * 4]
    for row in rows:
        if row.rates:
            ms = [1e3 / rate for rate in row.rates]
            numbers = [f"{f(ms):.1f}" for f in (statistics.median, min, max)]
            lines.append([row.setting, row.contender, *numbers, f"{row.ratio:.2f}"])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    absent = [f"{r.setting}, {r.contender}: not measured, {r.problem}" for r in rows if r.problem]
    return "\n".join([table, "", *(f"- {line}" for line in absent)])


if __name__ == "__main__":
    main()
