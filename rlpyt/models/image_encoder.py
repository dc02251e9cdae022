"""Encoder of images of any size, for observations that contain images."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from rlpyt.models.conv2d import Conv2dHeadModel
from rlpyt.models.mlp import HIDDEN_GAIN, init_orthogonal
from rlpyt.models.observation import IMAGE_DIM, ImageShape

MIN_NATURE_SIZE = 36  # smallest height and width for the convolutions of Mnih et al. 2015
NATURE = dict(channels=[32, 64, 64], kernel_sizes=[8, 4, 3], strides=[4, 2, 1], paddings=[0, 0, 0])
SMALL = dict(channels=[16, 32], kernel_sizes=[3, 3], strides=[1, 2], paddings=[1, 1])


class ImageEncoder(nn.Module):
    """Convolutions and one linear layer, from an image to a vector of features.

    By default images of at least 36 x 36 pixels have the three convolutions of Mnih et al. 2015,
    and smaller ones, as in MinAtar or MiniGrid, two of 3 x 3. Initial weights are orthogonal, with
    gain sqrt(2).

    Args:
        shape: shape of an image.
        feature_size: number of features, each after the nonlinearity.
        channels, kernel_sizes, strides, paddings: settings of the convolutions; ``None``: as above.
        nonlinearity: class of the nonlinearity.

    Raises:
        ValueError: the image is too small for the convolutions.
    """

    def __init__(
        self,
        shape: ImageShape,
        feature_size: int = 256,
        channels: Sequence[int] | None = None,
        kernel_sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        paddings: Sequence[int] | None = None,
        nonlinearity: Callable[[], nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__()
        self.shape = shape
        default = NATURE if min(shape.chw[1:]) >= MIN_NATURE_SIZE else SMALL
        self.conv = Conv2dHeadModel(
            shape.chw,
            channels or default["channels"],
            kernel_sizes or default["kernel_sizes"],
            strides or default["strides"],
            hidden_sizes=feature_size,
            paddings=default["paddings"] if paddings is None and channels is None else paddings,
            nonlinearity=nonlinearity,
        )
        init_orthogonal(self.conv, HIDDEN_GAIN)

    @property
    def output_size(self) -> int:
        """Return the number of features."""
        return self.conv.output_size

    def forward(self, image: Tensor) -> Tensor:
        """Return features [*lead, F] float32 of images [*lead, C, H, W] or [*lead, H, W, C]."""
        lead = image.shape[: image.dim() - IMAGE_DIM]
        x = image.reshape(-1, *image.shape[len(lead) :]).float() * self.shape.scale
        if self.shape.channels_last:
            x = x.movedim(-1, 1)
        return self.conv(x).reshape(*lead, -1)  # type: ignore[no-any-return]
