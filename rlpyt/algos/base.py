"""What a runner asks of an algorithm."""

from typing import Any, ClassVar

from rlpyt.utils.completion import warn_of_lost_state


class RlAlgorithm:
    """Turns samples into better agent parameters.

    Construction only remembers the hyperparameters; ``initialize`` builds the optimizer (and a
    replay buffer, where there is one).
    """

    opt_info_fields: ClassVar[tuple[str, ...]] = ()
    bootstrap_value = False  # whether samplers record ``agent.value``
    final_observation = False  # whether they record the last observations of truncated episodes
    update_counter = 0
    min_itr_learn = 0  # iterations of sampling before learning begins

    def initialize(
        self,
        agent: Any,
        n_itr: int,
        batch_spec: Any,
        mid_batch_reset: bool,
        examples: Any,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Get ready to train.

        Args:
            agent: initialized, on its device.
            n_itr: iterations of the run, for schedules.
            batch_spec: T and B of the sampler's batches.
            mid_batch_reset: whether environments are reset within a batch; else samples after a
                done are invalid.
            examples: one step of everything, for replay buffers.
            world_size, rank: processes that optimize together, and which this is.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement initialize.")

    def async_initialize(
        self,
        agent: Any,
        sampler_n_itr: int,
        batch_spec: Any,
        mid_batch_reset: bool,
        examples: Any,
        world_size: int = 1,
    ) -> Any:
        """For asynchronous runners: as ``initialize`` without the optimizer; returns the replay."""
        raise NotImplementedError(f"{type(self).__name__} does not run asynchronously.")

    def optim_initialize(self, rank: int = 0) -> None:
        """Build the optimizer."""
        raise NotImplementedError(f"{type(self).__name__} must implement optim_initialize.")

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Train on new samples or from replay; returns a named tuple of lists to log."""
        raise NotImplementedError(f"{type(self).__name__} must implement optimize_agent.")

    def statistics(self) -> dict[str, float]:
        """What a row of progress.csv says of the algorithm, always under the same names."""
        return {}

    def optim_state_dict(self) -> Any:
        """State of the optimizer, or of several by name."""
        if not hasattr(self, "optimizer"):
            warn_of_lost_state(self, "A resumed run has the algorithm as it was constructed.")
            return {}
        return self.optimizer.state_dict()

    def load_optim_state_dict(self, state_dict: Any) -> None:
        """Load what ``optim_state_dict`` gave."""
        if hasattr(self, "optimizer"):
            self.optimizer.load_state_dict(state_dict)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs beside the agent."""
        return {"optimizer": self.optim_state_dict(), "update_counter": self.update_counter}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.load_optim_state_dict(state["optimizer"])
        self.update_counter = state["update_counter"]

    def interrupt(self) -> None:
        """What is sampled next does not follow what was sampled last: environments began anew.

        Called when a resumed run could not restore them, and when a sampler says so of a batch
        (``BaseSampler.interrupted``), before the algorithm is given it.
        """

    @property
    def batch_size(self) -> int:
        """Samples in one training batch."""
        return int(self._batch_size)  # type: ignore[attr-defined]

    @batch_size.setter
    def batch_size(self, value: int) -> None:
        self._batch_size = value
