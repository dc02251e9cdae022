"""Soft actor-critic's agent: a squashed Gaussian policy and several critics."""

import math
from collections import namedtuple
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from rlpyt.agents.base import ModelFactory, Sample
from rlpyt.agents.building import as_arguments
from rlpyt.agents.qpg.base import QpgAgent, wide_std
from rlpyt.agents.qpg.parts import PolicyParts
from rlpyt.distributions.base import namespace
from rlpyt.distributions.categorical import DistInfo
from rlpyt.distributions.gaussian import DistInfoStd, Gaussian
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.ensemble import Ensemble
from rlpyt.models.masking import mask_parts, masks_actions
from rlpyt.models.observation import is_composite, marked_shape
from rlpyt.models.qpg.mlp import JointPiMlpModel, PiMlpModel, QofMuMlpModel
from rlpyt.models.utils import unwrap_ddp
from rlpyt.spaces.action_mask import choices_of
from rlpyt.spaces.base import Space
from rlpyt.utils.buffer import Arrays, Tensors
from rlpyt.utils.checks import check_range, warn_without, whole_number
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.old_names import AssignableProperty

AgentInfo = namedarraytuple("AgentInfo", ["dist_info"])  # before squashing, in units of [-1, 1]
AgentInfoRnn = namedarraytuple("AgentInfoRnn", ["dist_info", "prev_rnn_state"])
Models = namedtuple("Models", ["pi", "q1", "q2", "v"])

MIN_LOG_STD = -20
MAX_LOG_STD = 2


