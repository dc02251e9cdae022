"""Ready actor-critics for plain vector observations: perceptrons, with or without an LSTM.

Weights are orthogonal at first: gain sqrt(2) in hidden layers, 0.01 for the policy's output, so
that it starts undecided, and 1 for the value's.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.lstm import LstmCore
from rlpyt.models.mlp import (
    HIDDEN_GAIN,
    POLICY_GAIN,
    VALUE_GAIN,
    MlpModel,
    init_orthogonal,
    size_list,
)
from rlpyt.models.numpy_forward import NumpyParts, categorical_outputs
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.vector_model import VectorModel
from rlpyt.utils.tensor import restore_leading_dims


class MultiCategoricalMlpModel(VectorModel):
    """Several discrete actions: one perceptron for all their probabilities, one for the value.

    Args:
        observation_shape: of one observation; a named tuple of shapes for composite ones.
        dims: number of choices of each action.
        hidden_sizes: of both perceptrons.
        nonlinearity: class of the nonlinearity.
        shared: one perceptron for both, with two linear heads.
        **reading: of `VectorModel`: ``normalize_observation`` and its limits.
    """

    observation_only = True  # previous action and reward are not looked at

    def __init__(
        self,
        observation_shape: Any,
        dims: Sequence[int],
        hidden_sizes: int | Sequence[int] = (64, 64),
        nonlinearity: Callable[[], nn.Module] = nn.Tanh,
        shared: bool = False,
        **reading: Any,
    ) -> None:
        super().__init__(observation_shape, **reading)
        self.dims = tuple(dims)
        n_in = self.observation_size
        sizes = size_list(hidden_sizes)
        self.trunk: MlpModel | None = None
        if shared and sizes:
            self.trunk = MlpModel(n_in, sizes, None, nonlinearity, orthogonal_gain=1)
            n_in, sizes = self.trunk.output_size, []
        self.pi = MlpModel(n_in, sizes, sum(dims), nonlinearity, orthogonal_gain=POLICY_GAIN)
        self.value = MlpModel(n_in, sizes, 1, nonlinearity, orthogonal_gain=VALUE_GAIN)

    def forward(
        self, observation: Any, prev_action: Tensor | None = None, prev_reward: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Action probabilities and value, with the observation's leading dimensions.

        Args:
            observation: [*lead, *observation_shape] of any number type, leading dimensions [],
                [B] or [T, B]; or a named tuple of them.
            prev_action, prev_reward: not used.

        Returns:
            pi [*lead, sum(dims)], each part summing to one; value [*lead]; float32.
        """
        x = self.read(observation)
        if self.trunk is not None:
            x = self.trunk(x)
        logits = self.pi(x)
        if len(self.dims) == 1:
            pi = torch.softmax(logits, dim=-1, dtype=torch.float32)
        else:
            parts = logits.split(self.dims, dim=-1)
            pi = torch.cat([torch.softmax(x, dim=-1, dtype=torch.float32) for x in parts], dim=-1)
        return pi, self.value(x).squeeze(-1).float()

    def numpy_parts(self) -> NumpyParts:
        """What ``forward`` evaluates, for its twin in numpy."""
        return NumpyParts((self.pi, self.value), categorical_outputs(self.dims), self.trunk)


class CategoricalMlpModel(MultiCategoricalMlpModel):
    """One discrete action: one perceptron for its probabilities, one for the value.

    Args:
        observation_shape: of one observation; a named tuple of shapes for composite ones.
        output_size: A, number of actions; ``forward`` returns pi [*lead, A] and value [*lead].
        hidden_sizes, nonlinearity, shared, **reading: of `MultiCategoricalMlpModel`.
    """

    def __init__(
        self,
        observation_shape: Any,
        output_size: int,
        hidden_sizes: int | Sequence[int] = (64, 64),
        nonlinearity: Callable[[], nn.Module] = nn.Tanh,
        shared: bool = False,
        **reading: Any,
    ) -> None:
        sizes = (hidden_sizes, nonlinearity, shared)
        super().__init__(observation_shape, [output_size], *sizes, **reading)


class GaussianMlpModel(MujocoFfModel):
    """Continuous actions: as `MujocoFfModel`, without a nonlinearity after the mean.

    Args:
        observation_shape: of one observation; a named tuple of shapes for composite ones.
        action_size: A, number of action components.
        hidden_sizes, nonlinearity: of both perceptrons.
        init_log_std, normalize_observation, norm_obs_clip, norm_obs_var_clip: of
            `MujocoFfModel`.
    """

    def __init__(
        self,
        observation_shape: Any,
        action_size: int,
        hidden_sizes: int | Sequence[int] = (64, 64),
        nonlinearity: Callable[[], nn.Module] = nn.Tanh,
        init_log_std: float = 0.0,
        normalize_observation: bool = False,
        norm_obs_clip: float = 10,
        norm_obs_var_clip: float = 1e-6,
    ) -> None:
        super().__init__(
            observation_shape,
            action_size,
            hidden_sizes,
            nonlinearity,
            None,
            init_log_std,
            normalize_observation,
            norm_obs_clip,
            norm_obs_var_clip,
        )
        for tower, gain in ((self.mu, POLICY_GAIN), (self.v, VALUE_GAIN)):
            init_orthogonal(tower, HIDDEN_GAIN)
            init_orthogonal(tower.model[-1], gain)  # type: ignore[union-attr, index, arg-type]


