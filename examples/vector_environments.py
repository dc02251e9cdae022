"""Train in vector environments, which are stepped as one batch.

``make_vec`` makes CartPole as one array program; ``make_atari_vec`` and ``make_envpool`` make games
on native threads. A sampler requests as many rows as each worker has; adapters handle final
observations, seeds and automatic resets (docs/vector_environments.md). With ``--normalize`` a
wrapper standardizes observations by running statistics, which evaluation loads and freezes.
Watch StepsPerSecond.

    python examples/vector_environments.py
    python examples/vector_environments.py --normalize --n-workers 2
"""

from typing import Any

import tyro

from rlpyt import (
    PPO,
    CategoricalMlpAgent,
    CpuSampler,
    MinibatchRlEval,
    SerialSampler,
    logger_context,
)
from rlpyt.envs.vector import make_vec
from rlpyt.envs.vector.wrappers import StandardizeObservation


def make_normalized(num_envs: int, **kwargs: Any) -> Any:
    """Make the vector environment with standardized observations."""
    return StandardizeObservation(make_vec(num_envs=num_envs, **kwargs))


make_normalized.batched = True  # type: ignore[attr-defined]  # samplers pass num_envs


def main(
    steps: int = 204_800,
    n_workers: int = 0,
    normalize: bool = False,
    run_id: int = 0,
    log_dir: str = "vector_environments",
) -> None:
    """Train PPO in 64 environments.

    Args:
        steps: environment steps.
        n_workers: worker processes, each with one vector environment; 0: none.
        normalize: standardize observations.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
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
        n_steps=steps,
        seed=0,
        affinity=dict(n_workers=n_workers or 1, master_torch_threads=1),
        log_interval_steps=40_960,
    )
    with logger_context(log_dir, run_id, "cartpole_vec", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
