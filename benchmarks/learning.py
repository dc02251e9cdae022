"""What the algorithms learn: runs the experiments of docs/results.md and writes its tables.

    python -m benchmarks.learning                 # all but Atari and MinAtar, in sequence
    python -m benchmarks.learning --only CartPole # those whose name contains this
    python -m benchmarks.learning --only minatar  # small games, from pictures of 10 x 10
    python -m benchmarks.learning --only pong     # Atari, more than two hours
    python -m benchmarks.sb3_dqn_pong             # the other curve beside that of dqn-pong
    python -m benchmarks.learning --report        # no runs, only the tables of what there is

Each experiment is one command line per seed, the one that the table shows. Runs are written to
data/results; of each, once it is done, its settings, curve and evaluation are kept in
benchmarks/results/learning, from where tables and figures (docs/images) are made. A run that is
kept is not repeated; delete it there to repeat it.
"""

import argparse
import csv
import json
import platform
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from rlpyt.vis.curves import plot_runs, read_progress

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "data" / "results"
KEPT = ROOT / "benchmarks" / "results" / "learning"
KEPT_COLUMNS = ("Diagnostics/CumSteps", "Diagnostics/CumTime (s)", "ReturnAverage")
IMAGES = ROOT / "docs" / "images"
SEEDS = (0, 1, 2)
REPORT_SEEDS = (100, 101, 102, 103, 104)  # no setting was chosen on these
LIBRARIES = ("torch", "gymnasium", "numpy", "mujoco", "ale-py", "stable-baselines3")
DDQN = "--agent.dueling --algo.double-dqn --algo.prioritized-replay"
BREAKOUT = "MinAtar/Breakout-v1 --steps 300000"
# Frames of 84 x 84 and the network of Mnih et al. 2013: two convolutions, 256 hidden units.
SMALL_PONG = (
    "--env-args '{\"frame_shape\": [84, 84]}' "
    '--agent.model \'{"channels": [16, 32], "kernel_sizes": [8, 4], "strides": [4, 2], '
    '"paddings": [0, 1], "fc_sizes": 256}\''
)
# Pictures a quarter as large make an update four times as fast, so twice as many fit into the hour.
QUARTER_PONG = SMALL_PONG.replace("84, 84", "42, 42")
MEMORY = (
    "ppo toy/memory --steps 100000",
    "a2c toy/memory --steps 200000",
    "vtrace toy/memory --steps 100000",
)


@dataclass(frozen=True)
class Experiment:
    """One row of the table."""

    name: str
    command: str  # without seed and directory
    seeds: tuple[int, ...]
    target: str
    by_default: bool = True
    program: str = "rlpyt.cli.main"  # the module that is run; of others than rlpyt's the peers'

    @property
    def shown(self) -> str:
        """The command as a person would type it."""
        if self.program == "rlpyt.cli.main":
            return f"rlpyt {self.command}"
        return f"python -m {self.program} {self.command}"

    def directory(self, seed: int) -> Path:
        return RUNS / self.name / f"run_{seed}"

    def kept(self, seed: int) -> Path:
        """Where the essence of a run stays."""
        return KEPT / self.name / f"run_{seed}"

    def arguments(self, seed: int) -> list[str]:
        return [*shlex.split(self.command), "--seed", str(seed)]


