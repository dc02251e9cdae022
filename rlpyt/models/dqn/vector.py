"""Ready models of action values for plain vector observations: perceptrons, or one with an LSTM."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from rlpyt.models.dqn.atari_dqn_model import probabilities
from rlpyt.models.dqn.heads import build_head, head_outputs, towers_of
from rlpyt.models.dqn.implicit_quantile import N_COSINES, ImplicitQuantileHeadModel
from rlpyt.models.lstm import LstmCore
from rlpyt.models.mlp import MlpModel, size_list
from rlpyt.models.numpy_forward import NumpyParts
from rlpyt.models.vector_model import VectorModel
from rlpyt.utils.tensor import restore_leading_dims


class DqnMlpModel(VectorModel):
    """The value of each action, from a perceptron.

    Args:
        observation_shape: of one observation; a named tuple of shapes for composite ones.
        output_size: A, number of actions.
        hidden_sizes: hidden layers; the last is the head's, so that a dueling one has it twice.
        nonlinearity: class of the nonlinearity.
        dueling: value and advantage apart.
        noisy: noisy layers in the head.
        n_atoms: P outputs for each action; ``None``: one, and no dimension for it.
        **reading: of `VectorModel`: ``normalize_observation`` and its limits.
    """

    observation_only = True  # previous action and reward are not looked at
    softmax = False  # whether a subclass's outputs for each action are probabilities

    def __init__(
        self,
        observation_shape: Any,
        output_size: int,
        hidden_sizes: int | Sequence[int] = (128, 128),
        nonlinearity: Callable[[], nn.Module] = nn.ReLU,
        dueling: bool = False,
        noisy: bool = False,
        n_atoms: int | None = None,
        **reading: Any,
    ) -> None:
        super().__init__(observation_shape, **reading)
        self.output_size, self.n_atoms = output_size, n_atoms
        self.trunk, n_features, sizes = trunk_of(self.observation_size, hidden_sizes, nonlinearity)
        self.head = build_head(
            n_features, sizes, output_size, n_atoms, dueling, noisy, nonlinearity
        )

    def forward(
        self, observation: Any, prev_action: Tensor | None = None, prev_reward: Tensor | None = None
    ) -> Tensor:
        """Action values, with the observation's leading dimensions.

        Args:
            observation: [*lead, *observation_shape] of any number type, leading dimensions [],
                [B] or [T, B]; or a named tuple of them.
            prev_action, prev_reward: not used.

        Returns:
            Q [*lead, A] float32, or [*lead, A, P].
        """
        x = self.read(observation)
        if self.trunk is not None:
            x = self.trunk(x)
        out: Tensor = self.head(x)
        return probabilities(out) if self.softmax else out.float()

    def numpy_parts(self) -> NumpyParts:
        """What ``forward`` evaluates, for its twin in numpy."""
        return NumpyParts(
            towers_of(self.head),
            head_outputs(self.output_size, self.n_atoms, self.softmax),
            self.trunk,
        )


class CatDqnMlpModel(DqnMlpModel):
    """The probabilities of P atoms for each action, [*lead, A, P], from a perceptron.

    Args:
        observation_shape, output_size, **kwargs: of `DqnMlpModel`.
        n_atoms: P.
    """

    softmax = True

    def __init__(
        self, observation_shape: Any, output_size: int, n_atoms: int = 51, **kwargs: Any
    ) -> None:
        super().__init__(observation_shape, output_size, n_atoms=n_atoms, **kwargs)


class QrDqnMlpModel(DqnMlpModel):
    """N quantiles of each action's return, [*lead, A, N], from a perceptron.

    Args:
        observation_shape, output_size, **kwargs: of `DqnMlpModel`.
        n_quantiles: N.
    """

    def __init__(
        self, observation_shape: Any, output_size: int, n_quantiles: int = 200, **kwargs: Any
    ) -> None:
        super().__init__(observation_shape, output_size, n_atoms=n_quantiles, **kwargs)


class IqnMlpModel(VectorModel):
    """Each action's return at any quantile fraction, from a perceptron.

    Args:
        observation_shape: of one observation; a named tuple of shapes for composite ones.
        output_size: A, number of actions.
        hidden_sizes: hidden layers, at least one; the last is the head's.
        nonlinearity, dueling, noisy, **reading: of `DqnMlpModel`.
        n_cosines: of `ImplicitQuantileHeadModel`.
    """

    observation_only = True

    def __init__(
        self,
        observation_shape: Any,
        output_size: int,
        hidden_sizes: int | Sequence[int] = (128, 128),
        nonlinearity: Callable[[], nn.Module] = nn.ReLU,
        dueling: bool = False,
        noisy: bool = False,
        n_cosines: int = N_COSINES,
        **reading: Any,
    ) -> None:
        super().__init__(observation_shape, **reading)
        self.trunk, n_features, sizes = trunk_of(self.observation_size, hidden_sizes, nonlinearity)
        self.head = ImplicitQuantileHeadModel(
            n_features, sizes, output_size, n_cosines, dueling, noisy, nonlinearity
        )

    def forward(
        self, observation: Any, prev_action: Tensor | None, prev_reward: Tensor | None, tau: Tensor
    ) -> Tensor:
        """Quantiles [*lead, A, N] float32.

        Args:
            observation: [*lead, *observation_shape], leading dimensions [], [B] or [T, B].
            prev_action, prev_reward: not used.
            tau: fractions [*lead, N] in [0, 1], or [N] for all rows alike.
        """
        x = self.read(observation)
        if self.trunk is not None:
            x = self.trunk(x)
        quantiles: Tensor = self.head(x, tau)
        return quantiles.float()


class R2d1LstmModel(VectorModel):
    """The value of each action, with memory: a perceptron into an LSTM into a head.

    Args:
        observation_shape: of one observation; a named tuple of shapes for composite ones.
        output_size: A, number of actions.
        hidden_sizes: of the perceptron.
        lstm_size: H, size of the LSTM.
        head_size: hidden layer(s) of the head; ``None``: none.
        nonlinearity: class of the nonlinearity of perceptron and head.
        dueling: value and advantage apart.
        **reading: of `VectorModel`: ``normalize_observation`` and its limits.
    """

    def __init__(
        self,
        observation_shape: Any,
        output_size: int,
        hidden_sizes: int | Sequence[int] = (64,),
        lstm_size: int = 64,
        head_size: int | Sequence[int] | None = None,
        nonlinearity: Callable[[], nn.Module] = nn.ReLU,
        dueling: bool = False,
        **reading: Any,
    ) -> None:
        super().__init__(observation_shape, **reading)
        n_in = self.observation_size
        self.core = LstmCore(n_in, output_size, hidden_sizes, lstm_size, nonlinearity)
        self.head = build_head(
            self.core.lstm.hidden_size,
            head_size,
            output_size,
            dueling=dueling,
            nonlinearity=nonlinearity,
        )

    def forward(
        self,
        observation: Any,
        prev_action: Tensor,
        prev_reward: Tensor,
        init_rnn_state: Any = None,
    ) -> tuple[Tensor, Any]:
        """Action values and the next recurrent state.

        Args:
            observation: [*lead, *observation_shape], leading dimensions [], [B] or [T, B].
            prev_action: [*lead, A], one-hot.
            prev_reward: [*lead].
            init_rnn_state: ``RnnState`` of [N, B, H] before the first step; ``None``: zeros.

        Returns:
            Q [*lead, A] float32, and the ``RnnState`` [N, B, H] after the last step.
        """
        x = self.read(observation)
        out, rnn_state, lead = self.core(x, prev_action, prev_reward, init_rnn_state)
        q: Tensor = restore_leading_dims(self.head(out).float(), *lead)
        return q, rnn_state


def trunk_of(
    n_in: int, hidden_sizes: int | Sequence[int], nonlinearity: Callable[[], nn.Module]
) -> tuple[MlpModel | None, int, list[int]]:
    """All hidden layers but the last, how many features come out of them, and the last's sizes."""
    sizes = size_list(hidden_sizes)
    if len(sizes) < 2:
        return None, n_in, sizes
    trunk = MlpModel(n_in, sizes[:-1], None, nonlinearity)
    return trunk, trunk.output_size, sizes[-1:]
