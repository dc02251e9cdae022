"""Train on vector environments, which are stepped as one batch.

``make_vec`` makes CartPole as one array program; ``make_atari_vec`` and ``make_envpool`` make games
on native threads. A sampler requests as many rows as each worker has; adapters handle final
observations, seeds and automatic resets (docs/vector_environments.md). With ``--normalize`` a
wrapper standardizes observations by running statistics, which evaluation loads and freezes.

    python examples/example_9.py
    python examples/example_9.py --normalize --n-workers 2

Next: example_10.py, learning from replay.
"""

import argparse
from typing import Any

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.vector import make_vec
from rlpyt.envs.vector.wrappers import StandardizeObservation
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context


def make_normalized(num_envs: int, **kwargs: Any) -> Any:
    """Make the same vector environment with standardized observations."""
    return StandardizeObservation(make_vec(num_envs=num_envs, **kwargs))


make_normalized.batched = True  # type: ignore[attr-defined]  # samplers pass num_envs


def build_and_train(
    n_steps: int, n_workers: int, normalize: bool, run_ID: int, log_dir: str
) -> None:
    """Build all parts and train."""
    sampler = (CpuSampler if n_workers else SerialSampler)(
        EnvCls=make_normalized if normalize else make_vec,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=32,
        batch_B=64,
        eval_n_envs=8,
        eval_max_steps=8_000,
        eval_max_trajectories=16,
    )
    runner = MinibatchRlEval(
        algo=PPO(learning_rate=1e-3, discount=0.98, gae_lambda=0.9, epochs=8),
        agent=CategoricalMlpAgent(),
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(n_workers=n_workers or 1, master_torch_threads=1),
        log_interval_steps=40_960,
    )
    with logger_context(log_dir, run_ID, "cartpole_vec", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=204_800, help="environment steps")
    parser.add_argument("--n-workers", type=int, default=0, help="worker processes; 0: none")
    parser.add_argument("--normalize", action="store_true", help="standardize observations")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_9", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.steps, args.n_workers, args.normalize, args.run_id, args.log_dir)
