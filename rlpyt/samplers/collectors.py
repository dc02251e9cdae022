"""The only loop that steps environments for training.

A collector owns the environments of one process and writes their steps into its columns of the
batch. ``BaseCollector`` is what people subclass to write loops of their own; evaluation is in
``samplers.evaluation``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.agents.base import AgentInputs
from rlpyt.samplers.actions import ActionNoise, LocalActions, StepRecord
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.evaluation import BaseEvalCollector  # noqa: F401  (rlpyt had it here)
from rlpyt.samplers.surroundings import Surroundings, bounds_of, fit_info
from rlpyt.samplers.traj_stats import BatchTrajStats
from rlpyt.utils.buffer import buffer_from_example, buffer_func, leaves_of
from rlpyt.utils.seed import stream

Array = np.ndarray[Any, Any]


class BaseCollector:
    """Steps environments, possibly in a worker process.

    Args:
        rank: index of the process.
        envs: its environments.
        samples_np: its columns of the batch, numpy leaves [T, B, ...]; written in place.
        batch_T: time steps in a batch.
        TrajInfoCls: makes an empty ``TrajInfo``.
        agent: the agent, where actions are chosen in this process.
        sync: synchronisation with an action server, where they are not.
        step_buffer_np: step record shared with that server.
        global_B: environments in the whole run.
        env_ranks: global indices of these environments.
    """

    mid_batch_reset: bool = True

    def __init__(
        self,
        rank: int,
        envs: Sequence[Any],
        samples_np: Any,
        batch_T: int,
        TrajInfoCls: Any,
        agent: Any = None,
        sync: Any = None,
        step_buffer_np: Any = None,
        global_B: int = 1,
        env_ranks: Any = None,
    ) -> None:
        self.rank = rank
        self.envs = envs
        self.samples_np = samples_np
        self.batch_T = batch_T
        self.TrajInfoCls = TrajInfoCls
        self.agent = agent
        self.sync = sync
        self.step_buffer_np = step_buffer_np
        self.global_B = global_B
        self.env_ranks = list(range(len(envs))) if env_ranks is None else list(env_ranks)
        self.surroundings = Surroundings()

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[Any, list[Any]]:
        """Reset every environment; returns (agent_inputs, traj_infos)."""
        inputs = self._empty_inputs()
        for b, env in enumerate(self.envs):
            inputs.observation[b] = env.reset()
        return inputs, [self.TrajInfoCls() for _ in self.envs]

    def start_agent(self) -> None:
        """Prepare the agent for acting in this process."""
        if self.agent is not None:
            self.agent.collector_initialize(global_B=self.global_B, env_ranks=self.env_ranks)
            self.agent.reset()
            self.agent.sample_mode(itr=0)

    def collect_batch(
        self, agent_inputs: Any, traj_infos: list[Any], itr: int
    ) -> tuple[Any, list[Any], list[Any]]:
        """Fill the batch; returns (agent_inputs, traj_infos, completed traj_infos)."""
        raise NotImplementedError(f"{type(self).__name__} must implement collect_batch.")

    def reset_if_needed(self, agent_inputs: Any) -> None:
        """Between batches: reset what waits for it."""

    def _empty_inputs(self) -> Any:
        """Null observation, previous action and previous reward [B]."""
        B = len(self.envs)
        observation = buffer_func(self.samples_np.env.observation, lambda x: np.zeros_like(x[0]))
        null_action = self.envs[0].action_space.null_value()
        action = buffer_from_example(null_action, B)
        for b in range(B):
            action[b] = null_action
        recorded = self.samples_np.agent.action
        if not isinstance(recorded, tuple):
            action = np.asarray(action).astype(recorded.dtype).reshape(recorded.shape[1:])
        return AgentInputs(observation, action, np.zeros(B, np.float32))


class DecorrelatingStartCollector(BaseCollector):
    """Starts by stepping each environment a random number of times, so that they differ."""

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[Any, list[Any]]:
        """Reset every environment, then take up to ``max_decorrelation_steps`` random actions.

        How many, and which, is decided by the environment's own seed and rank.
        """
        inputs, traj_infos = super().start_envs()
        if max_decorrelation_steps < 1:
            return inputs, traj_infos
        for b, env in enumerate(self.envs):
            rng = stream(self.surroundings.seed, "decorrelation", self.env_ranks[b])
            self.surroundings.progress[0] = b
            o = buffer_func(inputs.observation[b], np.copy)
            null_action = env.action_space.null_value()
            for _ in range(int(rng.integers(max_decorrelation_steps + 1))):
                a = env.action_space.sample()
                before = o
                o, r, d, info = env.step(a)
                traj_infos[b].step(before, a, r, d, None, info)
                if getattr(info, "traj_done", d):
                    o = env.reset()
                    traj_infos[b] = self.TrajInfoCls()
                inputs.prev_action[b] = null_action if d else a
                inputs.prev_reward[b] = 0 if d else r
            inputs.observation[b] = o
        return inputs, traj_infos


class Collector(DecorrelatingStartCollector):
    """The collection loop, for agents in this process.

    ``mid_batch_reset`` says what follows a done: the environment is reset at once and goes on, or
    it waits for the end of the batch while zeros (and done) are recorded for it.
    """

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[Any, list[Any]]:
        """Start the environments and lay out the step record."""
        inputs, traj_infos = super().start_envs(max_decorrelation_steps)
        agent_buf, env_buf = self.samples_np.agent, self.samples_np.env

        def like_row(leaf: Array) -> Array:
            return np.zeros_like(leaf[0])

        step = StepRecord(
            observation=inputs.observation,
            action=inputs.prev_action,
            reward=inputs.prev_reward,
            done=np.zeros(len(self.envs), bool),
            env_info=buffer_func(env_buf.env_info, like_row),
            agent_info=buffer_func(agent_buf.agent_info, like_row),
        )
        self.step = step
        noise = ActionNoise(self.surroundings.seed, "action", self.env_ranks)
        self.actions = LocalActions(self.agent, step, noise)
        self._null_action = self.envs[0].action_space.null_value()
        self._clip = bounds_of(self.envs[0].action_space)
        self._all_steps = [(b, env.step) for b, env in enumerate(self.envs)]
        self._steps = self._all_steps
        self._resting: dict[int, Any] = {}  # row -> observation to go on from; None: reset first
        self._last_info: list[Any] = [None] * len(self.envs)
        self._lay_out_writes(step)
        self._watch_trajectories(traj_infos)
        return inputs, traj_infos

    def _lay_out_writes(self, step: Any) -> None:
        """Pair each leaf of the batch [T, B] with the leaf of the record [B] it is written from."""

        def pairs(batch: Any, record: Any) -> list[tuple[Array, Array]]:
            return list(zip(leaves_of(batch), leaves_of(record), strict=True))

        agent_buf, env_buf = self.samples_np.agent, self.samples_np.env
        self._write_observation = pairs(env_buf.observation, step.observation)
        self._write_agent = pairs(
            (agent_buf.action, agent_buf.agent_info), (step.action, step.agent_info)
        )
        self._write_env = pairs(
            (env_buf.reward, env_buf.done, env_buf.env_info),
            (step.reward, step.done, step.env_info),
        )
        self._write_first = pairs(
            (agent_buf.prev_action, env_buf.prev_reward), (step.action, step.reward)
        )
        self._ended = np.zeros(env_buf.done.shape, bool)  # [T, B], trajectories' ends
        fields = agent_buf._fields
        self._bootstrap = agent_buf.bootstrap_value if "bootstrap_value" in fields else None
        self._timeout_value = agent_buf.timeout_value if "timeout_value" in fields else None

    def _watch_trajectories(self, traj_infos: list[Any]) -> None:
        """Whole batches at once for the stock TrajInfo, step by step for any other."""
        self._stats = None
        if self.mid_batch_reset and all(type(info) is TrajInfo for info in traj_infos):
            self._stats = BatchTrajStats(traj_infos, traj_infos[0]._discount)
        self.traj_infos = traj_infos

    def collect_batch(
        self, agent_inputs: Any, traj_infos: list[Any], itr: int
    ) -> tuple[Any, list[Any], list[Any]]:
        """Fill one batch with T steps of every environment."""
        actions, progress = self.actions, self.surroundings.progress
        completed: list[Any] = []
        actions.begin(self.batch_T)
        self._ended[...] = False
        if self._timeout_value is not None:
            self._timeout_value[...] = 0
        for batch, record in self._write_first:
            batch[0] = record
        for t in range(self.batch_T):
            progress[1] = t
            for batch, record in self._write_observation:
                batch[t] = record
            actions.act(t)
            if self._resting:
                self._blank_resting()
            for batch, record in self._write_agent:
                batch[t] = record
            finals = self._advance(t, completed)
            for batch, record in self._write_env:
                batch[t] = record
            if finals:
                self._after_done(t, finals)
        progress[1] = -1
        if self._bootstrap is not None:
            self._bootstrap[...] = actions.value(self.step.observation)
        if self._stats is not None:
            completed = self._stats.add(self.samples_np.env.reward, self._ended, self.TrajInfoCls)
        return agent_inputs, traj_infos, completed

    def _advance(self, t: int, completed: list[Any]) -> list[tuple[int, Any, bool]]:
        """Step the environments; returns (row, final observation, timed out) of those done."""
        observation, action, reward, done, _, agent_info = self.step
        progress, last_info = self.surroundings.progress, self._last_info
        if self._clip is not None:
            action = np.clip(action, *self._clip)
        watched = self.traj_infos if self._stats is None else None
        finals: list[tuple[int, Any, bool]] = []
        for b, env_step in self._steps:
            progress[0] = b
            o, r, d, info = env_step(action[b])
            if info is not last_info[b]:
                self._note_info(b, info)
            if watched is not None:
                watched[b].step(observation[b], action[b], r, d, agent_info[b], info)
            if d or getattr(info, "traj_done", False):
                o = self._end(t, b, o, d, info, completed, finals)
            observation[b] = o
            reward[b] = r
            done[b] = d
        return finals

    def _end(
        self,
        t: int,
        b: int,
        o: Any,
        d: bool,
        info: Any,
        completed: list[Any],
        finals: list[tuple[int, Any, bool]],
    ) -> Any:
        """An episode is done, a trajectory perhaps: note it, and return the next observation."""
        finals.append((b, buffer_func(o, np.copy), bool(getattr(info, "timeout", False))))
        traj_done = getattr(info, "traj_done", d)
        if traj_done:
            self._ended[t, b] = True
            if self._stats is None:
                completed.append(self.traj_infos[b].terminate(o))
                self.traj_infos[b] = self.TrajInfoCls()
        if not self.mid_batch_reset:
            self._resting[b] = None if traj_done else finals[-1][1]
        elif traj_done:
            o = self.envs[b].reset()
        return o

    def _note_info(self, b: int, info: Any) -> None:
        if info:
            try:
                self.step.env_info[b] = info
            except TypeError:
                self.step.env_info[b] = fit_info(info, self.step.env_info[b])
            # The same record of plain numbers again needs no writing again.
            plain = all(isinstance(x, (bool, int, float)) for x in tuple(info))
            self._last_info[b] = info if plain else None

    def _after_done(self, t: int, finals: list[tuple[int, Any, bool]]) -> None:
        """Value the final observations of truncated episodes; then null the next step's inputs."""
        timed_out = [(b, o) for b, o, timeout in finals if timeout]
        if timed_out and self._timeout_value is not None:
            observation = buffer_func(self.step.observation, np.copy)
            for b, o in timed_out:
                observation[b] = o
            value = self.actions.value(observation)
            for b, _ in timed_out:
                self._timeout_value[t, b] = value[b]
        rows = [b for b, _, _ in finals]
        for b in rows:
            self.step.action[b] = self._null_action
            self.step.reward[b] = 0
        self.actions.reset_rows(rows)
        if not self.mid_batch_reset:
            self._steps = [(b, step) for b, step in self._all_steps if b not in self._resting]
            self._blank_resting()

    def _blank_resting(self) -> None:
        """What is recorded of environments that wait: zeros, and done."""
        for b in self._resting:
            self.step[b] = 0
            self.step.done[b] = True
            self._last_info[b] = None

    def reset_if_needed(self, agent_inputs: Any) -> None:
        """Between batches: reset the environments that waited for it."""
        for b, kept in self._resting.items():
            self.surroundings.progress[0] = b
            self.step.observation[b] = self.envs[b].reset() if kept is None else kept
            self.step.action[b] = self._null_action
            self.step.done[b] = False
        if self._resting:
            self.actions.reset_rows(list(self._resting))
            self._resting = {}
            self._steps = self._all_steps

    def state_dict(self) -> dict[str, Any]:
        """Where collection stands, beside the environments: for exact resumption."""
        state: dict[str, Any] = {
            "step": [leaf.copy() for leaf in leaves_of(self.step)],
            "noise": self.actions.noise.state_dict(),
            "done_rows": list(self.actions._done_rows),
        }
        state["resting"] = {
            b: None if kept is None else leaves_of(kept) for b, kept in self._resting.items()
        }
        if self._stats is not None:
            state["stats"] = self._stats.state_dict()
        else:
            state["traj_infos"] = [_plain_entries(info) for info in self.traj_infos]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        for own, saved in zip(leaves_of(self.step), state["step"], strict=True):
            own[...] = saved
        self.actions.noise.load_state_dict(state["noise"])
        self.actions.reset_rows(list(state["done_rows"]))
        self._last_info = [None] * len(self.envs)
        self._resting = {
            b: None if kept is None else self._like_observation(kept)
            for b, kept in state["resting"].items()
        }
        self._steps = [(b, step) for b, step in self._all_steps if b not in self._resting]
        if self._stats is not None:
            self._stats.load_state_dict(state["stats"])
        else:
            for info, saved in zip(self.traj_infos, state["traj_infos"], strict=True):
                info.update(saved)

    def _like_observation(self, leaves: list[Array]) -> Any:
        """One environment's observation from its leaves in order."""
        rest = iter(leaves)
        return buffer_func(self.step.observation[0], lambda _: next(rest))


def _plain_entries(info: Any) -> dict[str, Any]:
    """What of a ``TrajInfo`` a checkpoint can hold: numbers, strings, arrays, lists of them."""
    plain = (bool, int, float, str, np.generic, np.ndarray, list, type(None))
    return {name: value for name, value in info.items() if isinstance(value, plain)}
