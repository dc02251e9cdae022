"""Action values of Atari images: convolutions and a hidden layer (Mnih et al. 2015)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.conv2d import Conv2dHeadModel
from rlpyt.models.dqn.heads import Sizes, build_head
from rlpyt.models.pg.atari_ff_model import IMAGE_DIM, to_unit_floats
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class AtariDqnTorso(nn.Module):
    """What the models of action values see images with; base of those without memory.

    Args:
        image_shape: (C, H, W).
        use_maxpool: downsample by max-pooling instead of strides.
        channels, kernel_sizes, strides, paddings: of the convolutions; ``None``: three layers of
            32, 64 and 64 channels with kernels 8, 4, 3, strides 4, 2, 1 and paddings 0, 1, 1.
    """

    observation_only = True  # previous action and reward are not looked at

    def __init__(
        self,
        image_shape: Sequence[int],
        use_maxpool: bool = False,
        channels: Sequence[int] | None = None,
        kernel_sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        paddings: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.conv = dqn_convolutions(
            image_shape, use_maxpool, channels, kernel_sizes, strides, paddings
        )

    def features(self, observation: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
        """Images [*lead, C, H, W] to [T * B, F] and (lead_dim, T, B)."""
        lead_dim, T, B, shape = infer_leading_dims(observation, IMAGE_DIM)
        return self.conv(to_unit_floats(observation.reshape(T * B, *shape))), (lead_dim, T, B)


def dqn_convolutions(
    image_shape: Sequence[int],
    use_maxpool: bool,
    channels: Sequence[int] | None,
    kernel_sizes: Sequence[int] | None,
    strides: Sequence[int] | None,
    paddings: Sequence[int] | None,
    hidden_sizes: Sizes = None,
) -> Conv2dHeadModel:
    """Convolutions with the defaults of `AtariDqnTorso`, and hidden layers behind them, if any."""
    return Conv2dHeadModel(
        image_shape=image_shape,
        channels=channels or [32, 64, 64],
        kernel_sizes=kernel_sizes or [8, 4, 3],
        strides=strides or [4, 2, 1],
        paddings=paddings or [0, 1, 1],
        use_maxpool=use_maxpool,
        hidden_sizes=hidden_sizes,
    )


class AtariDqnModel(AtariDqnTorso):
    """Convolutions and a hidden layer to the value of each action.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_sizes: hidden layer(s) after the convolutions; a dueling head has them twice.
        dueling: value and advantage apart.
        use_maxpool, channels, kernel_sizes, strides, paddings: of `AtariDqnTorso`.
        noisy: noisy layers after the convolutions.
        n_atoms: P outputs for each action; ``None``: one, and no dimension for it.
    """

    softmax = False  # whether a subclass's outputs for each action are probabilities

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
        n_atoms: int | None = None,
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
        """Action values, with the leading dimensions of ``observation``.

        Args:
            observation: [*lead, C, H, W] uint8, leading dimensions [], [B] or [T, B].
            prev_action, prev_reward: not used.

        Returns:
            Q [*lead, A] float32, or [*lead, A, P].
        """
        features, lead = self.features(observation)
        out = self.head(features)
        out = probabilities(out) if self.softmax else out.float()
        return restore_leading_dims(out, *lead)  # type: ignore[no-any-return]


class AtariQrDqnModel(AtariDqnModel):
    """N quantiles of each action's return, [*lead, A, N], from convolutions and a hidden layer.

    Args:
        image_shape, output_size, fc_sizes, dueling, **kwargs: of `AtariDqnModel`.
        n_quantiles: N.
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
    """Softmax over the last dimension, in float32."""
    return torch.softmax(logits, dim=-1, dtype=torch.float32)
