"""Log to TensorBoard, Weights & Biases, MLflow and trackio, beside progress.csv.

Experiment trackers receive rows, settings and attached files from processes of their own. Without
an account everything stays on this machine: W&B runs offline, MLflow and trackio use local
databases. See docs/logging.md.

    pip install "rlpyt[tensorboard,wandb]"
    python examples/logging_wandb_tensorboard.py --loggers tensorboard wandb
    tensorboard --logdir data/local               # watch ReturnAverage and Diagnostics
"""

from typing import Any

import tyro

from rlpyt import PPO, CategoricalMlpAgent, MinibatchRl, SerialSampler, logger_context
from rlpyt.envs.gym import make
from rlpyt.utils.logging import logger


def main(
    steps: int = 50_000,
    loggers: tuple[str, ...] = ("tensorboard",),
    run_id: int = 0,
    log_dir: str = "logging_wandb_tensorboard",
) -> None:
    """Train PPO on CartPole.

    Args:
        steps: environment steps.
        loggers: any of tensorboard, wandb, mlflow and trackio.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    settings: dict[str, Any] = dict(
        learning_rate=1e-3, entropy_loss_coeff=0.0, normalize_advantage=True
    )
    runner = MinibatchRl(
        algo=PPO(**settings),
        agent=CategoricalMlpAgent(),
        sampler=SerialSampler(make, dict(id="CartPole-v1"), batch_T=128, batch_B=8),
        n_steps=steps,
        seed=0,
        affinity=dict(master_torch_threads=1),
        log_interval_steps=5_120,
    )
    context = logger_context(log_dir, run_id, "cartpole_ppo", log_params=settings, loggers=loggers)
    with context as run_dir:
        runner.train()
        logger.attach(run_dir / "params.json")  # any file: a plot, a video, a table


if __name__ == "__main__":
    tyro.cli(main)
