"""Collect trajectories with a sampler: complete episodes, or a number of steps.

sampler = SerialSampler(EnvCls=make, env_kwargs=dict(id="CartPole-v1"), batch_T=32, batch_B=4,
                        max_decorrelation_steps=0)
sampler.initialize(agent, seed=0, bootstrap_value=True)
episodes = EpisodeRunner(sampler)(10)
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rlpyt.samplers.trajectories import Trajectory, TrajectoryCutter
from rlpyt.utils.checks import whole_number

if TYPE_CHECKING:
    from rlpyt.samplers.base import BaseSampler


class _Engine:
    """Base class: collects batches with an initialized sampler.

    Episodes that are in progress at construction do not count as complete.

    Args:
        sampler: any sampler, initialized with an agent. With ``bootstrap_value`` trajectories have
            the value of the observation after them, with ``final_observation`` that observation.

    Raises:
        ValueError: the sampler's environments wait for the end of the batch after an episode.
        RuntimeError: the sampler is not initialized.
    """

    def __init__(self, sampler: BaseSampler) -> None:
        if not sampler.mid_batch_reset:
            raise ValueError(
                "environments of the sampler must be reset within the batch, but its collector "
                "lets them wait and records zeros. Use a collector that resets at once."
            )
        if getattr(sampler, "agent", None) is None:
            raise RuntimeError(f"initialize the {type(sampler).__name__} with an agent first.")
        self.sampler = sampler
        self._itr = 0
        fresh = sampler.max_decorrelation_steps == 0 and not sampler.has_sampled
        self._cutter = TrajectoryCutter(from_start=fresh)

    def _collect(self) -> list[Trajectory]:
        """Collect a batch; return the trajectories that ended in it."""
        agent, itr = self.sampler.agent, self._itr
        agent.sample_mode(itr)
        samples, _ = self.sampler.obtain_samples(itr)
        self._itr += 1
        # After a restart an actor of a RaySampler has new episodes.
        cut = self._cutter.cut() if self.sampler.interrupted else []
        return cut + self._cutter.add(samples)


class EpisodeRunner(_Engine):
    """Collects complete episodes, the same number from each environment.

    The number per environment is fixed beforehand, so short episodes are not overrepresented.

    Args:
        sampler: initialized sampler; with ``max_decorrelation_steps=0`` its first episodes count.
        reset_on_call: count only episodes that start after the call, with the current agent;
            ``False``: also those in progress, and of each environment the newest ``n // B`` that
            were left over from the call before.
    """

    def __init__(self, sampler: BaseSampler, reset_on_call: bool = True) -> None:
        super().__init__(sampler)
        self.reset_on_call = reset_on_call
        self._kept: list[Trajectory] = []

    def __call__(self, n: int) -> list[Trajectory]:
        """Collect ``n`` episodes, sorted by environment, then time.

        Raises:
            ValueError: n is below 1.
        """
        B = self.sampler.batch_spec.B
        n = whole_number("n", n, 1)
        missing = [n // B + (b < n % B) for b in range(B)]
        if self.reset_on_call and self._itr:
            self._kept = []
            self._cutter.cut()  # discard episodes in progress
        chosen: list[Trajectory] = []
        found, self._kept = self._kept, []
        while True:
            for episode in found:
                if missing[episode.env] and episode.complete:
                    missing[episode.env] -= 1
                    chosen.append(episode)
                elif episode.complete:
                    self._kept.append(episode)
            if not any(missing):
                newest = [deque[Trajectory](maxlen=max(1, n // B)) for _ in range(B)]
                for episode in self._kept:
                    newest[episode.env].append(episode)
                self._kept = [episode for episodes in newest for episode in episodes]
                return sorted(chosen, key=lambda episode: episode.env)  # stable
            found = self._collect()


class StepRunner(_Engine):
    """Collects a number of steps of every environment; the last trajectories are cut off.

    Args:
        sampler: initialized sampler.
    """

    def __call__(self, n_steps: int) -> list[Trajectory]:
        """Collect ``n_steps`` of each environment, sorted by environment, then time.

        Raises:
            ValueError: n_steps is not a multiple of the sampler's ``batch_T``.
        """
        batch_T = self.sampler.batch_spec.T
        batches, remainder = divmod(whole_number("n_steps", n_steps, 1), batch_T)
        if remainder:
            raise ValueError(
                f"n_steps={n_steps} must be a multiple of the sampler's batch_T={batch_T}. Use "
                f"{(batches + 1) * batch_T}."
            )
        found = [trajectory for _ in range(batches) for trajectory in self._collect()]
        found += self._cutter.cut()
        return sorted(found, key=lambda trajectory: trajectory.env)  # stable: ends come last
