"""Collectors of training batches.

A collector has the environments of one process and writes their steps into its columns of the
batch. ``BaseCollector`` is the base of custom collectors. rlpyt's loop over steps is in
``samplers.rollout``, evaluation in ``samplers.evaluation``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.agents.base import AgentInputs
from rlpyt.envs.traj_info import load_entries, raw_reward, saved_entries
from rlpyt.samplers.batch_checks import check_final_masks, check_final_observations
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.env_batch import EnvBatch, make_env_batch, null_rows
from rlpyt.samplers.evaluation import BaseEvalCollector  # noqa: F401  (rlpyt had it here)
from rlpyt.samplers.policy_source import (
    LocalPolicy,
    RandomPolicy,
    ServedPolicy,
    StepRecord,
    WorkerSemaphores,
    training_noise,
)
from rlpyt.samplers.rollout import Rollout, pairs
from rlpyt.samplers.traj_stats import BatchTrajStats, are_stock, copier
from rlpyt.utils.buffer import NumpyArrays, buffer_func, leaves_of, numpify_buffer
from rlpyt.utils.collections import NamedArrayTuple
from rlpyt.utils.seed import stream

if TYPE_CHECKING:
    from rlpyt.samplers.tiles import ActingAgent

Array = np.ndarray[Any, Any]
FEW_STEPS = 32  # in smaller batches, statistics of trajectories are cheaper step by step


class BaseCollector:
    """Steps environments, possibly in a worker process.

    Args:
        rank: index of the process.
        envs: environments of the process.
        samples_np: columns of the batch, numpy leaves [T, B, ...]; written in place.
        batch_T: number of time steps in a batch.
        TrajInfoCls: function that makes an empty ``TrajInfo``.
        agent: the agent; ``None`` if it is in an action server.
        sync: semaphores shared with the action server.
        step_buffer_np: step record shared with the action server.
        global_B: number of environments in the whole run.
        env_ranks: global indices of these environments.

    Attributes:
        records_final_observations: True if the collector writes ``samples.env.final_observation``
            where an episode ends. Otherwise the field does not exist, and algorithms that
            bootstrap from it treat truncations as terminal. A subclass that overrides
            ``collect_batch`` must set it again.
        check_finite: True to end the run if observations or rewards are NaN or infinite. A subclass
            may set it to False.
    """

    mid_batch_reset: bool = True
    records_final_observations: bool = False
    check_finite: bool = True

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "collect_batch" in vars(cls) and "records_final_observations" not in vars(cls):
            cls.records_final_observations = False

    def __init__(
        self,
        rank: int,
        envs: Sequence[Any],
        samples_np: NamedArrayTuple,
        batch_T: int,
        TrajInfoCls: Callable[[], TrajInfo],
        agent: ActingAgent | None = None,
        sync: WorkerSemaphores | None = None,
        step_buffer_np: NamedArrayTuple | None = None,
        global_B: int = 1,
        env_ranks: Sequence[int] | None = None,
    ) -> None:
        self.rank = rank
        self.envs = envs
        self.samples_np = samples_np
        self.batch_T = batch_T
        self.TrajInfoCls = TrajInfoCls
        self.agent = agent
        self.sync = sync if hasattr(sync, "obs_ready") else None  # else rlpyt's flags alone
        self.step_buffer_np = step_buffer_np
        self.global_B = global_B
        self.env_ranks = list(range(len(envs))) if env_ranks is None else list(env_ranks)
        self.context = CollectorContext()
        self._env_batch: EnvBatch | None = None

    def write_into(self, samples_np: NamedArrayTuple) -> None:
        """Write further batches into these columns; asynchronous samplers alternate batches."""
        self.samples_np = samples_np

    @property
    def env_batch(self) -> EnvBatch:
        """Return the environments as one batch, built at the first call."""
        if self._env_batch is None:
            self._env_batch = make_env_batch(self.envs, self.context)
        return self._env_batch

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[Any, list[Any]]:
        """Reset every environment; return (agent_inputs, traj_infos)."""
        inputs = self._empty_inputs()
        self.env_batch.release()
        self.env_batch.forget_infos()
        self.env_batch.reset(inputs.observation, range(self.env_batch.B))
        return inputs, [self.TrajInfoCls() for _ in range(self.env_batch.B)]

    def start_agent(self) -> None:
        """Prepare the agent for acting in this process."""
        if self.agent is not None:
            self.agent.collector_initialize(global_B=self.global_B, env_ranks=self.env_ranks)
            self.agent.reset()
            self.agent.sample_mode(itr=0)

    def collect_batch(
        self, agent_inputs: NamedArrayTuple, traj_infos: list[Any], itr: int
    ) -> tuple[Any, list[Any], list[Any]]:
        """Fill the batch; return (agent_inputs, traj_infos, completed traj_infos)."""
        raise NotImplementedError(f"{type(self).__name__} must implement collect_batch.")

    def reset_if_needed(self, agent_inputs: NamedArrayTuple) -> None:
        """Reset environments that wait for a reset; called between batches."""

    def state_dict(self) -> dict[str, Any] | None:
        """Return the state for an exact resume; ``None``: a resumed run starts new episodes."""
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        raise NotImplementedError(f"{type(self).__name__} must implement load_state_dict.")

    def _empty_inputs(self) -> Any:
        """Return null inputs of the agent [B], in the action server's memory if there is one."""
        null_action = self.env_batch.spaces.action.null_value()
        if self.step_buffer_np is not None:
            step = self.step_buffer_np
            inputs = AgentInputs(step.observation, step.action, step.reward)
        else:
            observation = _like_row(self.samples_np.env.observation)
            action = _like_row(self.samples_np.agent.action)
            inputs = AgentInputs(observation, action, np.zeros(self.env_batch.B, np.float32))
        null_rows(inputs.prev_action, inputs.prev_reward, null_action, range(self.env_batch.B))
        return inputs


