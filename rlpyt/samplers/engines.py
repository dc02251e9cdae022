"""Collect whole episodes, or so many steps, with a sampler, and get them as trajectories.

sampler = SerialSampler(EnvCls=make, env_kwargs=dict(id="CartPole-v1"), batch_T=32, batch_B=4,
                        max_decorrelation_steps=0)
sampler.initialize(agent, seed=0, bootstrap_value=True)
episodes = EpisodeRunner(sampler)(10)
"""

from typing import Any

from rlpyt.samplers.trajectories import Trajectory, TrajectoryCutter
from rlpyt.utils.checks import whole_number


class _Engine:
    """Takes batches of an initialized sampler.

    Episodes that are under way when it is made, by batches that others took, are not whole to it.

    Args:
        sampler: of any kind, initialized with the agent. With ``bootstrap_value`` trajectories
            know the value of what follows them, with ``final_observation`` what it looks like.

    Raises:
        ValueError: the sampler's environments wait after an episode for the batch to end.
        RuntimeError: the sampler is not initialized.
    """

    def __init__(self, sampler: Any) -> None:
        if not sampler.mid_batch_reset:
            raise ValueError(
                "the sampler's environments wait for the end of the batch after an episode, and "
                "zeros are recorded meanwhile; take a collector that resets at once."
            )
        if getattr(sampler, "agent", None) is None:
            raise RuntimeError(f"initialize the {type(sampler).__name__} with an agent first.")
        self.sampler = sampler
        self._itr = 0
        fresh = sampler.max_decorrelation_steps == 0 and not sampler.begun
        self._cutter = TrajectoryCutter(from_start=fresh)

    def _collect(self) -> list[Trajectory]:
        """One batch more; returns trajectories that ended in it."""
        agent, itr = self.sampler.agent, self._itr
        agent.sample_mode(itr)
        samples, _ = self.sampler.obtain_samples(itr)
        self._itr += 1
        # An actor that Ray has started anew begins other episodes: nothing may be joined with them.
        cut = self._cutter.cut() if self.sampler.interrupted else []
        return cut + self._cutter.add(samples)


class EpisodeRunner(_Engine):
    """Collects whole episodes, as many from each environment.

    Each environment's share is decided beforehand, so that short episodes do not crowd out long
    ones.

    Args:
        sampler: initialized; ``max_decorrelation_steps=0`` lets its first episodes count.
        reset_on_call: count only episodes that began after the call did, with the agent as it is
            now; ``False`` goes on with those begun before.
    """

    def __init__(self, sampler: Any, reset_on_call: bool = True) -> None:
        super().__init__(sampler)
        self.reset_on_call = reset_on_call
        self._kept: list[Trajectory] = []

    def __call__(self, n: int) -> list[Trajectory]:
        """Collect ``n`` episodes; by environment, then time.

        Raises:
            ValueError: n is below 1.
        """
        B = self.sampler.batch_spec.B
        n = whole_number("n", n, 1)
        missing = [n // B + (b < n % B) for b in range(B)]
        if self.reset_on_call and self._itr:
            self._kept = []
            self._cutter.cut()  # what is under way does not begin an episode any more
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
                return sorted(chosen, key=lambda episode: episode.env)  # stable
            found = self._collect()


class StepRunner(_Engine):
    """Collects a number of steps of every environment, cut off where they end.

    Args:
        sampler: initialized.
    """

    def __call__(self, n_steps: int) -> list[Trajectory]:
        """Collect ``n_steps`` of each environment; by environment, then time.

        Raises:
            ValueError: n_steps is not a multiple of the sampler's ``batch_T``.
        """
        batch_T = self.sampler.batch_spec.T
        batches, rest = divmod(whole_number("n_steps", n_steps, 1), batch_T)
        if rest:
            raise ValueError(
                f"n_steps={n_steps} must be a multiple of the sampler's batch_T={batch_T}; try "
                f"{(batches + 1) * batch_T}."
            )
        found = [one for _ in range(batches) for one in self._collect()]
        found += self._cutter.cut()
        return sorted(found, key=lambda trajectory: trajectory.env)  # stable: ends come last
