"""Residual convolutions of IMPALA, optionally with spectral normalization."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlpyt.models.conv2d import Conv2dModel
from rlpyt.models.residual import Residual
from rlpyt.models.utils import conv2d_output_shape
from rlpyt.utils.checks import whole_number
from rlpyt.utils.names import UnknownName

CHANNELS = (16, 32, 32)
N_BLOCKS = 2  # residual blocks after each pooling
POOLING = (3, 2, 1)  # kernel, stride, padding: rounds half the size up, as in the paper
MIN_POOLED = 4  # smallest height and width after pooling; smaller images keep their size
N_FIRST_ITERATIONS = 15  # of the power iteration, from a random vector
EPS = 1e-12  # smallest length that is divided by


class SpectralConv2d(nn.Conv2d):
    """A convolution with spectral normalization (Miyato et al. 2018).

    Its weight W, as a matrix [out, in * k * k], is divided by an estimate of its largest singular
    value, |W v|. Each call makes a step of power iteration, v = W^T W v / |W^T W v|, from the
    stored v, and stores the result in training only. So training and evaluation, and a copy with
    the same state, have the same outputs. The gradient regards v as constant.

    Unlike torch's parametrization, W can be set after construction, by `init_orthogonal` or a
    checkpoint, and averages of v, as in target networks that follow slowly, remain valid.

    Args:
        *args, **kwargs: arguments of ``nn.Conv2d``.
    """

    direction: Tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("direction", torch.randn(self.weight[0].numel()))
        with torch.no_grad():
            for _ in range(N_FIRST_ITERATIONS):
                self.direction = self._next_direction()

    def _next_direction(self) -> Tensor:
        W = self.weight.flatten(1)
        return F.normalize(W.mT @ (W @ self.direction), dim=0, eps=EPS)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of [B, C, H, W] with the normalized weight."""
        with torch.no_grad():
            direction = self._next_direction()
            if self.training:
                self.direction.copy_(direction)
        length = torch.linalg.vector_norm(self.weight.flatten(1) @ direction)
        weight = self.weight / length.clamp_min(EPS)
        return self._conv_forward(input, weight, self.bias)  # type: ignore[no-any-return]


class ImpalaModel(Conv2dModel):
    """The convolutions of the deep network of IMPALA (Espeholt et al. 2018), without its head.

    Three groups of a convolution, max-pooling with stride 2, and two residual blocks
    x + conv(relu(conv(relu(x)))); then ReLU. All kernels are 3 x 3. A pooling that would leave less
    than 4 x 4 pixels is left out.

    Args:
        image_shape: (C, H, W) of the input.
        width: factor on the numbers of channels, 16, 32 and 32.
        spectral_norm: normalize the convolutions of the residual blocks, see `SpectralConv2d`.
    """

    def __init__(
        self, image_shape: Sequence[int], width: int = 1, spectral_norm: bool = False
    ) -> None:
        c, h, w = image_shape
        super().__init__(c, (), (), ())
        whole_number("width", width, 1)
        Conv2d = SpectralConv2d if spectral_norm else nn.Conv2d
        for n in (width * x for x in CHANNELS):
            self.conv.append(nn.Conv2d(c, n, 3, padding=1))
            pooled = conv2d_output_shape(h, w, *POOLING)
            if min(pooled) >= MIN_POOLED:
                self.conv.append(nn.MaxPool2d(*POOLING))
                h, w = pooled
            for _ in range(N_BLOCKS):
                convolutions = [Conv2d(n, n, 3, padding=1) for _ in range(2)]
                layers = [layer for conv in convolutions for layer in (nn.ReLU(), conv)]
                self.conv.append(Residual(layers))
            c = n
        self.conv.append(nn.ReLU())


KINDS = {"impala": ImpalaModel}


def build_convolutions(encoder: str | Mapping[str, Any], image_shape: Sequence[int]) -> Conv2dModel:
    """Build convolutions for images (C, H, W).

    Args:
        encoder: "impala", or a dictionary of it as ``kind``, and of arguments of `ImpalaModel`.
        image_shape: (C, H, W).

    Raises:
        ValueError: ``encoder`` has no kind.
        UnknownName: there is no such kind.
    """
    kwargs = dict(encoder) if isinstance(encoder, Mapping) else {"kind": encoder}
    kind = kwargs.pop("kind", None)
    if kind is None:
        raise ValueError(
            f"encoder={encoder!r:.80} of a single image must have a kind, one of {sorted(KINDS)}. "
            "channels, kernel_sizes, strides and fc_sizes are arguments of the model itself."
        )
    if kind not in KINDS:
        raise UnknownName("encoder", kind, KINDS)
    return KINDS[kind](image_shape, **kwargs)
