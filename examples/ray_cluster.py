"""Sample in the actors of a Ray cluster, on one or several machines.

Nothing else changes: the same seed gives the same batches as with any other sampler, up to rounding
(docs/sampling.md). Without an address a cluster is started on this machine, for tests only. Watch
StepsPerSecond and compare it with ``compare_samplers.py --sampler cpu``, which has workers on this
machine: transfers of batches and weights take longer, so T should be large. Kill an actor
(``ps ax | grep RayChild``) and watch ActorRestarts.

    pip install "rlpyt[ray]"
    python examples/ray_cluster.py
    ray start --head                              # on the first machine
    ray start --address=FIRST:6379                # on the others, as printed; then, on the first:
    python examples/ray_cluster.py --address auto --n-actors 32
"""

import tyro

from rlpyt import A2C, CategoricalMlpAgent, MinibatchRl, RaySampler, logger_context
from rlpyt.envs.gym import make


def main(
    address: str | None = None,
    n_actors: int = 2,
    steps: int = 102_400,
    run_id: int = 0,
    log_dir: str = "ray_cluster",
) -> None:
    """Train A2C on CartPole.

    Args:
        address: address of a cluster, such as auto; by default a new one on this machine.
        n_actors: number of actors, with 8 environments each.
        steps: environment steps.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    sampler = RaySampler(
        EnvCls=make,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=32,
        batch_B=8 * n_actors,
        n_actors=n_actors,
        address=address,
        actor_options=dict(scheduling_strategy="SPREAD"),
    )
    runner = MinibatchRl(
        algo=A2C(learning_rate=3e-3),
        agent=CategoricalMlpAgent(),
        sampler=sampler,
        n_steps=steps,
        seed=0,
        affinity=dict(n_workers=1, master_torch_threads=1),
        log_interval_steps=max(steps // 10, 1),
    )
    with logger_context(log_dir, run_id, "cartpole_ray", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