class SacAgent(QpgAgent):
    """Acts with samples of a Gaussian, squashed into the action space's bounds.

    In other spaces than a Box, each discrete part of an action has a categorical distribution, and
    each Box a squashed Gaussian; see `PolicyParts`. The model of the policy then is
    `JointPiMlpModel`, or takes ``action_parts`` in place of ``action_size``. Critics take the
    further argument ``n_choices`` and return a value for each of them.

    Args:
        ModelCls, QModelCls, model_kwargs, q_model_kwargs, initial_model_state_dict, **kwargs: see
            `QpgAgent`.
        v_model_kwargs: arguments of the value network, only for `sac_v_agent.SacAgent`.
        action_squash: maximum absolute action, in units where the action space is [-1, 1].
        pretrain_std: standard deviation of samples before squashing, until learning starts: 0.75
            makes actions nearly uniform, "uniform" exactly so; ``None``: the policy's own. Until
            then, discrete choices are uniform unless it is ``None``.
        n_critics: E, number of critics.
        target_critics: have target networks of the critics; False: for CrossQ, see
            `SAC.joint_critics`.
    """

    provides = "a squashed Gaussian policy and critics"
    AgentInfo, AgentInfoRnn = AgentInfo, AgentInfoRnn
    ModelCls, QModelCls = PiMlpModel, QofMuMlpModel
    has_v = False
    _gaussians: Any = None  # distributions of the Box parts; None: of a subclass's own
    _std: Any = None  # standard deviation of the noise as it was set
    _record: Any = DistInfoStd

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
        target_critics: bool = True,
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
        self.action_squash, self.has_target_critics = action_squash, target_critics
        self.pretrain_std = pretrain_std
        wide_std(pretrain_std)  # raises ValueError

    def make_distribution(self, size: int) -> Gaussian:
        """Return a Gaussian whose samples are squashed."""
        return Gaussian(
            size,
            squash=self.action_squash,
            min_std=math.exp(MIN_LOG_STD),
            max_std=math.exp(MAX_LOG_STD),
        )

    def make_dist_info(self, *outputs: Any) -> Any:
        """Return mean and log standard deviation before squashing, or the record of all parts."""
        return self._record(*outputs)

    # Actions other than a single Box.

    def _set_action_space(self, action_space: Space) -> None:
        composite = is_composite(action_space.shape)
        if self.has_v or (not composite and choices_of(action_space) is None):
            super()._set_action_space(action_space)
            self._gaussians = [self.distribution]
            return
        self.scale = self.parts = PolicyParts(action_space, self.make_distribution)
        self.distribution, self._gaussians = self.parts.distribution, self.parts.gaussians
        self._record = self.parts.dist_info
        if not self._gaussians:
            warn_without("actions in a Box", pretrain_std=(self.pretrain_std, 0.75))
        self._q_values = self._part_values  # type: ignore[method-assign]
        for name in ("n_quantiles", "n_atoms"):
            if (given := getattr(self, name)) is not None:
                raise ValueError(
                    f"{name} must be None for {action_space}, got {given}: distributions of "
                    "returns are for actions that are a single Box. Remove it from q_model_kwargs."
                )

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Return ``observation_shape``, and ``action_size`` or ``action_parts``."""
        if self.parts is None:
            return super().make_env_to_model_kwargs(env_spaces)
        shape = marked_shape(env_spaces.observation)
        return dict(observation_shape=shape, action_parts=self.parts.sizes)

    def make_env_to_critic_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Return ``observation_shape``, ``action_size`` and, with choices, ``n_choices``."""
        kwargs = super().make_env_to_critic_kwargs(env_spaces)
        if self.parts is None:
            return kwargs
        kwargs = dict(
            observation_shape=kwargs["observation_shape"], action_size=self.parts.input_size
        )
        C = self.parts.n_combinations
        return kwargs if C is None else {**kwargs, "n_choices": C}

    def _build_model(self) -> Any:
        default = self.parts is not None and self.ModelCls is PiMlpModel
        ModelCls = JointPiMlpModel if default else self.ModelCls
        return self._build(ModelCls, self.model_kwargs, "model_kwargs")

    def _mask_outputs(self, outputs: Any, mask: Tensor) -> Any:
        return mask_parts(outputs, mask, self.parts.sizes)

    def _set_std(self, std: Any) -> None:
        for gaussian in [self.distribution] if self._gaussians is None else self._gaussians:
            gaussian.set_std(std)
        self._std = std

    def _takes_mode(self) -> bool:
        return self.parts is not None and self._std == 0

    def choose(self, outputs: tuple[Arrays, ...], sample: Sample) -> tuple[Any, Any]:
        """Choose actions [B, ...] in the space's units; record their distribution."""
        dist_info = self.make_dist_info(*outputs)
        action = sample(uniform_choices(dist_info) if self._std else dist_info)
        return self.scale.to_space(action), (dist_info,)

    def _part_values(self, network: Any, inputs: tuple[Tensors, ...], action: Any) -> Any:
        return self.parts.q_values(network, inputs, action, self.device)

    # Training.

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
            before squashing. In other spaces than a Box: a ``Draw`` for ``q`` and ``target_q``,
            which then return the values of all enumerated choices, [E, .., C]; log-likelihoods
            [.., P] of P parts, for discrete parts their expectation; ``dist_info`` of all parts.
        """
        inputs = self._inputs_of("model", observation, prev_action, prev_reward)
        if self.parts is not None:
            dist_info = self.make_dist_info(*self._masked_outputs(inputs))
            return (*self.parts.draw(dist_info, reparameterize), dist_info)
        dist_info = self.make_dist_info(*self.model(*inputs))
        action, log_pi = self.distribution.sample_loglikelihood(dist_info, reparameterize)
        return self.scale.to_space(action), log_pi, dist_info

    def _masked_outputs(self, inputs: tuple[Any, ...]) -> Any:
        if not self.recurrent:
            return self._run(self.model, inputs)[0]
        outputs, mask = self.model(*inputs), inputs[0].mask  # after the memory, ``HeadInputs``
        if mask is None or masks_actions(self.model):
            return outputs
        return self._mask_outputs(outputs, mask)

    @torch.no_grad()
    def target_q(
        self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor, action: Any
    ) -> Any:
        """Return the values of the target critics, in the form of ``q``: [E, ..]."""
        inputs = self._inputs_of("target_q_model", observation, prev_action, prev_reward)
        return self._q_values(self.target_q_model, inputs, action)

    @property
    def models(self) -> Models:
        """Return policy and first two critics, in units where the action space is [-1, 1]."""
        return Models(pi=self.model, q1=self.critic(0), q2=self.critic(1), v=None)

    def pi_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters of the policy."""
        return iter(self.model.parameters())

    def q1_parameters(self) -> Iterator[torch.Tensor]:
        """Return the parameters of the first critic; see `_member_parameters`."""
        return self._member_parameters(0)

    def q2_parameters(self) -> Iterator[torch.Tensor]:
        """Return the parameters of the second critic; see `_member_parameters`."""
        return self._member_parameters(1)

    # Networks of rlpyt's agent, which subclasses read or replace.
    q1_model = AssignableProperty(lambda agent: agent._critic_model("q_model", 0))
    q2_model = AssignableProperty(lambda agent: agent._critic_model("q_model", 1))
    target_q1_model = AssignableProperty(lambda agent: agent._critic_model("target_q_model", 0))
    target_q2_model = AssignableProperty(lambda agent: agent._critic_model("target_q_model", 1))

    def _critic_model(self, name: str, i: int) -> Any:
        """Return one of several critics; they are separate from then on, as for its parameters.

        With one optimizer for all, it is a function of the network's inputs.

        Raises:
            AttributeError: the agent has not been initialized, or has no targets.
        """
        if getattr(self, name) is None:
            raise AttributeError(f"{type(self).__name__} has no {name}.")
        if self.n_joined is not None and not self.has_joint_optimizer:
            self._separate_critics()
        network = unwrap_ddp(getattr(self, name))
        return network.members[i] if isinstance(network, Ensemble) else partial(network, member=i)

    def _member_parameters(self, i: int) -> Iterator[torch.Tensor]:
        """Return the parameters of a critic, or views of them if one optimizer trains all critics.

        An algorithm with an optimizer for each critic, as rlpyt's of 2019, asks for them before any
        update: critics are separate from then on, and ``q`` and ``target_q`` return tuples.
        """
        if not self.has_joint_optimizer:
            self._separate_critics()
            for network in (self.q_model, self.target_q_model):
                if network is not None:
                    network.join = tuple
        critics = unwrap_ddp(self.q_model)
        if isinstance(critics, Ensemble):
            return iter(critics.members[i].parameters())
        return (parameter[i] for parameter in critics.parameters())


def uniform_choices(dist_info: Any) -> Any:
    """Return parameters of a policy in which all valid choices are equally likely.

    Choices are valid if their probability is not zero; probabilities need not sum to one.
    """
    if isinstance(dist_info, DistInfo):
        return DistInfo(namespace(dist_info.prob).where(dist_info.prob > 0, 1.0, 0.0))
    if isinstance(dist_info, DistInfoStd):
        return dist_info
    return type(dist_info)(*map(uniform_choices, tuple(dist_info)))
