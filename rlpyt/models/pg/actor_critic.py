"""Actor-critics whose critic is a separate network and may read other parts of observations."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rlpyt.models.mlp import VALUE_GAIN, MlpModel
from rlpyt.models.network import LstmVectorModel, VectorModel
from rlpyt.models.observation import Shape
from rlpyt.models.recurrent import StateAndStarts
from rlpyt.models.utils import Nonlinearity
from rlpyt.utils.buffer import Arrays, Tensors
from rlpyt.utils.collections import namedarraytuple

# Recurrent states of a policy and of a critic with its own memory.
ActorCriticState = namedarraytuple("ActorCriticState", ["policy", "critic"])


class ActorCritic(nn.Module):
    """A policy and a critic, two networks that are trained together.

    Returns the policy's outputs, value [*lead], and the recurrent state if the policy has one. It
    is an `ActorCriticState` if the critic has a memory, too.

    Args:
        policy: model that returns the parameters of the action distribution, without a value.
        critic: model that returns the value.
        shares_memory: the critic reads the output of the policy's memory beside its own features.
    """

    def __init__(self, policy: Any, critic: Any, shares_memory: bool = False) -> None:
        super().__init__()
        self.policy, self.critic = policy, critic
        self.shares_memory = shares_memory

    @property
    def observation_only(self) -> bool:
        """Return True if the previous action and reward are not read."""
        return all(getattr(x, "observation_only", False) for x in (self.policy, self.critic))

    @property
    def masks_actions(self) -> bool:
        """Return True if the policy gives invalid actions the probability zero."""
        return getattr(self.policy, "masks_actions", False)

    @property
    def takes_starts(self) -> bool:
        """Return True if ``init_rnn_state`` may be a ``StateAndStarts``."""
        networks = [self.policy, *([self.critic] if self._critic_has_memory else [])]
        return all(getattr(x, "takes_starts", False) for x in networks)

    @property
    def _critic_has_memory(self) -> bool:
        return getattr(self.critic, "recurrent_layer", None) is not None

    def forward(
        self,
        observation: Tensors,
        prev_action: Tensors | None = None,
        prev_reward: Tensor | None = None,
        *init_rnn_state: Any,
    ) -> tuple[Any, ...]:
        """Evaluate both networks; arguments are those of `Network.forward`."""
        inputs = (observation, prev_action, prev_reward)
        if not init_rnn_state:  # feed-forward
            return *self.policy(*inputs), self.critic(*inputs)
        (state,) = init_rnn_state
        if self.shares_memory:
            remembered, state = self.policy.head_inputs(*inputs, state)
            value = self.critic.value_with(remembered.features, observation)
            return *self.policy(remembered), value, state
        if not self._critic_has_memory:
            *outputs, state = self.policy(*inputs, state)
            return *outputs, self.critic(*inputs), state
        policy_state, critic_state = _split(state)
        *outputs, policy_state = self.policy(*inputs, policy_state)
        value, critic_state = self.critic(*inputs, critic_state)
        return *outputs, value, ActorCriticState(policy_state, critic_state)

    def numpy_forward(self, live: bool = True) -> Callable[[Arrays], tuple[Any, ...]] | None:
        """Return ``forward`` over numpy arrays [B, ...], or ``None``; see `VectorModel`."""
        both = [getattr(x, "numpy_forward", None) for x in (self.policy, self.critic)]
        policy, critic = (None if make is None else make(live) for make in both)
        if policy is None or critic is None:
            return None
        return lambda observation: (*policy(observation), *critic(observation))


def _split(state: Any) -> tuple[Any, Any]:
    """Return the states of policy and critic; ``None`` is zeros, as is a missing critic's."""
    if isinstance(state, StateAndStarts):
        return tuple(StateAndStarts(part, state.starts) for part in _split(state.state))  # type: ignore[return-value]
    if getattr(state, "_fields", None) == ActorCriticState._fields:
        return tuple(state)  # type: ignore[return-value]
    return state, None


class ValueMlpModel(VectorModel):
    """A state value: an MLP. Returns value [*lead].

    Args:
        observation_shape: shape of one observation; a named tuple of shapes for nested spaces.
        hidden_sizes: sizes of the MLP's hidden layers.
        nonlinearity: class or name of the nonlinearity.
        memory_size: H, number of further inputs of ``value_with``.
        **kwargs: ``normalize_observation``, its limits and ``encoder`` of `VectorModel`.
    """

    def __init__(
        self,
        observation_shape: Shape,
        hidden_sizes: int | Sequence[int] = (64, 64),
        nonlinearity: Nonlinearity = nn.Tanh,
        memory_size: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_shape, **kwargs)
        n_in = self.observation_size + memory_size
        self.value = MlpModel(n_in, hidden_sizes, 1, nonlinearity, orthogonal_gain=VALUE_GAIN)

    def heads(self, features: Tensor) -> Tensor:
        """Return the value."""
        return self.value(features).squeeze(-1).float()  # type: ignore[no-any-return]

    def value_with(self, memory: Tensor, observation: Tensors) -> Tensor:
        """Return the value of observations [*lead, ...] with a memory's outputs [*lead, H]."""
        return self.heads(torch.cat([self.read(observation), memory], -1))


class ValueLstmModel(LstmVectorModel):
    """A state value with memory: an MLP, an LSTM and a linear head.

    Returns value [*lead] and the recurrent state.

    Args:
        *args, **kwargs: arguments of `LstmVectorModel`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.value = MlpModel(self.memory_size, [], 1, orthogonal_gain=VALUE_GAIN)

    def heads(self, features: Tensor) -> Tensor:
        """Return the value."""
        return self.value(features).squeeze(-1).float()  # type: ignore[no-any-return]
