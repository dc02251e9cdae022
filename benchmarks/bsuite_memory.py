"""Train PPO with a memory on an experiment of bsuite, memory_len or memory_size.

    python -m benchmarks.bsuite_memory memory_len --memory mingru --seed 0 --run-dir data/memory_len

Each setting of the experiment (numbers of steps or bits to remember) is trained by itself. bsuite's
score is the fraction of settings whose regret is below 0.75 of a random agent's, that is, in which
fewer than 3/8 of all training episodes failed, including those before the task was learned.
bsuite plays 10,000 episodes for each; with fewer the score is harder to reach. Writes
``progress.csv`` with a row per setting (ReturnAverage is the rate of success), and
``evaluation.json`` with 1 for each setting that counts as solved and their mean, the score.
"""

import argparse
import csv
import json
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.learning import KEPT_COLUMNS
from benchmarks.tasks import ShowQuery, bsuite
from rlpyt.agents.pg.vector import agent_for
from rlpyt.algos.pg.ppo import PPO
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.seed import set_seed

EPISODE_STEPS = {"memory_len": lambda n: n + 1, "memory_size": lambda n: 3}
MIN_T = 16  # shorter episodes are joined to sequences of at least this length
MAX_REGRET = 0.75  # of a random agent's, 0.5 per episode


def success_rate(args: argparse.Namespace, setting: dict[str, int]) -> float:
    """Train in one setting; return the fraction of all episodes that succeeded."""
    set_seed(args.seed)
    (number,) = setting.values()
    steps = EPISODE_STEPS[args.experiment](number)
    batch_T = -(-MIN_T // steps) * steps
    env_kwargs = dict(experiment=args.experiment, **setting)
    sampler = SerialSampler(
        bsuite, env_kwargs, batch_T=batch_T, batch_B=args.batch_B, max_decorrelation_steps=0
    )
    model_kwargs: dict[str, Any] = dict(memory=args.memory, lstm_size=args.size)
    model_kwargs["hidden_sizes"] = [] if args.show_query else [args.size]
    if args.show_query:
        model_kwargs["encoders"] = {"observation": ShowQuery}
    spaces = sampler_spaces(env_kwargs)
    agent = agent_for(spaces, recurrent=args.memory != "none", model_kwargs=model_kwargs)
    sampler.initialize(agent, seed=args.seed, bootstrap_value=True)
    n_itr = -(-args.episodes * steps // (batch_T * args.batch_B))
    algo = PPO(
        learning_rate=args.learning_rate,
        discount=args.discount,
        gae_lambda=0.95,
        ratio_clip=args.ratio_clip,
        epochs=args.epochs,
        minibatches=args.minibatches,
        entropy_loss_coeff=0.01,
        normalize_advantage=True,
    )
    algo.initialize(agent, n_itr, sampler.batch_spec, mid_batch_reset=True)
    returns: list[float] = []
    for itr in range(n_itr):
        agent.sample_mode(itr)
        samples, infos = sampler.obtain_samples(itr)
        returns += [info.Return for info in infos]
        agent.train_mode(itr)
        algo.optimize_agent(itr, samples)
    sampler.shutdown()
    return float(np.mean(np.array(returns[: args.episodes]) == 1))


def sampler_spaces(env_kwargs: dict[str, int]):
    from rlpyt.envs.base import build_env

    return build_env(bsuite, env_kwargs).spaces


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", choices=EPISODE_STEPS)
    parser.add_argument("--memory", default="gru", help="lstm, gru, mingru, ... or none")
    parser.add_argument("--size", type=int, default=64, help="of the memory and the hidden layer")
    parser.add_argument(
        "--show-query",
        action="store_true",
        help="(memory_size) the encoder ShowQuery in place of the hidden layer",
    )
    parser.add_argument("--episodes", type=int, default=10_000, help="per setting")
    parser.add_argument("--batch-B", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--ratio-clip", type=float, default=0.2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--only", type=int, default=None, help="train one setting only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run-dir", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.run_dir.mkdir(parents=True, exist_ok=True)
    settings = json.dumps(vars(args) | {"run_dir": str(args.run_dir)}, indent=2)
    (args.run_dir / "config.json").write_text(settings + "\n", encoding="utf-8")
    sweep = import_module(f"bsuite.experiments.{args.experiment}.sweep").SETTINGS
    start, steps, solved = time.perf_counter(), 0, []
    with (args.run_dir / "progress.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(KEPT_COLUMNS)
        for setting in sweep:
            (number,) = setting.values()
            if args.only not in (None, number):
                continue
            rate = success_rate(args, dict(setting))
            steps += args.episodes * EPISODE_STEPS[args.experiment](number)
            solved.append(float((1 - rate) / 0.5 < MAX_REGRET))
            row = steps, round(time.perf_counter() - start, 1), rate
            writer.writerow(row)
            file.flush()
            print(f"{setting}: {rate:.3f} of the episodes, after {row[1]} s", flush=True)
    found = {"return_mean": float(np.mean(solved)), "returns": solved}
    (args.run_dir / "evaluation.json").write_text(json.dumps(found, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
