"""Agent of evolution strategies: each environment evaluates its own candidate policy."""

import math
from typing import Any

import numpy as np
import torch

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.spaces import ActionScale, is_discrete
from rlpyt.es.model import EsPolicyModel, Population, RowPolicies
from rlpyt.models.observation import marked_shape
from rlpyt.spaces.action_mask import action_mask_of, valid_or_all
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", [])  # only the action is used


class EsAgent(BaseAgent):
    """Agent that acts deterministically, in each environment with one candidate's parameters.

    While sampling, environment b acts with row b of ``population.rows``, which the algorithm
    fills. In evaluation, all environments act with the strategy's favorite. Both are in memory
    shared with workers. Discrete actions are those with the highest score. Continuous actions are
    the model's outputs, scaled so that a bounded component is [-1, 1]; collectors clip them.

    Args:
        ModelCls: class of the policy, a function of the observation only, called as
            ``ModelCls(observation_shape=..., output_size=..., **model_kwargs)``.
        model_kwargs: further arguments of ``ModelCls``.
        initial_model_state_dict: parameters at which the search starts.

    Attributes:
        population: parameters of all candidates being evaluated.
        settings: "seeds" [B] int64, also filled by the algorithm: seed of the next episode of
            environment b, or -1 to keep the environment's own random stream.
    """

    family = "rlpyt.es"
    rows_are_independent = True  # one matrix product per environment

    def __init__(
        self,
        ModelCls: Any = EsPolicyModel,
        model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(ModelCls, model_kwargs, initial_model_state_dict)
        self._row_policies: RowPolicies | None = None
        self._env_ranks: list[int] | None = None

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """Return ``observation_shape`` and ``output_size``, the number of outputs of the policy."""
        shape = marked_shape(env_spaces.observation)
        return dict(observation_shape=shape, output_size=self._n_outputs)

    def initialize(
        self,
        env_spaces: Any,
        share_memory: bool = False,
        global_B: int = 1,
        env_ranks: Any = None,
        **kwargs: Any,
    ) -> None:
        """Build the policy, and allocate parameters for one policy per environment.

        Raises:
            TypeError: the action space is neither discrete nor a one-dimensional box.
        """
        action = env_spaces.action
        self.scale = None if is_discrete(action) else ActionScale(action)
        self._n_outputs = int(action.n) if self.scale is None else self.scale.size
        self._n_rows = global_B
        self._env_ranks = self._row_policies = None
        self.settings["seeds"] = np.full(global_B, -1, np.int64)
        super().initialize(env_spaces, share_memory, global_B=global_B, env_ranks=env_ranks)

    def _build_model(self) -> torch.nn.Module:
        return Population(super()._build_model(), self._n_rows)

    def _observation_models(self) -> list[Any]:
        return [self.population.policy]

    def _load_initial_state(self, state_dict: dict[str, Any]) -> None:
        self.model.policy.load_state_dict(state_dict)
        self.model.rows[:] = self.model.favorite()

    @property
    def population(self) -> Any:
        """The model, a `Population`: a policy and the parameters of all rows."""
        return self.model

    def to_device(self, cuda_idx: int | None = None) -> None:
        """Check that the device is the CPU, the only one supported.

        Raises:
            ValueError: ``cuda_idx`` is not ``None``.
        """
        if cuda_idx is not None:
            raise ValueError(
                f"cuda_idx must be None, got {cuda_idx}: evolution strategies evaluate small "
                "policies on the CPU. Remove the device."
            )

    def collector_initialize(self, global_B: int = 1, env_ranks: Any = None) -> None:
        """Store the environment ranks that this process acts for."""
        self._env_ranks = list(range(global_B)) if env_ranks is None else list(env_ranks)

    def sample_mode(self, itr: int) -> None:
        """Switch to sampling, with the current candidates."""
        super().sample_mode(itr)
        if self._env_ranks is not None:
            self._row_policies = self.population.row_policies(self._env_ranks)

    @torch.no_grad()
    def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Return actions [R, ...] of R candidates while sampling, of the favorite otherwise."""
        if self._mode == "sample" and self._row_policies is not None:
            outputs = self._row_policies(buffer_func(observation, torch.Tensor.numpy))
            output = torch.from_numpy(outputs)
        else:
            output = self.population.policy(observation)
        mask = action_mask_of(observation)
        if mask is not None:
            output = output.masked_fill(~valid_or_all(mask), -math.inf)
        action = output.argmax(-1) if self.scale is None else self.scale.to_space(output)
        return AgentStep(action, AgentInfo())

    def update_obs_rms(self, observation: Any) -> None:
        """Update the policy's observation statistics with a batch, if it has any."""
        if hasattr(self.population.policy, "update_obs_rms"):
            self.population.policy.update_obs_rms(observation)

    def state_dict(self) -> dict[str, Any]:
        """Return the favorite's parameters and statistics; the algorithm saves the candidates."""
        return dict(self.population.policy.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state returned by ``state_dict``."""
        self.population.policy.load_state_dict(state_dict)
