"""The agent of recurrent DQN: action values from a model with memory."""

from typing import Any

import torch

from rlpyt.agents.base import (
    AgentStep,
    AlternatingRecurrentAgentMixin,
    RecurrentAgentMixin,
)
from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.utils.buffer import buffer_func, buffer_method, buffer_to
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["q", "prev_rnn_state"])


class R2d1AgentBase(DqnAgent):
    """Epsilon-greedy on the values of a recurrent model; to be combined with a memory mixin.

    The record has ``q`` and ``prev_rnn_state``, the state before the step, leaves [B, N, H].
    """

    recurrent = True
    prev_rnn_state: Any

    def __call__(  # type: ignore[override]
        self, observation: Any, prev_action: Any, prev_reward: Any, init_rnn_state: Any
    ) -> tuple[Any, Any]:
        """Action values for training data [T, B], with gradient.

        Args:
            observation: tree of [T, B, ...].
            prev_action: [T, B] integers; null where an episode starts.
            prev_reward: [T, B].
            init_rnn_state: before the first row, leaves [N, B, H]; ``None``: zeros.

        Returns:
            Q [T, B, A], and the recurrent state after the last row.
        """
        inputs = self._inputs(observation, prev_action, prev_reward)
        q, rnn_state = self.model(*inputs, buffer_to(init_rnn_state, self.device))
        return q, rnn_state

    @torch.no_grad()
    def target(  # type: ignore[override]
        self, observation: Any, prev_action: Any, prev_reward: Any, init_rnn_state: Any
    ) -> tuple[Any, Any]:
        """As ``__call__``, from the target network."""
        inputs = self._inputs(observation, prev_action, prev_reward)
        q, rnn_state = self.target_model(*inputs, buffer_to(init_rnn_state, self.device))
        return q, rnn_state

    @torch.no_grad()
    def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Choose actions [B], record values and the state before, and keep the state after."""
        inputs = self._inputs(observation, prev_action, prev_reward)
        # One restored from a checkpoint may be elsewhere.
        before = buffer_to(self.prev_rnn_state, self.device)
        q, rnn_state = self.model(*inputs, before)
        action = self._choose(q, prev_reward)
        if before is None:
            before = buffer_func(rnn_state, torch.zeros_like)
        self.advance_rnn_state(rnn_state)
        if q.dim() > 1:  # [N, B, H] -> [B, N, H], to be recorded row by row
            before = buffer_method(before, "transpose", 0, 1)
        agent_info = AgentInfo(q, before)
        if self.device.type != "cpu":
            action, agent_info = buffer_to((action, agent_info), "cpu")
        return AgentStep(action, agent_info)

    def advance_rnn_state(self, new_rnn_state: Any) -> None:
        """Keep the model's new state; the memory mixin does it."""
        raise NotImplementedError(f"combine {type(self).__name__} with RecurrentAgentMixin.")


class R2d1Agent(RecurrentAgentMixin, R2d1AgentBase):
    """Recurrent DQN."""


class R2d1AlternatingAgent(AlternatingRecurrentAgentMixin, R2d1AgentBase):
    """Recurrent DQN, in alternating samplers."""
