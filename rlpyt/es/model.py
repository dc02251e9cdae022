"""Policies whose parameters a strategy searches, and many of them side by side."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector

from rlpyt.models.mlp import MlpModel
from rlpyt.models.network import VectorModel
from rlpyt.models.numpy_forward import ACTIVATIONS
from rlpyt.models.observation import flatten_numpy
from rlpyt.utils.buffer import buffer_func, leaves_of

Array = np.ndarray[Any, Any]
# Observations [R, ...] of R policies to their outputs [R, A], all numpy.
RowPolicies = Callable[[Any], Array]


class EsPolicyModel(VectorModel):
    """An MLP from observations to actions; linear without hidden layers.

    Args:
        observation_shape: of one observation; a named tuple of shapes for composite ones.
        output_size: A, number of discrete actions or of action components.
        hidden_sizes: of the MLP.
        nonlinearity: class of the nonlinearity between layers.
        **reading: of `VectorModel`: ``normalize_observation``, its limits and ``encoder``.
    """

    def __init__(
        self,
        observation_shape: Any,
        output_size: int,
        hidden_sizes: int | Sequence[int] | None = (32,),
        nonlinearity: Callable[[], nn.Module] = nn.Tanh,
        **reading: Any,
    ) -> None:
        super().__init__(observation_shape, **reading)
        self.mlp = MlpModel(self.observation_size, hidden_sizes, output_size, nonlinearity)

    def heads(self, features: Tensor) -> Tensor:
        """Return [*lead, A] float32: scores of actions, or actions in units of [-1, 1]."""
        return self.mlp(features)  # type: ignore[no-any-return]


class Population(nn.Module):
    """A policy, and the parameters of as many others like it as there are environments.

    Attributes:
        policy: the strategy's favourite; what is evaluated, saved and loaded.
        rows: [B, P] float32, parameters of the candidate that environment b tries out, in the
            order of ``policy.parameters()``.

    Args:
        policy: any model of one observation; not recurrent.
        n_rows: B.
    """

    rows: Tensor

    def __init__(self, policy: nn.Module, n_rows: int) -> None:
        super().__init__()
        self.policy = policy
        rows = self.favourite().float().repeat(n_rows, 1)
        self.register_buffer("rows", rows, persistent=False)

    def favourite(self) -> Tensor:
        """Parameters [P] of the policy."""
        return parameters_to_vector(self.policy.parameters()).detach()

    @torch.no_grad()
    def set_favourite(self, vector: Array) -> None:
        """Write the policy's parameters, in place: workers see them change."""
        new = torch.as_tensor(vector, dtype=torch.float32)
        at = 0
        for own in self.policy.parameters():
            own.copy_(new[at : at + own.numel()].view_as(own))
            at += own.numel()

    def row_policies(self, rows: Sequence[int]) -> RowPolicies:
        """All these rows' policies as one function, with the parameters as they are now.

        For ready perceptrons a batched matrix product for each layer, in numpy: 13 us for 64 of
        them of 17 x 32 x 6, where ``vmap`` takes 190. Other models are called by ``vmap``.
        """
        parameters = self.rows[list(rows)]
        layers = _layers_of(self.policy)
        if layers is None:
            return _vmapped(self.policy, parameters)
        policy: Any = self.policy  # an EsPolicyModel
        return _batched(policy, layers, parameters.numpy())


def _layers_of(policy: Any) -> list[nn.Module] | None:
    """Return layers that numpy can evaluate; ``None`` if there is anything else."""
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in policy.modules())
    if type(policy) is not EsPolicyModel or hooked or not policy.reads_in_numpy:
        return None
    layers = list(policy.mlp.model)
    known = all(type(layer) is nn.Linear or type(layer) in ACTIVATIONS for layer in layers)
    return layers if known else None


def _batched(policy: EsPolicyModel, layers: list[nn.Module], parameters: Array) -> RowPolicies:
    n, at = len(parameters), 0
    steps: list[tuple[Array, Array] | Callable[..., Any]] = []
    for layer in layers:
        if not isinstance(layer, nn.Linear):
            steps.append(ACTIVATIONS[type(layer)])
            continue
        size = layer.weight.numel()
        weight = parameters[:, at : at + size].reshape(n, *layer.weight.shape)
        bias = parameters[:, at + size : at + size + layer.out_features]
        # Copied to [R, in, out]: half again as fast as through strides.
        steps.append((np.ascontiguousarray(weight.transpose(0, 2, 1)), bias[:, None].copy()))
        at += size + layer.out_features
    shape, normalize = policy._observation_shape, _normalization(policy)

    def act(observation: Any) -> Array:
        x = flatten_numpy(observation, shape)
        if normalize is not None:
            mean, scale, clip = normalize
            x = np.clip((x - mean) * scale, -clip, clip)
        y = x[:, None]
        for step in steps:
            if isinstance(step, tuple):
                y = y @ step[0]
                y += step[1]
            else:
                step(y, y)
        return y[:, 0]

    return act


def _normalization(policy: EsPolicyModel) -> tuple[Array, Array, float] | None:
    """Mean [D], inverse deviation [D] and limit of normalised observations."""
    if policy.normalization is None:
        return None
    rms, clip, min_var = policy.normalization
    return rms.mean.numpy(), (1 / rms.std(min_var)).numpy(), clip


def _vmapped(policy: nn.Module, parameters: Tensor) -> RowPolicies:
    names = {name: own.shape for name, own in policy.named_parameters()}
    parts = torch.split(parameters, [shape.numel() for shape in names.values()], dim=1)
    stacked = {
        name: part.view(len(part), *shape)
        for (name, shape), part in zip(names.items(), parts, strict=True)
    }
    buffers = dict(policy.named_buffers())

    @torch.no_grad()
    def act(observation: Any) -> Array:
        def one(own: dict[str, Tensor], *leaves: Tensor) -> Tensor:  # vmap knows no trees of ours
            left = iter(leaves)
            tree = buffer_func(observation, lambda _: next(left))
            output: Tensor = functional_call(policy, {**own, **buffers}, (tree,))
            return output

        leaves = map(torch.as_tensor, leaves_of(observation))
        acted: Array = vmap(one)(stacked, *leaves).numpy()
        return acted

    return act
