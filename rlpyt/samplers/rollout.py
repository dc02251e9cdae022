"""rlpyt's loop over steps on the host: training, decorrelation, evaluation and evolution."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rlpyt.processes.status import ACTING, ACTIVITY, STEP
from rlpyt.samplers.env_batch import EnvBatch, Watch, bounds_of, clipped, needs_reset, null_rows
from rlpyt.samplers.policy_source import LocalPolicy, RandomPolicy, ServedPolicy, StepRecord
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.collections import NamedArrayTuple

Array = np.ndarray[Any, Any]
Writes = Sequence[tuple[Array, Array]]
# Called with the index of the step, the rows that are done, and the subset that needs a reset;
# returns True to end the rollout.
OnDone = Callable[[int, list[int], list[int]], "bool | None"]


class Rollout:
    """Steps a group of environments, T steps at a time.

    Args:
        env_batch: the environments [B].
        step: record [B] of the newest step.
        policy: source of actions.
        on_done: function that handles a done by a reset, a wait, or the end of the rollout. When
            it is called, the record holds the final observations, and null actions and rewards.
        watch: function called for every step of every environment, for statistics, or ``None``.

    Attributes:
        write_observation, write_action, write_env: (batch leaf [T, B, ...], record leaf [B, ...])
            pairs; each record leaf is copied to row t: observations before acting, actions after
            acting, the rest after stepping. Empty: nothing is recorded.
        waiting: rows that wait for a reset, recorded as zeros and done, each with the observation
            from which it continues, or ``None`` if it must be reset; changed in place.
    """

    def __init__(
        self,
        env_batch: EnvBatch,
        step: StepRecord,
        policy: LocalPolicy | ServedPolicy | RandomPolicy,
        on_done: OnDone,
        watch: Watch | None = None,
    ) -> None:
        self.env_batch = env_batch
        self.step = step
        self.policy = policy
        self.on_done = on_done
        self.watch = watch
        self.write_observation: Writes = ()
        self.write_action: Writes = ()
        self.write_env: Writes = ()
        self.waiting: dict[int, Any] = {}
        self._leaves = leaves_of(step)
        self._needs_reset = needs_reset(step)
        self._null_action = env_batch.spaces.action.null_value()
        self._given = self._actions_given()

    def _actions_given(self) -> Callable[[Any], Any] | None:
        """Return a function of the record's actions [B, ...] that makes those for environments.

        They are arrays of their own, since environments may change them. Single environments get
        scalars, which they cannot: ``None``.
        """
        bounds = bounds_of(self.env_batch.spaces.action)
        if bounds is not None:
            return partial(clipped, bounds=bounds)
        null = self._null_action
        scalar = not isinstance(null, tuple) and np.ndim(null) == 0
        return None if scalar and self.env_batch.can_hold else partial(buffer_func, func=np.copy)

    def write_into(self, samples_np: NamedArrayTuple) -> None:
        """Record into these columns of a batch from now on."""
        step, agent, env = self.step, samples_np.agent, samples_np.env
        self.write_observation = pairs(env.observation, step.observation)
        self.write_action = pairs((agent.action, agent.agent_info), (step.action, step.agent_info))
        self.write_env = pairs(
            (env.reward, env.done, env.env_info), (step.reward, step.done, step.env_info)
        )

    def run(self, T: int, first: int = 0) -> int:
        """Take up to T steps.

        Args:
            T: number of steps.
            first: index of the first step, for error messages.

        Returns:
            The number of steps taken, below T if ``on_done`` or the policy ended the rollout.
        """
        step, env_batch, policy = self.step, self.env_batch, self.policy
        given, watch, progress = self._given, self.watch, env_batch.progress
        write_observation, write_action = self.write_observation, self.write_action
        write_env, waiting = self.write_env, self.waiting
        policy.begin(T)
        t = -1
        for t in range(T):
            progress[STEP], progress[ACTIVITY] = first + t, ACTING
            for batch, record in write_observation:
                batch[t] = record
            if not policy.act(t):
                progress[STEP], progress[ACTIVITY] = -1, ACTING
                return t
            if waiting:
                self.zero_waiting_rows()
            for batch, record in write_action:
                batch[t] = record
            action = step.action if given is None else given(step.action)
            done = env_batch.advance(step, action, watch)
            if waiting:
                self.zero_waiting_rows()
            for batch, record in write_env:
                batch[t] = record
            if done:
                to_reset = [b for b in done if self._needs_reset[b]]
                self.begin_episodes(done)
                if self.on_done(t, done, to_reset):
                    break
        else:
            policy.finish()
        progress[STEP], progress[ACTIVITY] = -1, ACTING
        return t + 1

    def start(self) -> None:
        """Start episodes in all rows."""
        self.env_batch.release()
        self.env_batch.forget_infos()
        self.env_batch.reset(self.step.observation, range(self.env_batch.B))
        self.begin_episodes(range(self.env_batch.B))
        self.step.done[:] = False

    def begin_episodes(self, rows: Sequence[int]) -> None:
        """Prepare these rows for a new episode: null action and reward, and set ``done``.

        ``done`` makes the policy clear their recurrent state.
        """
        null_rows(self.step.action, self.step.reward, self._null_action, rows)
        self.step.done[rows] = True

    def wait(self, rows: Collection[int], continued: Collection[int] = ()) -> None:
        """Record zeros and done for these rows until ``end_waiting``.

        Args:
            rows: rows that are done.
            continued: those that then continue from their present observation without a reset.
        """
        for b in rows:
            own = self.step.observation[b]
            self.waiting[b] = buffer_func(own, np.array) if b in continued else None
        self.env_batch.hold(rows)
        self.zero_waiting_rows()

    def end_waiting(self) -> None:
        """Reset the rows that wait, or let them continue."""
        if not self.waiting:
            return
        observation = self.step.observation
        for b, own in self.waiting.items():
            if own is not None:
                observation[b] = own
        self.env_batch.reset(observation, [b for b, own in self.waiting.items() if own is None])
        self.begin_episodes([*self.waiting])
        self.set_waiting({})

    def set_waiting(self, waiting: Mapping[int, Any]) -> None:
        """Replace the rows that wait, after a reset of the others."""
        self.waiting.clear()
        self.waiting.update(waiting)
        self.env_batch.release()
        self.env_batch.hold(waiting)
        self.env_batch.forget_infos()

    def zero_waiting_rows(self) -> None:
        """Set the record of waiting rows to zeros and done."""
        rows = [*self.waiting]
        for leaf in self._leaves:
            leaf[rows] = 0
        self.step.done[rows] = True


def pairs(batch: object, record: object) -> list[tuple[Array, Array]]:
    """Return the leaves of a batch [T, B, ...] with those of a record [B, ...]."""
    return list(zip(leaves_of(batch), leaves_of(record), strict=True))
