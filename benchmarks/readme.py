"""Measure the table of speeds in README.md: `python -m benchmarks.readme`, about ten minutes.

Each library runs the task on one core, to which all its processes are pinned, and on two cores, in
the faster of its forms for two. The table is written between the marks in README.md, its numbers
into `benchmarks/results/readme.json`.
"""

import argparse
import os
import re
import statistics
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.harness import Contender, Row, Setting
from benchmarks.peers import contender

README, OUTPUT = Path("README.md"), Path("benchmarks/results/readme.json")
MARKS = re.compile(r"(?<=<!-- speed -->\n).*(?=<!-- end of speed -->)", re.S)
LIBRARIES = {"hand-written": "hand_written", "Stable-Baselines3": "sb3", "rlpyt": "rlpyt"}


def of_each(
    algo: str, /, threads: int = 1, options: Any = None, **task: Any
) -> tuple[Contender, ...]:
    """Return an algorithm of the libraries, with further ``options`` of some of them."""
    return tuple(
        contender(name, library, algo, threads, **task, **(options or {}).get(library, {}))
        for name, library in LIBRARIES.items()
    )


def ppo(env: str, train: bool, cores: int) -> tuple[Contender, ...]:
    """Return PPO of the libraries with 8 environments x 128 steps."""
    several, pong = cores > 1, env == "pong"
    # For CartPole, DummyVecEnv is faster than processes.
    options = {"sb3": {"subproc": several and pong}, "rlpyt": {"n_workers": 2 * several}}
    return of_each("ppo", cores if pong else 1, options, env=env, n_envs=8, train=train)


SETTINGS = [
    (1, Setting("sampling, CartPole", ppo("cartpole", False, 1))),
    (2, Setting("sampling, CartPole", ppo("cartpole", False, 2))),
    (1, Setting("sampling, Pong", ppo("pong", False, 1))),
    (2, Setting("sampling, Pong", ppo("pong", False, 2))),
    (1, Setting("training, PPO on CartPole", ppo("cartpole", True, 1))),
    (2, Setting("training, PPO on CartPole", ppo("cartpole", True, 2))),
    (2, Setting("training, PPO on Pong", ppo("pong", True, 2))),
    (1, Setting("training, DQN on CartPole", of_each("dqn", env="cartpole"))),
    (1, Setting("training, SAC on HalfCheetah", of_each("control", algo="sac"))),
]


def main() -> None:
    """Measure all settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="minimum length of a window")
    args = parser.parse_args()
    machine = harness.describe_machine()
    all_cores = sorted(os.sched_getaffinity(0))
    rows: list[Row] = []
    lines = ["| steps per second | cores | " + " | ".join(LIBRARIES) + " |"]
    lines.append("|---|---|" + "---:|" * len(LIBRARIES))
    for cores, setting in SETTINGS:
        os.sched_setaffinity(0, all_cores[:cores])  # inherited by the contenders
        measured = harness.measure_setting(setting, args.windows, args.seconds)
        rates = [statistics.median(row.rates) for row in measured]
        cells = [f"**{x:,.0f}**" if x == max(rates) else f"{x:,.0f}" for x in rates]
        lines.append(f"| {setting.name} | {cores} | {' | '.join(cells)} |")
        rows += measured
    os.sched_setaffinity(0, all_cores)
    table = "\n".join(lines)
    about = dict(title="readme", windows=args.windows, seconds=args.seconds)
    harness.publish(OUTPUT, machine, rows, table, **about)
    said = (
        f"Two cores of an {machine['processor']}, commit {machine['commit'][:8]}, "
        "`python -m benchmarks.readme`. Hand-written: one file in the style of CleanRL. Other "
        "peers and\nsettings: [benchmarks](benchmarks)."
    )
    text = f"{table}\n\n{said}\n"
    README.write_text(MARKS.sub(lambda _: text, README.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
