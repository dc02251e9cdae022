"""Building, seeding and playing of an environment under examination."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rlpyt.envs.base import build_env
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.vector.base import UnsupportedVectorEnv
from rlpyt.samplers.env_batch import is_batch
from rlpyt.samplers.environments import with_rows
from rlpyt.testing.inspect_batch import BatchInspector
from rlpyt.testing.inspect_single import SingleInspector
from rlpyt.testing.report import Report
from rlpyt.testing.rows import BatchRows, Run, SingleRow, play, start
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.seed import env_seed

REPLAYED = 200  # steps that are compared where a run is repeated
ENDS = 5  # episodes that the first run waits for
MOST_BYTES = 2**28  # of observations that it keeps


class Bench:
    """Builds environments from one factory and plays them with the same actions.

    Args:
        make_env: the factory.
        env_kwargs: its arguments.
        report: takes the findings.
        seed: of everything.
        max_steps: how long the first run waits for episodes to end.
        n_rows: of a batch whose factory leaves their number open.

    Attributes:
        batched: whether it makes a ``VectorEnv``.
        gym: whether it makes gymnasium's environments.
        reference: the first run, to which others are compared.
        unseedable: why a batch cannot be seeded; empty if it can.
        same_info: whether env_info, too, comes out the same again.
        reproducible: whether repeating the reference gave the same, so that comparing makes sense.
    """

    def __init__(
        self,
        make_env: Any,
        env_kwargs: Mapping[str, Any],
        report: Report,
        seed: int = 0,
        max_steps: int = 2000,
        n_rows: int = 3,
    ) -> None:
        self.make_env, self.env_kwargs, self.report = make_env, dict(env_kwargs), report
        self.seed, self.max_steps = seed, max_steps
        self.batched = self.gym = self.reproducible = False
        self.unseedable = ""
        self.same_info = True
        self.n = n_rows
        self.reference = Run([], [])
        self._built: list[Any] = []
        self._actions: list[list[Any]] = []
        self._space: Any = None

    def seeds(self, which: int = 0) -> list[int]:
        """One seed per row; another ``which`` gives others."""
        return [env_seed(self.seed, row, f"testing {which}") for row in range(self.n)]

    def build(self, seeds: Sequence[int] | None = None) -> Any:
        """Build an environment, as samplers do; not seeded, unless its factory takes seeds."""
        arguments = self.env_kwargs
        if self.open_rows:
            arguments = with_rows(self.make_env, arguments, list(seeds or self.seeds()))
        env = build_env(self.make_env, arguments, "conformance check")
        self._built.append(env)
        return env

    @property
    def open_rows(self) -> bool:
        """Return True if the factory is told how many rows to make."""
        return bool(getattr(self.make_env, "batched", False)) and "num_envs" not in self.env_kwargs

    @property
    def seeds_at_construction(self) -> bool:
        """Return True if the factory takes the rows' seeds."""
        return self.open_rows and "seeds" in with_rows(self.make_env, self.env_kwargs, [0])

    def adopt(self, env: Any) -> None:
        """Note of what kind this environment, the first built, is."""
        self.batched = is_batch(env)
        self.n = env.n if self.batched else 1
        self.gym = isinstance(env, GymEnvWrapper)
        self._space = env.action_space
        if hasattr(self._space, "seed"):
            self._space.seed(self.seed)

    def actions(self, t: int) -> list[Any]:
        """The actions [n] of step t, the same in every run; random ones."""
        while len(self._actions) <= t:
            row = [buffer_func(self._space.sample(), np.array) for _ in range(self.n)]
            self._actions.append([buffer_func(action, _scalar) for action in row])
        return [buffer_func(action, lambda leaf: leaf.copy()) for action in self._actions[t]]

    def rows(self, seeds: Sequence[int], inspect: bool = False) -> Any:
        """A new environment, seeded and seen as rows."""
        env = self.build(seeds)
        if self.batched:
            rows: Any = BatchRows(env, BatchInspector(self, env) if inspect else None)
        else:
            rows = SingleRow(env, SingleInspector(self, env) if inspect else None)
        if not self.seeds_at_construction:
            try:
                rows.seed(seeds)
            except UnsupportedVectorEnv as error:
                self.unseedable = str(error)
        return rows

    def replay(self, T: int, resets: Mapping[int, Sequence[int]] | None = None) -> Run:
        """Repeat the first T steps of the reference, with further resets if asked for."""
        rows = self.rows(self.seeds())
        return play(rows, start(rows), self.actions, T, resets)

    def explore(self) -> None:
        """Make the reference: until some episodes have ended, everything inspected."""
        rows = self.rows(self.seeds(), inspect=True)
        self.reference = start(rows)
        size = sum(leaf.nbytes for first in self.reference.first for leaf in leaves_of(first))
        most = min(self.max_steps, max(REPLAYED, MOST_BYTES // max(size, 1)))
        ended = 0

        def enough(run: Run) -> bool:
            nonlocal ended
            ended += sum(moment.over for moment in run.moments[-1])
            return ended >= ENDS and len(run.moments) >= REPLAYED

        play(rows, self.reference, self.actions, most, enough=enough)
        rows.inspect.conclude()

    @property
    def short(self) -> int:
        """Steps of the reference that repetitions compare."""
        return min(REPLAYED, len(self.reference.moments))

    def close(self) -> None:
        """Close whatever was built."""
        for env in self._built:
            try:
                env.close()
            except Exception:
                continue
        self._built.clear()


def _scalar(leaf: Any) -> Any:
    return leaf[()] if leaf.shape == () else leaf
