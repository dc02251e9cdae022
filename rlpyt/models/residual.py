"""MLPs of residual blocks, for one network or for E networks in one."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from rlpyt.utils.names import UnknownName

Make = Callable[..., Any]  # returns a module
EXPANSION = 4  # width of the layer inside a block of SimBa, in widths of the block


class Form(NamedTuple):
    """Layers by name, before the blocks, in each block, and after them.

    Attributes:
        eps: number that layer normalizations add to variances.
        gain: of orthogonal initial weights.
    """

    before: str
    block: str
    after: str
    eps: float
    gain: float


FORMS = {
    # Lee et al. 2025: x + W2 f(W1 norm(x)).
    "simba": Form("", "norm up f down", "norm", 1e-6, 1.0),
    # Nauman et al. 2024: x + norm(W2 f(norm(W1 x))).
    "bro": Form("norm f", "same norm f same norm", "", 1e-6, 2**0.5),
}


class Residual(nn.Module):
    """Layers whose output is added to their input.

    Args:
        layers: the layers.
        run: applies an ``nn.Sequential``, optionally only to one member.
    """

    has_members = True

    def __init__(self, layers: Sequence[nn.Module], run: Callable[..., Tensor]) -> None:
        super().__init__()
        self.model = nn.Sequential(*layers)
        self._run = run

    def forward(self, x: Tensor, member: int | None = None) -> Tensor:
        """Return the sum, in the shape of x."""
        return x + self._run(self.model, x, member)


def residual_layers(
    kind: str,
    sizes: Sequence[int],
    n_in: int,
    n_out: int | None,
    linear: Make,
    norm: Make,
    nonlinearity: Make,
    run: Callable[..., Tensor],
) -> list[nn.Module]:
    """Return an MLP with a residual block for each hidden size, with the paper's initial weights.

    Args:
        kind: "simba", blocks with a layer normalization at their beginning, and one after the last;
            or "bro", with layer normalizations after each linear layer.
        sizes, n_in, n_out: widths of the blocks, number of inputs, number of outputs or ``None``.
        linear, norm, nonlinearity: make the layers.
        run: see `Residual`.

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
    H, form = sizes[0], FORMS[kind]
    orthogonal = partial(nn.init.orthogonal_, gain=form.gain)
    make: dict[str, Make] = {
        "norm": lambda: norm(H, eps=form.eps),
        "f": nonlinearity,
        "same": lambda: _initialized(linear(H, H), orthogonal),
        "up": lambda: _initialized(linear(H, EXPANSION * H), _he_normal),
        "down": lambda: _initialized(linear(EXPANSION * H, H), _he_normal),
    }

    def built(names: str) -> list[nn.Module]:
        return [make[name]() for name in names.split()]

    layers = [_initialized(linear(n_in, H), orthogonal), *built(form.before)]
    layers += [*(Residual(built(form.block), run) for _ in sizes), *built(form.after)]
    return layers if n_out is None else [*layers, _initialized(linear(H, n_out), orthogonal)]


def _initialized(layer: Any, fill: Callable[[Tensor], Any]) -> Any:
    """Fill the weight of a linear layer, or of each of its members, and set biases to zero."""
    for weight in layer.weight.reshape(-1, *layer.weight.shape[-2:]):
        fill(weight)
    nn.init.zeros_(layer.bias)
    return layer


def _he_normal(weight: Tensor) -> None:
    """Fill with flax's he_normal: a normal distribution truncated at two standard deviations."""
    std = (2 / weight.shape[1]) ** 0.5 / 0.87962566103423978
    nn.init.trunc_normal_(weight, 0, std, -2 * std, 2 * std)
