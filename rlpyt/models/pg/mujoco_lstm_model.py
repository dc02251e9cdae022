"""Recurrent actor-critic for continuous control: a perceptron, an LSTM, one head."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from rlpyt.models.lstm import RnnState as RnnState  # noqa: PLC0414 (rlpyt's home of it)
from rlpyt.models.lstm import run_lstm
from rlpyt.models.mlp import MlpModel
from rlpyt.models.observation import flatten_observation, observation_size
from rlpyt.models.running_mean_std import RunningMeanStdModel
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class MujocoLstmModel(nn.Module):
    """A perceptron into an LSTM, which also sees previous action and reward, into one linear head.

    Args:
        observation_shape: of one observation.
        action_size: A, number of action components.
        hidden_sizes: of the perceptron; ``None``: 256, 256.
        lstm_size: H, size of the LSTM.
        nonlinearity: class of the perceptron's nonlinearity.
        normalize_observation: subtract the running mean, divide by the running deviation.
        norm_obs_clip: normalized observations are limited to +- this.
        norm_obs_var_clip: smallest variance that is divided by.
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
        super().__init__()
        self._observation_shape = observation_shape
        self._action_size = action_size
        size = observation_size(observation_shape)
        hidden_sizes = [256, 256] if hidden_sizes is None else hidden_sizes
        self.mlp = MlpModel(size, hidden_sizes, None, nonlinearity)
        self.lstm = nn.LSTM(self.mlp.output_size + action_size + 1, lstm_size)
        self.head = nn.Linear(lstm_size, action_size * 2 + 1)
        self.normalize_observation = normalize_observation
        self.norm_obs_clip = norm_obs_clip
        self.norm_obs_var_clip = norm_obs_var_clip
        if normalize_observation:
            self.obs_rms = RunningMeanStdModel((size,))

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
        x = flatten_observation(observation, self._observation_shape)
        lead_dim, T, B, _ = infer_leading_dims(x, 1)
        if self.normalize_observation:
            x = self.obs_rms.normalize(x, self.norm_obs_clip, self.norm_obs_var_clip)
        features = self.mlp(x.reshape(T * B, -1))
        out, rnn_state = run_lstm(
            self.lstm, features, prev_action, prev_reward, init_rnn_state, T, B
        )
        sizes = [self._action_size, self._action_size, 1]
        mu, log_std, value = self.head(out).float().split(sizes, dim=-1)
        outputs = restore_leading_dims((mu, log_std, value.squeeze(-1)), lead_dim, T, B)
        return (*outputs, rnn_state)

    def update_obs_rms(self, observation: Any) -> None:
        """Take a batch [*lead, *observation_shape] into the running mean and deviation."""
        if self.normalize_observation:
            self.obs_rms.update(flatten_observation(observation, self._observation_shape))
