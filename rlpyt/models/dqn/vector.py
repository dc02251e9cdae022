"""Ready models of action values: MLPs, with or without a memory."""

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from rlpyt.models.dqn.atari_dqn_model import probabilities
from rlpyt.models.dqn.heads import build_head
from rlpyt.models.dqn.implicit_quantile import (
    N_COSINES,
    ImplicitQuantileHeadModel,
    quantiles_at,
)
from rlpyt.models.mlp import MlpModel, add_layer_norm, size_list
from rlpyt.models.network import VectorModel
from rlpyt.models.observation import Shape
from rlpyt.models.recurrent import Memory
from rlpyt.models.utils import Nonlinearity
from rlpyt.utils.checks import warn_without


class DqnMlpModel(VectorModel):
    """An MLP for the value of each action, optionally with a memory.

    Returns Q [*lead, A], or [*lead, A, P] with ``n_atoms``; with a memory also the recurrent state.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        output_size: A, number of actions.
        hidden_sizes: hidden layers. Without a memory the last belongs to the head, so a dueling
            head has it twice; with a memory all are before it.
        nonlinearity: class or name of the nonlinearity.
        dueling: separate branches for value and advantage.
        noisy: noisy layers in the head.
        n_atoms: P, number of outputs per action; ``None``: one, without a dimension P.
        memory: "lstm", "gru" etc., see `add_memory`; ``None``: no memory.
        lstm_size: H, size of the memory.
        head_size: hidden layer(s) of the head after a memory; ``None``: none.
        layer_norm: normalize hidden layers before their nonlinearity, as PQN needs.
        **kwargs: ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.
    """

    softmax = False  # apply softmax to the outputs of each action
    make_head: ClassVar[Any] = staticmethod(build_head)

    def __init__(
        self,
        observation_shape: Shape,
        output_size: int,
        hidden_sizes: int | Sequence[int] = (128, 128),
        nonlinearity: Nonlinearity = nn.ReLU,
        dueling: bool = False,
        noisy: bool = False,
        n_atoms: int | None = None,
        *,
        memory: Memory | None = None,
        lstm_size: int = 128,
        head_size: int | Sequence[int] | None = None,
        layer_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        self.output_size, self.n_atoms = output_size, n_atoms
        self.trunk: MlpModel | None = None
        if memory is None:
            n_features, head_sizes = self.observation_size, size_list(hidden_sizes)
            if len(head_sizes) > 1:  # all but the last are before the head
                self.trunk = MlpModel(n_features, head_sizes[:-1], None, nonlinearity)
                n_features, head_sizes = self.trunk.output_size, head_sizes[-1:]
            warn_without("a memory", lstm_size=(lstm_size, 128), head_size=(head_size, None))
        else:
            self.add_core(output_size, hidden_sizes, lstm_size, nonlinearity, memory)
            n_features, head_sizes = int(lstm_size), size_list(head_size)
        self.head = self.make_head(
            n_features, head_sizes, output_size, n_atoms, dueling, noisy, nonlinearity
        )
        if layer_norm:
            add_layer_norm(self)

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


class IqnMlpModel(DqnMlpModel):
    """Each action's return at any quantile fraction, from an MLP.

    Args:
        observation_shape, output_size, *args, **kwargs: arguments of `DqnMlpModel`.
        n_cosines: see `ImplicitQuantileHeadModel`.
    """

    make_head = ImplicitQuantileHeadModel
    forward = quantiles_at  # type: ignore[assignment]
    uses_remember: ClassVar[bool] = True

    def __init__(
        self,
        observation_shape: Shape,
        output_size: int,
        *args: Any,
        n_cosines: int = N_COSINES,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, output_size, *args, n_atoms=n_cosines, **kwargs)  # type: ignore[misc]

    def heads(self, features: Tensor, tau: Tensor) -> Tensor:  # type: ignore[override]
        """Return quantiles at the fractions ``tau``."""
        x = features if self.trunk is None else self.trunk(features)
        return self.head(x, tau).float()  # type: ignore[no-any-return]


class R2d1LstmModel(DqnMlpModel):
    """A recurrent model for the value of each action: an MLP, an LSTM and a head.

    Returns Q [*lead, A] and the recurrent state.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        output_size: A, number of actions.
        hidden_sizes: sizes of the MLP's hidden layers.
        lstm_size: H, size of the recurrent layer.
        head_size: hidden layer(s) of the head; ``None``: none.
        nonlinearity: class or name of the nonlinearity of MLP and head.
        dueling: separate branches for value and advantage.
        memory: "lstm", "gru" etc., see `add_memory`.
        **kwargs: further arguments of `DqnMlpModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        output_size: int,
        hidden_sizes: int | Sequence[int] = (64,),
        lstm_size: int = 64,
        head_size: int | Sequence[int] | None = None,
        nonlinearity: Nonlinearity = nn.ReLU,
        dueling: bool = False,
        *,
        memory: Memory = "lstm",
        **kwargs: Any,
    ) -> None:
        sizes = (observation_shape, output_size, hidden_sizes, nonlinearity, dueling)
        kwargs |= dict(memory=memory, lstm_size=lstm_size, head_size=head_size)
        super().__init__(*sizes, **kwargs)
