"""Feed-forward actor-critic for Atari: convolutions, one hidden layer, two heads."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlpyt.models.conv2d import Conv2dHeadModel
from rlpyt.models.mlp import HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN, init_orthogonal
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims

IMAGE_DIM = 3


class AtariFfModel(nn.Module):
    """Convolutions and a hidden layer, from which action probabilities and value are read.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_sizes: hidden layer(s) after the convolutions.
        use_maxpool: downsample by max-pooling instead of strides.
        channels, kernel_sizes, strides, paddings: of the convolutions; ``None``: two layers of 16
            and 32 channels with kernels 8 and 4, strides 4 and 2, paddings 0 and 1.
    """

    observation_only = True  # previous action and reward are not looked at

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: int | Sequence[int] = 512,
        use_maxpool: bool = False,
        channels: Sequence[int] | None = None,
        kernel_sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        paddings: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.conv = conv_torso(
            image_shape, fc_sizes, use_maxpool, channels, kernel_sizes, strides, paddings
        )
        self.pi = nn.Linear(self.conv.output_size, output_size)
        self.value = nn.Linear(self.conv.output_size, 1)
        init_orthogonal(self.conv, HIDDEN_GAIN)
        init_orthogonal(self.pi, POLICY_GAIN)
        init_orthogonal(self.value, VALUE_GAIN)

    def forward(
        self, image: Tensor, prev_action: Tensor | None = None, prev_reward: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Action probabilities and value, with the leading dimensions of ``image``.

        Args:
            image: [*lead, C, H, W] uint8, leading dimensions [], [B] or [T, B].
            prev_action, prev_reward: not used.

        Returns:
            pi [*lead, A], value [*lead], float32.
        """
        lead_dim, T, B, shape = infer_leading_dims(image, IMAGE_DIM)
        features = self.conv(to_unit_floats(image.reshape(T * B, *shape)))
        pi = torch.softmax(self.pi(features), dim=-1, dtype=torch.float32)
        value = self.value(features).squeeze(-1).float()
        pi, value = restore_leading_dims((pi, value), lead_dim, T, B)
        return pi, value


def conv_torso(
    image_shape: Sequence[int],
    fc_sizes: int | Sequence[int],
    use_maxpool: bool,
    channels: Sequence[int] | None,
    kernel_sizes: Sequence[int] | None,
    strides: Sequence[int] | None,
    paddings: Sequence[int] | None,
) -> Conv2dHeadModel:
    """What the Atari actor-critics see with; arguments and defaults are those of `AtariFfModel`."""
    return Conv2dHeadModel(
        image_shape=image_shape,
        channels=channels or [16, 32],
        kernel_sizes=kernel_sizes or [8, 4],
        strides=strides or [4, 2],
        paddings=paddings or [0, 1],
        use_maxpool=use_maxpool,
        hidden_sizes=fc_sizes,
    )


def to_unit_floats(image: Tensor) -> Tensor:
    """Images of bytes 0..255, or of false and true, as float32 in [0, 1], in one new tensor."""
    if image.dtype == torch.bool:
        return image.float()
    return image.float().mul_(1.0 / 255) if not image.is_floating_point() else image * (1.0 / 255)
