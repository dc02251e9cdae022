"""The agent of evolution strategies: every environment has a policy of its own to try out."""

from typing import Any

import numpy as np
import torch

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.spaces import ActionScale
from rlpyt.es.model import EsPolicyModel, Population, RowPolicies
from rlpyt.models.observation import marked_shape
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", [])  # nothing but the action matters


class EsAgent(BaseAgent):
    """Acts without randomness, in each environment by the parameters of one candidate.

    While sampling, environment b acts by row b of ``population.rows``, which the algorithm fills;
    in evaluation all act by the strategy's favourite. Both lie in memory shared with workers.
    Actions are the best-scored one, or of a box the model's outputs, in units where a bounded
    component is [-1, 1] (beyond, collectors clip).

    Args:
        ModelCls: of the policy, a function of the observation alone: called as
            ``ModelCls(observation_shape=..., output_size=..., **model_kwargs)``.
        model_kwargs: its further arguments.
        initial_model_state_dict: parameters to begin the search at.

    Attributes:
        population: parameters of all candidates in progress.
        settings: "seeds" [B] int64, which the algorithm fills as well: what the next episode of
            environment b is seeded with, -1 for its own stream.
    """

    family = "rlpyt.es"
    acts_by_row = True  # one product per environment

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
        """Return ``observation_shape``, and ``output_size``: actions, or components of one."""
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
        """Build the policy, and room for one in each environment.

        Raises:
            TypeError: actions are neither one discrete choice nor a box of one dimension.
        """
        n = getattr(env_spaces.action, "n", None)
        self.scale = None if n is not None else ActionScale(env_spaces.action)
        self._n_outputs = int(n) if self.scale is None else self.scale.size  # type: ignore[arg-type]
        self._n_rows = global_B
        self._env_ranks = self._row_policies = None
        self.settings = {"seeds": np.full(global_B, -1, np.int64)}
        super().initialize(env_spaces, share_memory, global_B=global_B, env_ranks=env_ranks)

    def _build_model(self) -> torch.nn.Module:
        return Population(super()._build_model(), self._n_rows)

    def _parts(self) -> list[Any]:
        return [self.population.policy]

    def _load_initial_state(self, state_dict: dict[str, Any]) -> None:
        self.model.policy.load_state_dict(state_dict)
        self.model.rows[:] = self.model.favourite()

    @property
    def population(self) -> Any:
        """The model, a `Population`: a policy, and the rows' parameters."""
        return self.model

    def to_device(self, cuda_idx: int | None = None) -> None:
        """Stay on the CPU.

        Raises:
            ValueError: another device was asked for.
        """
        if cuda_idx is not None:
            raise ValueError(
                f"cuda_idx={cuda_idx}: evolution strategies try small policies out where their "
                "environments are, on the CPU; leave the device out."
            )

    def collector_initialize(self, global_B: int = 1, env_ranks: Any = None) -> None:
        """Remember which rows this process acts for."""
        self._env_ranks = list(range(global_B)) if env_ranks is None else list(env_ranks)

    def sample_mode(self, itr: int) -> None:
        """Act for the candidates that there are now."""
        super().sample_mode(itr)
        if self._env_ranks is not None:
            self._row_policies = self.population.row_policies(self._env_ranks)

    @torch.no_grad()
    def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Actions [R, ...]: of R candidates while sampling, of the favourite otherwise."""
        if self._mode == "sample" and self._row_policies is not None:
            output = self._row_policies(buffer_func(observation, torch.Tensor.numpy))
        else:
            output = self.population.policy(observation).numpy()
        action = output.argmax(-1) if self.scale is None else self.scale.to_space(output)
        return AgentStep(torch.from_numpy(action), AgentInfo())

    def update_obs_rms(self, observation: Any) -> None:
        """Let the policy's observation statistics take in a batch, if it keeps any."""
        if hasattr(self.population.policy, "update_obs_rms"):
            self.population.policy.update_obs_rms(observation)

    def state_dict(self) -> dict[str, Any]:
        """The favourite's parameters and statistics; candidates are the algorithm's to keep."""
        return dict(self.population.policy.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` gave."""
        self.population.policy.load_state_dict(state_dict)
