"""Agents for quantile regression: QR-DQN with fixed fractions, IQN with any fractions."""

from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.models.dqn.implicit_quantile import midpoints
from rlpyt.utils.buffer import Tensors
from rlpyt.utils.checks import whole_number


class QrDqnAgent(DqnAgent):
    """Acts on the means of the model's quantiles [.., A, N].

    Args:
        n_quantiles: N, also passed to the model; quantile i has the fraction (i + 1/2) / N.
        *args, **kwargs: arguments of `DqnAgent`.
    """

    provides = "quantiles"

    def __init__(self, *args: Any, n_quantiles: int = 200, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.n_quantiles = whole_number("n_quantiles", n_quantiles, 1)
        self.model_kwargs["n_quantiles"] = self.n_quantiles

    def summarize(self, output: Any) -> Any:
        """Return action values, the means of the quantiles."""
        return output.mean(-1)


class IqnAgent(DqnAgent):
    """Acts on the means of the model's quantiles at K fixed fractions (k + 1/2) / K.

    The paper draws K new fractions for every action. Evenly spaced fractions have the same mean and
    less noise, and the values of an observation are then always the same.

    Args:
        n_act_quantiles: K.
        *args, **kwargs: arguments of `DqnAgent`.
    """

    provides = "quantiles of any fractions"

    def __init__(self, *args: Any, n_act_quantiles: int = 32, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.n_act_quantiles = whole_number("n_act_quantiles", n_act_quantiles, 1)

    def _run(
        self,
        model: torch.nn.Module,
        inputs: tuple[Tensors, ...],
        rnn_state: Tensors | None = None,
        tau: Tensor | None = None,
    ) -> tuple[Any, Any]:
        tau = midpoints(self.n_act_quantiles) if tau is None else tau
        return super()._run(model, (*inputs, tau.to(self.device)), rnn_state)

    def summarize(self, output: Any) -> Any:
        """Return action values, the means of the quantiles."""
        return output.mean(-1)

    def __call__(  # type: ignore[override]
        self,
        observation: Tensors,
        prev_action: Tensors,
        prev_reward: Tensor,
        tau: Tensor | None = None,
        init_rnn_state: Tensors | None = None,
    ) -> Any:
        """Return quantiles for training data, with gradient.

        Args:
            observation, prev_action, prev_reward, init_rnn_state: arguments of `DqnAgent`.
            tau: fractions, [B, N], [T, B, N] or [N]; ``None``: the K fixed ones.

        Returns:
            [.., A, N], on the agent's device; from recurrent agents also the state after the last
            row.
        """
        inputs = (observation, prev_action, prev_reward)
        return self._evaluate(self.model, inputs, init_rnn_state, tau)

    @torch.no_grad()
    def target(  # type: ignore[override]
        self,
        observation: Tensors,
        prev_action: Tensors,
        prev_reward: Tensor,
        tau: Tensor | None = None,
        init_rnn_state: Tensors | None = None,
    ) -> Any:
        """Evaluate the target network, with arguments and results of ``__call__``."""
        inputs = (observation, prev_action, prev_reward)
        return self._evaluate(self.target_model, inputs, init_rnn_state, tau)
