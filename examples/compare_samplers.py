"""Compare the speed of the synchronous samplers, with evaluation in separate environments.

``serial`` runs everything in this process. ``cpu`` has workers that compute their own actions.
``gpu`` has workers that only step environments, while this process computes all actions, on the CPU
or a GPU; ``alternating`` splits these workers into two groups, one of which steps while the other
waits for actions. The same seed gives the same batches with every sampler, up to rounding
(docs/sampling.md). Watch StepsPerSecond: ``cpu`` suits networks as small as this one, central
acting large ones. ReturnAverage is that of the evaluation episodes (``MinibatchRlEval``).

    python examples/compare_samplers.py --sampler cpu
    python examples/compare_samplers.py --sampler alternating
    python examples/compare_samplers.py --sampler gpu --cuda-idx 0
"""

from typing import Any, Literal

import tyro

from rlpyt import (
    PPO,
    AlternatingSampler,
    CategoricalLstmAgent,
    CpuSampler,
    GpuSampler,
    MinibatchRlEval,
    SerialSampler,
    logger_context,
)
from rlpyt.envs.gym import make

SAMPLERS: dict[str, Any] = {
    "serial": SerialSampler,
    "cpu": CpuSampler,
    "gpu": GpuSampler,
    "alternating": AlternatingSampler,
}


def main(
    sampler: Literal["serial", "cpu", "gpu", "alternating"] = "cpu",
    steps: int = 102_400,
    n_workers: int = 2,
    cuda_idx: int | None = None,
    run_id: int = 0,
    log_dir: str = "compare_samplers",
) -> None:
    """Train PPO with an LSTM on CartPole.

    Args:
        sampler: kind of sampler.
        steps: environment steps.
        n_workers: worker processes.
        cuda_idx: GPU for acting and training; by default the CPU.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    runner = MinibatchRlEval(
        algo=PPO(learning_rate=1e-3, discount=0.98, gae_lambda=0.9, epochs=8),
        agent=CategoricalLstmAgent(),
        sampler=SAMPLERS[sampler](
            EnvCls=make,
            env_kwargs=dict(id="CartPole-v1"),
            batch_T=64,
            batch_B=8,
            eval_n_envs=4,  # split over the workers
            eval_max_steps=8_000,
            eval_max_trajectories=8,
            eval_deterministic=True,  # the most likely action, not a sampled one
        ),
        n_steps=steps,
        seed=0,
        affinity=dict(n_workers=n_workers, cuda_idx=cuda_idx, master_torch_threads=1),
        log_interval_steps=20_480,
    )
    with logger_context(log_dir, run_id, f"cartpole_{sampler}", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