class DecorrelatingStartCollector(BaseCollector):
    """A collector that starts each environment with a random number of random actions."""

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[Any, list[Any]]:
        """Reset every environment, then take up to ``max_decorrelation_steps`` random actions.

        The seed and the rank of an environment determine the number of steps and the actions.
        """
        inputs, traj_infos = super().start_envs()
        if max_decorrelation_steps < 1:
            return inputs, traj_infos
        seed = self.context.seed
        rngs = [stream(seed, "decorrelation", rank) for rank in self.env_ranks]
        n_steps = [int(rng.integers(max_decorrelation_steps + 1)) for rng in rngs]
        T = max(n_steps) if self.env_batch.can_hold else max_decorrelation_steps
        done, env_info = np.zeros(self.env_batch.B, bool), _like_row(self.samples_np.env.env_info)
        step = StepRecord(*inputs, done, env_info, None)

        def on_done(t: int, done: list[int], to_reset: list[int]) -> None:
            self.env_batch.reset(step.observation, to_reset)
            for b in to_reset:
                traj_infos[b] = self.TrajInfoCls()

        def watch(b: int, a: object, r: float, d: bool, info: object) -> None:
            traj_infos[b].step(buffer_func(step.observation[b], np.copy), a, r, d, None, info)

        policy = RandomPolicy(self.env_batch, step, self.context.seed, self.env_ranks, n_steps)
        Rollout(self.env_batch, step, policy, on_done, watch).run(T)
        self.env_batch.forget_infos()
        return inputs, traj_infos


