"""Recurrent actor-critic for continuous control: an MLP, an LSTM, one head."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.mlp import MlpModel
from rlpyt.models.network import Lead, VectorModel, encode_rows
from rlpyt.models.observation import Shape
from rlpyt.models.recurrent import Memory, RnnState, add_memory  # noqa: F401 (RnnState: rlpyt's home)
from rlpyt.models.utils import Nonlinearity
from rlpyt.utils.buffer import Tensors


class MujocoLstmModel(VectorModel):
    """An MLP, an LSTM that also reads previous action and reward, and one linear head.

    Returns mu [*lead, A], log_std [*lead, A], value [*lead] and the recurrent state.

    Args:
        observation_shape: shape of one observation.
        action_size: A, number of action components.
        hidden_sizes: sizes of the MLP's hidden layers; ``None``: 256, 256.
        lstm_size: H, size of the recurrent layer.
        nonlinearity: class or name of the MLP's nonlinearity.
        *args, **kwargs: ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.
        memory: "lstm", "gru" etc., see `add_memory`.
        with_value: if False, return no value, for agents with a separate critic.
    """

    _memory = "lstm"  # name of the recurrent layer

    def __init__(
        self,
        observation_shape: Shape,
        action_size: int,
        hidden_sizes: int | Sequence[int] | None = None,
        lstm_size: int = 256,
        nonlinearity: Nonlinearity = nn.ReLU,
        *args: Any,
        memory: Memory = "lstm",
        with_value: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, *args, **kwargs)
        self._action_size = action_size
        self._sizes = [action_size, action_size, *([1] if with_value else [])]
        hidden_sizes = [256, 256] if hidden_sizes is None else hidden_sizes
        self.mlp = MlpModel(self.observation_size, hidden_sizes, None, nonlinearity)
        self._memory = add_memory(self, memory, self.mlp.output_size + action_size + 1, lstm_size)
        self.memory_size = int(lstm_size)
        self.head = nn.Linear(self.memory_size, sum(self._sizes))

    @property
    def recurrent_layer(self) -> Any:
        """Return the memory."""
        return getattr(self, self._memory)

    def encode(self, observation: Tensors) -> tuple[Tensor, Lead | None]:
        """Return the MLP's features [T * B, F]."""
        return encode_rows(self.mlp, self.read(observation))

    def heads(self, features: Tensor) -> tuple[Tensor, ...]:
        """Return mean, log standard deviation and value."""
        outputs = torch.split(self.head(features).float(), self._sizes, dim=-1)
        mu, log_std, *value = outputs
        return mu, log_std, *(x.squeeze(-1) for x in value)
