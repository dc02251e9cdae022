"""Feed-forward actor-critic for Atari: convolutions, one hidden layer, two heads."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.mlp import HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN, init_orthogonal
from rlpyt.models.network import ImageModel


class AtariFfModel(ImageModel):
    """Convolutions and a hidden layer, then action probabilities and value.

    Returns pi [*lead, A] and value [*lead].

    Args:
        image_shape: (C, H, W).
        output_size: A, number of actions.
        fc_sizes: hidden layer(s) after the convolutions.
        **convolutions: arguments of `ImageModel`; two layers by default.
    """

    convolutions = dict(channels=[16, 32], kernel_sizes=[8, 4], strides=[4, 2], paddings=[0, 1])

    def __init__(
        self,
        image_shape: Sequence[int],
        output_size: int,
        fc_sizes: int | Sequence[int] = 512,
        *args: Any,
        **convolutions: Any,
    ) -> None:
        super().__init__(image_shape, fc_sizes, *args, **convolutions)
        self._build_heads(self.conv.output_size, output_size)

    def _build_heads(self, n_features: int, output_size: int) -> None:
        self.pi = nn.Linear(n_features, output_size)
        self.value = nn.Linear(n_features, 1)
        if not self._reads_pixels:  # a custom encoder has weights of its own choice
            init_orthogonal(self.conv, HIDDEN_GAIN)
        init_orthogonal(self.pi, POLICY_GAIN)
        init_orthogonal(self.value, VALUE_GAIN)

    @property
    def uses_remember(self) -> bool:  # type: ignore[override]
        """Return True if ``forward`` calls ``remember``, as that of a subclass may not."""
        return type(self).forward is AtariFfModel.forward

    def forward(  # type: ignore[override]
        self,
        image: Any,
        prev_action: Any = None,
        prev_reward: Tensor | None = None,
        init_rnn_state: Any = None,
    ) -> Any:
        """Evaluate the model; see `Network.forward`. The first argument has rlpyt's (2019) name."""
        return super().forward(image, prev_action, prev_reward, init_rnn_state)

    def heads(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return action probabilities and value."""
        pi = torch.softmax(self.pi(features), dim=-1, dtype=torch.float32)
        return pi, self.value(features).squeeze(-1).float()
