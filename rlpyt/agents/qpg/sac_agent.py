"""Soft actor-critic's agent: a squashed Gaussian policy and several critics."""

import math
from collections import namedtuple
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from rlpyt.agents.base import ModelFactory
from rlpyt.agents.building import as_arguments
from rlpyt.agents.qpg.base import QpgAgent, wide_std
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.models.ensemble import Ensemble
from rlpyt.models.qpg.mlp import PiMlpModel, QofMuMlpModel
from rlpyt.models.utils import unwrap_ddp
from rlpyt.utils.buffer import Tensors
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["dist_info"])  # before squashing, in units of [-1, 1]
Models = namedtuple("Models", ["pi", "q1", "q2", "v"])

MIN_LOG_STD = -20
MAX_LOG_STD = 2


class SacAgent(QpgAgent):
    """Acts with samples of a Gaussian, squashed into the action space's bounds.

    Args:
        ModelCls, QModelCls, model_kwargs, q_model_kwargs, initial_model_state_dict, **kwargs: see
            `QpgAgent`.
        v_model_kwargs: arguments of the value network, only for `sac_v_agent.SacAgent`.
        action_squash: maximum absolute action, in units where the action space is [-1, 1].
        pretrain_std: standard deviation of samples before squashing, until learning starts: 0.75
            makes actions nearly uniform, "uniform" exactly so; ``None``: the policy's own.
        n_critics: E, number of critics.
    """

    provides = "a squashed Gaussian policy and critics"
    AgentInfo = AgentInfo
    ModelCls, QModelCls = PiMlpModel, QofMuMlpModel
    has_v = False

    def __init__(
        self,
        ModelCls: ModelFactory | None = None,
        QModelCls: ModelFactory | None = None,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        v_model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: dict[str, Any] | None = None,
        action_squash: float = 1.0,
        pretrain_std: float | Literal["uniform"] | None = 0.75,
        n_critics: int = 2,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            ModelCls,
            QModelCls,
            model_kwargs,
            q_model_kwargs,
            initial_model_state_dict,
            n_critics=whole_number("n_critics", n_critics, 1),
            **kwargs,
        )
        self.v_model_kwargs = as_arguments(v_model_kwargs, "v_model_kwargs")
        if v_model_kwargs is not None and not self.has_v:
            raise ValueError(
                f"v_model_kwargs={v_model_kwargs!r} must be None for an agent without a value "
                "network. Use SacAgent of rlpyt.agents.qpg.sac_v_agent, which has one."
            )
        check_range("action_squash", action_squash, 0, 1, open_low=True)
        self.action_squash = action_squash
        self.pretrain_std, self.early_std = pretrain_std, wide_std(pretrain_std)

    def make_distribution(self, size: int) -> Gaussian:
        """Return a Gaussian whose samples are squashed."""
        return Gaussian(
            size,
            squash=self.action_squash,
            min_std=math.exp(MIN_LOG_STD),
            max_std=math.exp(MAX_LOG_STD),
        )

    def make_dist_info(self, *outputs: Any) -> Any:
        """Return mean and log standard deviation before squashing."""
        return DistInfoStd(*outputs)

    def pi(
        self,
        observation: Tensors,
        prev_action: Tensors,
        prev_reward: Tensor,
        reparameterize: bool = True,
    ) -> tuple[Any, Any, Any]:
        """Draw actions, with gradient through them.

        Args:
            observation, prev_action, prev_reward: arguments of ``q``.
            reparameterize: if False, actions are constants and only the likelihood has a gradient.

        Returns:
            Action [.., A] in the space's units; its log-likelihood [..] as a density in units
            where the space is [-1, 1]; ``dist_info``, mean and log standard deviation [.., A]
            before squashing.
        """
        inputs = self._inputs(observation, prev_action, prev_reward)
        dist_info = self.make_dist_info(*self.model(*inputs))
        action, log_pi = self.distribution.sample_loglikelihood(dist_info, reparameterize)
        return self.scale.to_space(action), log_pi, dist_info

    @torch.no_grad()
    def target_q(
        self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor, action: Any
    ) -> Any:
        """Return the values of the target critics, in the form of ``q``: [E, ..]."""
        inputs = self._inputs(observation, prev_action, prev_reward)
        return self._q_values(self.target_q_model, inputs, action)

    @property
    def models(self) -> Models:
        """Return policy and first two critics, in units where the action space is [-1, 1]."""
        return Models(pi=self.model, q1=self.critic(0), q2=self.critic(1), v=None)

    def pi_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters of the policy."""
        return iter(self.model.parameters())

    def q1_parameters(self) -> Iterator[torch.Tensor]:
        """Return the parameters of the first critic; views if the critics are one model."""
        return self._member_parameters(0)

    def q2_parameters(self) -> Iterator[torch.Tensor]:
        """Return the parameters of the second critic; views if the critics are one model."""
        return self._member_parameters(1)

    def _member_parameters(self, i: int) -> Iterator[torch.Tensor]:
        critics = unwrap_ddp(self.q_model)
        if isinstance(critics, Ensemble):
            return iter(critics.members[i].parameters())
        return (parameter[i] for parameter in critics.parameters())
