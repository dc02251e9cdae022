"""Implicit quantiles of returns from Atari images (Dabney et al. 2018)."""

from collections.abc import Sequence

from torch import Tensor

from rlpyt.models.dqn.atari_dqn_model import AtariDqnTorso
from rlpyt.models.dqn.implicit_quantile import N_COSINES, ImplicitQuantileHeadModel
from rlpyt.utils.tensor import restore_leading_dims


class AtariIqnModel(AtariDqnTorso):
    """Convolutions, and a head that gives each action's return at any quantile fraction.

    Args:
        image_shape, output_size, fc_sizes, dueling, use_maxpool, channels, kernel_sizes, strides,
            paddings, noisy: of `AtariDqnModel`.
        n_cosines: of `ImplicitQuantileHeadModel`.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: int | Sequence[int] = 512,
        dueling: bool = False,
        use_maxpool: bool = False,
        channels: Sequence[int] | None = None,
        kernel_sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        paddings: Sequence[int] | None = None,
        noisy: bool = False,
        n_cosines: int = N_COSINES,
    ) -> None:
        super().__init__(image_shape, use_maxpool, channels, kernel_sizes, strides, paddings)
        self.head = ImplicitQuantileHeadModel(
            self.conv.output_size, fc_sizes, output_size, n_cosines, dueling, noisy
        )

    def forward(
        self,
        observation: Tensor,
        prev_action: Tensor | None,
        prev_reward: Tensor | None,
        tau: Tensor,
    ) -> Tensor:
        """Quantiles [*lead, A, N] float32.

        Args:
            observation: [*lead, C, H, W] uint8, leading dimensions [], [B] or [T, B].
            prev_action, prev_reward: not used.
            tau: fractions [*lead, N] in [0, 1], or [N] for all rows alike.
        """
        features, lead = self.features(observation)
        rows = tau if tau.dim() == 1 else tau.reshape(-1, tau.shape[-1])
        quantiles: Tensor = restore_leading_dims(self.head(features, rows).float(), *lead)
        return quantiles
