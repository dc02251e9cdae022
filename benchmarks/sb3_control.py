"""Train SAC, TD3 or CrossQ of Stable-Baselines3 and its Contrib, for comparison with rlpyt.

    OMP_NUM_THREADS=1 python -m benchmarks.sb3_control sac HalfCheetah-v5 --steps 50000 --seed 0

Uses one environment, one update per step, and by default the hyperparameters of `rlpyt train sac
HalfCheetah-v5` and `rlpyt train td3 HalfCheetah-v5`. Before learning starts, actions are uniform.
Those of `rlpyt train td3` are too, those of `rlpyt train sac` nearly. After training, the agent is
evaluated without noise for ``--eval-episodes`` episodes, from the same initial states as rlpyt's.
Writes ``progress.csv`` and ``evaluation.json``, with the columns that
``rlpyt.vis.curves.plot_runs`` draws.
"""

import argparse
import csv
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import sb3
from rlpyt.experiments.run import EVAL_SEED

COLUMNS = (
    "Diagnostics/CumSteps",
    "Diagnostics/CumTime (s)",
    "Diagnostics/CumUpdates",
    "Diagnostics/CumCompletedTrajs",
    "ReturnAverage",
)


def build(args: argparse.Namespace) -> Any:
    """Build the model with its environment."""
    import torch

    torch.set_num_threads(args.threads)
    hyper = dataclasses.replace(
        peers.CONTROL,
        learning_rate=args.learning_rate,
        replay_size=args.buffer_size,
        learning_starts=args.learning_starts,
        batch_size=args.batch_size,
        discount=args.discount,
        tau=args.tau,
        hidden_sizes=args.hidden_sizes,
        action_std=args.action_std,
    )
    return sb3.control_model(args.algo, args.env, hyper, args.seed)


def evaluate(model: Any, env_id: str, episodes: int) -> list[float]:
    """Return the undiscounted returns of complete episodes, from the initial states of rlpyt's."""
    import gymnasium

    env, returns = gymnasium.make(env_id), []
    for episode in range(episodes):
        observation, _ = env.reset(seed=EVAL_SEED + episode)
        total, ended = 0.0, False
        while not ended:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def recorder(path: Path, interval: int) -> Any:
    """Return a callback that writes a row every ``interval`` steps and at the end."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Recorder(BaseCallback):
        def _on_training_start(self) -> None:
            self.started, self.n_games = time.monotonic(), 0
            self.file = path.open("w", newline="", encoding="utf-8")
            self.rows = csv.writer(self.file)
            self.rows.writerow(COLUMNS)

        def _on_step(self) -> bool:
            self.n_games += sum("episode" in info for info in self.locals["infos"])
            if self.num_timesteps % interval == 0:
                self._write()
            return True

        def _on_training_end(self) -> None:
            if self.num_timesteps % interval:
                self._write()
            self.file.close()

        def _write(self) -> None:
            games = self.model.ep_info_buffer or ()  # the last 100 by default
            mean = np.mean([game["r"] for game in games]) if games else np.nan
            seconds = time.monotonic() - self.started
            updates = self.model._n_updates
            self.rows.writerow([self.num_timesteps, seconds, updates, self.n_games, mean])
            self.file.flush()
            print(f"{self.num_timesteps:>9,} steps {seconds:7.0f} s  return {mean:.2f}", flush=True)

    return Recorder()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algo", choices=("sac", "td3", "crossq"))
    parser.add_argument("env", help="HalfCheetah-v5")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run-dir", type=Path, help="default: data/results/sb3-ALGO-ENV/run_SEED")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--tau", type=float, default=0.005)
    parser.add_argument("--learning-starts", type=int, default=5_000)
    parser.add_argument("--buffer-size", type=int, default=1_000_000)
    parser.add_argument("--hidden-sizes", type=int, nargs="+", default=[256, 256])
    parser.add_argument(
        "--action-std", type=float, default=0.1, help="standard deviation of TD3's noise"
    )
    parser.add_argument("--eval-episodes", type=int, default=20)
    parser.add_argument("--interval", type=int, default=5_000, help="steps between rows")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    return parser.parse_args()


def main() -> None:
    from benchmarks.learning import RUNS

    args = arguments()
    name = f"sb3-{args.algo}-{args.env.partition('-')[0]}"
    directory = args.run_dir or RUNS / name / f"run_{args.seed}"
    directory.mkdir(parents=True, exist_ok=True)
    settings = json.dumps(vars(args) | {"run_dir": str(directory)}, indent=2)
    (directory / "config.json").write_text(settings + "\n", encoding="utf-8")
    model = build(args)
    model.learn(args.steps, callback=recorder(directory / "progress.csv", args.interval))
    returns = evaluate(model, args.env, args.eval_episodes)
    found = {"return_mean": float(np.mean(returns)), "returns": returns}
    (directory / "evaluation.json").write_text(json.dumps(found, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
