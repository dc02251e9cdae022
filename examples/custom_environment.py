"""Train in a custom environment, with custom trajectory statistics.

``Corridor`` implements ``rlpyt.Env``: two spaces, ``reset`` and ``step``, with a named tuple as
``env_info``. A ``gymnasium.Env`` can be used in the same way. Public attributes of ``CorridorInfo``
become columns of progress.csv: watch TurnsAverage, which falls as the agent learns to walk straight
to the exit, and ReturnAverage, which rises to 9.1.

    python examples/custom_environment.py
    cd examples; rlpyt check custom_environment:Corridor          # test the environment
    cd examples; rlpyt train ppo custom_environment:Corridor
"""

from collections import namedtuple
from typing import Any

import numpy as np
import tyro

from rlpyt import PPO, CategoricalMlpAgent, CpuSampler, Env, EnvStep, MinibatchRl, logger_context
from rlpyt.samplers.collections import TrajInfo
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox

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
        return EnvStep(self._observe(), reward, at_exit or timeout, Info(bool(turned), timeout))

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


def main(steps: int = 40_000, run_id: int = 0, log_dir: str = "custom_environment") -> None:
    """Train PPO in the corridor.

    Args:
        steps: environment steps.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    runner = MinibatchRl(
        algo=PPO(gae_lambda=0.95, ratio_clip=0.2, entropy_loss_coeff=0.0, normalize_advantage=True),
        agent=CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[32])),
        sampler=CpuSampler(Corridor, dict(length=10), 64, 8, TrajInfoCls=CorridorInfo),
        n_steps=steps,
        seed=0,
        affinity=dict(n_workers=2, master_torch_threads=1),
        log_interval_steps=5_120,
    )
    with logger_context(log_dir, run_id, "corridor_ppo", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