class CategoricalLstmModel(VectorModel):
    """One discrete action, with memory: a perceptron into an LSTM into two linear heads.

    Args:
        observation_shape: of one observation; a named tuple of shapes for composite ones.
        output_size: A, number of actions.
        hidden_sizes: of the perceptron.
        lstm_size: H, size of the LSTM.
        nonlinearity: class of the perceptron's nonlinearity.
        **reading: of `VectorModel`: ``normalize_observation`` and its limits.
    """

    def __init__(
        self,
        observation_shape: Any,
        output_size: int,
        hidden_sizes: int | Sequence[int] = (64,),
        lstm_size: int = 64,
        nonlinearity: Callable[[], nn.Module] = nn.Tanh,
        **reading: Any,
    ) -> None:
        super().__init__(observation_shape, **reading)
        n_in = self.observation_size
        self.core = LstmCore(n_in, output_size, hidden_sizes, lstm_size, nonlinearity)
        self.pi = MlpModel(self.core.lstm.hidden_size, [], output_size, orthogonal_gain=POLICY_GAIN)
        self.value = MlpModel(self.core.lstm.hidden_size, [], 1, orthogonal_gain=VALUE_GAIN)

    def forward(
        self,
        observation: Any,
        prev_action: Tensor,
        prev_reward: Tensor,
        init_rnn_state: Any = None,
    ) -> tuple[Tensor, Tensor, Any]:
        """Action probabilities, value and the next recurrent state.

        Args:
            observation: [*lead, *observation_shape] of any number type, leading dimensions [],
                [B] or [T, B]; or a named tuple of them.
            prev_action: [*lead, A], one-hot.
            prev_reward: [*lead].
            init_rnn_state: ``RnnState`` of [N, B, H] before the first step; ``None``: zeros.

        Returns:
            pi [*lead, A], value [*lead], float32, and the ``RnnState`` [N, B, H] after the last
            step (B is 1 where the input has no leading dimension).
        """
        x = self.read(observation)
        out, rnn_state, lead = self.core(x, prev_action, prev_reward, init_rnn_state)
        pi = torch.softmax(self.pi(out), dim=-1, dtype=torch.float32)
        value = self.value(out).squeeze(-1).float()
        pi, value = restore_leading_dims((pi, value), *lead)
        return pi, value, rnn_state


class GaussianLstmModel(VectorModel):
    """Continuous actions, with memory: a perceptron into an LSTM into two heads, free log_std.

    Args:
        observation_shape: of one observation; a named tuple of shapes for composite ones.
        action_size: A, number of action components.
        hidden_sizes: of the perceptron.
        lstm_size: H, size of the LSTM.
        nonlinearity: class of the perceptron's nonlinearity.
        init_log_std: initial log standard deviation of every component.
        **reading: of `VectorModel`: ``normalize_observation`` and its limits.
    """

    def __init__(
        self,
        observation_shape: Any,
        action_size: int,
        hidden_sizes: int | Sequence[int] = (64,),
        lstm_size: int = 64,
        nonlinearity: Callable[[], nn.Module] = nn.Tanh,
        init_log_std: float = 0.0,
        **reading: Any,
    ) -> None:
        super().__init__(observation_shape, **reading)
        n_in = self.observation_size
        self.core = LstmCore(n_in, action_size, hidden_sizes, lstm_size, nonlinearity)
        self.mu = MlpModel(self.core.lstm.hidden_size, [], action_size, orthogonal_gain=POLICY_GAIN)
        self.value = MlpModel(self.core.lstm.hidden_size, [], 1, orthogonal_gain=VALUE_GAIN)
        self.log_std = nn.Parameter(torch.full((action_size,), float(init_log_std)))

    def forward(
        self,
        observation: Any,
        prev_action: Tensor,
        prev_reward: Tensor,
        init_rnn_state: Any = None,
    ) -> tuple[Tensor, Tensor, Tensor, Any]:
        """Mean, log standard deviation, value and the next recurrent state.

        Args:
            observation, prev_reward, init_rnn_state: as in `CategoricalLstmModel`.
            prev_action: [*lead, A].

        Returns:
            mu [*lead, A], log_std [*lead, A], value [*lead], float32, and the ``RnnState``.
        """
        x = self.read(observation)
        out, rnn_state, lead = self.core(x, prev_action, prev_reward, init_rnn_state)
        value = self.value(out).squeeze(-1).float()
        mu, value = restore_leading_dims((self.mu(out).float(), value), *lead)
        return mu, self.log_std.expand_as(mu).clone(), value, rnn_state
