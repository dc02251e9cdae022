"""Looks at what a batch of environments returns."""

from typing import Any

import numpy as np

from rlpyt.envs.base import EnvStep
from rlpyt.testing.inspection import Inspector, described
from rlpyt.testing.report import Stop
from rlpyt.testing.trees import layout_of
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.collections import is_namedarraytuple


class BatchInspector(Inspector):
    """For a ``VectorEnv`` of n rows."""

    def __init__(self, bench: Any, env: Any) -> None:
        super().__init__(bench, env)
        self.n = env.n

    def reset(self, observation: Any, n: int) -> None:
        """Look at what ``reset`` or ``reset_rows`` returned for n rows."""
        self.where = f"reset of {n} rows before step {self.t + 1}"
        self.check_observation(observation, (n,))

    def step(self, result: Any, action: Any) -> None:
        """Look at what ``step`` returned."""
        self.t += 1
        self.where = f"step {self.t}"
        if not hasattr(result, "_fields") or len(tuple(result)) != len(EnvStep._fields):
            self.report.error(
                "structure",
                f"step() returned {type(result).__name__} {result!r:.100}",
                "return EnvStep(observation, reward, done, env_info); batches of gymnasium, ale_py "
                "and EnvPool are adapted by rlpyt.envs.vector.base.adapt.",
            )
            raise Stop
        observation, reward, done, info = tuple(result)
        self.check_observation(observation, (self.n,))
        self._check_column("reward", reward, np.float32)
        self._check_column("done", done, np.bool_)
        if not np.isfinite(reward).all():
            self.report.error(
                "reward", f"{self.where}: reward is {reward}", "find where it stops being finite."
            )
        self.check_info(info, (self.n,))
        self._check_batched_info(info)
        self.check_flags(info.timeout, info.traj_done, done)
        sent = self.bench.actions(self.t)
        for b in range(self.n):
            self.check_action_unchanged(buffer_func(action, lambda leaf, b=b: leaf[b]), sent[b])

    def _check_column(self, name: str, value: Any, dtype: Any) -> None:
        if not isinstance(value, np.ndarray) or value.shape != (self.n,):
            self.report.error(
                name,
                f"{self.where}: {name} is {type(value).__name__} {value!r:.60}",
                f"return a numpy array of shape [{self.n}], an entry per row.",
            )
            raise Stop
        if value.dtype != dtype:
            self.report.error(
                name,
                f"{self.where}: {name} is of dtype {value.dtype}",
                f"return {np.dtype(dtype)}.",
            )

    def _check_batched_info(self, info: Any) -> None:
        if not is_namedarraytuple(info) or info._fields[:2] != ("timeout", "traj_done"):
            self.report.error(
                "env-info",
                f"{self.where}: env_info is {type(info).__name__} with fields {info._fields}",
                "use rlpyt.envs.vector.base.vector_info(keys), which begins with timeout and "
                "traj_done.",
            )
            raise Stop
        if any(np.shape(leaf)[:1] != (self.n,) for leaf in leaves_of(info)):
            self.report.error(
                "env-info",
                f"{self.where}: env_info is {described((info._fields, layout_of(info)))}",
                f"give every entry the leading dimension [{self.n}], a value per row.",
            )
            raise Stop
        for name in ("timeout", "traj_done"):
            self._check_column_of_info(name, getattr(info, name))

    def _check_column_of_info(self, name: str, value: Any) -> None:
        if value.dtype != np.bool_ or value.shape != (self.n,):
            self.report.error(
                "env-info",
                f"{self.where}: env_info.{name} has dtype {value.dtype} and shape {value.shape}",
                f"make it bool, [{self.n}].",
            )
            raise Stop
