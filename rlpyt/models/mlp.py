"""Multilayer perceptrons (MLPs)."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from rlpyt.models.layers import Layers
from rlpyt.models.normalization import (
    Normalization,
    Placement,
    RmsNorm,
    make_normalization,
    placement_of,
)
from rlpyt.models.residual import Make, Residual, residual_layers
from rlpyt.models.utils import Nonlinearity, nonlinearity_class
from rlpyt.utils.checks import whole_number

HIDDEN_GAIN = 2**0.5  # keeps variance through ReLU layers
POLICY_GAIN = 0.01  # the policy is nearly uniform at first
VALUE_GAIN = 1.0


class MlpModel(nn.Module):
    """Linear layers with a nonlinearity after each but the output layer.

    Args:
        input_size: number of inputs.
        hidden_sizes: sizes of the hidden layers; one number is one layer; an empty list gives a
            linear model.
        output_size: size of the linear output layer; ``None``: none, the last hidden layer with
            its nonlinearity is the output.
        nonlinearity: class or name of the nonlinearity, e.g. ``torch.nn.Tanh``.
        orthogonal_gain: gain of orthogonal initial weights in the output layer, with sqrt(2) in
            hidden layers and zero biases (Andrychowicz et al. 2021 find 0.01 best for policies; 1
            is usual for values); ``None``: PyTorch's initial weights.
        normalization: "batch" or "batch_renorm" of the input and of each nonlinearity's output, or
            a dictionary with further arguments of `BatchNorm1d` or `BatchRenorm1d` and those of
            `Placement`, such as dict(kind="batch", before=True); ``None``: none.
        residual: "simba", "bro" or "flashsac": each hidden size is a residual block, see
            `residual_layers`; ``None``: no blocks.

    Raises:
        ValueError: there is neither a hidden nor an output layer, ``residual`` is given with other
            forms of layers, or ``orthogonal_gain`` with weights of constant length or layers
            without biases.
    """

    def __init__(
        self,
        input_size: int,
        hidden_sizes: int | Sequence[int] | None,
        output_size: int | None = None,
        nonlinearity: Nonlinearity = nn.ReLU,
        orthogonal_gain: float | None = None,
        normalization: Normalization | None = None,
        residual: str | None = None,
    ) -> None:
        super().__init__()
        sizes = size_list(hidden_sizes)
        if not sizes and output_size is None:
            raise ValueError(
                f"hidden_sizes={hidden_sizes!r} and output_size=None leave no layer; set either."
            )

        check_residual(residual, normalization=normalization, orthogonal_gain=orthogonal_gain)
        forms = (nonlinearity, normalization, residual)
        self.model = mlp_layers(input_size, sizes, output_size, *forms)
        self._output_size = sizes[-1] if output_size is None else output_size
        if orthogonal_gain is not None:
            if placement_of(normalization) != Placement():
                raise ValueError(
                    f"orthogonal_gain must be None with normalization={normalization!r}, got "
                    f"{orthogonal_gain}. Leave it out, or before and unit_weights."
                )
            init_orthogonal(self, HIDDEN_GAIN)
            if output_size is not None:
                init_orthogonal(self.model[-1], orthogonal_gain)

    def forward(self, input: Tensor) -> Tensor:
        """Return [*lead, output_size] for [*lead, input_size], with any leading dimensions."""
        return self.model(input)  # type: ignore[no-any-return]

    @property
    def output_size(self) -> int:
        """Return the size of the last layer."""
        return self._output_size


def mlp_layers(
    n_in: int,
    sizes: Sequence[int],
    n_out: int | None,
    nonlinearity: Nonlinearity,
    normalization: Normalization | None,
    residual: str | None,
    linear: Make = nn.Linear,
    layer_norm: Make = nn.LayerNorm,
    after_linear: Callable[[int], list[nn.Module]] = lambda size: [],
    n_members: int | None = None,
    columns: bool = False,
) -> Layers:
    """Return the layers of an MLP, or of E MLPs in one.

    Args:
        n_in, sizes, n_out: number of inputs, sizes of hidden layers, number of outputs or ``None``.
        nonlinearity, normalization, residual: see `MlpModel`.
        linear, layer_norm: make such a layer.
        after_linear: makes what follows a hidden linear layer of a size.
        n_members, columns: see `BatchNorm1d`.
    """
    activation = nonlinearity_class(nonlinearity)
    if residual is not None:
        batch = partial(make_normalization, "batch", n_members=n_members)
        rms = partial(RmsNorm, n_members=n_members)
        kinds: dict[str, Make] = dict(linear=linear, layer=layer_norm, batch=batch, rms=rms)
        return Layers(*residual_layers(residual, sizes, n_in, n_out, kinds, activation))

    def normalized(size: int) -> list[nn.Module]:
        if normalization is None:
            return []
        return [make_normalization(normalization, size, n_members, columns)]

    layers: list[nn.Module] = normalized(n_in)
    placement = placement_of(normalization)
    for a, b in zip([n_in, *sizes], sizes):
        layers += [placement.hidden(linear(a, b, not placement.before)), *after_linear(b)]
        layers += placement.ordered([activation(), *normalized(b)])
    if n_out is not None:
        layers.append(placement.output(linear(sizes[-1] if sizes else n_in, n_out)))
    return Layers(*layers)


def check_residual(residual: str | None, **others: Any) -> None:
    """Raise ValueError if arguments for other forms of layers are given with ``residual``."""
    for name, value in others.items():
        if value and residual is not None:
            raise ValueError(
                f"{name} must be left out with residual={residual!r}, got {value!r}: residual "
                "blocks have normalizations and initial weights of their own."
            )


def size_list(sizes: int | Sequence[int] | None) -> list[int]:
    """Return layer sizes as a list; one number is one layer, ``None`` is no layer.

    Raises:
        TypeError, ValueError: a size is not an integer, or below 1.
    """
    if sizes is None:
        return []
    size_list = list(sizes) if isinstance(sizes, Iterable) else [sizes]
    return [whole_number(f"hidden_sizes={sizes!r}: a layer's size", n, 1) for n in size_list]


def init_orthogonal(module: nn.Module, gain: float) -> None:
    """Initialize linear and convolution layers with orthogonal weights and zero biases.

    (Saxe et al. 2014.) With torch's default, the variation of a signal halves in each layer, so
    deep image networks start with nearly the same output for every state. Residual blocks, which
    pass it on, keep their initial weights.
    """
    inside = {m for x in module.modules() if isinstance(x, Residual) for m in x.modules()}
    for layer in module.modules():
        if layer in inside:
            continue
        if isinstance(layer, nn.Linear | nn.Conv2d) and layer.bias is not None:
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)


class ChannelNorm(nn.LayerNorm):
    """Layer normalization over the channels of each pixel, [B, C, H, W], as flax's by default."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalized image."""
        return super().forward(input.movedim(1, -1)).movedim(-1, 1)


def add_layer_norm(module: nn.Module) -> None:
    """Normalize the outputs of all hidden layers, before their nonlinearity, in place."""
    for part in [x for x in module.modules() if isinstance(x, nn.Sequential)]:
        layers: list[nn.Module] = []
        for i, layer in enumerate(part):
            layers.append(layer)
            hidden = i + 1 < len(part)
            if hidden and isinstance(layer, nn.Conv2d):
                layers.append(ChannelNorm(layer.out_channels))
            elif hidden and hasattr(layer, "out_features"):  # linear, also with noise
                layers.append(nn.LayerNorm(layer.out_features))
        del part[:]
        part.extend(layers)


def value_of(head: nn.Module | None, features: Tensor) -> tuple[Tensor, ...]:
    """Return the value [*lead] from a head in a tuple; without a head an empty tuple."""
    return () if head is None else (head(features).squeeze(-1).float(),)
