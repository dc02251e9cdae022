"""Linear layers with learned noise in their weights, an alternative to epsilon-greedy."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SIGMA = 0.5  # initial noise, relative to the range of initial weights (Fortunato et al. 2018)
SEEDS = 2**24  # distinct float32 numbers in [0, 1)


class NoisyLinear(nn.Module):
    """A linear layer with learned factorized noise added to its weights.

        W = M + S * f(e_out) f(e_in)^T,  b = m + s * f(e_out),  f(x) = sign(x) sqrt(|x|)

    (Fortunato et al. 2018, eq. 9 to 11), e standard normal. Since the noise has rank one,

        W x + b = M x + m + f(e_out) * (S (f(e_in) * x) + s),

    so every row of a batch can have its own noise, and no noisy weights are stored.

    In training (``model.train()``) each call draws one noise for all its rows, so online network,
    target network and action selection are perturbed independently, as in the paper. Otherwise the
    mean weights are used, unless ``set_row_noise`` was called: when acting, each environment has
    its own noise.

    Args:
        in_features, out_features: sizes of input and output.
        bias: use m and s.
        sigma: initial noise; S is initialized with sigma / sqrt(in_features).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, sigma: float = SIGMA
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bound = in_features**-0.5
        shape = (out_features, in_features)
        self.weight = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full(shape, sigma * bound))
        if bias:
            self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
            self.bias_sigma = nn.Parameter(torch.full((out_features,), sigma * bound))
        else:
            self.register_parameter("bias", None)
            self.register_parameter("bias_sigma", None)
        self.row_noise: tuple[Tensor, Tensor] | None = None  # f(e) [B, in], [B, out]

    def forward(self, input: Tensor) -> Tensor:
        """Return [*lead, out_features] for [*lead, in_features]; row noise is per first index."""
        mean = F.linear(input, self.weight, self.bias)
        noise = self.row_noise
        if self.training:
            e_in = torch.randn(self.in_features, dtype=input.dtype, device=input.device)
            e_out = torch.randn(self.out_features, dtype=input.dtype, device=input.device)
            noise = signed_sqrt(e_in), signed_sqrt(e_out)
        if noise is None:
            return mean
        f_in, f_out = (x if x.dim() == 1 else _with_dims(x, input.dim()) for x in noise)
        return mean + f_out * F.linear(input * f_in, self.weight_sigma, self.bias_sigma)

    def extra_repr(self) -> str:
        """Return the sizes, for ``print(model)``."""
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


def signed_sqrt(x: Tensor) -> Tensor:
    """Return sign(x) sqrt(|x|), which transforms both factors of factorized noise."""
    return x.sign() * x.abs().sqrt()


def _with_dims(noise: Tensor, n_dim: int) -> Tensor:
    """Reshape [B, n] to [B, 1, ..., n] with ``n_dim`` dimensions, or [1, n] to [n] if it is 1."""
    if n_dim == 1:
        return noise[0]
    return noise.reshape(len(noise), *(1,) * (n_dim - 2), noise.shape[1])


def make_noisy(module: nn.Module) -> nn.Module:
    """Replace every ``nn.Linear`` in ``module`` by a `NoisyLinear`, in place; return ``module``."""
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            noisy = NoisyLinear(child.in_features, child.out_features, child.bias is not None)
            setattr(module, name, noisy)
        else:
            make_noisy(child)
    return module


def noisy_layers(model: torch.nn.Module) -> list[NoisyLinear]:
    """Return the noisy layers of a model, in order; none if it is not a module."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return [module for module in modules if isinstance(module, NoisyLinear)]


def set_row_noise(layers: list[NoisyLinear], uniform: Tensor | None) -> None:
    """Set the noise of each row of the next batches, given one seed number per row.

    A row's noise depends only on its number, so acting does not depend on how environments are
    distributed over processes.

    Args:
        layers: noisy layers of one model, in order.
        uniform: numbers [B] in [0, 1); ``None``: remove the noise.
    """
    if uniform is None:
        for layer in layers:
            layer.row_noise = None
        return
    sizes = [n for layer in layers for n in (layer.in_features, layer.out_features)]
    generator = torch.Generator()
    noise = torch.empty(len(uniform), sum(sizes), dtype=torch.float32)
    for row, seed in zip(noise, (uniform.double() * SEEDS).long().tolist()):
        generator.manual_seed(seed)
        row.normal_(generator=generator)
    parts = iter(torch.split(signed_sqrt(noise).to(layers[0].weight.device), sizes, dim=1))
    for layer in layers:
        layer.row_noise = next(parts), next(parts)
