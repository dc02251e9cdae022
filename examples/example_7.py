"""Train PPO on an Atari game, with episodic lives and the game score.

Requires pip install "rlpyt[atari]". A short run shows only the speed: PPO needs a million steps
for Pong (docs/results.md). See StepsPerSecond, and GameScoreAverage, which ``AtariTrajInfo``
adds.

    python examples/example_7.py --steps 20000
"""

import argparse

from rlpyt.agents.pg.atari import AtariFfAgent, AtariLstmAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(game: str, n_steps: int, recurrent: bool, run_ID: int, log_dir: str) -> None:
    """Build all parts and train."""
    sampler = CpuSampler(
        EnvCls=AtariEnv,
        env_kwargs=dict(game=game),
        TrajInfoCls=AtariTrajInfo,
        batch_T=128,
        batch_B=8,
    )
    algo = PPO(
        learning_rate=2.5e-4, gae_lambda=0.95, clip_grad_norm=0.5, value_loss_coeff=0.5,
        normalize_advantage=True,
    )  # fmt: skip
    runner = MinibatchRl(
        algo=algo,
        agent=AtariLstmAgent() if recurrent else AtariFfAgent(),
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(n_workers=2),
        log_interval_steps=10_240,
    )
    with logger_context(log_dir, run_ID, f"{game}_ppo", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="pong", help="name of the game")
    parser.add_argument("--steps", type=int, default=20_480, help="environment steps")
    parser.add_argument("--recurrent", action="store_true", help="use an LSTM")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_7", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.game, args.steps, args.recurrent, args.run_id, args.log_dir)
