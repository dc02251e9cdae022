"""Collector of evolution strategies: a batch is one complete episode per environment."""

from typing import Any

import numpy as np

from rlpyt.envs.traj_info import raw_reward
from rlpyt.samplers.collectors import Collector
from rlpyt.samplers.env_batch import is_batch
from rlpyt.samplers.traj_stats import BatchTrajStats, are_stock, copier
from rlpyt.utils.buffer import leaves_of


class PopulationCollector(Collector):
    """Collector that resets all environments before each batch, with seeds from the agent.

    An environment whose episode is over waits: its remaining steps are recorded as zeros and done,
    as in other waiting collectors. The batch ends early when all environments wait. An episode
    that is not over after T steps is cut off, and its return so far counts.

    The agent must act in the same process as the environments (serial, CPU and Ray samplers).

    Raises:
        ValueError: the agent acts in another process, or its settings have no "seeds".
    """

    mid_batch_reset = False
    records_final_observations = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.agent is None or "seeds" not in getattr(self.agent, "settings", {}):
            raise ValueError(
                f"{type(self).__name__} needs an agent in the process of its environments with "
                "seeds of episodes, such as EsAgent. Use SerialSampler, CpuSampler or RaySampler."
            )

    def start_envs(self, max_decorrelation_steps: int = 0) -> tuple[Any, list[Any]]:
        """Reset the environments; random steps would be lost with the reset of the first batch."""
        return super().start_envs(0)

    def _watch_trajectories(self, traj_infos: list[Any]) -> None:
        """Process complete batches for the default TrajInfo, single steps for other classes."""
        self._stats = None
        self._own = copier(traj_infos)
        self.rollout.watch = None if are_stock(traj_infos) else self._watch_step
        self.traj_infos = traj_infos

    def collect_batch(
        self, agent_inputs: Any, traj_infos: list[Any], itr: int
    ) -> tuple[Any, list[Any], list[Any]]:
        """Run one episode of at most T steps in each environment."""
        self._length = np.full(self.env_batch.B, self.batch_T)
        self._seed_envs()
        self.rollout.start()
        for batch, record in self._write_first:
            batch[0] = record
        self.rollout.run(self.batch_T)
        self._blank_after(self._length)
        return agent_inputs, self.traj_infos, self._finished(self._length)

    def _on_done(self, t: int, done: list[int], to_reset: list[int]) -> bool:
        """Let finished environments wait; return True when all of them wait."""
        self._length[done] = t + 1
        self.env_batch.hold(done)
        return len(self.env_batch.held) == self.env_batch.B

    def _seed_envs(self) -> None:
        assert self.agent is not None
        seeds, first = self.agent.settings["seeds"][self.env_ranks].tolist(), 0
        for env in self.env_batch.envs:
            n = env.n if is_batch(env) else 1
            env_seeds = seeds[first : first + n]
            if min(env_seeds) >= 0 and hasattr(env, "seed"):
                env.seed(env_seeds if is_batch(env) else env_seeds[0])
            first += n

    def _blank_after(self, length: Any) -> None:
        """Record zeros and done after the end of each environment's episode."""
        agent, env = self.samples_np.agent, self.samples_np.env
        fields = (agent.action, agent.agent_info, env.observation, env.reward, env.env_info)
        leaves = [leaf for field in fields for leaf in leaves_of(field)]
        for b in np.flatnonzero(length < self.batch_T):
            for leaf in leaves:
                leaf[length[b] :, b] = 0
            env.done[length[b] :, b] = True

    def _finished(self, length: Any) -> list[Any]:
        """Return the trajectories of all environments, and start new ones."""
        infos, B = self.traj_infos, self.env_batch.B
        self.traj_infos = [self.TrajInfoCls() for _ in range(B)]
        if self.rollout.watch is not None:
            last = self._own(self.step.observation)
            return [info.terminate(last[b]) for b, info in enumerate(infos)]
        ended = np.zeros((self.batch_T, B), bool)
        ended[length - 1, np.arange(B)] = True
        stats = BatchTrajStats(self.traj_infos, infos[0]._discount)
        env = self.samples_np.env
        return stats.add(raw_reward(env.reward, env.env_info), ended, self.TrajInfoCls)
