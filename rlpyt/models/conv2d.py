"""Convolutional networks."""

import math
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlpyt.models.mlp import MlpModel
from rlpyt.models.utils import Nonlinearity, conv2d_output_shape, nonlinearity_class

IntOrList = int | Sequence[int]


class Conv2dModel(nn.Module):
    """Two-dimensional convolutions, each followed by a nonlinearity.

    Args:
        in_channels: C of the input.
        channels: output channels of each layer.
        kernel_sizes: kernel size of each layer.
        strides: stride of each layer.
        paddings: padding of each layer; ``None``: no padding.
        nonlinearity: class or name of the nonlinearity.
        use_maxpool: convolve with stride 1, then downsample by max-pooling with the given stride.
        head_sizes: ignored with a warning; use `Conv2dHeadModel`.
        final_nonlinearity: if False, none follows the last convolution.

    Raises:
        ValueError: the lists differ in length.
    """

    def __init__(
        self,
        in_channels: int,
        channels: Sequence[int],
        kernel_sizes: Sequence[int],
        strides: Sequence[int],
        paddings: Sequence[int] | None = None,
        nonlinearity: Nonlinearity = nn.ReLU,
        use_maxpool: bool = False,
        head_sizes: IntOrList | None = None,
        *,
        final_nonlinearity: bool = True,
    ) -> None:
        super().__init__()
        if head_sizes is not None:
            warnings.warn(
                f"head_sizes={head_sizes!r} is ignored: a head needs the image's height and width. "
                "Use Conv2dHeadModel(image_shape, ..., hidden_sizes=...)."
            )
        paddings = [0] * len(channels) if paddings is None else paddings
        lengths = [len(x) for x in (channels, kernel_sizes, strides, paddings)]
        if len(set(lengths)) != 1:
            raise ValueError(
                "channels, kernel_sizes, strides and paddings must have one entry for each layer, "
                f"got {lengths} entries."
            )
        self.in_channels = in_channels
        layers: list[nn.Module] = []
        n_nonlinear = len(channels) if final_nonlinearity else len(channels) - 1
        for i, (n_in, n_out, kernel, stride, padding) in enumerate(
            zip([in_channels, *channels], channels, kernel_sizes, strides, paddings)
        ):
            layers.append(nn.Conv2d(n_in, n_out, kernel, 1 if use_maxpool else stride, padding))
            if i < n_nonlinear:
                layers.append(nonlinearity_class(nonlinearity)())
            if use_maxpool and stride > 1:
                layers.append(nn.MaxPool2d(stride))
        self.conv = nn.Sequential(*layers)

    def forward(self, input: Tensor) -> Tensor:
        """Return features, [B, C, H, W] float -> [B, C', H', W'].

        In training on the CPU, the layers have channels last in memory, with the same values:
        forward and backward pass of 256 frames are 1.3 to 1.5 times as fast. The forward pass alone
        is not faster. The result has channels first, so that models may flatten it by ``view``.
        """
        if input.device.type == "cpu" and torch.is_grad_enabled():
            input = input.contiguous(memory_format=torch.channels_last)
            return self.conv(input).contiguous()  # type: ignore[no-any-return]
        return self.conv(input)  # type: ignore[no-any-return]

    def conv_out_size(self, h: int, w: int, c: int | None = None) -> int:
        """Return the number of outputs, C' * H' * W'; see ``conv_out_shape``."""
        return math.prod(self.conv_out_shape(h, w, c))

    def conv_out_shape(self, h: int, w: int, c: int | None = None) -> tuple[int, int, int]:
        """Return (C', H', W') of the output for an image of height ``h`` and width ``w``.

        Args:
            h, w: height and width of the image, in pixels.
            c: C of the image; not needed, an argument of rlpyt (2019).

        Raises:
            ValueError: the image is too small for a layer.
        """
        image = (h, w)
        c = self.in_channels if c is None else c
        for layer in self.conv:
            if isinstance(layer, nn.Conv2d | nn.MaxPool2d):
                shape = (layer.kernel_size, layer.stride, layer.padding)
                h, w = conv2d_output_shape(h, w, *shape)  # type: ignore[arg-type]
                if h <= 0 or w <= 0:
                    raise ValueError(
                        f"an image of height and width {image} is too small for {layer}. Use "
                        "smaller kernels or strides, or larger images."
                    )
            c = getattr(layer, "out_channels", c)
        return c, h, w


class Conv2dHeadModel(nn.Module):
    """Convolutions, then an MLP on their flattened output.

    Args:
        image_shape: (C, H, W) of the input.
        channels, kernel_sizes, strides, paddings, nonlinearity, use_maxpool: see `Conv2dModel`.
        hidden_sizes: hidden layers of the MLP; one number is one layer; ``None`` or empty with
            ``output_size=None``: no MLP.
        output_size: size of the linear output layer; ``None``: none.
        conv: the convolutions, in place of those with these settings.

    Raises:
        ValueError: image_shape is not (C, H, W), or the image is too small for the convolutions.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        channels: Sequence[int],
        kernel_sizes: Sequence[int],
        strides: Sequence[int],
        hidden_sizes: IntOrList | None,
        output_size: int | None = None,
        paddings: Sequence[int] | None = None,
        nonlinearity: Nonlinearity = nn.ReLU,
        use_maxpool: bool = False,
        conv: Conv2dModel | None = None,
    ) -> None:
        super().__init__()
        if len(image_shape) != 3:
            raise ValueError(
                f"image_shape must be (channels, height, width), got {tuple(image_shape)}."
            )
        c, h, w = image_shape
        layers = (channels, kernel_sizes, strides, paddings, nonlinearity, use_maxpool)
        self.conv = Conv2dModel(c, *layers) if conv is None else conv
        n_features = self.conv.conv_out_size(h, w)
        if hidden_sizes or output_size is not None:
            self.head: nn.Module = MlpModel(n_features, hidden_sizes, output_size, nonlinearity)
            self._output_size = output_size or self.head.output_size
        else:
            self.head = nn.Identity()
            self._output_size = n_features

    def forward(self, input: Tensor) -> Tensor:
        """Return features, [B, C, H, W] float -> [B, output_size]."""
        return self.head(self.conv(input).flatten(1))  # type: ignore[no-any-return]

    @property
    def output_size(self) -> int:
        """Return the size of the output."""
        return int(self._output_size)
