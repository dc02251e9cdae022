"""Record rows for ``rlpyt verify`` with all columns, and plant faults that it should find.

    python -m benchmarks.verify dqn-CartPole --steps 30%  # the row's seeds, all columns
    python -m benchmarks.verify planted                   # probabilities of faults

Results keep the return alone. Many faults change losses, norms of gradients and the like long
before the return, so they are recorded here for some rows (benchmarks/results/verify).
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence

from benchmarks.harness import describe_machine
from benchmarks.learning import EXPERIMENTS, RECORDED, Experiment
from rlpyt.cli.verify import check, first_part
from rlpyt.vis.verification import STEPS, compared_columns, read_rows

# Faults that a check should find: row and changed settings. The first of each row has none.
PLANTED = [
    ("dqn-CartPole", ""),
    ("dqn-CartPole", "--algo.target-update-interval 1 --algo.target-update-tau 1.0"),
    ("dqn-CartPole", "--algo.learning-rate 7.5e-4"),  # three times the preset's, as below
    ("dqn-CartPole", "--algo.discount 0.9"),
    ("ppo-CartPole", ""),
    ("ppo-CartPole", "--algo.learning-rate 3e-3"),
    ("ppo-CartPole", "--algo.epochs 1"),
    ("ppo-CartPole", "--algo.gae-lambda 0.0"),
    ("sac-Pendulum", ""),
    ("sac-Pendulum", "--algo.target-update-tau 1.0"),
    ("sac-Pendulum", "--algo.learning-rate 3e-3"),
    ("td3-Pendulum", ""),
    ("td3-Pendulum", "--algo.target-update-tau 1.0"),
    ("td3-Pendulum", "--algo.learning-rate 3e-3 --algo.q-learning-rate 3e-3"),
]


def record(experiment: Experiment, part: float) -> None:
    """Save the first part of the row's own seeds, with all columns that are compared."""
    words = shlex.split(experiment.command)
    steps = float(words[words.index("--steps") + 1]) * part
    tables = first_part(words, experiment.seeds, steps, together=experiment.together)
    names = [STEPS, *compared_columns(tables[0])]
    seeds = {
        str(seed): {name: [float(f"{x:.6g}") for x in table[name]] for name in names}
        for seed, table in zip(experiment.seeds, tables, strict=True)
    }
    about = {"command": experiment.command_line, "machine": describe_machine(), "seeds": seeds}
    RECORDED.mkdir(parents=True, exist_ok=True)
    (RECORDED / f"{experiment.name}.json").write_text(json.dumps(about) + "\n")


def plant(part: float, n_seeds: int) -> None:
    """Save the probability of each of the faults."""
    rows, machine = read_rows(), describe_machine()
    found = {
        f"{name} {words}".strip(): check(rows[name], shlex.split(words), part, n_seeds)
        for name, words in PLANTED
    }
    about = {"part": part, "seeds": n_seeds, "machine": machine, "probabilities": found}
    (RECORDED / "planted.json").write_text(json.dumps(about, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> None:
    """Run as described above."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("row", choices=["planted", *EXPERIMENTS])
    parser.add_argument("--seeds", type=int, default=2, help="number of new runs of each fault")
    parser.add_argument("--steps", default="10%", help="part of the row's steps")
    options = parser.parse_args(argv)
    part = float(options.steps.rstrip("%")) / 100
    if options.row == "planted":
        plant(part, options.seeds)
    else:
        record(EXPERIMENTS[options.row], part)


if __name__ == "__main__":
    sys.exit(main())
