"""Encoders of parts of an observation: images of any size, and those of users."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from rlpyt.models.conv2d import Conv2dHeadModel
from rlpyt.models.impala import build_convolutions
from rlpyt.models.mlp import HIDDEN_GAIN, init_orthogonal
from rlpyt.models.observation import EncodedShape, ImageShape
from rlpyt.models.utils import Nonlinearity, own_module
from rlpyt.utils.checks import whole_number

Encoder = str | Mapping[str, Any] | Callable[..., nn.Module]  # see `build_encoder`
MIN_NATURE_SIZE = 36  # smallest height and width for the convolutions of Mnih et al. 2015
BATCH_DIM = 4  # [N, C, H, W]
NATURE = dict(channels=[32, 64, 64], kernel_sizes=[8, 4, 3], strides=[4, 2, 1], paddings=[0, 0, 0])
MIN_STRIDED_SIZE = 16  # below it, convolutions without strides keep small objects apart
STRIDED = dict(channels=[16, 32, 64], kernel_sizes=[3, 3, 3], strides=[2, 2, 2], paddings=[1, 1, 1])
SMALL = dict(channels=[16, 32], kernel_sizes=[3, 3], strides=[1, 2], paddings=[1, 1])


def default_convolutions(image_shape: Sequence[int]) -> Mapping[str, list[int]]:
    """Return settings of convolutions for images [C, H, W]; see `ImageEncoder`.

    The linear layer has 1,024 inputs for 32 x 32 pixels, and 800 for 10 x 10.
    """
    side = min(image_shape[1:])
    if side < MIN_STRIDED_SIZE:
        return SMALL
    return NATURE if side >= MIN_NATURE_SIZE else STRIDED


class ImageEncoder(nn.Module):
    """Convolutions and one linear layer, from an image to a vector of features.

    By default images of at least 36 x 36 pixels have the three convolutions of Mnih et al. 2015,
    those of at least 16 x 16 three of 3 x 3, each with stride 2, and smaller ones, as in MinAtar or
    MiniGrid, two of 3 x 3. Initial weights are orthogonal, with gain sqrt(2).

    Args:
        shape: shape of an image, or of a stack of images, whose channels are joined.
        feature_size: number of features, each after the nonlinearity.
        channels, kernel_sizes, strides, paddings: settings of the convolutions; ``None``: as above.
        nonlinearity: class or name of the nonlinearity.
        kind: "impala": the convolutions of `ImpalaModel`; ``None``: as above.
        **settings: further arguments of this kind.

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
        nonlinearity: Nonlinearity = nn.ReLU,
        kind: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        if kind is None and settings:
            raise TypeError(f"ImageEncoder got unexpected arguments: {', '.join(settings)}.")
        self.shape = shape
        default = default_convolutions(shape.chw)
        encoder = {"kind": kind, **settings}
        self.conv = Conv2dHeadModel(
            shape.chw,
            channels or default["channels"],
            kernel_sizes or default["kernel_sizes"],
            strides or default["strides"],
            hidden_sizes=feature_size,
            paddings=default["paddings"] if paddings is None and channels is None else paddings,
            nonlinearity=nonlinearity,
            conv=None if kind is None else build_convolutions(encoder, shape.chw),
        )
        init_orthogonal(self.conv, HIDDEN_GAIN)

    @property
    def output_size(self) -> int:
        """Return the number of features."""
        return self.conv.output_size

    def forward(self, image: Tensor) -> Tensor:
        """Return features [*lead, F] float32 of images [*lead, *shape]."""
        lead = image.shape[: image.dim() - len(self.shape)]
        x = image.reshape(-1, *image.shape[len(lead) :]).float() * self.shape.scale
        if self.shape.channels_last:
            x = x.movedim(-1, -3)
        if x.dim() > BATCH_DIM:  # a stack
            x = x.flatten(1, 2)
        return self.conv(x).reshape(*lead, -1)  # type: ignore[no-any-return]


def is_custom(encoder: Encoder | None) -> bool:
    """Return True for an encoder that is a class or function, or has one as its ``kind``."""
    return callable(encoder.get("kind") if isinstance(encoder, Mapping) else encoder)


def build_encoder(shape: ImageShape | EncodedShape, default: Encoder) -> nn.Module:
    """Build the encoder of a part of an observation.

    Args:
        shape: shape of the part. The encoder of an `EncodedShape` is a class or function that is
            called with the shape (marked, see `marked_shape`), and returns a module from the part
            [*lead, *shape] to features [*lead, output_size] float32; or a dictionary of such a
            ``kind`` and further arguments, without ``kind`` those of `ImageEncoder`. Lazy layers,
            such as ``nn.LazyLinear``, get their sizes from a call with zeros.
        default: encoder of images without one of their own, in the same forms, or its name.

    Raises:
        TypeError: the encoder cannot be called, or has no whole number ``output_size``.
    """
    encoder: Any = default
    part: Any = shape
    if isinstance(shape, EncodedShape):
        encoder, part = shape.encoder, shape.part
    kwargs = dict(encoder) if isinstance(encoder, Mapping) else {"kind": encoder}
    kind = kwargs.pop("kind", ImageEncoder)
    if isinstance(kind, str):
        kind, kwargs["kind"] = ImageEncoder, kind
    if isinstance(kind, nn.Module):
        raise TypeError(
            f"an encoder must be a class or a function, got a {type(kind).__name__}, which all "
            "networks would share. Let a function return copies: lambda shape: copy.deepcopy(net)."
        )
    if not callable(kind) or (kind is ImageEncoder and not isinstance(part, ImageShape)):
        raise TypeError(
            f"an encoder must be a class or function of the shape {tuple(part)}, or for images a "
            f"dictionary of settings, got {encoder!r}."
        )
    built: nn.Module = own_module(kind(part, **kwargs), kind)
    name = getattr(kind, "__name__", repr(kind))
    if not hasattr(built, "output_size"):
        raise TypeError(
            f"{name} must have the attribute output_size. Set it to the number of features that "
            "forward returns."
        )
    whole_number(f"output_size of {name}", built.output_size, 1)
    if any(map(is_lazy, built.parameters())):  # networks are copied and shared before a batch
        with torch.no_grad():
            built.eval()(torch.zeros(1, *part))
        built.train()
    return built
