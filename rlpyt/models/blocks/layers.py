"""Lists of layers without nonlinearities, and their initial weights.

`rlpyt.models.mlp.MlpModel` and `rlpyt.models.conv2d.Conv2dModel` are the same with nonlinearities.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn

from rlpyt.utils.checks import whole_number


def make_fc(input_dim: int, hidden_sizes: Sequence[int]) -> nn.ModuleList:
    """Build consecutive fully connected layers.

    Args:
        input_dim: number of inputs of the first layer.
        hidden_sizes: number of outputs of each layer.

    Raises:
        TypeError, ValueError: there is no layer, or a size is not an integer above 0.
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
    """Build consecutive two-dimensional convolutions.

    Args:
        input_channel: C of the first layer's input.
        channels: output channels of each layer.
        kernels, strides, paddings: settings of each layer; a number, or (height, width).

    Raises:
        TypeError, ValueError: an argument is not a list, or the lists are empty or differ in
            length.
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
    """Build consecutive two-dimensional transposed convolutions, from features to an image.

    Arguments and errors are those of `make_cnn`, with ``output_paddings`` like ``paddings``.
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
    """Initialize one layer with orthogonal weights and constant biases (Saxe et al. 2014).

    Args:
        module: layer with weights: linear, convolution, LSTM. For a whole model:
            ``for layer in layers: ortho_init(layer, "relu")``.
        nonlinearity: name of the following nonlinearity in `torch.nn.init.calculate_gain`, whose
            gain then replaces ``weight_scale``.
        weight_scale: gain of the weights.
        constant_bias: value of all biases.

    Raises:
        ValueError: the module itself has no weight matrix.
    """
    gain = weight_scale if nonlinearity is None else nn.init.calculate_gain(nonlinearity)  # type: ignore[arg-type]
    parameters = dict(module.named_parameters(recurse=False))
    if not any(parameter.dim() > 1 for parameter in parameters.values()):
        raise ValueError(
            "ortho_init needs a layer with a weight matrix, such as nn.Linear, got "
            f"{module!r:.200}. Call it for each layer of a model."
        )
    for name, parameter in parameters.items():
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
        raise ValueError(
            f"lists must have one entry for each layer, and at least one layer, got {lengths}."
        )
