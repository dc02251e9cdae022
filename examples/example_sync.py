"""Train synchronously in several processes, one rank per GPU or group of cores.

Each rank samples with its own environments and computes gradients from its own batch; gradients are
averaged (all-reduce), so that all ranks train the same agent. Batch sizes are per rank, steps are
of all ranks: with twice the ranks an iteration has twice the steps, and a run half as many
iterations. Rank 0 logs the trajectories of all ranks; Ctrl-C saves one checkpoint with the state of
every rank. See docs/multi_process.md.

    python examples/example_sync.py --ranks 2
    torchrun --nproc-per-node 2 examples/example_sync.py    (the same, started by torchrun)
"""

import argparse

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils import torchrun
from rlpyt.utils.logging.context import logger_context


def build_and_train(n_ranks: int, n_steps: int, run_ID: int, log_dir: str) -> None:
    """Build all parts and train; under torchrun in every rank."""
    sampler = SerialSampler(
        EnvCls=make,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=64,
        batch_B=8,  # environments of each rank
    )
    runner = SyncRl(
        algo=PPO(learning_rate=1e-3, gae_lambda=0.95, minibatches=4, epochs=4),
        agent=CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[64, 64])),
        sampler=sampler,
        n_steps=n_steps,  # of all ranks
        seed=0,
        affinity=None if torchrun.place() else n_ranks,
        log_interval_steps=10_000,
    )
    with logger_context(log_dir, run_ID, "cartpole_ranks", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--ranks", type=int, default=2, help="number of processes; ignored under torchrun"
    )
    parser.add_argument("--steps", type=int, default=200_000, help="environment steps of all ranks")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_sync", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.ranks, args.steps, args.run_id, args.log_dir)
