"""Distributions of returns from Atari images, over fixed atoms (Bellemare et al. 2017)."""

from collections.abc import Sequence

from torch import Tensor

from rlpyt.models.dqn.atari_dqn_model import AtariDqnTorso, probabilities
from rlpyt.models.dqn.heads import DistributionalHeadModel as DistributionalHeadModel  # noqa: PLC0414 (rlpyt's home of it)
from rlpyt.models.dqn.heads import build_head
from rlpyt.utils.tensor import restore_leading_dims


class AtariCatDqnModel(AtariDqnTorso):
    """Convolutions and a hidden layer to the probabilities of P atoms for each action.

    Args:
        image_shape, output_size, fc_sizes, dueling, use_maxpool, channels, kernel_sizes, strides,
            paddings, noisy: of `AtariDqnModel`.
        n_atoms: P.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        n_atoms: int = 51,
        fc_sizes: int | Sequence[int] = 512,
        dueling: bool = False,
        use_maxpool: bool = False,
        channels: Sequence[int] | None = None,
        kernel_sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        paddings: Sequence[int] | None = None,
        noisy: bool = False,
    ) -> None:
        super().__init__(image_shape, use_maxpool, channels, kernel_sizes, strides, paddings)
        self.head = build_head(
            self.conv.output_size, fc_sizes, output_size, n_atoms, dueling, noisy
        )

    def forward(
        self,
        observation: Tensor,
        prev_action: Tensor | None = None,
        prev_reward: Tensor | None = None,
    ) -> Tensor:
        """Probabilities [*lead, A, P] float32, each action's summing to one.

        Args:
            observation: [*lead, C, H, W] uint8, leading dimensions [], [B] or [T, B].
            prev_action, prev_reward: not used.
        """
        features, lead = self.features(observation)
        p: Tensor = restore_leading_dims(probabilities(self.head(features)), *lead)
        return p
