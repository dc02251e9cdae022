"""Head of implicit quantile networks, which returns quantiles at any fractions."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.dqn.heads import build_head
from rlpyt.models.network import Network
from rlpyt.models.utils import Nonlinearity
from rlpyt.utils.buffer import Tensors
from rlpyt.utils.tensor import restore_leading_dims

N_COSINES = 64  # n in Dabney et al. 2018b, eq. 4


class ImplicitQuantileHeadModel(nn.Module):
    """Z_tau(s, a) = f(psi(s) * phi(tau))_a with phi_j(tau) = relu(sum_i cos(pi i tau) w_ij + b_j).

    (Dabney et al. 2018, "Implicit Quantile Networks", eq. 4; i runs from 0.)

    Args:
        input_size: F, size of psi(s).
        hidden_sizes: hidden layers of f.
        output_size: A, number of actions.
        n_cosines: number of cosines in the embedding of a fraction.
        dueling, noisy, nonlinearity: arguments of ``build_head``, which builds f.
    """

    def __init__(
        self,
        input_size: int,
        hidden_sizes: int | Sequence[int] | None,
        output_size: int,
        n_cosines: int = N_COSINES,
        dueling: bool = False,
        noisy: bool = False,
        nonlinearity: Nonlinearity = nn.ReLU,
    ) -> None:
        super().__init__()
        self.n_cosines = n_cosines
        self.embedding = nn.Linear(n_cosines, input_size)
        sizes = (input_size, hidden_sizes, output_size)
        self.head = build_head(*sizes, None, dueling, noisy, nonlinearity)

    def forward(self, features: Tensor, tau: Tensor) -> Tensor:
        """Return quantiles at the fractions ``tau``.

        Args:
            features: psi(s), [*lead, F].
            tau: fractions [*lead, N] in [0, 1], or [N] for all rows.

        Returns:
            Quantiles [*lead, A, N].
        """
        frequency = math.pi * torch.arange(self.n_cosines, dtype=tau.dtype, device=tau.device)
        phi = torch.relu(self.embedding(torch.cos(tau.unsqueeze(-1) * frequency)))  # [.., N, F]
        quantiles: Tensor = self.head(features.unsqueeze(-2) * phi)  # [*lead, N, A]
        return quantiles.transpose(-1, -2)


def quantiles_at(
    model: Network,
    observation: Tensors,
    prev_action: Tensors | None,
    prev_reward: Tensor | None,
    tau: Tensor,
    init_rnn_state: Tensors | None = None,
) -> Any:
    """Return quantiles [*lead, A, N] of a model with ``heads(features, tau)``, as ``forward``.

    Args:
        model: the model.
        observation: [*lead, *observation_shape], leading dimensions [], [B] or [T, B].
        prev_action, prev_reward, init_rnn_state: see `Network`; read by recurrent models only.
        tau: fractions [*lead, N] in [0, 1], or [N] for all rows.

    Returns:
        Quantiles float32; recurrent models also return the state after the last step.
    """
    features, lead = model.encode(observation)
    rnn_state = None
    if lead is not None and tau.dim() > 1:
        tau = tau.reshape(-1, tau.shape[-1])
    recurrent = model.recurrent_layer is not None
    if recurrent:
        assert lead is not None
        inputs = (prev_action, prev_reward, init_rnn_state)
        features, rnn_state = model.remember(features, lead, *inputs)
    quantiles = model.heads(features, tau)  # type: ignore[call-arg]
    if lead is not None:
        quantiles = restore_leading_dims(quantiles, *lead)
    return (quantiles, rnn_state) if recurrent else quantiles


def midpoints(n: int) -> Tensor:
    """Return the midpoints of n equal parts of [0, 1], [n] float32: (i + 1/2) / n."""
    return (torch.arange(n, dtype=torch.float32) + 0.5) / n
