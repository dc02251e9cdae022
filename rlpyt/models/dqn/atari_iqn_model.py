"""Implicit quantiles of returns from Atari images (Dabney et al. 2018)."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from rlpyt.models.dqn.atari_dqn_model import DQN_CONVOLUTIONS
from rlpyt.models.dqn.implicit_quantile import N_COSINES, ImplicitQuantileHeadModel
from rlpyt.models.network import ImageModel
from rlpyt.utils.buffer import Tensors
from rlpyt.utils.tensor import restore_leading_dims


class AtariIqnModel(ImageModel):
    """Convolutions, and a head that returns each action's return at any quantile fraction.

    Args:
        image_shape, output_size, fc_sizes, dueling, noisy, **convolutions: see `AtariDqnModel`.
        n_cosines: see `ImplicitQuantileHeadModel`.
    """

    convolutions = DQN_CONVOLUTIONS

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: int | Sequence[int] = 512,
        dueling: bool = False,
        *args: Any,
        noisy: bool = False,
        n_cosines: int = N_COSINES,
        **convolutions: Any,
    ) -> None:
        super().__init__(image_shape, None, *args, **convolutions)
        self.head = ImplicitQuantileHeadModel(
            self.conv.output_size, fc_sizes, output_size, n_cosines, dueling, noisy
        )

    def forward(  # type: ignore[override]
        self,
        observation: Tensor,
        prev_action: Tensors | None,
        prev_reward: Tensor | None,
        tau: Tensor,
    ) -> Tensor:
        """Return quantiles [*lead, A, N] float32.

        Args:
            observation: [*lead, C, H, W] uint8, leading dimensions [], [B] or [T, B].
            prev_action, prev_reward: not used.
            tau: fractions [*lead, N] in [0, 1], or [N] for all rows.
        """
        features, lead = self.encode(observation)
        rows = tau if tau.dim() == 1 else tau.reshape(-1, tau.shape[-1])
        quantiles: Tensor = restore_leading_dims(self.head(features, rows).float(), *lead)  # type: ignore[misc]
        return quantiles
