"""Scores of the learning potential of each step, from the agent's value estimates."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlpyt.algos.returns import generalized_advantage_estimation
from rlpyt.curricula.base import Array


@dataclass(frozen=True)
class GaeMagnitude:
    """Magnitude of the generalized advantage, |A_t|: the paper's L1 value loss.

    The mean over an episode is the score recommended by Jiang et al. (2021, section 3.1). An
    episode that continues after the batch is bootstrapped there, which truncates its advantages.

    Attributes:
        discount, gae_lambda: ``None``: those of the algorithm; 0.99 and 0.95 without a runner.
    """

    discount: float | None = None
    gae_lambda: float | None = None

    def for_values(self, discount: float, gae_lambda: float) -> "GaeMagnitude":
        """Return the score for values of an algorithm, which are in units of the rewards."""
        return replace(
            self,
            discount=discount if self.discount is None else self.discount,
            gae_lambda=gae_lambda if self.gae_lambda is None else self.gae_lambda,
        )

    def __call__(self, samples: Any) -> Array:
        """Return the score of each step, [T, B].

        Args:
            samples: ``Samples`` [T, B] with ``value`` in agent_info and ``bootstrap_value``.

        Raises:
            ValueError: ``samples`` has no values.
        """
        value = getattr(samples.agent.agent_info, "value", None)
        bootstrap_value = getattr(samples.agent, "bootstrap_value", None)
        if value is None or bootstrap_value is None:
            raise ValueError(
                f"{type(self).__name__} requires state values: an agent with values and an "
                "algorithm that bootstraps from them, such as A2C or PPO. Otherwise, pass a custom "
                "score: a function of the samples that returns [T, B]."
            )
        advantage, _ = generalized_advantage_estimation(
            samples.env.reward,
            value,
            samples.env.done,
            bootstrap_value,
            0.99 if self.discount is None else self.discount,
            0.95 if self.gae_lambda is None else self.gae_lambda,
            timeout_value=getattr(samples.agent, "timeout_value", None),
        )
        magnitude: Array = np.abs(np.asarray(advantage))
        return magnitude


@dataclass(frozen=True)
class TdErrorMagnitude(GaeMagnitude):
    """Magnitude of the one-step TD error, |r_t + gamma V(s_{t+1}) - V(s_t)|: GAE, lambda = 0."""

    gae_lambda: float | None = 0.0
