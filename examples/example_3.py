"""Train a Gaussian policy with continuous actions on Pendulum.

Pendulum's torque is in [-2, 2]. The agent's network uses units of [-1, 1]; the Gaussian agent
scales actions, and the collector clips them for the environment, so any bounds work. Episodes end
only by a time limit: the value of the true final observation is bootstrapped, which this task
needs for correct values.

    python examples/example_3.py

ReturnAverage rises from about -1200 to better than -250. Next: example_4.py, a custom
environment.
"""

import argparse

from rlpyt.agents.pg.vector import GaussianMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(n_steps: int, run_ID: int, log_dir: str) -> None:
    """Build all parts and train."""
    sampler = CpuSampler(EnvCls=make, env_kwargs=dict(id="Pendulum-v1"), batch_T=256, batch_B=8)
    algo = PPO(
        discount=0.9, gae_lambda=0.95, learning_rate=1e-3, epochs=10, minibatches=8,
        ratio_clip=0.2, value_loss_coeff=0.5, entropy_loss_coeff=0.0, normalize_advantage=True,
    )  # fmt: skip
    runner = MinibatchRl(
        algo=algo,
        agent=GaussianMlpAgent(),
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(n_workers=2, master_torch_threads=1),
        log_interval_steps=20_480,
        log_traj_window=50,
    )
    with logger_context(log_dir, run_ID, "pendulum_ppo"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200_000, help="environment steps")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_3", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.steps, args.run_id, args.log_dir)