class Collector(DecorrelatingStartCollector):
    """rlpyt's collector, with the agent in this process or in an action server.

    With ``mid_batch_reset`` an environment is reset after a done and continues. Otherwise it waits
    for the end of the batch, and zeros and done are recorded for it.
    """

    records_final_observations = holds_noise = True

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[Any, list[Any]]:
        """Start the environments and allocate the step record."""
        inputs, traj_infos = super().start_envs(max_decorrelation_steps)
        self._continue_from(inputs, traj_infos)
        return inputs, traj_infos

    def adopt(self, inputs: Any, traj_infos: list[Any]) -> Any:
        """Begin with what an override of ``start_envs`` returned; return the agent's inputs."""
        known = vars(self).get("traj_infos") is traj_infos
        if known and self.step.observation is inputs.observation:
            return inputs
        held = self._empty_inputs()
        for own, given in zip(held, inputs, strict=True):
            own[:] = numpify_buffer(given)
        self._continue_from(held, traj_infos)
        return held

    def _continue_from(self, inputs: Any, traj_infos: list[Any]) -> None:
        done, env_info = np.zeros(self.env_batch.B, bool), _like_row(self.samples_np.env.env_info)
        agent_info = _like_row(self.samples_np.agent.agent_info)
        if (served := self.step_buffer_np) is not None:
            done, agent_info = served.done, served.agent_info
        self.step = step = StepRecord(*inputs, done, env_info, agent_info)
        self._timeout: Array | None = getattr(step.env_info, "timeout", None)  # [B]
        self.policy: ServedPolicy | LocalPolicy
        if self.sync is not None:
            self.policy = ServedPolicy(self.sync)
        else:
            assert self.agent is not None
            noise = training_noise(self.agent, self.context.seed, self.env_ranks)
            self.policy = LocalPolicy(self.agent, step, noise, self.samples_np)
        self.rollout = Rollout(self.env_batch, step, self.policy, self._on_done)
        self._bind()
        self._watch_trajectories(traj_infos)

    def write_into(self, samples_np: NamedArrayTuple) -> None:
        """See ``BaseCollector``."""
        super().write_into(samples_np)
        self.policy.write_into(samples_np)
        self._bind()

    def _bind(self) -> None:
        """Prepare to write into the columns of ``samples_np``."""
        self.rollout.write_into(self.samples_np)
        step, agent_buf, env_buf = self.step, self.samples_np.agent, self.samples_np.env
        self._write_first = pairs(
            (agent_buf.prev_action, env_buf.prev_reward), (step.action, step.reward)
        )
        self._final_observation = final = getattr(env_buf, "final_observation", None)
        self._write_last = [] if final is None else pairs(final[-1], step.observation)
        self._ended = np.zeros(env_buf.done.shape, bool)  # [T, B], True where trajectories ended

    def _watch_trajectories(self, traj_infos: list[Any]) -> None:
        """Choose how statistics are computed: per batch for `TrajInfo`, else step by step."""
        self._stats = None
        few = self.batch_T * len(traj_infos) < FEW_STEPS
        if self.mid_batch_reset and are_stock(traj_infos) and not few:
            self._stats = BatchTrajStats(traj_infos, traj_infos[0]._discount)
        self._own = copier(traj_infos)
        self.rollout.watch = None if self._stats is not None else self._watch_step
        self.traj_infos = traj_infos

    def _watch_step(self, b: int, a: object, r: float, d: bool, info: object) -> None:
        o, a, agent_info = self._own((self.step.observation[b], a, self.step.agent_info[b]))
        self.traj_infos[b].step(o, a, r, d, agent_info, info)

    def collect_batch(
        self, agent_inputs: NamedArrayTuple, traj_infos: list[Any], itr: int
    ) -> tuple[Any, list[Any], list[Any]]:
        """Fill one batch with T steps of every environment."""
        self._completed: list[Any] = []
        self._last_ended: tuple[int, list[int]] = -1, []  # last step in which episodes ended, rows
        self._ended[...] = False
        for batch, record in self._write_first:
            batch[0] = record
        self.rollout.run(self.batch_T)
        if self._write_last:
            t, ended = self._last_ended
            rows: Any = ...
            if t == self.batch_T - 1:
                rows = np.setdiff1d(np.arange(self.env_batch.B), ended)
            for batch, record in self._write_last:
                batch[rows] = record[rows]
        if self._stats is not None:
            env = self.samples_np.env
            reward = raw_reward(env.reward, env.env_info)
            self._completed = self._stats.add(reward, self._ended, self.TrajInfoCls)
        return agent_inputs, traj_infos, self._completed

    def _on_done(self, t: int, done: list[int], to_reset: list[int]) -> bool | None:
        """Record final observations, count trajectories, reset environments or let them wait."""
        step, env_batch = self.step, self.env_batch
        if self._timeout is not None:
            timed_out = [b for b in done if self._timeout[b]]
            if timed_out:
                final = step.observation[timed_out]
                if self.check_finite:
                    check_final_observations(final, timed_out, self.context)
                self.policy.record_timeout_values(t, timed_out, step.observation)
                if self._final_observation is not None:
                    check_final_masks(final, timed_out, self.context, env_batch.spaces.action)
        if self._final_observation is not None:
            self._last_ended = t, done
            self._final_observation[t, done] = step.observation[done]
        self._ended[t, to_reset] = True
        if self._stats is None:
            for b in to_reset:
                self._completed.append(self.traj_infos[b].terminate(self._own(step.observation[b])))
                self.traj_infos[b] = self.TrajInfoCls()
        if self.mid_batch_reset:
            env_batch.reset(step.observation, to_reset)
        else:
            self._wait(done, set(done) - set(to_reset))
        return False

    def drop_episodes(self, t: int, rows: list[int]) -> None:
        """Forget the episodes of these rows, which ended with a fault in step t; start new ones."""
        self._ended[t, rows] = True
        for b in rows:
            self.traj_infos[b] = self.TrajInfoCls()
        if self.mid_batch_reset:
            self.env_batch.reset(self.step.observation, rows)
        else:
            self._wait(rows, set())

    def _wait(self, rows: list[int], lives_lost: set[int]) -> None:
        """Let rows wait for the end of the batch; games that lost a life then continue."""
        if lives_lost and not self.env_batch.can_hold:
            raise ValueError(
                f"{type(self).__name__} lets rows wait for the end of the batch, but row "
                f"{min(lives_lost)} of a vector environment lost a life, and a game cannot wait "
                "there. Use a collector that resets at once, or set life_loss=False."
            )
        self.rollout.wait(rows, lives_lost)

    def reset_if_needed(self, agent_inputs: NamedArrayTuple) -> None:
        """Reset the environments that waited for the end of the batch."""
        self.rollout.end_waiting()

    def state_dict(self) -> dict[str, Any]:
        """Return the collector's state for an exact resume, without the environments."""
        state: dict[str, Any] = {"step": [leaf.copy() for leaf in leaves_of(self.step)]}
        if isinstance(self.policy, LocalPolicy):  # else it is in the action server
            state["noise"] = self.policy.noise.state_dict()
        state["resting"] = {
            b: None if observation is None else leaves_of(observation)
            for b, observation in self.rollout.waiting.items()
        }
        if self._stats is not None:
            state["stats"] = self._stats.state_dict()
        else:
            state["traj_infos"] = [saved_entries(info) for info in self.traj_infos]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        for leaf, saved in zip(leaves_of(self.step), state["step"], strict=True):
            leaf[...] = saved
        if isinstance(self.policy, LocalPolicy):
            self.policy.noise.load_state_dict(state["noise"])
        self.rollout.set_waiting(
            {
                b: None if leaves is None else self._observation_of(leaves)
                for b, leaves in state["resting"].items()
            }
        )
        if self._stats is not None:
            self._stats.load_state_dict(state["stats"])
        else:
            for info, saved in zip(self.traj_infos, state["traj_infos"], strict=True):
                load_entries(info, saved)

    def _observation_of(self, leaves: list[Array]) -> Any:
        """Return one environment's observation, built from its leaves."""
        leaf = iter(leaves)
        return buffer_func(self.step.observation[0], lambda _: next(leaf))


def _like_row(tree: NumpyArrays) -> Any:
    """Return zeros [B, ...] like one time step of leaves [T, B, ...]."""
    return buffer_func(tree, lambda leaf: np.zeros_like(leaf[0]))