EXPERIMENTS = [
    Experiment("ppo-CartPole", "train ppo CartPole-v1 --steps 100000", SEEDS, ">= 475"),
    Experiment("a2c-CartPole", "train a2c CartPole-v1 --steps 300000", SEEDS, ">= 475"),
    Experiment("vtrace-CartPole", "train vtrace CartPole-v1 --steps 300000", SEEDS, ">= 475"),
    Experiment("ppo-Acrobot", "train ppo Acrobot-v1 --steps 200000", SEEDS, "solves: >= -100"),
    Experiment("ppo-Pendulum", "train ppo Pendulum-v1 --steps 300000", SEEDS, "solves: >= -250"),
    Experiment("ppo-memory-lstm", f"train {MEMORY[0]} --agent.recurrent", SEEDS, "near 1"),
    Experiment("a2c-memory-lstm", f"train {MEMORY[1]} --agent.recurrent", SEEDS, "near 1"),
    Experiment("vtrace-memory-lstm", f"train {MEMORY[2]} --agent.recurrent", SEEDS, "near 1"),
    Experiment("ppo-memory-ff", f"train {MEMORY[0]}", SEEDS, "cannot: about 0.5"),
    Experiment("a2c-memory-ff", f"train {MEMORY[1]}", SEEDS, "cannot: about 0.5"),
    Experiment("ppo-HalfCheetah", "train ppo HalfCheetah-v5 --steps 300000", SEEDS, "a curve"),
    Experiment(
        "ppo-pong",
        "train ppo pong --steps 1500000 --algo.learning-rate 5e-4 --algo.no-linear-lr-schedule "
        f"--algo.minibatches 8 --eval-episodes 10 {SMALL_PONG}",
        (0,),
        ">= 10 in the curve",
        by_default=False,
    ),
    Experiment("dqn-CartPole", "train dqn CartPole-v1 --steps 100000", SEEDS, ">= 475"),
    Experiment("ddqn-CartPole", f"train dqn CartPole-v1 --steps 100000 {DDQN}", SEEDS, ">= 475"),
    Experiment("catdqn-CartPole", "train catdqn CartPole-v1 --steps 100000", SEEDS, ">= 475"),
    Experiment("rainbow-CartPole", "train rainbow CartPole-v1 --steps 100000", SEEDS, ">= 475"),
    Experiment("qrdqn-CartPole", "train qrdqn CartPole-v1 --steps 100000", SEEDS, ">= 475"),
    Experiment("iqn-CartPole", "train iqn CartPole-v1 --steps 100000", SEEDS, ">= 475"),
    Experiment("r2d1-memory", "train r2d1 toy/memory", SEEDS, "near 1"),
    Experiment("dqn-memory", "train dqn toy/memory --steps 20000", SEEDS, "cannot: about 0.5"),
    Experiment("minatar-dqn", f"train dqn {BREAKOUT}", SEEDS, "a curve", by_default=False),
    Experiment("minatar-rainbow", f"train rainbow {BREAKOUT}", SEEDS, "a curve", by_default=False),
    Experiment("minatar-qrdqn", f"train qrdqn {BREAKOUT}", SEEDS, "a curve", by_default=False),
    Experiment("minatar-iqn", f"train iqn {BREAKOUT}", SEEDS, "a curve", by_default=False),
    Experiment(
        "dqn-pong",
        "train dqn pong --steps 400000 --sampler.kind serial --sampler.batch-T 4 "
        "--sampler.batch-B 1 --torch-threads 1 --log-interval-steps 10000 "
        "--algo.learning-rate 2.5e-4 --algo.n-step-return 3 --algo.min-steps-learn 10000 "
        "--algo.replay-size 100000 --algo.eps-steps 80000 --algo.replay-ratio 16 "
        "--algo.target-update-interval 500 --eval-episodes 10 "
        f"{QUARTER_PONG}",
        (0,),
        "a curve beside Stable-Baselines3's",
        by_default=False,
    ),
    Experiment("ddpg-Pendulum", "train ddpg Pendulum-v1 --steps 40000", SEEDS, ">= -200"),
    Experiment("td3-Pendulum", "train td3 Pendulum-v1 --steps 20000", SEEDS, ">= -200"),
    Experiment("sac-Pendulum", "train sac Pendulum-v1 --steps 20000", SEEDS, ">= -200"),
    Experiment("sac_v-Pendulum", "train sac_v Pendulum-v1 --steps 20000", SEEDS, ">= -200"),
    *(
        Experiment(f"async-{name}", f"train {command} --sampler.asynchronous", SEEDS, target)
        for name, command, target in (
            ("dqn-CartPole", "dqn CartPole-v1 --steps 100000", ">= 475"),
            ("sac-Pendulum", "sac Pendulum-v1 --steps 20000", ">= -200"),
            ("impala-CartPole", "impala CartPole-v1 --steps 300000", ">= 475"),
            ("impala-memory-lstm", f"{MEMORY[2].replace('vtrace', 'impala')} --agent.recurrent",
             "near 1"),
        )
    ),
    Experiment(
        "async-impala-pong",
        "train impala pong --steps 3000000 --sampler.asynchronous --sampler.batch-T 32 "
        "--sampler.batch-B 4 --algo.learning-rate 6e-4 --algo.gae-lambda 0.95 "
        f"--algo.normalize-advantage --eval-episodes 10 {SMALL_PONG}",
        (0,),
        "a curve",
        by_default=False,
    ),
    *(
        Experiment(
            f"{by}{algo}-{env}",
            f"{'' if by else 'train '}{algo} {env}-v5 --steps 50000",
            seeds,
            "at least Stable-Baselines3's" if not by else "the other's score",
            by_default=False,
            program="benchmarks.sb3_control" if by else "rlpyt.cli.main",
        )
        for env, algo, seeds in (
            ("HalfCheetah", "sac", SEEDS),
            ("HalfCheetah", "td3", SEEDS),
            ("Hopper", "sac", SEEDS),
            ("Hopper", "td3", (*SEEDS, 3, 4)),  # whose scores differ most from seed to seed
        )
        for by in ("", "sb3-")
    ),
    *(
        Experiment(
            f"{algo}-{env}-lr{rate}",
            f"train {algo} {env}-v5 --steps 50000 --torch-threads 1 --algo.learning-rate {rate}"
            + (f" --algo.q-learning-rate {rate}" if algo != "sac" else ""),
            REPORT_SEEDS,
            "the better of the two rates",
            by_default=False,
        )
        for algo in ("sac", "td3", "ddpg")
        for env in ("HalfCheetah", "Hopper")
        for rate in ("3e-4", "1e-3")
    ),
    Experiment(  # dropout and layer norm, 4 updates a step, the least of two critics: part of DroQ
        "sac-droq-HalfCheetah",
        "train sac HalfCheetah-v5 --steps 25000 "
        "--algo.replay-ratio 1024 --algo.policy-update-interval 4 "
        '--agent.args \'{"q_model_kwargs": {"layer_norm": true, "dropout": 0.01}}\'',
        SEEDS,
        "more than plain SAC",
        by_default=False,
    ),
    Experiment(
        "sac-layernorm-HalfCheetah",
        "train sac HalfCheetah-v5 --steps 50000 "
        '--agent.args \'{"q_model_kwargs": {"layer_norm": true}}\'',
        SEEDS,
        "more than plain SAC",
        by_default=False,
    ),
    Experiment(
        "sac-tqc-Hopper",
        "train sac Hopper-v5 --steps 50000 --algo.n-drop-quantiles 5 "
        '--agent.args \'{"n_critics": 3, "q_model_kwargs": {"n_quantiles": 25}}\'',
        SEEDS,
        "more than plain SAC",
        by_default=False,
    ),
    Experiment(
        "sac-bfloat16-Pendulum",
        "train sac Pendulum-v1 --steps 20000 --algo.mixed-precision",
        SEEDS,
        ">= -200, as in float32",
        by_default=False,
    ),
]  # fmt: skip

