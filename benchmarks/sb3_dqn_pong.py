"""Train DQN of Stable-Baselines3 on Pong, for comparison with ``dqn-pong``.

    OMP_NUM_THREADS=1 python -m benchmarks.sb3_dqn_pong --steps 400000 --seed 0

Uses one environment with SB3's Atari wrappers, the Nature network or a smaller one, and
hyperparameters that can be set equal to those of `rlpyt train dqn pong`. A step is one action of
the agent, of four frames. Epsilon decreases from the first step, in rlpyt from the first update;
both end at the same step.
``progress.csv`` has the columns that ``rlpyt.vis.curves.plot_runs`` draws: steps, seconds, updates,
and the mean return of the last 100 games.
"""

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.learning import KEPT, RUNS, keep

COLUMNS = (
    "Diagnostics/CumSteps",
    "Diagnostics/CumTime (s)",
    "Diagnostics/CumUpdates",
    "Diagnostics/CumCompletedTrajs",
    "ReturnAverage",
)


def build(args: argparse.Namespace) -> Any:
    """Build the DQN model with its environment."""
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    torch.set_num_threads(args.threads)
    games = make_atari_env(
        "ale_py:PongNoFrameskip-v4", 1, seed=args.seed, wrapper_kwargs={"screen_size": args.frame}
    )
    return DQN(
        "CnnPolicy",
        VecFrameStack(games, 4),
        learning_rate=args.learning_rate,
        buffer_size=args.buffer_size,
        learning_starts=args.learning_starts,
        batch_size=args.batch_size,
        gamma=args.discount,
        train_freq=args.train_freq,
        n_steps=args.n_steps,
        target_update_interval=args.target_update_interval,
        exploration_fraction=args.exploration_steps / args.steps,
        exploration_final_eps=args.exploration_final_eps,
        max_grad_norm=args.max_grad_norm,
        policy_kwargs={
            **(small_network(args.frame) if args.small else {}),
            "optimizer_kwargs": {"eps": args.adam_eps},
        },
        # Store each frame stack once instead of twice. Not supported with n_steps > 1, nor with
        # time limits, which Pong's games of at most 27,000 steps do not reach.
        optimize_memory_usage=args.n_steps == 1,
        replay_buffer_kwargs={"handle_timeout_termination": False},
        device="cpu",
        seed=args.seed,
    )


def small_network(frame: int) -> dict[str, Any]:
    """Return policy arguments for two convolutions and 256 hidden units (Mnih et al. 2013)."""
    side = ((frame - 8) // 4 + 1 + 2 - 4) // 2 + 1  # size of the convolutions' output
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from torch import nn

    class Small(BaseFeaturesExtractor):
        def __init__(self, observation_space: Any) -> None:
            super().__init__(observation_space, features_dim=256)
            self.layers = nn.Sequential(
                nn.Conv2d(observation_space.shape[0], 16, 8, 4), nn.ReLU(),
                nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten(),
                nn.Linear(32 * side * side, 256), nn.ReLU(),
            )  # fmt: skip

        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            return self.layers(observations)  # type: ignore[no-any-return]

    # By default SB3 adds two layers of 64 units after a custom extractor.
    return {"features_extractor_class": Small, "net_arch": []}


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
    parser.add_argument("--steps", type=int, default=400_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run-dir", type=Path, help="default: data/results/sb3-dqn-pong/run_SEED")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--n-steps", type=int, default=1, help="number of rewards in a target")
    parser.add_argument("--train-freq", type=int, default=4, help="steps per update")
    parser.add_argument(
        "--target-update-interval",
        type=int,
        default=8_000,
        help="in steps; 4 steps are one update of rlpyt",
    )
    parser.add_argument("--learning-starts", type=int, default=50_000)
    parser.add_argument(
        "--buffer-size", type=int, default=100_000, help="transitions of 28 kB each"
    )
    parser.add_argument("--exploration-steps", type=int, default=250_000)
    parser.add_argument("--exploration-final-eps", type=float, default=0.01)
    parser.add_argument("--max-grad-norm", type=float, default=10.0)
    parser.add_argument(
        "--small", action="store_true", help="use two convolutions and 256 hidden units"
    )
    parser.add_argument("--frame", type=int, default=84, help="height and width of a frame")
    parser.add_argument("--adam-eps", type=float, default=1e-8, help="rlpyt: 0.01 / batch size")
    parser.add_argument("--interval", type=int, default=10_000, help="steps between rows")
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    directory = args.run_dir or RUNS / "sb3-dqn-pong" / f"run_{args.seed}"
    directory.mkdir(parents=True, exist_ok=True)
    settings = json.dumps(vars(args) | {"env": "pong", "run_dir": str(directory)}, indent=2)
    (directory / "config.json").write_text(settings + "\n", encoding="utf-8")
    model = build(args)
    model.learn(args.steps, callback=recorder(directory / "progress.csv", args.interval))
    if args.run_dir is None:
        keep(directory, KEPT / directory.relative_to(RUNS))


if __name__ == "__main__":
    main()
