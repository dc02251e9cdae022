"""Train asynchronously, with sampling and optimization in different processes.

The sampler fills one batch while the optimizer, in this process, trains on others. With a replay
buffer (``--kind dqn`` or ``sac``) the number of updates is set by ``replay_ratio``, and the sampler
may be two batches ahead (``max_lead``). Without one (``--kind vtrace``, the learner of IMPALA) each
batch is used once, in place, with a correction for the policy being older than the parameters. See
PolicyLagAverage, the number of updates that the policy of a batch lagged behind; OptThrottle and
SamplerThrottle, the fraction of time that one waited for the other; and ReplayRatio.
docs/scaling.md says when asynchronous training is faster.

    python examples/example_async.py
    python examples/example_async.py --kind vtrace --workers 2
"""

import argparse
from typing import Any

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs.gym import make
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler
from rlpyt.utils.logging.context import logger_context

NETWORK = dict(hidden_sizes=[64, 64])


def parts_of(kind: str) -> tuple[Any, Any, str, tuple[int, int]]:
    """Return algorithm, agent, environment, and (T, B) of the sampler's batches."""
    if kind == "vtrace":
        algo: Any = VTrace(learning_rate=1e-3, entropy_loss_coeff=0.0, normalize_advantage=True)
        return algo, CategoricalMlpAgent(model_kwargs=NETWORK), "CartPole-v1", (8, 8)
    if kind == "sac":
        algo = SAC(
            discount=0.98, learning_rate=1e-3, batch_size=64, replay_ratio=64,
            min_steps_learn=500, replay_size=100_000,
        )  # fmt: skip
        agent = SacAgent(model_kwargs=NETWORK, q_model_kwargs=NETWORK)
        return algo, agent, "Pendulum-v1", (4, 2)
    algo = DQN(
        batch_size=64, replay_ratio=32, min_steps_learn=1_000, replay_size=100_000,
        learning_rate=2.5e-4, n_step_return=3, double_dqn=True, eps_steps=15_000,
        target_update_interval=250, clip_grad_norm=10.0,
    )  # fmt: skip
    return algo, DqnMlpAgent(model_kwargs=NETWORK, eps_final=0.04), "CartPole-v1", (16, 4)


def build_and_train(kind: str, n_steps: int, workers: int, run_ID: int, log_dir: str) -> None:
    """Build all parts and train."""
    algo, agent, env_id, (T, B) = parts_of(kind)
    sampler = AsyncCpuSampler(EnvCls=make, env_kwargs=dict(id=env_id), batch_T=T, batch_B=B)
    runner = AsyncRl(
        algo=algo,
        agent=agent,
        sampler=sampler,
        n_steps=n_steps,
        affinity=dict(sampler=dict(n_workers=workers), optimizer=[dict(torch_threads=1)]),
        seed=0,
        log_interval_steps=2_000,
        max_lead=2,
    )
    with logger_context(log_dir, run_ID, f"async_{kind}", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=("dqn", "sac", "vtrace"), default="dqn")
    parser.add_argument("--steps", type=int, default=40_000, help="environment steps")
    parser.add_argument(
        "--workers", type=int, default=1, help="worker processes that step environments"
    )
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_async", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.kind, args.steps, args.workers, args.run_id, args.log_dir)
