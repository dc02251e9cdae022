"""Faults of environments and workers that a sampler heals instead of ending the run.

``HealingEnv`` replaces an environment that raises, and ``marking_void`` marks what the broken
episode has recorded as void, in the process of the environment. ``WorkerFaults`` decides in the
parent about workers that die or hang.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.algos.returns import valid_from_done
from rlpyt.curricula.env import TaskEnv
from rlpyt.errors import NonFiniteError, WorkerError, WorkerTimeout
from rlpyt.processes.child import ChildSpec
from rlpyt.processes.status import fresh_progress
from rlpyt.samplers.collectors import Collector
from rlpyt.samplers.env_batch import is_batch
from rlpyt.samplers.environments import close_quietly
from rlpyt.samplers.evaluation import EvalCollector
from rlpyt.samplers.fault_policy import CAUSES, HEALED, FaultLimit, FaultPolicy
from rlpyt.samplers.step_checks import (
    all_finite,
    check_batch,
    check_batched,
    check_observation,
    check_step,
    float_leaves,
)
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.collections import AttrDict, NamedArrayTuple, without_fields
from rlpyt.utils.logging import logger
from rlpyt.utils.processes import first_line, raised_by_signal, summary_of
from rlpyt.utils.seed import env_seed
from rlpyt.utils.serialize import ByValue

if TYPE_CHECKING:
    from rlpyt.samplers.env_worker import EnvWorkerSpec


class HealingEnv:
    """An environment, or vector environment, that is built anew after it has raised.

    A failed step returns the last observation, no reward, and the end of the episode (of each row);
    the caller must ask ``broken``, and void what was recorded. ``reset`` builds the environment.

    Args:
        make: function that builds the environment, given the number of its restarts.
        env: the environment.
        record: ``StepRecord`` with leaves [1, ...], or [n, ...] of a vector environment.
        limit: count of the faults of this process.
        check_finite: True if NaN and infinity are faults.
    """

    def __init__(
        self,
        make: Callable[[int], Any],
        env: Any,
        record: NamedArrayTuple,
        limit: FaultLimit,
        check_finite: bool = True,
    ) -> None:
        self._make, self._env, self._record, self._limit = make, env, record, limit
        self.rows = len(record.reward)
        self.restarts, self.broken, self._wait_s = 0, False, 0.0
        self._frozen = False
        self._streak = 0  # faults in a row
        batched = is_batch(env)
        row = slice(None) if batched else 0
        info = buffer_func(record.env_info, lambda leaf: np.zeros_like(leaf)[row])
        if "traj_done" in getattr(info, "_fields", ()):
            info = info._replace(traj_done=np.ones(self.rows, bool)[row])
        self._last = record.observation[row]
        self._check_step: Callable[..., None] = check_batch if batched else check_step
        self._check_first: Callable[..., None] = check_batched if batched else check_observation
        self._check_finite = check_all_finite if check_finite else lambda *parts: None
        self._ending: tuple[Any, Any, Any] = 0.0, True, info
        if batched:
            self.reset_rows = self._reset_rows
            self._ending = np.zeros(self.rows, np.float32), np.ones(self.rows, bool), info

        if hasattr(env, "get_state"):
            self.get_state = self._get_state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def _get_state(self) -> Any:
        """Return the state; ``None``, as without one, until a broken environment is built anew."""
        return None if self.broken else self._env.get_state()

    def step(self, action: Any) -> Any:
        """Step the environment, unless it is broken."""
        if not self.broken:
            try:
                result = self._env.step(action)
                self._check_step(result, self._record)
                self._check_finite(result[0], result[1])
            except (Exception, SystemExit) as error:
                self._break(error)
            else:
                self._streak = 0
                self._last = result[0]
                return result
        return (self._last, *self._ending)

    def reset(self) -> Any:
        """Start an episode, in all rows; build the environment first if it is broken."""
        while True:
            try:
                if self.broken:
                    time.sleep(self._wait_s)
                    self._rebuild()
                first = self._env.reset()
                self._check_first(first, self._record.observation, "observation after reset")
                self._check_finite(first)
            except (Exception, SystemExit) as error:
                self._break(error)
            else:
                self.broken, self._last = False, first
                return first

    def _reset_rows(self, rows: Any) -> Any:
        """Start an episode in these rows; if that fails, all rows end with the next step.

        If the environment is broken, all rows start anew: the others are held, without an episode.
        """
        if self.broken:
            return buffer_func(self.reset(), lambda leaf: leaf[rows])
        try:
            first = self._env.reset_rows(rows)
            self._check_finite(first)
        except (Exception, SystemExit) as error:
            self._break(error)
            return buffer_func(self._last, lambda leaf: leaf[rows])
        return first

    def freeze(self, frozen: bool = True) -> None:
        """Freeze the running statistics, also those of environments that are built later."""
        self._frozen = frozen
        self._env.freeze(frozen)

    def _break(self, error: BaseException) -> None:
        if raised_by_signal(error):
            raise error
        self.broken = True
        self._streak += 1
        self._wait_s = self._limit.count(error, self._streak)
        summary = summary_of(error).rstrip(".")
        self._limit.lines.append(
            f"{HEALED}: an environment raised {summary}. It is built anew, and its "
            "episode is dropped."
        )

    def _rebuild(self) -> None:
        old, self.restarts = self._env, self.restarts + 1
        close_quietly([old])
        self._env = self._make(self.restarts)
        if is_batch(self._env):
            self._env.load_statistics(old.statistics())
            self._env.freeze(self._frozen)
        elif isinstance(self._env, TaskEnv):
            self._env.take_over(old)


def check_all_finite(*parts: Any) -> None:
    """Check that no number of an observation or reward is NaN or infinite.

    Raises:
        NonFiniteError: one is.
    """
    leaves = [np.asarray(leaf) for part in parts for leaf in leaves_of(part)]
    if not all_finite(float_leaves(*leaves)):
        raise NonFiniteError("an observation or a reward of the environment is NaN or infinite.")


CollectBatch = Callable[[Any, Any, int], tuple[Any, Any, list[Any]]]


def breaks_of(collector: Any) -> list[tuple[int, int]]:
    """Let a collector, also of evaluations, drop the episodes of environments that heal.

    Rows of broken episodes start again, and are not counted as ended.

    Returns:
        List to which (step, row) of each fault will be added; without such environments none is.

    Raises:
        TypeError: environments are to be restarted, and the collector has another loop than
            rlpyt's.
    """
    if not (collector.envs and isinstance(collector.envs[0], HealingEnv)):
        return []
    if not isinstance(collector, Collector | EvalCollector):
        raise TypeError(
            f"on_fault: env_error must not be 'restart_env' with {type(collector).__name__}, which "
            "is not derived from rlpyt.samplers.collectors.Collector. Use 'restart_worker'."
        )
    env_of_row = [env for env in collector.envs for _ in range(env.rows)]
    found: list[tuple[int, int]] = []
    handle = collector._on_done

    def on_done(t: int, done: list[int], to_reset: list[int]) -> bool | None:
        """Reset broken rows, and let the collector handle the others."""
        broken = [b for b in to_reset if env_of_row[b].broken]
        if not broken:
            return handle(t, done, to_reset)
        done, to_reset = ([b for b in rows if b not in broken] for rows in (done, to_reset))
        end = handle(t, done, to_reset) if done else False
        collector.drop_episodes(t, broken)
        found.extend((t, b) for b in broken)
        return end

    collector._on_done = on_done  # type: ignore[method-assign]
    return found


def marking_void(collector: Any, collect_batch: CollectBatch) -> CollectBatch:
    """Return ``collect_batch`` that marks the rows of broken episodes and of waiting as void."""
    breaks = breaks_of(collector)

    def collect(agent_inputs: Any, traj_infos: Any, itr: int) -> tuple[Any, Any, list[Any]]:
        env = collector.samples_np.env
        breaks.clear()
        inputs, infos, completed = collect_batch(agent_inputs, traj_infos, itr)
        env.void[...] = False if collector.mid_batch_reset else valid_from_done(env.done) == 0
        if breaks and collector._stats is not None:
            ends = np.argwhere(collector._ended.T).tolist()  # in the order of ``completed``
            pairs = zip(completed, ends, strict=True)
            completed = [info for info, (b, t) in pairs if (t, b) not in breaks]
        for t, b in breaks:
            ended = np.flatnonzero(env.done[:t, b])
            first = ended[-1] + 1 if len(ended) else 0
            void_rows(collector.samples_np, slice(first, t + 1), b)
        return inputs, infos, completed

    return collect


def void_rows(samples: Any, steps: Any, columns: Any) -> None:
    """Set rows of a batch [T, B] to zeros, done and void."""
    agent, env = samples.agent, samples.env
    # Not bootstrap_value, and not previous actions and rewards, views that are shifted by a row.
    agent = without_fields(agent, "prev_action", "bootstrap_value")
    for leaf in leaves_of((agent, without_fields(env, "prev_reward"))):
        leaf[steps, columns] = 0
    env.done[steps, columns] = env.void[steps, columns] = True


def spec_of_life(spec: EnvWorkerSpec, life: int) -> EnvWorkerSpec:
    """Return the specification of an environment worker that replaces one that died.

    It has a new seed, since the same episodes might fail again, and no decorrelation steps.

    Args:
        spec: specification of the original environment worker.
        life: see ``ChildSpec.life``.
    """
    if life == 0:
        return spec
    seed = env_seed(spec.seed, spec.env_ranks[0], f"restart {life}")
    return replace(spec, seed=seed, max_decorrelation_steps=0, begins_by_command=False)


class AbsentEnv:
    """Environment in place of one of a worker that was dropped; all its steps are void."""

    def __init__(self, examples: AttrDict) -> None:
        self.observation_space, self.action_space = examples.spaces
        step = (examples.observation, examples.env_info)
        self._observation, self._info = buffer_func(step, np.zeros_like)
        if (mask := action_mask_of(self._observation)) is not None:
            mask[...] = True

    def reset(self) -> Any:
        """Return zeros, and a mask that allows all actions."""
        return self._observation

    def step(self, action: Any) -> Any:
        """Return the same, no reward, and no end of the episode."""
        return self._observation, 0.0, False, self._info

    def assign(self, tasks: Sequence[Any]) -> int:
        """Ignore tasks; return a length of the queue at which no more are assigned."""
        return sys.maxsize

    def close(self) -> None:
        """Do nothing."""


def without_environments(spec: EnvWorkerSpec) -> EnvWorkerSpec:
    """Return the specification of an environment worker that is to record nothing."""
    given = {"examples": spec.examples}
    return replace(
        spec,
        EnvCls=AbsentEnv,
        env_kwargs=[given] * len(spec.env_kwargs),
        eval_env_kwargs=[given] * len(spec.eval_env_kwargs),
        eval_quota=spec.eval_quota and [0] * len(spec.eval_quota),
    )


class WorkerFaults:
    """Decides about workers that fail, and specifies their successors, for a ``ChildGroup``.

    Args:
        policy: policy of the sampler.
        n_workers: number of workers.
        draw_tasks: function that returns the first tasks of environments, given their indices;
            ``None`` without a curriculum.

    Attributes:
        dropped: workers that have been dropped.
        substitutes: results of a worker that failed during a command, by command; others are
            repeated by its successor.
        lost: workers that failed during the last batch.
        restarts: number of restarts of workers.
        lives: number of successors of workers, also of those that were dropped.
    """

    def __init__(
        self,
        policy: FaultPolicy,
        n_workers: int,
        draw_tasks: Callable[[range], list[Any]] | None = None,
    ) -> None:
        self.policy, self.n_workers, self._draw_tasks = policy, n_workers, draw_tasks
        self.dropped = set[int]()
        self.limits = {cause: FaultLimit(policy) for cause in CAUSES}
        self.lost: list[int] = []
        self.substitutes: dict[str, Any] = {"collect": [], "evaluate": ([], True)}
        self.restarts = self.lives = 0
        self._original: dict[int, EnvWorkerSpec] = {}  # by rank
        self._streaks: dict[int, int] = {}  # faults in a row, by worker
        self._wait_s = 0.0

    def admit(self, child: int, error: WorkerError) -> None:
        """Take note of a failure that is healed.

        Raises:
            WorkerError: it is not, or there were too many, or this is the last worker.
        """
        cause = "env_error" if error.traceback else "worker_death"
        cause = "env_hang" if isinstance(error, WorkerTimeout) else cause
        action = getattr(self.policy, cause)
        if action not in ("restart_worker", "drop_worker"):
            raise error
        if action == "drop_worker":
            self.dropped.add(child)
            if len(self.dropped) == self.n_workers:
                error.add_note("(on_fault does not drop the last worker.)")
                raise error
        self._streaks[child] = self._streaks.get(child, 0) + 1
        wait_s = self.limits[cause].count(error, self._streaks[child])
        self._wait_s = max(self._wait_s, wait_s)
        self.lost.append(child)
        what = first_line(error).rstrip(".")
        then = "It is started again" if action == "restart_worker" else "The run goes on without it"
        logger.log(f"{HEALED}: {what}. {then}; its episodes are dropped.")

    def successor(self, spec: ChildSpec) -> ChildSpec:
        """Return the specification of the worker that replaces one that failed."""
        time.sleep(self._wait_s)
        self._wait_s = 0.0
        self.lives += 1
        self.restarts += spec.rank not in self.dropped
        payload = spec.payload.value
        original = self._original.setdefault(spec.rank, payload.env_worker)
        worker = spec_of_life(original, self.lives)
        if spec.rank in self.dropped:
            worker = without_environments(worker)
        elif self._draw_tasks is not None:
            rows = len(worker.env_ranks)
            first = spec.rank * rows
            worker = replace(worker, tasks=self._draw_tasks(range(first, first + rows)))
        spec.progress[:] = fresh_progress()
        return replace(spec, life=self.lives, payload=ByValue(replace(payload, env_worker=worker)))

    def settle(self) -> set[int]:
        """Return the workers that were lost in a batch or before, and prepare for the next one."""
        lost, self.lost = self.dropped.union(self.lost), []
        self._streaks = {child: n for child, n in self._streaks.items() if child in lost}
        return lost
