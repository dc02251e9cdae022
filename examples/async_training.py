"""Train asynchronously: a sampler process fills batches while this process optimizes.

With a replay buffer (``--kind dqn`` or ``sac``) ``replay_ratio`` sets the number of updates, and
the sampler may be two batches ahead (``max_lead``). Without one (``--kind vtrace``, the learner of
IMPALA) each batch is used once, in place, with a correction for the policy being older than the
parameters. Watch PolicyLagAverage, the number of updates by which the policy of a batch is older;
OptThrottle and SamplerThrottle, the fraction of time that one waits for the other; and
ReplayRatio. docs/scaling.md says when asynchronous training is faster.

    python examples/async_training.py
    python examples/async_training.py --kind vtrace --n-workers 2 --steps 100000
"""

from typing import Any, Literal

import tyro

from rlpyt import (
    DQN,
    SAC,
    AsyncRl,
    CategoricalMlpAgent,
    DqnMlpAgent,
    SacAgent,
    VTrace,
    logger_context,
)
from rlpyt.envs.gym import make
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler

NETWORK = dict(hidden_sizes=[64, 64])


def parts_of(kind: str) -> tuple[Any, Any, str, tuple[int, int]]:
    """Return algorithm, agent, environment, and (T, B) of the sampler's batches."""
    if kind == "vtrace":
        algo: Any = VTrace(learning_rate=1e-3, entropy_loss_coeff=0.0, normalize_advantage=True)
        return algo, CategoricalMlpAgent(model_kwargs=NETWORK), "CartPole-v1", (16, 8)
    replay: dict[str, Any] = dict(batch_size=64, replay_size=100_000)
    if kind == "sac":
        algo = SAC(
            discount=0.98, learning_rate=1e-3, replay_ratio=64, min_steps_learn=500, **replay
        )
        agent = SacAgent(model_kwargs=NETWORK, q_model_kwargs=NETWORK)
        return algo, agent, "Pendulum-v1", (4, 2)
    algo = DQN(
        replay_ratio=32,
        min_steps_learn=1_000,
        learning_rate=2.5e-4,
        n_step_return=3,
        double_dqn=True,
        eps_steps=15_000,
        target_update_interval=250,
        clip_grad_norm=10.0,
        **replay,
    )
    return algo, DqnMlpAgent(model_kwargs=NETWORK, eps_final=0.04), "CartPole-v1", (16, 4)


def main(
    kind: Literal["dqn", "sac", "vtrace"] = "dqn",
    steps: int = 40_000,
    n_workers: int = 1,
    run_id: int = 0,
    log_dir: str = "async_training",
) -> None:
    """Train on CartPole, SAC on Pendulum.

    Args:
        kind: algorithm, with its agent and environment.
        steps: environment steps.
        n_workers: worker processes that step environments.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    algo, agent, env_id, (T, B) = parts_of(kind)
    runner = AsyncRl(
        algo=algo,
        agent=agent,
        sampler=AsyncCpuSampler(make, dict(id=env_id), batch_T=T, batch_B=B),
        n_steps=steps,
        affinity=dict(sampler=dict(n_workers=n_workers), optimizer=[dict(torch_threads=1)]),
        seed=0,
        log_interval_steps=2_000,
        max_lead=2,
    )
    with logger_context(log_dir, run_id, f"async_{kind}", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
