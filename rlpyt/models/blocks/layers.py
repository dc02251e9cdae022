"""Lists of layers without nonlinearities, and their initial weights.

`rlpyt.models.mlp.MlpModel` and `rlpyt.models.conv2d.Conv2dModel` are the same with nonlinearities.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn

from rlpyt.utils.checks import whole_number


def make_fc(input_dim: int, hidden_sizes: Sequence[int]) -> nn.ModuleList:
    """Fully connected layers, one after the other.

    Args:
        input_dim: inputs of the first.
        hidden_sizes: outputs of each.

    Raises:
        TypeError, ValueError: there is no layer, or a size is no number above 0.
    """
    _check_lengths(hidden_sizes=hidden_sizes)
    inputs = [whole_number("input_dim", input_dim, 1), *hidden_sizes]
    return nn.ModuleList(nn.Linear(n_in, n) for n_in, n in zip(inputs, hidden_sizes))


def make_cnn(
    input_channel: int,
    channels: Sequence[int],
    kernels: Sequence[Any],
    strides: Sequence[Any],
    paddings: Sequence[Any],
) -> nn.ModuleList:
    """Two-dimensional convolutions, one after the other.

    Args:
        input_channel: C of the first layer's input.
        channels: output channels of each layer.
        kernels, strides, paddings: of each layer; a number, or (height, width).

    Raises:
        TypeError, ValueError: one is no list, they differ in length, or are empty.
    """
    _check_lengths(channels=channels, kernels=kernels, strides=strides, paddings=paddings)
    settings = zip([input_channel, *channels], channels, kernels, strides, paddings)
    return nn.ModuleList(nn.Conv2d(*layer) for layer in settings)


def make_transposed_cnn(
    input_channel: int,
    channels: Sequence[int],
    kernels: Sequence[Any],
    strides: Sequence[Any],
    paddings: Sequence[Any],
    output_paddings: Sequence[Any],
) -> nn.ModuleList:
    """Two-dimensional transposed convolutions, one after the other: from features to an image.

    Args:
        input_channel: C of the first layer's input.
        channels: output channels of each layer.
        kernels, strides, paddings, output_paddings: of each layer; a number, or (height, width).

    Raises:
        ValueError: the lists differ in length, or are empty.
    """
    shapes = dict(kernels=kernels, strides=strides, paddings=paddings)
    _check_lengths(channels=channels, **shapes, output_paddings=output_paddings)
    settings = zip(
        [input_channel, *channels], channels, kernels, strides, paddings, output_paddings
    )
    return nn.ModuleList(nn.ConvTranspose2d(*layer) for layer in settings)


def ortho_init(
    module: nn.Module,
    nonlinearity: str | None = None,
    weight_scale: float = 1.0,
    constant_bias: float = 0.0,
) -> None:
    """Draw orthogonal weights and set constant biases, in one layer (Saxe et al. 2014).

    Args:
        module: a layer with weights: linear, convolution, LSTM. For a whole model:
            ``for layer in layers: ortho_init(layer, "relu")``.
        nonlinearity: what follows the layer, as `torch.nn.init.calculate_gain` names it; its gain
            then takes the place of ``weight_scale``.
        weight_scale: gain.
        constant_bias: of all biases.

    Raises:
        ValueError: the module has no weight matrix of its own.
    """
    gain = weight_scale if nonlinearity is None else nn.init.calculate_gain(nonlinearity)  # type: ignore[arg-type]
    own = dict(module.named_parameters(recurse=False))
    if not any(parameter.dim() > 1 for parameter in own.values()):
        raise ValueError(
            f"{module!r:.200} has no weight matrix of its own; call ortho_init for each of its "
            "layers."
        )
    for name, parameter in own.items():
        if parameter.dim() > 1:
            nn.init.orthogonal_(parameter, gain)
        elif "bias" in name:
            nn.init.constant_(parameter, constant_bias)


def _check_lengths(**lists: Sequence[Any]) -> None:
    for name, list_ in lists.items():
        if not isinstance(list_, Sequence):
            raise TypeError(f"{name}={list_!r} must be a list with an entry for each layer.")
    lengths = {name: len(list_) for name, list_ in lists.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise ValueError(f"one entry for each layer is needed, and at least one; got {lengths}.")
