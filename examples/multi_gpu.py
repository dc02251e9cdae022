"""Train synchronously in several processes ("ranks"), one per GPU or group of cores.

Each rank samples in its own environments and computes gradients from its own batch; gradients are
averaged (all-reduce), so that all ranks train the same agent. Batch sizes are per rank, steps are
of all ranks: with twice the ranks an iteration has twice the steps, and a run half as many
iterations. Watch StepsPerSecond and ReturnAverage, which cover all ranks. Ctrl-C saves one
checkpoint with the state of every rank. See docs/multi_process.md.

    python examples/multi_gpu.py                           # one rank per GPU
    python examples/multi_gpu.py --ranks 2                 # two, also without a GPU
    torchrun --nproc-per-node 2 examples/multi_gpu.py      # the same, started by torchrun
"""

import tyro

from rlpyt import PPO, CategoricalMlpAgent, SerialSampler, SyncRl, logger_context
from rlpyt.envs.gym import make


def main(
    steps: int = 200_000,
    ranks: int | None = None,
    run_id: int = 0,
    log_dir: str = "multi_gpu",
) -> None:
    """Train PPO on CartPole in several ranks.

    Args:
        steps: environment steps of all ranks.
        ranks: number of ranks on this machine; by default one per GPU, or those of torchrun.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
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
        n_steps=steps,
        seed=0,
        affinity=ranks,  # or a list with the GPU and the cores of each rank (docs/affinity.md)
        log_interval_steps=10_000,
    )
    with logger_context(log_dir, run_id, "cartpole_ranks", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
