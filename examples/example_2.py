"""Train with worker processes and separate evaluation episodes.

Only the sampler's class changes; batches are the same for any number of workers, up to rounding
(docs/sampling.md). ``MinibatchRlEval`` regularly runs complete episodes in separate environments,
so ReturnAverage describes the current agent, not the training episodes.

    python examples/example_2.py --n-workers 2

Next: example_3.py, continuous actions.
"""

import argparse

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(n_steps: int, n_workers: int, run_ID: int, log_dir: str) -> None:
    """Build all parts and train."""
    sampler = CpuSampler(
        EnvCls=make,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=16,
        batch_B=16,
        eval_n_envs=4,  # split over the workers
        eval_max_steps=20_000,
        eval_max_trajectories=20,  # split over the evaluation environments
    )
    algo = A2C(
        learning_rate=1e-3, gae_lambda=0.95, clip_grad_norm=0.5, entropy_loss_coeff=0.0,
        normalize_advantage=True,
    )  # fmt: skip
    runner = MinibatchRlEval(
        algo=algo,
        agent=CategoricalMlpAgent(),
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(n_workers=n_workers, master_torch_threads=1),
        log_interval_steps=25_000,
    )
    with logger_context(log_dir, run_ID, "cartpole_a2c", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200_000, help="environment steps")
    parser.add_argument("--n-workers", type=int, default=2, help="worker processes")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_2", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.steps, args.n_workers, args.run_id, args.log_dir)
