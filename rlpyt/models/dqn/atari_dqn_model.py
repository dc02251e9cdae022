"""Action values from Atari images: convolutions and a hidden layer (Mnih et al. 2015)."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from rlpyt.models.dqn.heads import build_head
from rlpyt.models.mlp import add_layer_norm
from rlpyt.models.network import ImageModel
from rlpyt.models.recurrent import Memory
from rlpyt.utils.checks import warn_without

DQN_CONVOLUTIONS: dict[str, Sequence[int]] = dict(
    channels=[32, 64, 64], kernel_sizes=[8, 4, 3], strides=[4, 2, 1], paddings=[0, 1, 1]
)


class AtariDqnModel(ImageModel):
    """Convolutions and a hidden layer, then the value of each action.

    Returns Q [*lead, A], or [*lead, A, P] with ``n_atoms``; with a memory also the recurrent state.

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_sizes: hidden layer(s) after the convolutions; without a memory they belong to the head,
            so a dueling head has them twice.
        dueling: separate branches for value and advantage.
        *args, **convolutions: see `ImageModel`, from ``use_maxpool``; three layers by default.
        noisy: noisy layers in the head.
        n_atoms: P, number of outputs per action; ``None``: one, without a dimension P.
        memory: "lstm", "gru" etc., see `add_memory`; ``None``: no memory.
        lstm_size: H, size of the memory.
        head_size: hidden layer(s) of the head after a memory.
        layer_norm: normalize hidden layers before their nonlinearity, as PQN needs.
    """

    convolutions = DQN_CONVOLUTIONS
    softmax: ClassVar[bool] = False  # apply softmax to the outputs of each action
    make_head: ClassVar[Any] = staticmethod(build_head)

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: int | Sequence[int] = 512,
        dueling: bool = False,
        *args: Any,
        noisy: bool = False,
        n_atoms: int | None = None,
        memory: Memory | None = None,
        lstm_size: int = 512,
        head_size: int | Sequence[int] | None = 512,
        layer_norm: bool = False,
        **convolutions: Any,
    ) -> None:
        super().__init__(image_shape, None if memory is None else fc_sizes, *args, **convolutions)
        n_features: int = self.conv.output_size
        sizes: int | Sequence[int] | None = fc_sizes
        if memory is None:
            warn_without("a memory", lstm_size=(lstm_size, 512), head_size=(head_size, 512))
        else:
            self.add_memory(memory, output_size, lstm_size)
            n_features, sizes = int(lstm_size), head_size
        self.head = self.make_head(n_features, sizes, output_size, n_atoms, dueling, noisy)
        if layer_norm:
            add_layer_norm(self)

    def heads(self, features: Tensor) -> Tensor:
        """Return action values, or P outputs for each action."""
        out: Tensor = self.head(features)
        return probabilities(out) if self.softmax else out.float()


class AtariQrDqnModel(AtariDqnModel):
    """Quantiles of each action's return, [*lead, A, N].

    Args:
        image_shape, output_size, *args, **kwargs: arguments of `AtariDqnModel`.
        n_quantiles: N, number of quantiles.
    """

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        n_quantiles: int = 200,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(image_shape, output_size, *args, n_atoms=n_quantiles, **kwargs)


def probabilities(logits: Tensor) -> Tensor:
    """Return the softmax over the last dimension, in float32."""
    return torch.softmax(logits, dim=-1, dtype=torch.float32)
