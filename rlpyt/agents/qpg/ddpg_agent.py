"""DDPG's agent: a deterministic policy with noise, and its critic."""

from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.base import ModelFactory, Sample
from rlpyt.agents.qpg.base import QpgAgent, check_std
from rlpyt.distributions.gaussian import DistInfo, Gaussian
from rlpyt.models.qpg.mlp import MuMlpModel, QofMuMlpModel
from rlpyt.utils.buffer import Arrays, Tensors
from rlpyt.utils.checks import check_range
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["mu"])  # [*lead, A] float32, in units of [-1, 1]
AgentInfoRnn = namedarraytuple("AgentInfoRnn", ["mu", "prev_rnn_state"])


class DdpgAgent(QpgAgent):
    """Acts by a deterministic policy, with Gaussian noise while sampling.

    Args:
        ModelCls, QModelCls, model_kwargs, q_model_kwargs, initial_model_state_dict, **kwargs: see
            `QpgAgent`.
        initial_q_model_state_dict: initial parameters of the critic.
        action_std: standard deviation of the noise, in units where the action space is [-1, 1].
        action_noise_clip: maximum absolute noise; ``None``: no limit.
    """

    provides = "a deterministic policy and its critic"
    AgentInfo, AgentInfoRnn = AgentInfo, AgentInfoRnn
    ModelCls, QModelCls = MuMlpModel, QofMuMlpModel
    has_target_policy = True
    hidden_sizes = (400, 300)  # Lillicrap et al. 2016

    def __init__(
        self,
        ModelCls: ModelFactory | None = None,
        QModelCls: ModelFactory | None = None,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: dict[str, Any] | None = None,
        initial_q_model_state_dict: dict[str, Any] | None = None,
        action_std: float = 0.1,
        action_noise_clip: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            ModelCls, QModelCls, model_kwargs, q_model_kwargs, initial_model_state_dict, **kwargs
        )
        self.initial_q_model_state_dict = initial_q_model_state_dict
        self.action_std = check_std("action_std", action_std)
        self.action_noise_clip = action_noise_clip
        if action_noise_clip is not None:
            check_range("action_noise_clip", action_noise_clip, 0, open_low=True)

    def make_distribution(self, size: int) -> Gaussian:
        """Return a Gaussian around the policy's action, with samples clipped to the bounds."""
        return Gaussian(size, std=self.action_std, noise_clip=self.action_noise_clip, clip=1)

    def make_dist_info(self, *outputs: Any) -> Any:
        """Return the policy's action as the mean."""
        return DistInfo(*outputs)

    def choose(self, outputs: tuple[Arrays, ...], sample: Sample) -> tuple[Any, Any]:
        """Choose actions [B, A] in the space's units; record the policy's actions without noise."""
        action, (dist_info,) = super().choose(outputs, sample)
        return action, tuple(dist_info)

    def _load_initial_critics(self) -> None:
        if self.initial_q_model_state_dict is not None:
            self.q_model.load_state_dict(self.initial_q_model_state_dict)

    def q_at_mu(self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor) -> Any:
        """Return the values of the policy's actions, with gradient through them.

        Args:
            observation, prev_action, prev_reward: arguments of ``q``.

        Returns:
            Values [..]; with several critics, those of the first.
        """
        given = (observation, prev_action, prev_reward)
        q_inputs = self._inputs_of("q_model", *given)
        inputs = self._inputs_of("model", *given)
        return self.critic(0)(*q_inputs, self.model(*inputs))

    @torch.no_grad()
    def target_q_at_mu(
        self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor
    ) -> Any:
        """Return the target critic's values of the target policy's actions, as from ``q``."""
        given = (observation, prev_action, prev_reward)
        q_inputs = self._inputs_of("target_q_model", *given)
        inputs = self._inputs_of("target_model", *given)
        return self.target_q_model(*q_inputs, self._target_action(*inputs))

    def _target_action(self, *inputs: Any) -> Any:
        return self.target_model(*inputs)

    def mu_parameters(self) -> Any:
        """Return the parameters of the policy."""
        return self.model.parameters()
