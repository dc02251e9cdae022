"""Measure training of recurrent PPO: `python -m benchmarks.recurrent --help`.

A linear layer of 64 tanh units, an LSTM of 128 and linear heads everywhere; 4 epochs of 4
minibatches and the hyperparameters of `peers.RECURRENT_PPO`; one process and one thread.
Minibatches are whole environments, those of sb3-contrib as many consecutive steps. Episodes of
CartPole end at any step of a batch; those of Pendulum, whose velocity is hidden, after 200 steps.
"""

from __future__ import annotations

from typing import Any

from benchmarks import harness
from benchmarks.harness import Setting
from benchmarks.peers import contender


def recurrent(
    env: str, hidden: bool, batch_T: int, target_return: float | None, n_envs: int = 8
) -> Setting:
    """Compare recurrent PPO in one environment, with or without hidden velocities."""
    task: dict[str, Any] = dict(env=env, hidden=hidden, batch_T=batch_T, n_envs=n_envs)
    shared = dict(task, shared_lstm=True, enable_critic_lstm=False)
    return Setting(
        f"recurrent PPO {env}{', velocity hidden' * hidden}, {n_envs} x {batch_T}",
        tuple(
            contender(name, library, "recurrent_ppo", **kwargs)
            for name, library, kwargs in (
                ("hand-written, SyncVectorEnv", "hand_written", task),
                ("sb3-contrib, DummyVecEnv", "sb3", shared),
                ("sb3-contrib, second LSTM for the value", "sb3", task),
                ("rlpyt SerialSampler", "rlpyt", task),
                ("rlpyt SerialSampler, minGRU", "rlpyt", dict(task, memory="mingru")),
            )
        ),
        target_return=target_return,
    )


SETTINGS = {
    "cartpole": (recurrent("CartPole-v1", False, 128, 100),),
    "pendulum": (recurrent("Pendulum-v1", True, 256, None),),
}

if __name__ == "__main__":
    harness.main("recurrent", SETTINGS, seconds=8.0)
