"""MLPs of deterministic and stochastic policies, and of critics.

Continuous actions are in units where the action space is [-1, 1]; agents convert them.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.ensemble import EnsembleMlp
from rlpyt.models.mlp import MlpModel, size_list
from rlpyt.models.network import Lead, VectorModel
from rlpyt.models.normalization import Normalization
from rlpyt.models.observation import Shape
from rlpyt.models.pg.joint import ActionParts, joint_parameters, output_sizes
from rlpyt.models.recurrent import HeadInputs, Memory
from rlpyt.models.utils import Nonlinearity
from rlpyt.utils.buffer import Tensors
from rlpyt.utils.checks import check_range, warn_without, whole_number
from rlpyt.utils.old_names import OldName

Sizes = int | Sequence[int]


class ControlModel(VectorModel):
    """Base of policies, critics and values: an MLP, with an optional memory before it.

    The memory reads the features of the observation, the previous action and reward. The MLP then
    reads the memory's output and, again, the features of the observation (Ni et al. 2022).

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        action_size: A, number of action components.
        memory: "lstm", "gru" etc., see `add_memory`; ``None``: no memory.
        lstm_size: H, size of the memory's output.
        prev_action_size: size of the previous action that a memory reads, if it is not A.
        nonlinearity: class or name of the nonlinearity between layers.
        normalization, residual: batch normalization and residual blocks, see `MlpModel`.
        **kwargs: ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.

    Attributes:
        n_features: number of inputs of the MLP.
    """

    uses_remember = True

    def __init__(
        self,
        observation_shape: Shape,
        action_size: int | None,
        memory: Memory | None = None,
        lstm_size: int = 128,
        prev_action_size: int | None = None,
        nonlinearity: Nonlinearity = nn.ReLU,
        normalization: Normalization | None = None,
        residual: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        self.n_features = self.observation_size
        self._form = (nonlinearity, None, normalization, residual)
        if memory is None:
            warn_without("a memory", lstm_size=(lstm_size, 128))
        else:
            size = action_size if prev_action_size is None else prev_action_size
            self.add_core(int(size or 0), (), lstm_size, nn.Identity, memory)
            self.n_features += int(lstm_size)

    def _mlp(self, hidden_sizes: Sizes, n_out: int) -> MlpModel:
        return MlpModel(self.n_features, hidden_sizes, n_out, *self._form)

    def remember(self, features: Tensor, lead: Lead, *inputs: Any) -> tuple[Tensor, Any]:
        """Return the memory's output and the features [T * B, H + F], and the next state."""
        output, rnn_state = super().remember(features, lead, *inputs)
        return torch.cat([output, features], dim=-1), rnn_state


