"""Train deep Q-learning from replay: DQN, categorical DQN, QR-DQN or IQN.

``--kind`` selects an algorithm and its agent. ``--prioritized`` samples transitions by their TD
error, ``--noisy`` explores by noise in the network's weights instead of random actions; categorical
DQN with both is Rainbow. Watch ReturnAverage of evaluation, and tdAbsErrAverage, the mean TD error.
docs/algorithms.md describes the options, docs/replay.md the replay buffers.

    python examples/dqn_family.py
    python examples/dqn_family.py --kind qrdqn --prioritized --noisy
"""

from typing import Any, Literal

import tyro

from rlpyt import (
    DQN,
    IQN,
    QRDQN,
    CatDqnMlpAgent,
    CategoricalDQN,
    DqnMlpAgent,
    IqnMlpAgent,
    MinibatchRlEval,
    QrDqnMlpAgent,
    SerialSampler,
    logger_context,
)
from rlpyt.envs.gym import make

KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "dqn": (DQN, DqnMlpAgent, {}),
    "catdqn": (CategoricalDQN, CatDqnMlpAgent, dict(V_min=-100, V_max=100)),
    "qrdqn": (QRDQN, QrDqnMlpAgent, {}),
    "iqn": (IQN, IqnMlpAgent, dict(n_tau=16, n_tau_target=16)),
}


def main(
    kind: Literal["dqn", "catdqn", "qrdqn", "iqn"] = "dqn",
    steps: int = 40_960,
    prioritized: bool = False,
    noisy: bool = False,
    run_id: int = 0,
    log_dir: str = "dqn_family",
) -> None:
    """Train on CartPole.

    Args:
        kind: algorithm, with its agent.
        steps: environment steps.
        prioritized: sample transitions by their TD error.
        noisy: explore by noise in the weights, with epsilon zero.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    Algo, Agent, more = KINDS[kind]
    algo = Algo(
        learning_rate=5e-4,
        batch_size=64,
        min_steps_learn=1_000,
        replay_size=100_000,
        replay_ratio=32,  # each step is used 32 times on average
        target_update_interval=250,
        eps_steps=15_000,
        double_dqn=True,
        n_step_return=3,
        prioritized_replay=prioritized,
        pri_beta_steps=None,
        **more,
    )
    epsilon = dict(eps_init=0, eps_final=0) if noisy else dict(eps_final=0.04)
    evaluation: dict[str, Any] = dict(eval_n_envs=4, eval_max_steps=8_000, eval_max_trajectories=8)
    runner = MinibatchRlEval(
        algo=algo,
        agent=Agent(model_kwargs=dict(dueling=True, noisy=noisy), **epsilon),
        sampler=SerialSampler(make, dict(id="CartPole-v1"), batch_T=16, batch_B=4, **evaluation),
        n_steps=steps,
        seed=0,
        affinity=dict(master_torch_threads=1),
        log_interval_steps=5_120,
    )
    with logger_context(log_dir, run_id, f"cartpole_{kind}", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
