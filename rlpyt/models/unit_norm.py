"""Weights and scales of constant length, to which they are projected after each gradient step."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

EPS = 1e-8  # added to squared lengths


class Vectors(NamedTuple):
    """Vectors over the last dimension of these tensors together.

    Attributes:
        tensors: parameters [..., n], such as the weight [out, in] of a linear layer, which are
            ``out`` vectors, or scale and bias [F] of a normalization, which are one.
        length: length of each vector.
    """

    tensors: tuple[Tensor, ...]
    length: float

    def scale(self) -> Tensor:
        """Return the factor [..., 1] that gives the vectors their length."""
        norms = (torch.linalg.vector_norm(x, dim=-1, keepdim=True) for x in self.tensors)
        squares: Any = sum(norm * norm for norm in norms)
        return self.length * torch.rsqrt(squares + EPS)


def project(vectors: Iterable[Vectors]) -> None:
    """Project parameters in place."""
    with torch.no_grad():
        for own in vectors:
            scale = own.scale()
            for tensor in own.tensors:
                tensor.mul_(scale)


def unit(layer: Any) -> Any:
    """Let a layer have weights of length 1, or scale and bias of length sqrt(F); return it.

    Gradient steps of `rlpyt.algos.qpg` keep the length.
    """
    layer.is_unit = True
    project(unit_vectors(layer))
    return layer


def unit_vectors(network: nn.Module) -> list[Vectors]:
    """Return the vectors of the layers that went through ``unit``."""
    found = []
    for layer in network.modules():
        if getattr(layer, "is_unit", False):
            weight: Any = layer.weight
            if hasattr(layer, "in_features"):
                found.append(Vectors((weight,), 1.0))
            else:
                bias = getattr(layer, "bias", None)
                parts = (weight,) if bias is None else (weight, bias)
                found.append(Vectors(parts, weight.shape[-1] ** 0.5))
    return found
