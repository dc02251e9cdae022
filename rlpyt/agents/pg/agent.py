"""One policy-gradient agent for any action distribution, with or without recurrent memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.agents.base import BaseAgent, FastPolicy, ModelFactory, Sample
from rlpyt.agents.building import as_arguments, build_model, named_arguments
from rlpyt.agents.pg.base import AgentInfo, AgentInfoRnn
from rlpyt.agents.spaces import action_parts
from rlpyt.distributions.categorical import Categorical
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.masking import mask_probabilities
from rlpyt.models.observation import seen_parts
from rlpyt.models.pg.actor_critic import ActorCritic, ValueLstmModel, ValueMlpModel
from rlpyt.models.pg.joint import output_sizes
from rlpyt.models.utils import unwrap_ddp
from rlpyt.spaces.base import Space
from rlpyt.utils.buffer import Arrays, Tensors
from rlpyt.utils.names import UnknownName

CRITIC_MEMORIES = ("shared", "own", "none")


class PgAgent(BaseAgent):
    """Actor-critic agent. Its model returns the distribution's parameters, then the value.

    Subclasses define the distribution of an action space (``make_distribution``), the record of its
    parameters (``DistInfo``) and the form in which the model reads the previous action
    (``action_input``). A recurrent model takes ``init_rnn_state`` last and returns its next state
    last.

    If observations have a mask of valid actions, models whose attribute ``masks_actions`` is True
    apply it (those of rlpyt); otherwise a categorical agent sets the probabilities of invalid
    actions to zero and rescales the others.

    Policy and critic may read different parts of an observation (Pinto et al. 2018). They are then
    two networks, an `ActorCritic`, and only the policy is evaluated in evaluation, ``greedy`` and
    exported policies; ``agent_info.value`` is 0 there. The policy's model must take the argument
    ``with_value``.

    Args:
        *args, **kwargs: arguments of `BaseAgent`.
        critic_observation: names of the parts of an observation that the critic reads; ``None``:
            all. See ``policy_observation``.
        critic_memory: of recurrent agents: "shared", the critic reads the output of the policy's
            memory; "own", it has another memory of the same kind; "none", it has no memory.
        VModelCls: class of the critic's network; ``None``: `ValueMlpModel`, or `ValueLstmModel`
            with its own memory.
        v_model_kwargs: further arguments of the critic's network; by default it has the settings in
            ``model_kwargs`` that it knows, such as ``hidden_sizes``.
    """

    AgentInfo, AgentInfoRnn = AgentInfo, AgentInfoRnn
    DistInfo: Any = None

    def __init__(
        self,
        *args: Any,
        critic_observation: Sequence[str] | None = None,
        critic_memory: str = "shared",
        VModelCls: ModelFactory | None = None,
        v_model_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.critic_observation = critic_observation
        if critic_memory not in CRITIC_MEMORIES:
            raise UnknownName("critic_memory", critic_memory, CRITIC_MEMORIES)
        if critic_memory != "shared" and not self.recurrent:
            raise ValueError(
                f"critic_memory={critic_memory!r} is for recurrent agents, got "
                f"{type(self).__name__}. Leave it out, or choose a memory."
            )
        self.critic_memory = critic_memory
        self.VModelCls = VModelCls
        self.v_model_kwargs = as_arguments(v_model_kwargs, "v_model_kwargs")
        self._own_critic = False  # True if the model is an ActorCritic

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

    def _build_model(self) -> torch.nn.Module:
        self._own_critic = (
            self._reads_differently()
            or self.critic_memory != "shared"
            or self.VModelCls is not None
            or bool(self.v_model_kwargs)
        )
        if not self._own_critic:
            return super()._build_model()
        if "with_value" not in named_arguments(self.ModelCls):
            raise TypeError(
                f"{self.ModelCls.__name__} must take the argument with_value to be used with a "
                "critic of its own (critic_observation, critic_memory, VModelCls): with "
                "with_value=False it returns no value. Add it, or use a model of rlpyt for "
                "vectors and Dict observations."
            )
        kwargs = {**self.env_model_kwargs, **self.model_kwargs, "with_value": False}
        policy = build_model(self.ModelCls, "model_kwargs", **kwargs)
        shares_memory = self.recurrent and self.critic_memory == "shared"
        return ActorCritic(policy, self._build_critic(policy), shares_memory)

    def _reads_differently(self) -> bool:
        """Return True if policy and critic read different parts of an observation."""
        if self.policy_observation is None and self.critic_observation is None:
            return False
        groups = ("policy_observation", "critic_observation")
        policy, critic = (seen_parts(self.group_shape(name)) for name in groups)
        return policy != critic

    def _build_critic(self, policy: Any) -> torch.nn.Module:
        given: dict[str, Any] = {"observation_shape": self.group_shape("critic_observation")}
        memory = self.critic_memory if self.recurrent else "none"
        if memory == "own":
            given["action_size"] = sum(output_sizes(action_parts(self.env_spaces.action)))
        elif memory == "shared":
            given["memory_size"] = policy.memory_size
        VModelCls = self.VModelCls or (ValueLstmModel if memory == "own" else ValueMlpModel)
        known = named_arguments(VModelCls)
        common = {key: value for key, value in self.model_kwargs.items() if key in known}
        kwargs = {**common, **given, **self.v_model_kwargs}
        return build_model(VModelCls, "v_model_kwargs", **kwargs)  # type: ignore[no-any-return]

    def _observation_models(self) -> list[Any]:
        model = unwrap_ddp(self.model)
        return [model.policy, model.critic] if self._own_critic else [model]

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
        if self._without_value:
            zeros: Any = np.zeros if isinstance(outputs[0], np.ndarray) else outputs[0].new_zeros
            outputs = (*outputs, zeros(outputs[0].shape[:-1]))
        *parameters, value = outputs
        dist_info = self.make_dist_info(*parameters)
        return sample(dist_info), (dist_info, value)

    @property
    def _without_value(self) -> bool:
        """Return True if only the policy is evaluated."""
        return self._own_critic and self._mode == "eval"

    def _acting_model(self) -> Any:
        return unwrap_ddp(self.model).policy if self._without_value else self.model

    @torch.no_grad()
    def value(
        self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor
    ) -> torch.Tensor:
        """Return V of these observations [B], without advancing the recurrent state."""
        inputs = self._inputs(observation, prev_action, prev_reward)
        (*_, value), _ = self._run(self.model, inputs, self.prev_rnn_state)
        return torch.as_tensor(value.to(self.acting_device))

    def fast_policy(self) -> FastPolicy | None:
        """Return a numpy function that acts as ``step`` does; ``None`` if there is none."""
        # A user's make_dist_info may support only tensors.
        if not getattr(type(self).make_dist_info, "takes_numpy", False):
            return None
        return super().fast_policy()

    def _mask_outputs(self, outputs: Any, mask: torch.Tensor) -> Any:
        if not isinstance(self.distribution, Categorical):
            return outputs
        pi, *others = outputs
        assert self.mask_sizes is not None
        return mask_probabilities(pi, mask, self.mask_sizes), *others
