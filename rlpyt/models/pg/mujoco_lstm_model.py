"""Recurrent actor-critic for continuous control: a perceptron, an LSTM, one head."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from rlpyt.models.lstm import RnnState as RnnState  # noqa: PLC0414 (rlpyt's home of it)
from rlpyt.models.lstm import run_lstm
from rlpyt.models.mlp import MlpModel
from rlpyt.models.vector_model import VectorModel
from rlpyt.utils.checks import whole_number
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class MujocoLstmModel(VectorModel):
    """A perceptron into an LSTM, which also sees previous action and reward, into one linear head.

    Args:
        observation_shape: of one observation.
        action_size: A, number of action components.
        hidden_sizes: of the perceptron; ``None``: 256, 256.
        lstm_size: H, size of the LSTM.
        nonlinearity: class of the perceptron's nonlinearity.
        normalize_observation, norm_obs_clip, norm_obs_var_clip: of `VectorModel`.
    """

    def __init__(
        self,
        observation_shape: Any,
        action_size: int,
        hidden_sizes: int | Sequence[int] | None = None,
        lstm_size: int = 256,
        nonlinearity: Callable[[], nn.Module] = nn.ReLU,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
    ) -> None:
        super().__init__(observation_shape, normalize_observation, norm_obs_clip, norm_obs_var_clip)
        self._action_size = action_size
        hidden_sizes = [256, 256] if hidden_sizes is None else hidden_sizes
        self.mlp = MlpModel(self.observation_size, hidden_sizes, None, nonlinearity)
        lstm_size = whole_number("lstm_size", lstm_size, 1)
        self.lstm = nn.LSTM(self.mlp.output_size + action_size + 1, lstm_size)
        self.head = nn.Linear(lstm_size, action_size * 2 + 1)

    def forward(
        self,
        observation: Any,
        prev_action: Tensor,
        prev_reward: Tensor,
        init_rnn_state: Any = None,
    ) -> tuple[Tensor, Tensor, Tensor, Any]:
        """Mean, log standard deviation, value and the next recurrent state.

        Args:
            observation: [*lead, *observation_shape] of any number type, leading dimensions [],
                [B] or [T, B]; or a named tuple of them.
            prev_action: [*lead, A].
            prev_reward: [*lead].
            init_rnn_state: ``RnnState`` of [N, B, H] before the first step; ``None``: zeros.

        Returns:
            mu [*lead, A], log_std [*lead, A], value [*lead], float32, and the ``RnnState``
            [N, B, H] after the last step (B is 1 where the input has no leading dimension).
        """
        x = self.read(observation)
        lead_dim, T, B, _ = infer_leading_dims(x, 1)
        features = self.mlp(x.reshape(T * B, -1))
        out, rnn_state = run_lstm(
            self.lstm, features, prev_action, prev_reward, init_rnn_state, T, B
        )
        sizes = [self._action_size, self._action_size, 1]
        mu, log_std, value = self.head(out).float().split(sizes, dim=-1)
        outputs = restore_leading_dims((mu, log_std, value.squeeze(-1)), lead_dim, T, B)
        return (*outputs, rnn_state)