FIGURES = {
    "cartpole": ["ppo-CartPole", "a2c-CartPole"],
    "acrobot": ["ppo-Acrobot"],
    "pendulum": ["ppo-Pendulum"],
    "memory": ["ppo-memory-lstm", "a2c-memory-lstm", "ppo-memory-ff", "a2c-memory-ff"],
    "halfcheetah": ["ppo-HalfCheetah"],
    "pong": ["ppo-pong"],
    "q-cartpole": [
        "dqn-CartPole", "ddqn-CartPole", "catdqn-CartPole", "rainbow-CartPole", "qrdqn-CartPole",
        "iqn-CartPole",
    ],
    "q-memory": ["r2d1-memory", "dqn-memory"],
    "minatar": ["minatar-dqn", "minatar-rainbow", "minatar-qrdqn", "minatar-iqn"],
    "dqn-pong": ["dqn-pong", "sb3-dqn-pong"],
    "q-pendulum": ["ddpg-Pendulum", "td3-Pendulum", "sac-Pendulum", "sac_v-Pendulum"],
    "async-cartpole": ["dqn-CartPole", "async-dqn-CartPole"],
    "async-pendulum": ["sac-Pendulum", "async-sac-Pendulum"],
    "impala": ["async-impala-CartPole", "async-impala-memory-lstm"],
    "impala-pong": ["async-impala-pong"],
    "control-halfcheetah": [
        "sac-HalfCheetah", "sb3-sac-HalfCheetah", "td3-HalfCheetah", "sb3-td3-HalfCheetah",
    ],
    "control-hopper": ["sac-Hopper", "sb3-sac-Hopper", "td3-Hopper", "sb3-td3-Hopper"],
    "control-options": ["sac-HalfCheetah", "sac-droq-HalfCheetah", "sac-layernorm-HalfCheetah"],
    "control-bfloat16": ["sac-Pendulum", "sac-bfloat16-Pendulum"],
}  # fmt: skip


