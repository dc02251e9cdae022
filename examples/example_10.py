"""Train deep Q-learning from replay on CartPole.

Only agent and algorithm differ from the previous examples. ``--kind`` selects another pair,
``--prioritized`` samples transitions by their TD error, ``--noisy`` explores by noise in the
network's weights, with epsilon zero. See ReturnAverage of evaluation, and tdAbsErr.
docs/algorithms.md describes the options, docs/replay.md the replay buffers.

    python examples/example_10.py
    python examples/example_10.py --kind qrdqn --prioritized --noisy

Next: example_11.py, continuous actions.
"""

import argparse
from typing import Any

from rlpyt.agents.dqn.vector import CatDqnMlpAgent, DqnMlpAgent, IqnMlpAgent, QrDqnMlpAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.qr_dqn import IQN, QRDQN
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context

KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "dqn": (DQN, DqnMlpAgent, {}),
    "catdqn": (CategoricalDQN, CatDqnMlpAgent, dict(V_min=-100, V_max=100)),
    "qrdqn": (QRDQN, QrDqnMlpAgent, {}),
    "iqn": (IQN, IqnMlpAgent, dict(n_tau=16, n_tau_target=16)),
}


def build_and_train(
    kind: str, n_steps: int, prioritized: bool, noisy: bool, run_ID: int, log_dir: str
) -> None:
    """Build all parts and train."""
    Algo, Agent, more = KINDS[kind]
    sampler = SerialSampler(
        EnvCls=make,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=16,
        batch_B=4,
        eval_n_envs=4,
        eval_max_steps=8_000,
        eval_max_trajectories=8,
    )
    algo = Algo(
        learning_rate=5e-4,
        batch_size=64,
        min_steps_learn=1_000,
        replay_size=100_000,
        replay_ratio=32,
        target_update_interval=250,
        eps_steps=15_000,
        double_dqn=True,
        n_step_return=3,
        prioritized_replay=prioritized,
        pri_beta_steps=None,
        **more,
    )
    epsilon = dict(eps_init=0, eps_final=0) if noisy else dict(eps_final=0.04)
    runner = MinibatchRlEval(
        algo=algo,
        agent=Agent(model_kwargs=dict(dueling=True, noisy=noisy), **epsilon),
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(master_torch_threads=1),
        log_interval_steps=5_120,
    )
    with logger_context(log_dir, run_ID, f"cartpole_{kind}", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, default="dqn", help="algorithm and its agent")
    parser.add_argument("--steps", type=int, default=40_960, help="environment steps")
    parser.add_argument("--prioritized", action="store_true", help="sample by TD error")
    parser.add_argument("--noisy", action="store_true", help="explore by noise in the weights")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_10", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.kind, args.steps, args.prioritized, args.noisy, args.run_id, args.log_dir)