class MuMlpModel(ControlModel):
    """A deterministic policy. Returns actions [*lead, A], ``output_max * tanh(...)``.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        hidden_sizes: sizes of the MLP's hidden layers.
        action_size: A, number of action components.
        output_max: maximum absolute action, in units where the space is [-1, 1].
        **kwargs: further arguments of `ControlModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        hidden_sizes: Sizes,
        action_size: int,
        output_max: float = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, action_size, **kwargs)
        self.output_max = output_max
        self.mlp = self._mlp(hidden_sizes, action_size)

    _output_max = OldName("output_max")

    def heads(self, features: Tensor) -> Tensor:
        """Return actions [.., A] of features [.., F]."""
        return self.output_max * torch.tanh(self.mlp(features).float())


class PiMlpModel(ControlModel):
    """A Gaussian policy. Returns mean and log std before squashing, each [*lead, A].

    Args:
        observation_shape, hidden_sizes, action_size, **kwargs: see `MuMlpModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        hidden_sizes: Sizes,
        action_size: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, action_size, **kwargs)
        self.action_size = action_size
        self.mlp = self._mlp(hidden_sizes, 2 * action_size)

    _action_size = OldName("action_size")

    def heads(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation [.., A] of features [.., F]."""
        mean, log_std = torch.split(self.mlp(features).float(), self.action_size, dim=-1)
        return mean, log_std


class JointPiMlpModel(ControlModel):
    """A policy over discrete choices and Boxes, for any action space.

    Returns the parameters of each part in order: pi [*lead, sum(n)] for discrete parts with n
    choices, mean and log std before squashing, each [*lead, A], for a Box.

    Args:
        observation_shape, hidden_sizes, **kwargs: see `MuMlpModel`.
        action_parts: number of choices of each component of discrete parts, a tuple, or of
            components of a Box, an integer.
    """

    def __init__(
        self,
        observation_shape: Shape,
        hidden_sizes: Sizes,
        action_parts: ActionParts,
        **kwargs: Any,
    ) -> None:
        n_outputs = sum(output_sizes(action_parts))
        super().__init__(observation_shape, n_outputs, **kwargs)
        self.action_parts, self.n_outputs = tuple(action_parts), n_outputs
        self.n_components = sum(part for part in action_parts if isinstance(part, int))
        n_outputs += self.n_components
        self.mlp = self._mlp(hidden_sizes, n_outputs)

    def heads(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, ...]:
        """Return parameters [.., n] of all parts, of features [.., F]."""
        outputs, log_std = self.mlp(features).float(), None
        if self.n_components:
            outputs, log_std = torch.split(outputs, [self.n_outputs, self.n_components], -1)
        return tuple(joint_parameters(outputs, self.action_parts, log_std, mask))


class QofMuMlpModel(ControlModel):
    """One critic of actions, or several evaluated as one.

    The action enters after the memory, so that ``head_inputs`` serve for any actions.

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        hidden_sizes: sizes of each MLP's hidden layers.
        action_size: A, number of action components.
        n_critics: E, number of critics; ``None``: one, without a dimension E.
        n_quantiles: N, number of quantiles of the return per critic; ``None``: its mean.
        n_atoms: N, number of atoms of a categorical distribution of the return per critic, whose
            logits are returned, instead of quantiles.
        layer_norm: normalize hidden layers (Hiraoka et al. 2022, with ``dropout``: DroQ).
        dropout: dropout rate of hidden outputs, below 1.
        nonlinearity: class or name of the nonlinearity; it must be elementwise.
        n_choices: C, number of discrete choices, each with a value; ``None``: there are none.
        normalization, residual: batch normalization and residual blocks, see `MlpModel`.
        **kwargs: ``memory`` and ``lstm_size`` of `ControlModel`, for one critic;
            ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.

    Raises:
        ValueError: ``memory`` is given with ``n_critics``.
    """

    def __init__(
        self,
        observation_shape: Shape,
        hidden_sizes: Sizes,
        action_size: int,
        n_critics: int | None = None,
        n_quantiles: int | None = None,
        layer_norm: bool = False,
        dropout: float = 0.0,
        nonlinearity: Nonlinearity = nn.ReLU,
        n_choices: int | None = None,
        normalization: Normalization | None = None,
        residual: str | None = None,
        n_atoms: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, action_size, **kwargs)
        if n_critics is not None:
            n_critics = whole_number("n_critics", n_critics, 1)
            if self.recurrent_layer is not None:
                raise ValueError(
                    f"n_critics must be None for critics with a memory, got {n_critics}. Use one "
                    "model per critic (rlpyt.models.ensemble.Ensemble)."
                )
        if n_quantiles is not None:
            n_quantiles = whole_number("n_quantiles", n_quantiles, 1)
        if n_atoms is not None:
            n_atoms = whole_number("n_atoms", n_atoms, 2)
        if n_atoms and n_quantiles:
            raise ValueError(
                f"n_atoms={n_atoms} must be None with n_quantiles={n_quantiles}. Use one of them."
            )
        check_range("dropout", dropout, 0, 0.99)
        self.n_critics, self.n_quantiles, self.n_atoms = n_critics, n_quantiles, n_atoms
        self._values = tuple(n for n in (n_choices, n_quantiles, n_atoms) if n is not None)
        self.mlp = EnsembleMlp(
            self.n_features + action_size,
            size_list(hidden_sizes),
            math.prod(self._values),
            n_critics,
            nonlinearity,
            layer_norm,
            dropout,
            normalization,
            residual,
        )

    def forward(  # type: ignore[override]
        self,
        observation: Any,
        prev_action: Tensors | None,
        prev_reward: Tensor | None,
        action: Tensor,
        member: int | None = None,
    ) -> Tensor:
        """Return values [*lead] float32, or [E, *lead] with E critics.

        With discrete choices, the last dimension is C, with quantiles or atoms N.

        Args:
            observation: see `Network.forward`; ``HeadInputs`` of critics with a memory.
            prev_action, prev_reward: not used.
            action: [*lead, A], in units where the space is [-1, 1].
            member: index of the only critic to evaluate; ``None``: all.
        """
        remembered = isinstance(observation, HeadInputs)
        features = observation.features if remembered else self.read(observation)
        x = torch.cat([features, action.float()], dim=-1)
        lead = x.shape[:-1]
        x = x.reshape(-1, x.shape[-1])
        single = self.n_critics is None or member is not None
        out: Tensor = self.mlp(x, member).float()
        members = () if single else (self.n_critics,)
        return out.reshape((*members, *lead, *self._values))


class VMlpModel(ControlModel):
    """A state value function. Returns values [*lead].

    Args:
        observation_shape, hidden_sizes, **kwargs: see `MuMlpModel`.
        action_size: A, which only a memory uses.
    """

    def __init__(
        self,
        observation_shape: Shape,
        hidden_sizes: Sizes,
        action_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, action_size, **kwargs)
        self.mlp = self._mlp(hidden_sizes, 1)

    def heads(self, features: Tensor) -> Tensor:
        """Return values [..] of features [.., F]."""
        return self.mlp(features).squeeze(-1).float()  # type: ignore[no-any-return]