def run(experiment: Experiment, seed: int) -> None:
    directory, kept = experiment.directory(seed), experiment.kept(seed)
    if (kept / "evaluation.json").exists():
        return
    command = [sys.executable, "-m", experiment.program, *experiment.arguments(seed)]
    print(f"$ {experiment.shown} --seed {seed}", flush=True)
    quietly = ["--no-video"] if experiment.program == "rlpyt.cli.main" else []
    subprocess.run([*command, "--run-dir", directory, *quietly], check=True, cwd=ROOT)
    keep(directory, kept)


def keep(directory: Path, kept: Path) -> None:
    """Copy what tables and figures need of a finished run."""
    kept.mkdir(parents=True, exist_ok=True)
    settings = json.loads((directory / "config.json").read_text())
    settings.pop("run_dir", None)
    (kept / "config.json").write_text(json.dumps(settings, indent=1) + "\n")
    with (
        (directory / "progress.csv").open(newline="") as source,
        (kept / "progress.csv").open("w", newline="") as target,
    ):
        writer = csv.DictWriter(target, KEPT_COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(csv.DictReader(source))
    if (directory / "evaluation.json").exists():
        shutil.copyfile(directory / "evaluation.json", kept / "evaluation.json")


def row(experiment: Experiment) -> str | None:
    returns, seconds, best = [], [], []
    for seed in experiment.seeds:
        directory = experiment.kept(seed)
        if not (directory / "evaluation.json").exists():
            return None
        returns.append(json.loads((directory / "evaluation.json").read_text())["return_mean"])
        progress = read_progress(directory)
        seconds.append(progress["Diagnostics/CumTime (s)"][-1])
        best.append(np.nanmax(progress["ReturnAverage"]))
    evaluated = ", ".join(f"{r:.1f}" for r in returns)
    curve = ", ".join(f"{r:.1f}" for r in best)
    seeds = ", ".join(map(str, experiment.seeds))
    return (
        f"| {experiment.name} | `{experiment.shown}` | {seeds} | "
        f"{experiment.target} | {evaluated} | {curve} | {np.mean(seconds):.0f} s |"
    )


def report() -> None:
    columns = ["experiment", "command", "seeds", "asked for", "evaluation", "best row", "time"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for experiment in EXPERIMENTS:
        line = row(experiment)
        if line:
            print(line)
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    print(f"\nPython {platform.python_version()}, {libraries}.")
    for figure, names in FIGURES.items():
        paths = [KEPT / name for name in names]
        if all(path.exists() for path in paths):
            print(plot_runs(paths, IMAGES / f"{figure}.png"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="experiments whose name contains this")
    parser.add_argument("--report", action="store_true", help="run nothing, write the tables")
    args = parser.parse_args()
    for experiment in EXPERIMENTS:
        chosen = args.only in experiment.name if args.only else experiment.by_default
        for seed in experiment.seeds if chosen and not args.report else ():
            run(experiment, seed)
    report()


if __name__ == "__main__":
    main()
