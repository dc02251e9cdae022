"""Agents of quantile regression: QR-DQN with fixed fractions, IQN with any."""

from typing import Any

import torch

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.models.dqn.implicit_quantile import midpoints
from rlpyt.utils.checks import whole_number


class QrDqnAgent(DqnAgent):
    """Acts on the means of the quantiles [.., A, N] that the model gives.

    Args:
        n_quantiles: N, also given to the model; quantile i is that of fraction (i + 1/2) / N.
        **kwargs: of `DqnAgent`.
    """

    gives = "quantiles"

    def __init__(self, n_quantiles: int = 200, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_quantiles = whole_number("n_quantiles", n_quantiles, 1)
        self.model_kwargs["n_quantiles"] = self.n_quantiles

    def summarize(self, output: Any) -> Any:
        """Action values: the quantiles' means."""
        return output.mean(-1)


class IqnAgent(DqnAgent):
    """Acts on the means of K quantiles that the model gives, of fixed fractions (k + 1/2) / K.

    The paper draws the K fractions anew for every action; evenly spaced ones have the same mean
    and less noise, and the same observation then always has the same values.

    Args:
        n_act_quantiles: K.
        **kwargs: of `DqnAgent`.
    """

    gives = "quantiles of any fractions"

    def __init__(self, n_act_quantiles: int = 32, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n_act_quantiles = whole_number("n_act_quantiles", n_act_quantiles, 1)

    def _run(self, model: Any, inputs: tuple[Any, ...]) -> Any:
        return model(*inputs, self._fractions(None))

    def _fractions(self, tau: torch.Tensor | None) -> torch.Tensor:
        tau = midpoints(self.n_act_quantiles) if tau is None else tau
        return tau.to(self.device)

    def summarize(self, output: Any) -> Any:
        """Action values: the quantiles' means."""
        return output.mean(-1)

    def __call__(  # type: ignore[override]
        self, observation: Any, prev_action: Any, prev_reward: Any, tau: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Quantiles for training data, with gradient.

        Args:
            observation, prev_action, prev_reward: of `DqnAgent`.
            tau: fractions, [B, N] or [N]; ``None``: the K that are acted on.

        Returns:
            [B, A, N], on the agent's device.
        """
        inputs = self._inputs(observation, prev_action, prev_reward)
        return self.model(*inputs, self._fractions(tau))  # type: ignore[no-any-return]

    @torch.no_grad()
    def target(  # type: ignore[override]
        self, observation: Any, prev_action: Any, prev_reward: Any, tau: torch.Tensor | None = None
    ) -> torch.Tensor:
        """As ``__call__``, from the target network."""
        inputs = self._inputs(observation, prev_action, prev_reward)
        return self.target_model(*inputs, self._fractions(tau))  # type: ignore[no-any-return]
