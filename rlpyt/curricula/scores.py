"""How much there is left to learn from each step, judged by the values that the agent gave it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlpyt.algos.returns import generalized_advantage_estimation
from rlpyt.curricula.base import Array


@dataclass(frozen=True)
class GaeMagnitude:
    """|A_t|, the magnitude of the generalized advantage: the paper's L1 value loss.

    The mean over an episode is the score that Jiang et al. (2021, section 3.1) recommend. An
    episode that goes on after the batch is bootstrapped there, so its advantages are cut off.

    Attributes:
        discount, gae_lambda: as of the algorithm.
    """

    discount: float = 0.99
    gae_lambda: float = 0.95

    def __call__(self, samples: Any) -> Array:
        """Of each step, [T, B].

        Args:
            samples: ``Samples`` [T, B] of an agent that gives values, with ``bootstrap_value``.

        Raises:
            ValueError: there are no values.
        """
        value = getattr(samples.agent.agent_info, "value", None)
        bootstrap_value = getattr(samples.agent, "bootstrap_value", None)
        if value is None or bootstrap_value is None:
            raise ValueError(
                f"{type(self).__name__} needs values of states: an agent with values and an "
                "algorithm that bootstraps from them, such as A2C and PPO. Others need a score of "
                "their own: any function of the samples that returns [T, B]."
            )
        advantage, _ = generalized_advantage_estimation(
            samples.env.reward,
            value,
            samples.env.done,
            bootstrap_value,
            self.discount,
            self.gae_lambda,
            timeout_value=getattr(samples.agent, "timeout_value", None),
        )
        magnitude: Array = np.abs(np.asarray(advantage))
        return magnitude


@dataclass(frozen=True)
class TdErrorMagnitude(GaeMagnitude):
    """|r_t + gamma V(s_{t+1}) - V(s_t)|, the one-step error: advantages with lambda = 0."""

    gae_lambda: float = 0.0
