"""Log to TensorBoard and to Weights & Biases, beside progress.csv.

``use_summary_writer=True`` writes every column of progress.csv for TensorBoard into the run
directory. A hook passes each row to Weights & Biases, or to any other tracker; without wandb
installed the script says so and trains all the same. Without WANDB_API_KEY the run is stored
offline, and ``wandb sync`` uploads it later.

    pip install "rlpyt[tensorboard,wandb]"
    python examples/logging_wandb_tensorboard.py
    tensorboard --logdir data/local               # watch ReturnAverage and Diagnostics
"""

import importlib.util
import os
from typing import Any

import tyro

from rlpyt import PPO, CategoricalMlpAgent, Hook, MinibatchRl, SerialSampler, logger_context
from rlpyt.envs.gym import make
from rlpyt.utils.logging import logger


class WandbHook(Hook):
    """Log every row of progress.csv to Weights & Biases."""

    def __init__(self, project: str, config: dict[str, Any] | None = None) -> None:
        self.project, self.config = project, config

    def on_start(self, runner: Any) -> None:
        """Start the run of Weights & Biases, in the run directory."""
        import wandb

        mode = "online" if "WANDB_API_KEY" in os.environ else "offline"
        run_dir = logger.get_snapshot_dir()
        self.run = wandb.init(project=self.project, config=self.config, dir=run_dir, mode=mode)

    def on_log(self, runner: Any, row: dict[str, Any]) -> None:
        """Log the row at the current number of environment steps."""
        self.run.log(dict(row), step=runner.cum_steps)

    def on_end(self, runner: Any) -> None:
        """Finish the run, also after an error."""
        self.run.finish()


def main(
    steps: int = 50_000,
    tensorboard: bool = True,
    run_id: int = 0,
    log_dir: str = "logging_wandb_tensorboard",
) -> None:
    """Train PPO on CartPole.

    Args:
        steps: environment steps.
        tensorboard: write for TensorBoard.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    settings = dict(learning_rate=1e-3, entropy_loss_coeff=0.0, normalize_advantage=True)
    has_wandb = importlib.util.find_spec("wandb") is not None
    if not has_wandb:
        print("wandb is not installed: no log for Weights & Biases.")
    runner = MinibatchRl(
        algo=PPO(**settings),
        agent=CategoricalMlpAgent(),
        sampler=SerialSampler(make, dict(id="CartPole-v1"), batch_T=128, batch_B=8),
        n_steps=steps,
        seed=0,
        affinity=dict(master_torch_threads=1),
        log_interval_steps=5_120,
        hooks=[WandbHook("rlpyt-examples", settings)] if has_wandb else [],
    )
    with logger_context(
        log_dir, run_id, "cartpole_ppo", log_params=settings, use_summary_writer=tensorboard
    ):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
