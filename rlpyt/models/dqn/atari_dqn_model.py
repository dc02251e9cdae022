"""Action values from Atari images: convolutions and a hidden layer (Mnih et al. 2015)."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from rlpyt.models.dqn.heads import build_head
from rlpyt.models.network import ImageModel

DQN_CONVOLUTIONS: dict[str, Sequence[int]] = dict(
    channels=[32, 64, 64], kernel_sizes=[8, 4, 3], strides=[4, 2, 1], paddings=[0, 1, 1]
)


class AtariDqnModel(ImageModel):
    """Convolutions and a hidden layer, then the value of each action.

    Returns Q [*lead, A], or [*lead, A, P] with ``n_atoms``.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_sizes: hidden layer(s) after the convolutions; a dueling head has them twice.
        dueling: separate branches for value and advantage.
        *args, **convolutions: see `ImageModel`, from ``use_maxpool``; three layers by default.
        noisy: noisy layers after the convolutions.
        n_atoms: P, number of outputs per action; ``None``: one, without a dimension P.
    """

    convolutions = DQN_CONVOLUTIONS
    softmax: ClassVar[bool] = False  # apply softmax to the outputs of each action

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: int | Sequence[int] = 512,
        dueling: bool = False,
        *args: Any,
        noisy: bool = False,
        n_atoms: int | None = None,
        **convolutions: Any,
    ) -> None:
        super().__init__(image_shape, None, *args, **convolutions)
        self.head = build_head(
            self.conv.output_size, fc_sizes, output_size, n_atoms, dueling, noisy
        )

    def heads(self, features: Tensor) -> Tensor:
        """Return action values, or P outputs for each action."""
        out: Tensor = self.head(features)
        return probabilities(out) if self.softmax else out.float()


class AtariQrDqnModel(AtariDqnModel):
    """Quantiles of each action's return, [*lead, A, N].

    Args:
        image_shape, output_size, fc_sizes, dueling, **kwargs: arguments of `AtariDqnModel`.
        n_quantiles: N, number of quantiles.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        n_quantiles: int = 200,
        fc_sizes: int | Sequence[int] = 512,
        dueling: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(image_shape, output_size, fc_sizes, dueling, n_atoms=n_quantiles, **kwargs)


def probabilities(logits: Tensor) -> Tensor:
    """Return the softmax over the last dimension, in float32."""
    return torch.softmax(logits, dim=-1, dtype=torch.float32)
