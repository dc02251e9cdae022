"""Evaluation: whole episodes, of which only statistics are recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.errors import NonFiniteError
from rlpyt.processes.status import ACTIVITY, ROW, STEPPING
from rlpyt.samplers.buffer import agent_examples, env_examples
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.env_batch import EnvBatch, is_batch, make_env_batch
from rlpyt.samplers.policy_source import (
    ActionNoise,
    LocalPolicy,
    ServedPolicy,
    StepRecord,
    WorkerSemaphores,
)
from rlpyt.samplers.rollout import Rollout
from rlpyt.samplers.step_checks import FINITE_REMEDY
from rlpyt.samplers.traj_stats import copier
from rlpyt.spaces.action_mask import action_mask_of, mask_error, mask_sizes
from rlpyt.utils.buffer import buffer_from_example, buffer_func
from rlpyt.utils.collections import NamedArrayTuple

if TYPE_CHECKING:
    from rlpyt.samplers.collections import TrajInfo
    from rlpyt.samplers.tiles import ActingAgent


class BaseEvalCollector:
    """Runs evaluation episodes and records only their statistics.

    Args:
        rank: index of the process.
        envs: evaluation environments of the process.
        TrajInfoCls: function that makes an empty ``TrajInfo``.
        traj_infos_queue: queue into which custom collectors may ``put`` finished trajectories, and
            ``None`` at their end.
        max_T: maximum number of time steps per environment.
        agent: the agent; ``None`` if it is in an action server.
        sync: semaphores shared with the action server.
        step_buffer_np: step record shared with the action server.

    Attributes:
        check_finite: True to end the run if a ``Return`` is NaN or infinite. rlpyt's samplers set
            it to False if the training collector's ``check_finite`` is False.
    """

    check_finite: bool = True
    evaluations = 0  # number of evaluations started

    def __init__(
        self,
        rank: int,
        envs: Sequence[Any],
        TrajInfoCls: Callable[[], TrajInfo],
        traj_infos_queue: Any,
        max_T: int,
        agent: ActingAgent | None = None,
        sync: WorkerSemaphores | None = None,
        step_buffer_np: NamedArrayTuple | None = None,
    ) -> None:
        self.rank = rank
        self.envs = envs
        self.TrajInfoCls = TrajInfoCls
        self.traj_infos_queue = traj_infos_queue
        self.max_T = max_T
        self.agent = agent
        self.sync = sync
        self.step_buffer_np = step_buffer_np
        self.context = CollectorContext()
        self.quota: list[int] | None = None
        self.env_ranks = list(range(len(envs)))
        self.example_step: Any = None

    def collect_evaluation(self, itr: int) -> Any:
        """Run the agent; return finished trajectories, or put them into the queue."""
        raise NotImplementedError(f"{type(self).__name__} must implement collect_evaluation.")


class EvalCollector(BaseEvalCollector):
    """rlpyt's evaluation in chunks of steps, with the agent in this process or in an action server.

    Each environment runs a fixed number of episodes, its ``quota``, so that short episodes are not
    overrepresented. Without a quota it runs ``max_T`` steps, and all episodes that end within them
    count, which favors short episodes if ``max_T`` is not large.
    """

    CHUNK = 64  # number of steps for which action noise is drawn at once
    _queue: Any = None  # for finished trajectories, in ``collect_evaluation``
    _env_batch: EnvBatch | None = None
    has_begun = False  # False in a worker that has replaced one in the middle of an evaluation

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not hasattr(self.sync, "obs_ready"):  # rlpyt's flag for custom collectors alone
            self.sync = None

    def collect_evaluation(self, itr: int) -> list[Any]:
        """Reset the environments and run episodes; return their ``TrajInfo``."""
        self.begin()
        finished: list[Any] = []
        self._queue = self.traj_infos_queue
        # With an action server, one call of its evaluation takes max_T steps.
        chunk = self.CHUNK if self.sync is None else self.max_T
        for t in range(0, self.max_T, chunk):
            finished += self.run(min(chunk, self.max_T - t))
            if self.satisfied:
                break
        if self._queue is not None:
            self._queue.put(None)  # end of the trajectories
            self._queue = None
        return finished

    def begin(self) -> None:
        """Reset the environments and start new noise streams."""
        if self.example_step is None:  # constructed without one of rlpyt's samplers
            self.example_step = self._make_example_step()
        if self._env_batch is None:
            self._env_batch = make_env_batch(self.envs, self.context)
            self._mask_sizes = mask_sizes(self._env_batch.spaces.action)
            self._mask_starts = np.cumsum((0, *self._mask_sizes[:-1]))
            self._step = buffer_func(self.example_step, np.zeros_like)
            if self.step_buffer_np is not None:
                self._step = self._step._replace(**dict(self.step_buffer_np.items()))
        env_batch, step = self._env_batch, self._step
        self.has_begun = True
        self.evaluations += 1
        policy: ServedPolicy | LocalPolicy
        if self.sync is not None:
            policy = ServedPolicy(self.sync, evaluation=True)
        else:
            noise = eval_noise(self.context.seed, self.evaluations, self.env_ranks)
            assert self.agent is not None
            policy = LocalPolicy(self.agent, step, noise)
        self._rollout = Rollout(env_batch, step, policy, self._on_done, self._watch_step)
        self._rollout.start()
        self._t = 0
        self._infos = [self.TrajInfoCls() for _ in range(env_batch.B)]
        self._own = copier(self._infos)
        self._missing: list[float] = [*self.quota] if self.quota else [np.inf] * env_batch.B
        env_batch.hold(b for b, missing in enumerate(self._missing) if missing <= 0)

    def _make_example_step(self) -> Any:
        """Return a step record [B] for the outputs of the first environment and the agent."""
        examples = env_examples(self.envs[0])
        if self.agent is not None:
            agent_examples(self.agent, examples)
        else:
            examples.update(agent_info=None)
        B = sum(env.n if is_batch(env) else 1 for env in self.envs)
        record = StepRecord(*(examples[name] for name in StepRecord._fields))
        return buffer_from_example(record, B)

    @property
    def satisfied(self) -> bool:
        """Return True if every environment has run its quota."""
        env_batch = self._rollout.env_batch
        return len(env_batch.held) == env_batch.B

    def run(self, n: int) -> list[Any]:
        """Continue for n steps; return the ``TrajInfo`` of episodes that ended.

        Raises:
            NonFiniteError: the ``Return`` of an episode is NaN or infinite.
        """
        self._finished: list[Any] = []
        try:
            self._rollout.run(n, first=self._t)
        except Exception as error:
            self._raise_mask_cause(error)
            raise
        self._t += n
        return self._finished

    def _watch_step(self, b: int, a: object, r: float, d: bool, info: object) -> None:
        step = self._step
        masks = action_mask_of(step.observation)
        if masks is not None and not np.logical_or.reduceat(masks[b], self._mask_starts).all():
            raise ValueError(self._mask_error(b))
        o, a, agent_info = self._own((step.observation[b], a, step.agent_info[b]))
        self._infos[b].step(o, a, r, d, agent_info, info)

    def _mask_error(self, b: int) -> str | None:
        """Return the message for an invalid mask of row b, ``None`` if there is none."""
        masks = action_mask_of(self._step.observation)
        found = None if masks is None else mask_error(masks[b], self._mask_sizes)
        return None if found is None else found[1]

    def _raise_mask_cause(self, error: Exception) -> None:
        """Raise ValueError instead of this error if an environment failed after an invalid mask."""
        progress = self.context.progress
        if progress[ACTIVITY] == STEPPING:
            message = self._mask_error(progress[ROW])
            if message not in (None, str(error)):
                raise ValueError(message) from error

    def _on_done(self, t: int, done: list[int], to_reset: list[int]) -> bool:
        """Count episodes, and reset environments whose quota is not reached.

        Returns:
            True if this evaluation is complete; always False with an action server, which ends it.
        """
        env_batch, step = self._rollout.env_batch, self._step
        for b in to_reset:
            info = self._infos[b].terminate(self._own(step.observation[b]))
            if self.check_finite:
                self._check_return(b, info)
            self._finished.append(info)
            if self._queue is not None:
                self._queue.put(info)
            self._infos[b] = self.TrajInfoCls()
            self._missing[b] -= 1
        env_batch.reset(step.observation, [b for b in to_reset if self._missing[b] > 0])
        env_batch.hold(b for b in to_reset if self._missing[b] <= 0)
        return self.satisfied and self.sync is None

    def drop_episodes(self, t: int, rows: list[int]) -> None:
        """Forget the episodes of these rows, which ended with a fault in step t; start new ones."""
        for b in rows:
            self._infos[b] = self.TrajInfoCls()
        self._rollout.env_batch.reset(self._step.observation, rows)

    def _check_return(self, b: int, info: TrajInfo) -> None:
        """Check the ``Return`` of an episode of row b.

        Raises:
            NonFiniteError: ``Return`` is NaN or infinite.
        """
        return_ = getattr(info, "Return", None)
        if isinstance(return_, float | np.floating) and not np.isfinite(return_):
            self.context.progress[ROW] = b
            raise NonFiniteError(
                "the Return of an evaluation episode, which ended in this step, must be finite, "
                f"got {return_}. {FINITE_REMEDY}"
            )


def eval_noise(seed: int, evaluation: int, env_ranks: Sequence[int]) -> ActionNoise:
    """Return the action noise of an evaluation; evaluations are counted from 1."""
    return ActionNoise(seed, f"eval action {evaluation}", env_ranks)
