"""Train SAC, TD3 or DDPG from replay on Pendulum.

The default is soft actor-critic; ``--kind td3`` and ``--kind ddpg`` select deterministic policies.
One step and one update alternate. With ``--n-critics 5`` SAC's policy maximizes the mean of five
critics, and two random ones form each target. See ReturnAverage of evaluation: -1199 at first, -80
at the end, when the pendulum is held upright (SAC with these settings, seed 0); and alphaAverage,
the temperature, which falls as the policy needs less noise. docs/algorithms.md describes the
options.

    python examples/example_11.py
    python examples/example_11.py --kind td3
"""

import argparse
from typing import Any

from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context

KINDS: dict[str, tuple[Any, Any]] = {
    "sac": (SAC, SacAgent),
    "td3": (TD3, Td3Agent),
    "ddpg": (DDPG, DdpgAgent),
}


def build_and_train(
    kind: str, n_steps: int, n_critics: int | None, run_ID: int, log_dir: str
) -> None:
    """Build all parts and train."""
    Algo, Agent = KINDS[kind]
    agent_kwargs: dict[str, Any] = {} if n_critics is None else dict(n_critics=n_critics)
    algo_kwargs: dict[str, Any] = {}
    if kind == "sac" and n_critics is not None:
        algo_kwargs["n_target_critics"] = min(2, n_critics)
    sampler = SerialSampler(
        EnvCls=make,
        env_kwargs=dict(id="Pendulum-v1"),
        batch_T=1,
        batch_B=1,
        max_decorrelation_steps=0,
        eval_n_envs=4,
        eval_max_steps=1_600,
        eval_max_trajectories=8,
    )
    algo = Algo(
        discount=0.98,
        learning_rate=1e-3,
        batch_size=64,
        replay_ratio=64,
        min_steps_learn=500,
        replay_size=100_000,
        **algo_kwargs,
    )
    networks = dict(hidden_sizes=[64, 64])
    runner = MinibatchRlEval(
        algo=algo,
        agent=Agent(model_kwargs=networks, q_model_kwargs=networks, **agent_kwargs),
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(master_torch_threads=1),
        log_interval_steps=1_000,
    )
    with logger_context(log_dir, run_ID, f"pendulum_{kind}", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=KINDS, default="sac", help="algorithm and its agent")
    parser.add_argument("--steps", type=int, default=6_000, help="environment steps")
    parser.add_argument(
        "--n-critics", type=int, default=None, help="number of critics; default: the agent's"
    )
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_11", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.kind, args.steps, args.n_critics, args.run_id, args.log_dir)
