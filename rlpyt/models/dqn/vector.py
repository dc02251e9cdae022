"""Ready models of action values: MLPs, or an MLP with an LSTM."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from rlpyt.models.dqn.atari_dqn_model import probabilities
from rlpyt.models.dqn.heads import build_head
from rlpyt.models.dqn.implicit_quantile import N_COSINES, ImplicitQuantileHeadModel
from rlpyt.models.mlp import MlpModel, size_list
from rlpyt.models.network import LstmVectorModel, VectorModel
from rlpyt.models.observation import Shape
from rlpyt.utils.buffer import Tensors


class DqnMlpModel(VectorModel):
    """An MLP for the value of each action.

    Returns Q [*lead, A], or [*lead, A, P] with ``n_atoms``.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        output_size: A, number of actions.
        hidden_sizes: hidden layers; the last belongs to the head, so a dueling head has it twice.
        nonlinearity: class of the nonlinearity.
        dueling: separate branches for value and advantage.
        noisy: noisy layers in the head.
        n_atoms: P, number of outputs per action; ``None``: one, without a dimension P.
        **kwargs: ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.
    """

    softmax = False  # apply softmax to the outputs of each action

    def __init__(
        self,
        observation_shape: Shape,
        output_size: int,
        hidden_sizes: int | Sequence[int] = (128, 128),
        nonlinearity: Callable[[], nn.Module] = nn.ReLU,
        dueling: bool = False,
        noisy: bool = False,
        n_atoms: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        self.output_size, self.n_atoms = output_size, n_atoms
        self.trunk, n_features, sizes = trunk_of(self.observation_size, hidden_sizes, nonlinearity)
        self.head = build_head(
            n_features, sizes, output_size, n_atoms, dueling, noisy, nonlinearity
        )

    def heads(self, features: Tensor) -> Tensor:
        """Return action values, or P outputs for each action."""
        x = features if self.trunk is None else self.trunk(features)
        out: Tensor = self.head(x)
        return probabilities(out) if self.softmax else out.float()


class CatDqnMlpModel(DqnMlpModel):
    """Probabilities of P atoms for each action, [*lead, A, P], from an MLP.

    Args:
        observation_shape, output_size, **kwargs: arguments of `DqnMlpModel`.
        n_atoms: P, number of atoms.
    """

    softmax = True

    def __init__(
        self, observation_shape: Shape, output_size: int, n_atoms: int = 51, **kwargs: Any
    ) -> None:
        super().__init__(observation_shape, output_size, n_atoms=n_atoms, **kwargs)


class QrDqnMlpModel(DqnMlpModel):
    """N quantiles of each action's return, [*lead, A, N], from an MLP.

    Args:
        observation_shape, output_size, **kwargs: arguments of `DqnMlpModel`.
        n_quantiles: N, number of quantiles.
    """

    def __init__(
        self, observation_shape: Shape, output_size: int, n_quantiles: int = 200, **kwargs: Any
    ) -> None:
        super().__init__(observation_shape, output_size, n_atoms=n_quantiles, **kwargs)


class IqnMlpModel(VectorModel):
    """Each action's return at any quantile fraction, from an MLP.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        output_size: A, number of actions.
        hidden_sizes: hidden layers, at least one; the last belongs to the head.
        nonlinearity, dueling, noisy, **kwargs: arguments of `DqnMlpModel`.
        n_cosines: see `ImplicitQuantileHeadModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        output_size: int,
        hidden_sizes: int | Sequence[int] = (128, 128),
        nonlinearity: Callable[[], nn.Module] = nn.ReLU,
        dueling: bool = False,
        noisy: bool = False,
        n_cosines: int = N_COSINES,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        self.trunk, n_features, sizes = trunk_of(self.observation_size, hidden_sizes, nonlinearity)
        self.head = ImplicitQuantileHeadModel(
            n_features, sizes, output_size, n_cosines, dueling, noisy, nonlinearity
        )

    def forward(  # type: ignore[override]
        self,
        observation: Tensors,
        prev_action: Tensors | None,
        prev_reward: Tensor | None,
        tau: Tensor,
    ) -> Tensor:
        """Return quantiles [*lead, A, N] float32.

        Args:
            observation: [*lead, *observation_shape], leading dimensions [], [B] or [T, B].
            prev_action, prev_reward: not used.
            tau: fractions [*lead, N] in [0, 1], or [N] for all rows.
        """
        x = self.read(observation)
        if self.trunk is not None:
            x = self.trunk(x)
        quantiles: Tensor = self.head(x, tau)
        return quantiles.float()


class R2d1LstmModel(LstmVectorModel):
    """A recurrent model for the value of each action: an MLP, an LSTM and a head.

    Returns Q [*lead, A] and the recurrent state.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        output_size: A, number of actions.
        hidden_sizes: sizes of the MLP's hidden layers.
        lstm_size: H, size of the recurrent layer.
        head_size: hidden layer(s) of the head; ``None``: none.
        nonlinearity: class of the nonlinearity of MLP and head.
        dueling: separate branches for value and advantage.
        **kwargs: ``memory`` of `add_memory` ("lstm", "gru" etc.), and
            ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        output_size: int,
        hidden_sizes: int | Sequence[int] = (64,),
        lstm_size: int = 64,
        head_size: int | Sequence[int] | None = None,
        nonlinearity: Callable[[], nn.Module] = nn.ReLU,
        dueling: bool = False,
        **kwargs: Any,
    ) -> None:
        sizes = (output_size, hidden_sizes, lstm_size)
        super().__init__(observation_shape, *sizes, nonlinearity, **kwargs)
        H = int(lstm_size)
        self.head = build_head(
            H, head_size, output_size, dueling=dueling, nonlinearity=nonlinearity
        )

    def heads(self, features: Tensor) -> Tensor:
        """Return action values."""
        return self.head(features).float()  # type: ignore[no-any-return]


def trunk_of(
    n_in: int, hidden_sizes: int | Sequence[int], nonlinearity: Callable[[], nn.Module]
) -> tuple[MlpModel | None, int, list[int]]:
    """Return (all hidden layers but the last or None, their output size, sizes of the last)."""
    sizes = size_list(hidden_sizes)
    if len(sizes) < 2:
        return None, n_in, sizes
    trunk = MlpModel(n_in, sizes[:-1], None, nonlinearity)
    return trunk, trunk.output_size, sizes[-1:]
