"""MLPs of residual blocks, for one network or for E networks in one."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from rlpyt.models.layers import Layers
from rlpyt.models.unit_norm import unit
from rlpyt.utils.names import UnknownName

Make = Callable[..., Any]  # returns a module
EXPANSION = 4  # width of the layer inside a block of SimBa, in widths of the block


class Form(NamedTuple):
    """Layers by name, before the blocks, in each block, and after them.

    Attributes:
        eps: number that normalizations add to variances.
        gain: of orthogonal initial weights.
        is_unit: True if the input is normalized, hidden linear layers have no bias, and weights and
            scales have constant lengths.
    """

    before: str
    block: str
    after: str
    eps: float
    gain: float
    is_unit: bool = False


FORMS = {
    # Lee et al. 2025: x + W2 f(W1 norm(x)).
    "simba": Form("", "norm up f down", "norm", 1e-6, 1.0),
    # Nauman et al. 2024: x + norm(W2 f(norm(W1 x))).
    "bro": Form("norm f", "same norm f same norm", "", 1e-6, 2**0.5),
    # Kim et al. 2026: x + f(batch_norm(W2 f(batch_norm(W1 x)))), and RMSNorm at the end.
    "flashsac": Form("", "wide batch_wide f narrow batch f", "rms", 1e-5, 1.0, True),
}


class Residual(nn.Module):
    """Layers whose output is added to their input.

    Args:
        layers: the layers.
    """

    has_members = True

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.model = Layers(*layers)

    def forward(self, x: Tensor, member: int | None = None) -> Tensor:
        """Return the sum, in the shape of x."""
        return x + self.model(x, member)  # type: ignore[no-any-return]


def residual_layers(
    kind: str,
    sizes: Sequence[int],
    n_in: int,
    n_out: int | None,
    layers: Mapping[str, Make],
    nonlinearity: Make,
) -> list[nn.Module]:
    """Return an MLP with a residual block for each hidden size, with the paper's initial weights.

    Args:
        kind: "simba", blocks with a layer normalization at their beginning, and one after the last;
            "bro", with layer normalizations after each linear layer; or "flashsac", with batch
            normalization, and weights and scales of constant lengths.
        sizes, n_in, n_out: widths of the blocks, number of inputs, number of outputs or ``None``.
        layers: functions that make a layer: "linear", and "layer", "batch" and "rms", which are
            normalizations.
        nonlinearity: makes a nonlinearity.

    Raises:
        UnknownName: there is no such kind.
        ValueError: there are no blocks, or they differ in width.
    """
    if kind not in FORMS:
        raise UnknownName("residual", kind, FORMS)
    if len(set(sizes)) != 1:
        raise ValueError(
            "hidden_sizes must be one width for all residual blocks, such as [256, 256] for two, "
            f"got {[*sizes]}."
        )
    H, W, form = sizes[0], EXPANSION * sizes[0], FORMS[kind]
    done = unit if form.is_unit else lambda layer: layer
    orthogonal = partial(nn.init.orthogonal_, gain=form.gain)

    def linear(a: int, b: int, fill: Callable[[Tensor], Any] = orthogonal) -> Any:
        layer = layers["linear"](a, b, **(dict(bias=False) if form.is_unit else {}))
        return done(_initialized(layer, fill))

    def norm(kind: str, size: int) -> Any:
        return done(layers[kind](size, eps=form.eps))

    make: dict[str, Make] = {
        "norm": lambda: norm("layer", H),
        "batch": lambda: norm("batch", H),
        "batch_wide": lambda: norm("batch", W),
        "rms": lambda: done(layers["rms"](H)),
        "f": nonlinearity,
        "same": lambda: linear(H, H),
        "up": lambda: linear(H, W, _he_normal),
        "down": lambda: linear(W, H, _he_normal),
        "wide": lambda: linear(H, W),
        "narrow": lambda: linear(W, H),
    }

    def built(names: str) -> list[nn.Module]:
        return [make[name]() for name in names.split()]

    model = [norm("batch", n_in)] if form.is_unit else []
    model += [linear(n_in, H), *built(form.before)]
    model += [*(Residual(built(form.block)) for _ in sizes), *built(form.after)]
    if n_out is not None:
        model.append(done(_initialized(layers["linear"](H, n_out), orthogonal)))
    return model


def _initialized(layer: Any, fill: Callable[[Tensor], Any]) -> Any:
    """Fill the weight of a linear layer, or of each of its members, and set biases to zero."""
    for weight in layer.weight.reshape(-1, *layer.weight.shape[-2:]):
        fill(weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def _he_normal(weight: Tensor) -> None:
    """Fill with flax's he_normal: a normal distribution truncated at two standard deviations."""
    std = (2 / weight.shape[1]) ** 0.5 / 0.87962566103423978
    nn.init.trunc_normal_(weight, 0, std, -2 * std, 2 * std)
