"""Train PPO on CartPole in one process: sampler, algorithm, agent and runner.

ReturnAverage in the table rises from about 20 towards 500. Every number of the table is also a
column of the run's progress.csv.

    python examples/example_1.py

Next: example_2.py, the same with worker processes.
"""

import argparse

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(n_steps: int, run_ID: int, log_dir: str) -> None:
    """Build all parts and train."""
    sampler = SerialSampler(
        EnvCls=make,  # function that builds an environment
        env_kwargs=dict(id="CartPole-v1"),  # its arguments
        batch_T=128,  # time steps per batch
        batch_B=8,  # environments in parallel
    )
    algo = PPO(
        learning_rate=1e-3, gae_lambda=0.95, ratio_clip=0.2, clip_grad_norm=0.5,
        value_loss_coeff=0.5, entropy_loss_coeff=0.0, normalize_advantage=True,
    )  # fmt: skip
    agent = CategoricalMlpAgent()  # an MLP of 64 x 64; see example_5.py for a custom model
    runner = MinibatchRl(
        algo=algo,
        agent=agent,
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(master_torch_threads=1),  # more threads help only large networks
        log_interval_steps=10_240,
    )
    with logger_context(log_dir, run_ID, "cartpole_ppo", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_1", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.steps, args.run_id, args.log_dir)
