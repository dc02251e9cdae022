"""Recurrent actor-critic for continuous control: an MLP, an LSTM, one head."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.image_encoder import Encoder
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
        normalize_observation, norm_obs_clip, norm_obs_var_clip, encoder, encoders: see
            `VectorModel`.
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
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
        memory: Memory = "lstm",
        encoder: Encoder | None = None,
        with_value: bool = True,
        encoders: Mapping[str, Any] | None = None,
    ) -> None:
        limits = (norm_obs_clip, norm_obs_var_clip)
        observation_args = (normalize_observation, *limits, encoder, encoders)
        super().__init__(observation_shape, *observation_args)
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
