"""The only loop that steps environments for evaluation."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlpyt.samplers.actions import ActionNoise, LocalActions
from rlpyt.samplers.surroundings import Surroundings, bounds_of
from rlpyt.utils.buffer import buffer_func


class BaseEvalCollector:
    """Runs evaluation episodes, recording nothing but their statistics.

    Args:
        rank: index of the process.
        envs: its evaluation environments.
        TrajInfoCls: makes an empty ``TrajInfo``.
        traj_infos_queue: where a collector of the user's may put finished trajectories; anything
            with ``put``.
        max_T: time steps per environment at the most.
        agent: the agent, where actions are chosen in this process.
        sync: synchronisation with an action server, where they are not.
        step_buffer_np: step record shared with that server.
    """

    def __init__(
        self,
        rank: int,
        envs: Sequence[Any],
        TrajInfoCls: Any,
        traj_infos_queue: Any,
        max_T: int,
        agent: Any = None,
        sync: Any = None,
        step_buffer_np: Any = None,
    ) -> None:
        self.rank = rank
        self.envs = envs
        self.TrajInfoCls = TrajInfoCls
        self.traj_infos_queue = traj_infos_queue
        self.max_T = max_T
        self.agent = agent
        self.sync = sync
        self.step_buffer_np = step_buffer_np
        self.surroundings = Surroundings()
        self.quota: list[int] | None = None
        self.env_ranks = list(range(len(envs)))
        self.example_step: Any = None

    def collect_evaluation(self, itr: int) -> Any:
        """Run the agent; returns finished trajectories, or puts them into the queue."""
        raise NotImplementedError(f"{type(self).__name__} must implement collect_evaluation.")


class EvalCollector(BaseEvalCollector):
    """The evaluation loop, for agents in this process.

    Each environment runs its ``quota`` of episodes, decided beforehand, so short episodes do not
    crowd out long ones; without a quota it runs ``max_T`` steps, and whatever ends within them
    counts (then, as rlpyt documents, favouring short episodes where ``max_T`` is not large).
    """

    NOISE_BLOCK = 64  # steps for which action noise is drawn at a time

    def collect_evaluation(self, itr: int) -> list[Any]:
        """Run episodes from fresh resets; returns their ``TrajInfo`` by environment."""
        B, progress = len(self.envs), self.surroundings.progress
        finished: list[list[Any]] = [[] for _ in range(B)]
        quota: Any = self.quota or [np.inf] * B
        step, actions = self._start()
        infos = [self.TrajInfoCls() for _ in range(B)]
        clip = bounds_of(self.envs[0].action_space)
        null_action = self.envs[0].action_space.null_value()
        for t in range(self.max_T):
            progress[1] = t
            if t % self.NOISE_BLOCK == 0:
                actions.begin(self.NOISE_BLOCK)
            actions.act(t % self.NOISE_BLOCK)
            action = step.action if clip is None else np.clip(step.action, *clip)
            rows = []
            for b, env in enumerate(self.envs):
                if len(finished[b]) >= quota[b]:
                    continue
                progress[0] = b
                o, r, d, info = env.step(action[b])
                infos[b].step(step.observation[b], action[b], r, d, step.agent_info[b], info)
                if getattr(info, "traj_done", d):
                    finished[b].append(infos[b].terminate(o))
                    infos[b] = self.TrajInfoCls()
                    o = env.reset()
                step.observation[b] = o
                step.reward[b] = 0 if d else r
                if d:
                    step.action[b] = null_action
                    rows.append(b)
            actions.reset_rows(rows)
            if all(len(done) >= n for done, n in zip(finished, quota)):
                break
        progress[1] = -1
        return [info for infos_of_env in finished for info in infos_of_env]

    def _start(self) -> tuple[Any, LocalActions]:
        """Reset the environments and begin the evaluation's own stream of noise."""
        if self.example_step is None:
            raise RuntimeError("example_step must be set before evaluation; samplers do.")
        step = buffer_func(self.example_step, np.zeros_like)
        for b, env in enumerate(self.envs):
            self.surroundings.progress[0] = b
            step.observation[b] = env.reset()
            step.action[b] = env.action_space.null_value()
        if not hasattr(self, "_noise"):
            self._noise = ActionNoise(self.surroundings.seed, "eval action", self.env_ranks)
        return step, LocalActions(self.agent, step, self._noise)
