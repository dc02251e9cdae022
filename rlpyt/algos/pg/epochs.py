"""Base class of on-policy algorithms that train on each batch for several epochs of minibatches."""

import warnings
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.minibatches import split_environments, split_steps
from rlpyt.algos.pg.base import PolicyGradientAlgo
from rlpyt.envs.base import BatchSpec
from rlpyt.utils.collections import NamedArrayTuple


class EpochAlgo(PolicyGradientAlgo):
    """Base class of PPO and PQN: epochs of shuffled minibatches, each with one ``update``."""

    # Hyperparameters that every subclass declares.
    minibatches: int
    epochs: int

    def check_batch(self, agent: BaseAgent, batch_spec: BatchSpec) -> None:
        """Check that there are at most as many minibatches as samples, or environments.

        Raises:
            ValueError: there are more minibatches than samples, or than environments with a
                recurrent agent.
        """
        n_to_split, unit = self._n_to_split(agent, batch_spec)
        if self.minibatches > n_to_split:
            raise ValueError(
                f"minibatches={self.minibatches} must be at most {unit} = {n_to_split}. Take fewer."
            )

    def _n_to_split(self, agent: BaseAgent, batch_spec: BatchSpec) -> tuple[int, str]:
        """Return the number of samples, or of environments, to split, and its name."""
        if agent.recurrent:
            return batch_spec.B, "batch_B (environments)"
        return batch_spec.size, "batch_T * batch_B"

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Build the optimizer and check that minibatches fit the batch.

        If the batch cannot be divided evenly, minibatches are rounded down in size, an epoch has as
        many as fit, and leaves out a random remainder, with a warning. Errors are those of
        ``check_batch``.
        """
        super().initialize(*args, **kwargs)
        self.check_batch(self.agent, self.batch_spec)
        n_to_split, unit = self._n_to_split(self.agent, self.batch_spec)
        size, remainder = divmod(n_to_split, self.minibatches)
        if remainder and self.rank == 0:
            divisors = [m for m in range(1, n_to_split + 1) if n_to_split % m == 0]
            nearest = min(divisors, key=lambda m: abs(m - self.minibatches))
            left = f" and leaves out {n_to_split % size}" if n_to_split % size else ""
            warnings.warn(
                f"minibatches={self.minibatches} must divide {unit} = {n_to_split}: each epoch has "
                f"{n_to_split // size} minibatches of {size}{left}. Use minibatches={nearest}."
            )
        self._batch_size = size * self.batch_spec.size // n_to_split

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Train on the samples for ``epochs`` passes in shuffled minibatches.

        An ``update`` that takes no step, as PPO's with ``target_kl``, ends them.
        """
        self.apply_schedule(itr)
        samples = self.with_normalized_rewards(samples)
        batch = self.make_batch(samples)
        state = self.initial_rnn_state(samples)
        statistics = []
        epochs = (self._minibatches(batch, state) for _ in range(self.epochs))
        for minibatch in chain.from_iterable(epochs):
            with self.explained(minibatch):
                result = self.update(minibatch)
            self.recorded.end_update()
            if not result:
                break
            statistics.append(result)
            self.update_counter += 1
        self.update_obs_rms(samples)
        columns = zip(*statistics) if statistics else [() for _ in self.returned_fields]
        return self.make_opt_info(torch.stack(x).tolist() if x else [] for x in columns)

    def update(self, batch: NamedArrayTuple) -> tuple[torch.Tensor, ...]:
        """Take one gradient step on a minibatch; return a scalar for each statistic.

        Returns:
            Scalars, or an empty tuple if no step was taken, which ends the epochs.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement update.")

    def _minibatches(self, batch: NamedArrayTuple, state: Any) -> Iterator[Any]:
        """Shuffle and split the batch; recurrent agents keep environments whole."""
        if not self.agent.recurrent:
            yield from split_steps(batch, self.batch_size)
            return
        size = self.batch_spec.B // self.minibatches
        for columns, column_state in split_environments(batch, state, size):
            minibatch, init_state = self.cut_into_episodes(columns, column_state)
            yield minibatch._replace(init_rnn_state=init_state)
