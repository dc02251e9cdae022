"""Agent of soft actor-critic's first version, with a network for state values."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rlpyt.agents.base import ModelFactory
from rlpyt.agents.qpg.sac_agent import (  # noqa: F401
    MAX_LOG_STD,
    MIN_LOG_STD,
    AgentInfo,
    Models,
)
from rlpyt.agents.qpg.sac_agent import SacAgent as SacAgentWithoutV
from rlpyt.models.qpg.mlp import VMlpModel
from rlpyt.utils.buffer import Tensors


class SacAgent(SacAgentWithoutV):
    """`rlpyt.agents.qpg.sac_agent.SacAgent` with targets from a value network.

    Args:
        VModelCls: class of the value network; ``None``: the class attribute.
        v_model_kwargs: arguments of the value network.
        ModelCls, QModelCls, model_kwargs, q_model_kwargs, **kwargs: arguments of the other agent.
    """

    provides = "a squashed Gaussian policy, critics and values of states"
    VModelCls: Any = VMlpModel
    has_v = True
    network_names = (*SacAgentWithoutV.network_names, "v_model", "target_v_model")

    def __init__(
        self,
        ModelCls: ModelFactory | None = None,
        QModelCls: ModelFactory | None = None,
        VModelCls: ModelFactory | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(ModelCls, QModelCls, *args, **kwargs)
        if VModelCls is not None:
            self.VModelCls = VModelCls
        self.v_model: Any = None
        self.target_v_model: Any = None

    def _build_critics(self) -> torch.nn.Module:
        self.v_model = self._build(self.VModelCls, self.v_model_kwargs, "v_model_kwargs")
        return super()._build_critics()

    def _build_targets(self) -> None:
        self.target_v_model = self._target_of(self.v_model)
        self._share_statistics()

    def _trained_networks(self) -> tuple[Any, ...]:
        return *super()._trained_networks(), self.v_model

    def data_parallel(self) -> None:
        """Wrap policy, critics and value network for ``torch.distributed``."""
        super().data_parallel()
        self.v_model = self._wrap_ddp(self.v_model)

    @property
    def targets(self) -> list[tuple[Any, Any]]:
        """Return the target network, with the value network."""
        return [(self.target_v_model, self.v_model)]

    def v(self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor) -> Any:
        """Return the values of states [..], with gradient."""
        inputs = self._inputs_of("v_model", observation, prev_action, prev_reward)
        return self.v_model(*inputs)

    @torch.no_grad()
    def target_v(self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor) -> Any:
        """Return the values of the target network, in the form of ``v``."""
        inputs = self._inputs_of("target_v_model", observation, prev_action, prev_reward)
        return self.target_v_model(*inputs)

    def v_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters of the value network."""
        return iter(self.v_model.parameters())

    @property
    def models(self) -> Models:
        """Return policy, first two critics and value network."""
        return super().models._replace(v=self.v_model)
