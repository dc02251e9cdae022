"""The agent of soft actor-critic in its first form, with a network for the values of states."""

from collections.abc import Iterator
from typing import Any

import torch

from rlpyt.agents.qpg.sac_agent import (  # noqa: F401
    MAX_LOG_STD,
    MIN_LOG_STD,
    AgentInfo,
    Models,
)
from rlpyt.agents.qpg.sac_agent import SacAgent as SacAgentWithoutV
from rlpyt.models.qpg.mlp import PiMlpModel, QofMuMlpModel, VMlpModel
from rlpyt.models.utils import update_state_dict


class SacAgent(SacAgentWithoutV):
    """As that of `rlpyt.agents.qpg.sac_agent`; targets come from a value network, not of critics.

    Args:
        VModelCls: of the value network.
        v_model_kwargs: its arguments.
        ModelCls, QModelCls, model_kwargs, q_model_kwargs, **kwargs: of the other.
    """

    gives = "a squashed Gaussian policy, critics and values of states"
    has_v = True

    def __init__(
        self,
        ModelCls: Any = PiMlpModel,
        QModelCls: Any = QofMuMlpModel,
        VModelCls: Any = VMlpModel,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(ModelCls, QModelCls, *args, **kwargs)
        self.VModelCls = VModelCls
        self.v_model: Any = None
        self.target_v_model: Any = None

    def _build_critics(self) -> torch.nn.Module:
        self.v_model = self._build(self.VModelCls, self.v_model_kwargs, "v_model_kwargs")
        return super()._build_critics()

    def _build_targets(self) -> None:
        self.target_v_model = self._target_of(self.v_model)
        self._share_statistics()

    def _networks(self) -> dict[str, Any]:
        named = {"v_model": self.v_model, "target_v_model": self.target_v_model}
        more = {name: network for name, network in named.items() if network is not None}
        return {**super()._networks(), **more}

    def data_parallel(self) -> None:
        """Average gradients over processes, of policy, critics and value network."""
        super().data_parallel()
        self.v_model = self._wrapped(self.v_model)

    def update_target(self, tau: float = 1) -> None:
        """Move the target's parameters towards those of the value network."""
        update_state_dict(self.target_v_model, self.v_model.state_dict(), tau)

    def v(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Values of states [..], with gradient."""
        return self.v_model(*self._inputs(observation, prev_action, prev_reward))

    @torch.no_grad()
    def target_v(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """As ``v``, from the target network."""
        return self.target_v_model(*self._inputs(observation, prev_action, prev_reward))

    def v_parameters(self) -> Iterator[torch.nn.Parameter]:
        """What the value network's optimizer trains."""
        return iter(self.v_model.parameters())

    @property
    def models(self) -> Models:
        """The networks; see the other agent."""
        return super().models._replace(v=self.v_model)
