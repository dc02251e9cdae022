"""Train PPO on an Atari game, with four stacked frames, episodic lives and the game score.

A short run shows only the speed, StepsPerSecond: PPO needs a million steps for Pong
(docs/results/earlier.md). Watch GameScoreAverage, which ``AtariTrajInfo`` adds: rewards are clipped
and every life is an episode in training, so that ReturnAverage is not the score.

    pip install "rlpyt[atari]"
    python examples/atari.py
    python examples/atari.py --game breakout --steps 10000000 --n-workers 8 --recurrent
"""

import tyro

from rlpyt import PPO, AtariFfAgent, AtariLstmAgent, CpuSampler, MinibatchRl, logger_context
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo


def main(
    game: str = "pong",
    steps: int = 20_480,
    recurrent: bool = False,
    n_workers: int = 2,
    cuda_idx: int | None = None,
    run_id: int = 0,
    log_dir: str = "atari",
) -> None:
    """Train PPO on an Atari game.

    Args:
        game: name of the game.
        steps: environment steps, of four frames each.
        recurrent: use an LSTM after the convolutions.
        n_workers: worker processes.
        cuda_idx: GPU for training; by default the CPU.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    sampler = CpuSampler(
        EnvCls=AtariEnv,
        env_kwargs=dict(game=game),
        TrajInfoCls=AtariTrajInfo,
        batch_T=128,
        batch_B=8,
    )
    algo = PPO(
        learning_rate=2.5e-4,
        gae_lambda=0.95,
        clip_grad_norm=0.5,
        value_loss_coeff=0.5,
        normalize_advantage=True,
    )
    runner = MinibatchRl(
        algo=algo,
        agent=AtariLstmAgent() if recurrent else AtariFfAgent(),
        sampler=sampler,
        n_steps=steps,
        seed=0,
        affinity=dict(n_workers=n_workers, cuda_idx=cuda_idx),
        log_interval_steps=10_240,
    )
    with logger_context(log_dir, run_id, f"{game}_ppo", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
