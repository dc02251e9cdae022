"""One policy-gradient agent for any action distribution, with or without recurrent memory."""

from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.base import BaseAgent, FastPolicy, Sample
from rlpyt.agents.pg.base import AgentInfo, AgentInfoRnn
from rlpyt.distributions.categorical import Categorical
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.masking import mask_probabilities
from rlpyt.models.utils import unwrap_ddp
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.spaces.base import Space
from rlpyt.utils.buffer import Arrays, Tensors


class PgAgent(BaseAgent):
    """Actor-critic agent. Its model returns the distribution's parameters, then the value.

    Subclasses define the distribution of an action space (``make_distribution``), the record of its
    parameters (``DistInfo``) and the form in which the model reads the previous action
    (``action_input``). A recurrent model takes ``init_rnn_state`` last and returns its next state
    last.

    If observations have a mask of valid actions, models whose attribute ``masks_actions`` is True
    apply it (those of rlpyt); otherwise a categorical agent sets the probabilities of invalid
    actions to zero and rescales the others.
    """

    AgentInfo, AgentInfoRnn = AgentInfo, AgentInfoRnn
    DistInfo: Any = None

    def make_distribution(self, action_space: Space) -> Any:
        """Return the action distribution for this space."""
        raise NotImplementedError(f"{type(self).__name__} must implement make_distribution.")

    def make_dist_info(self, *parameters: Any) -> Any:
        """Return the record of the distribution's parameters, given the model's outputs."""
        return self.DistInfo(*parameters)

    make_dist_info.takes_numpy = True  # type: ignore[attr-defined]

    def initialize(self, env_spaces: EnvSpaces, share_memory: bool = False, **kwargs: Any) -> None:
        """Build model and distribution."""
        super().initialize(env_spaces, share_memory, **kwargs)
        self.distribution = self.make_distribution(env_spaces.action)

    def __call__(
        self,
        observation: Tensors,
        prev_action: Tensors,
        prev_reward: Tensor,
        init_rnn_state: Tensors | None = None,
    ) -> tuple[Any, ...]:
        """Return distribution and value for training data.

        Args:
            observation: tree of [T, B, ...] or [B, ...].
            prev_action: [T, B, ...]; null where an episode starts.
            prev_reward: [T, B].
            init_rnn_state: recurrent state, leaves [N, B, H], for recurrent agents.

        Returns:
            dist_info, value [T, B], and from recurrent agents the next recurrent state.
        """
        inputs = self._inputs(observation, prev_action, prev_reward)
        (*parameters, value), rnn_state = self._run(self.model, inputs, init_rnn_state)
        result = self.make_dist_info(*parameters), value
        return (*result, rnn_state) if self.recurrent else result

    def choose(self, outputs: tuple[Arrays, ...], sample: Sample) -> tuple[Any, Any]:
        """Sample actions [B, ...]; record distribution and value."""
        *parameters, value = outputs
        dist_info = self.make_dist_info(*parameters)
        return sample(dist_info), (dist_info, value)

    @torch.no_grad()
    def value(
        self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor
    ) -> torch.Tensor:
        """Return V of these observations [B], without advancing the recurrent state."""
        inputs = self._inputs(observation, prev_action, prev_reward)
        (*_, value), _ = self._run(self.model, inputs, self.prev_rnn_state)
        return torch.as_tensor(value.to("cpu"))

    def fast_policy(self) -> FastPolicy | None:
        """Return a numpy function that acts as ``step`` does; ``None`` if there is none."""
        # A user's make_dist_info may support only tensors.
        if not getattr(type(self).make_dist_info, "takes_numpy", False):
            return None
        if self.mask_sizes is not None and not masks_actions(self.model):
            return None
        return super().fast_policy()

    def _mask_outputs(self, model: torch.nn.Module, outputs: Any, observation: Tensors) -> Any:
        if masks_actions(model) or not isinstance(self.distribution, Categorical):
            return outputs
        pi, *others = outputs
        assert self.mask_sizes is not None
        return mask_probabilities(pi, action_mask_of(observation), self.mask_sizes), *others


def masks_actions(model: torch.nn.Module) -> bool:
    """Return True if a model gives invalid actions the probability zero."""
    return getattr(unwrap_ddp(model), "masks_actions", False)


class RecurrentPgAgent(PgAgent):
    """``PgAgent`` with recurrent memory."""

    recurrent = True
