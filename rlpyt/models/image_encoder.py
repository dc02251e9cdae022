"""Encoder of images of any size, for observations that have images among their parts."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from rlpyt.models.conv2d import Conv2dHeadModel
from rlpyt.models.mlp import HIDDEN_GAIN, init_orthogonal
from rlpyt.models.observation import IMAGE_DIM, ImageShape

LARGE = 36  # smallest height and width for the convolutions of large images
NATURE = dict(channels=[32, 64, 64], kernel_sizes=[8, 4, 3], strides=[4, 2, 1], paddings=[0, 0, 0])
SMALL = dict(channels=[16, 32], kernel_sizes=[3, 3], strides=[1, 2], paddings=[1, 1])


class ImageEncoder(nn.Module):
    """Convolutions and one linear layer: an image as a vector of features.

    By default images of 36 x 36 pixels and more go through the three convolutions of Mnih et al.
    2015, and smaller ones, as of MinAtar or MiniGrid, through two of 3 x 3. Weights are orthogonal
    at first, with gain sqrt(2).

    Args:
        shape: of an image.
        feature_size: number of features, each after a rectifier.
        channels, kernel_sizes, strides, paddings: of the convolutions; ``None``: as above.
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
        C, H, W = (shape[2], shape[0], shape[1]) if shape.channels_last else shape
        default = NATURE if min(H, W) >= LARGE else SMALL
        self.conv = Conv2dHeadModel(
            (C, H, W),
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
        """Number of features."""
        return self.conv.output_size

    def forward(self, image: Tensor) -> Tensor:
        """Return features [*lead, F] float32 of images [*lead, C, H, W] or [*lead, H, W, C]."""
        lead = image.shape[: image.dim() - IMAGE_DIM]
        x = image.reshape(-1, *image.shape[len(lead) :]).float() * self.shape.scale
        if self.shape.channels_last:
            x = x.movedim(-1, 1)
        return self.conv(x).reshape(*lead, -1)  # type: ignore[no-any-return]
