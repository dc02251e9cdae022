"""Train SAC, TD3, DDPG or PPO with continuous actions.

SAC, TD3 and DDPG learn from replay, one update per environment step; PPO learns from batches of new
samples and needs far more steps, but less time per step. With ``--n-critics 5`` SAC's policy
maximizes the mean of five critics, and two random ones form each target. Watch ReturnAverage of
evaluation, below -1000 at first and above -250 when the pendulum is held upright, and for SAC
alphaAverage, the temperature, which falls as the policy needs less noise. Pendulum's episodes end
only by a time limit: all algorithms bootstrap from the value of the true final observation.

    python examples/continuous_control.py
    python examples/continuous_control.py --kind td3
"""

from typing import Any, Literal

import tyro

from rlpyt import (
    DDPG,
    PPO,
    SAC,
    TD3,
    DdpgAgent,
    GaussianMlpAgent,
    MinibatchRlEval,
    SacAgent,
    SerialSampler,
    Td3Agent,
    logger_context,
)
from rlpyt.envs.gym import make

OFF_POLICY: dict[str, tuple[Any, Any]] = {
    "sac": (SAC, SacAgent),
    "td3": (TD3, Td3Agent),
    "ddpg": (DDPG, DdpgAgent),
}


def main(
    kind: Literal["sac", "td3", "ddpg", "ppo"] = "sac",
    steps: int | None = None,
    n_critics: int | None = None,
    run_id: int = 0,
    log_dir: str = "continuous_control",
) -> None:
    """Train on Pendulum.

    Args:
        kind: algorithm, with its agent.
        steps: environment steps; by default 6,000, for PPO 200,000.
        n_critics: number of SAC's or TD3's critics; by default two.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    sizes = dict(hidden_sizes=[64, 64])
    if kind == "ppo":
        algo: Any = PPO(
            discount=0.9,
            learning_rate=1e-3,
            epochs=10,
            minibatches=8,
            ratio_clip=0.2,
            entropy_loss_coeff=0.0,
            gae_lambda=0.95,
            normalize_advantage=True,
        )
        agent: Any = GaussianMlpAgent(model_kwargs=sizes)
    else:
        Algo, Agent = OFF_POLICY[kind]
        settings = dict(discount=0.98, learning_rate=1e-3, batch_size=64, replay_ratio=64)
        more = dict(min_steps_learn=500, replay_size=100_000)
        if kind == "sac" and n_critics is not None:
            more["n_target_critics"] = min(2, n_critics)
        algo = Algo(**settings, **more)
        critics = {} if n_critics is None else dict(n_critics=n_critics)
        agent = Agent(model_kwargs=sizes, q_model_kwargs=sizes, **critics)
    sampler = SerialSampler(
        EnvCls=make,
        env_kwargs=dict(id="Pendulum-v1"),
        batch_T=256 if kind == "ppo" else 1,
        batch_B=8 if kind == "ppo" else 1,
        max_decorrelation_steps=0,
        eval_n_envs=4,
        eval_max_steps=1_600,
        eval_max_trajectories=8,
    )
    runner = MinibatchRlEval(
        algo=algo,
        agent=agent,
        sampler=sampler,
        n_steps=steps or (200_000 if kind == "ppo" else 6_000),
        seed=0,
        affinity=dict(master_torch_threads=1),
        log_interval_steps=20_480 if kind == "ppo" else 1_000,
    )
    with logger_context(log_dir, run_id, f"pendulum_{kind}", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
