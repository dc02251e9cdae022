"""Train PPO on CartPole from its four parts: sampler, algorithm, agent and runner.

ReturnAverage in the printed table rises from about 20 towards 500. Every number of the table is
also a column of progress.csv in the run directory. The last line is the mean return of 20 episodes
of the trained agent, which is loaded from that directory.

    python examples/ppo_cartpole.py

The same in one line: ``rlpyt.train("ppo", "CartPole-v1")``, or ``rlpyt train ppo CartPole-v1``.
"""

import tyro

import rlpyt
from rlpyt import PPO, CategoricalMlpAgent, MinibatchRl, SerialSampler, logger_context
from rlpyt.envs.gym import make


def main(steps: int = 100_000, run_id: int = 0, log_dir: str = "ppo_cartpole") -> None:
    """Train PPO on CartPole.

    Args:
        steps: environment steps.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    sampler = SerialSampler(
        EnvCls=make,  # function that makes an environment
        env_kwargs=dict(id="CartPole-v1"),  # its arguments
        batch_T=128,  # time steps per batch
        batch_B=8,  # environments in parallel
    )
    algo = PPO(
        learning_rate=1e-3,
        gae_lambda=0.95,
        ratio_clip=0.2,
        clip_grad_norm=0.5,
        value_loss_coeff=0.5,
        entropy_loss_coeff=0.0,
        normalize_advantage=True,
    )
    runner = MinibatchRl(
        algo=algo,
        agent=CategoricalMlpAgent(),  # MLP; see recurrent_memory.py for a custom model
        sampler=sampler,
        n_steps=steps,
        seed=0,
        affinity=dict(master_torch_threads=1),  # more threads help only large networks
        log_interval_steps=10_240,
    )
    with logger_context(log_dir, run_id, "cartpole_ppo", snapshot_mode="last") as run_dir:
        runner.train()
    print(rlpyt.load(run_dir).evaluate(20))


if __name__ == "__main__":
    tyro.cli(main)
