"""Sample by actors of a Ray cluster, on one or several machines.

Nothing else changes: the same seed gives the same batches as with any other sampler, up to
rounding (docs/sampling.md). Without an address a cluster is started on this machine, for tests
only. Compare StepsPerSecond with example_2.py, which has workers on this machine: transfers of
batches and weights take longer, so T should be large. Kill an actor (``ps ax | grep RayChild``)
and see ActorRestarts.

    pip install 'rlpyt[ray]'
    python examples/example_ray.py
    ray start --head                              # on the first machine
    ray start --address=FIRST:6379                # on the others, as printed; then, on the first:
    python examples/example_ray.py --address auto --n-actors 32
"""

import argparse

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.ray_sampler import RaySampler
from rlpyt.utils.logging.context import logger_context


def build_and_train(
    address: str | None, n_actors: int, n_steps: int, run_ID: int, log_dir: str
) -> None:
    """Build all parts and train."""
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
        n_steps=n_steps,
        seed=0,
        affinity=dict(n_workers=1, master_torch_threads=1),
        log_interval_steps=max(n_steps // 10, 1),
    )
    with logger_context(log_dir, run_ID, "cartpole_ray", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default=None, help="address of a cluster, such as auto")
    parser.add_argument(
        "--n-actors", type=int, default=2, help="number of actors, with 8 environments each"
    )
    parser.add_argument("--steps", type=int, default=102_400, help="environment steps")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_ray", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.address, args.n_actors, args.steps, args.run_id, args.log_dir)
