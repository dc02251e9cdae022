"""Measure training of recurrent PPO: `python -m benchmarks.recurrent --help`.

A linear layer of 64 tanh units, an LSTM of 128 and linear heads everywhere; 4 epochs of 4
minibatches and the hyperparameters of `recurrent_peers.HYPER`; one process and one thread.
Minibatches are whole environments, those of sb3-contrib as many consecutive steps. Episodes of
CartPole end at any step of a batch; those of Pendulum, whose velocity is hidden, after 200 steps.
"""

from __future__ import annotations

from typing import Any

from benchmarks import contenders, harness, recurrent_peers
from benchmarks.harness import Contender, Setting


def recurrent(
    env: str, hidden: bool, batch_T: int, target_return: float | None, n_envs: int = 8
) -> Setting:
    """Compare recurrent PPO in one environment, with or without hidden velocities."""
    task: dict[str, Any] = dict(env=env, hidden=hidden, batch_T=batch_T, n_envs=n_envs)
    shared = dict(task, shared_lstm=True, enable_critic_lstm=False)
    return Setting(
        f"recurrent PPO {env}{', velocity hidden' * hidden}, {n_envs} x {batch_T}",
        (
            Contender("hand-written, SyncVectorEnv", recurrent_peers.hand_written, task),
            Contender("sb3-contrib, DummyVecEnv", recurrent_peers.sb3_contrib, shared),
            Contender("sb3-contrib, second LSTM for the value", recurrent_peers.sb3_contrib, task),
            Contender("rlpyt SerialSampler", contenders.recurrent_ppo, task),
            Contender(
                "rlpyt SerialSampler, minGRU", contenders.recurrent_ppo, dict(task, memory="mingru")
            ),
        ),
        target_return=target_return,
    )


SETTINGS = {
    "cartpole": (recurrent("CartPole-v1", False, 128, 100),),
    "pendulum": (recurrent("Pendulum-v1", True, 256, None),),
}

if __name__ == "__main__":
    harness.main("recurrent", SETTINGS, seconds=8.0)
