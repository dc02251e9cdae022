"""Looks at what a single environment returns."""

from typing import Any

import numpy as np

from rlpyt.envs.base import EnvStep
from rlpyt.testing.inspection import Inspector
from rlpyt.testing.report import Stop


class SingleInspector(Inspector):
    """For an ``Env``."""

    def reset(self, observation: Any) -> None:
        """Look at what ``reset`` returned."""
        self.where = f"reset before step {self.t + 1}"
        pair = isinstance(observation, tuple) and len(tuple(observation)) == 2
        if pair and isinstance(tuple(observation)[1], dict):
            self.report.error(
                "structure",
                "reset() returned (observation, info), as Gymnasium does",
                "return the observation alone; a gymnasium.Env is adapted by GymEnvWrapper.",
            )
            raise Stop
        self.check_observation(observation, ())

    def step(self, result: Any, action: Any) -> None:
        """Look at what ``step`` returned."""
        self.t += 1
        self.where = f"step {self.t}"
        sent = self.bench.actions(self.t)[0]
        if not isinstance(result, tuple) or len(tuple(result)) != len(EnvStep._fields):
            five = isinstance(result, tuple) and len(tuple(result)) == 5
            hint = " (Gymnasium's five; the old gym's four end with a dict)" if five else ""
            self.report.error(
                "structure",
                f"step() returned {result!r:.100}{hint}",
                "return EnvStep(observation, reward, done, env_info), done being terminated or "
                "truncated, env_info a named tuple with timeout.",
            )
            raise Stop
        if not hasattr(result, "_fields"):
            self.report.warning(
                "structure",
                "step() returned a plain tuple",
                "return rlpyt.envs.base.EnvStep(...): its fields have names.",
            )
        observation, reward, done, info = tuple(result)
        self.check_observation(observation, ())
        self._check_reward(reward)
        self._check_done(done)
        self.check_info(info, ())
        for name in ("timeout", "traj_done"):
            value = getattr(info, name, False)
            if not isinstance(value, bool | np.bool_):
                self.report.error(
                    "time-limit",
                    f"{self.where}: env_info.{name} is {value!r:.40} of {type(value).__name__}",
                    "make it a bool.",
                )
        self.check_flags(
            getattr(info, "timeout", False), getattr(info, "traj_done", False), bool(done)
        )
        self.check_action_unchanged(action, sent)

    def _check_reward(self, reward: Any) -> None:
        scalar = isinstance(reward, bool | int | float | np.generic)
        if not scalar or np.asarray(reward).dtype.kind not in "biuf":
            self.report.error(
                "reward",
                f"{self.where}: reward is {reward!r:.60} of {type(reward).__name__}",
                "return a number: float(reward); of several agents or parts, their sum.",
            )
            raise Stop
        if not np.isfinite(reward):
            self.report.error(
                "reward", f"{self.where}: reward is {reward}", "find where it stops being finite."
            )

    def _check_done(self, done: Any) -> None:
        if not isinstance(done, bool | np.bool_):
            self.report.error(
                "done",
                f"{self.where}: done is {done!r:.60} of {type(done).__name__}",
                "return a bool: bool(terminated or truncated).",
            )
            if np.ndim(done):
                raise Stop
