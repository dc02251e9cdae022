"""Environments on other machines: sampling by the actors of a Ray cluster.

Nothing else changes: the same seed gives the same batches as with any other sampler, up to
rounding (docs/sampling.md). Without an address a cluster is started on this machine, which is of
use for trying things out only. Look at StepsPerSecond beside example_2.py's, which has workers on
this machine: batches and weights take longer to come and go, so T should be large. Kill an actor
(``ps ax | grep RayChild``) and look at ActorRestarts.

    pip install 'rlpyt[ray]'
    python examples/example_ray.py
    ray start --head                              # on the first machine, and on the others
    ray start --address=FIRST:6379                # what it says; then, on the first,
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
    """Put the parts together and run."""
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
    parser.add_argument("--address", default=None, help="of a cluster, such as auto")
    parser.add_argument("--n-actors", type=int, default=2, help="with 8 environments each")
    parser.add_argument("--steps", type=int, default=102_400, help="environment steps")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, in its path")
    parser.add_argument("--log-dir", default="example_ray", help="relative: below data/")
    args = parser.parse_args()
    build_and_train(args.address, args.n_actors, args.steps, args.run_id, args.log_dir)
