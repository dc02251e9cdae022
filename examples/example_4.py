"""Define a custom environment and custom trajectory statistics.

``Corridor`` implements ``rlpyt.envs.base.Env``: two spaces, ``reset`` and ``step``, with a named
tuple for ``env_info``. ``CorridorInfo`` extends ``TrajInfo``; its public entries become columns of
progress.csv, such as TurnsAverage, which falls as the agent learns to walk straight. Both are
defined in this script and sent to the workers.

    python examples/example_4.py

Next: example_5.py, a custom model.
"""

import argparse
from collections import namedtuple
from typing import Any

import numpy as np

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.base import Env, EnvStep
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.logging.context import logger_context

Info = namedtuple("Info", ["turned", "timeout"])


class Corridor(Env):
    """Corridor to walk left or right, with the exit at the right end and a cost per step."""

    def __init__(self, length: int = 10, limit: int = 100) -> None:
        self.length, self.limit = length, limit
        self._observation_space = FloatBox(low=0, high=1, shape=(1,))
        self._action_space = IntBox(low=0, high=2)

    def reset(self) -> np.ndarray:
        """Start at the left end."""
        self.position, self.t, self.last = 0, 0, 1
        return self._observe()

    def step(self, action: Any) -> EnvStep:
        """Take a step; the time limit is a truncation, the exit a termination."""
        turned, self.last = action != self.last, action
        self.position = max(0, self.position + (1 if action == 1 else -1))
        self.t += 1
        at_exit = self.position >= self.length
        timeout = self.t >= self.limit and not at_exit
        reward = 10.0 if at_exit else -0.1
        info = Info(bool(turned), timeout)
        return EnvStep(self._observe(), reward, at_exit or timeout, info)

    def _observe(self) -> np.ndarray:
        return np.array([self.position / self.length], np.float32)


class CorridorInfo(TrajInfo):
    """Trajectory statistics with the number of turns."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.Turns = 0

    def step(
        self, observation: Any, action: Any, reward: Any, done: Any, agent_info: Any, env_info: Any
    ) -> None:
        """Add one environment step to the statistics."""
        super().step(observation, action, reward, done, agent_info, env_info)
        self.Turns += int(env_info.turned)


def build_and_train(n_steps: int, run_ID: int, log_dir: str) -> None:
    """Build all parts and train."""
    sampler = CpuSampler(
        EnvCls=Corridor,
        env_kwargs=dict(length=10),
        batch_T=64,
        batch_B=8,
        TrajInfoCls=CorridorInfo,
    )
    algo = PPO(gae_lambda=0.95, ratio_clip=0.2, entropy_loss_coeff=0.0, normalize_advantage=True)
    runner = MinibatchRl(
        algo=algo,
        agent=CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[32])),
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(n_workers=2, master_torch_threads=1),
        log_interval_steps=5_120,
    )
    with logger_context(log_dir, run_ID, "corridor_ppo"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40_000, help="environment steps")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_4", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.steps, args.run_id, args.log_dir)
