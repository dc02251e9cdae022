"""Base of the agents of continuous control: a policy, critics, and target networks of both."""

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.agents.base import BaseAgent, ModelFactory, Sample
from rlpyt.agents.building import (
    as_arguments,
    build_model,
    named_arguments,
    with_default_sizes,
)
from rlpyt.agents.spaces import ActionScale
from rlpyt.distributions.gaussian import Gaussian
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.ensemble import Ensemble, join_members, split_members
from rlpyt.models.image_encoder import is_custom
from rlpyt.models.normalization import batch_norms
from rlpyt.models.observation import images_of, marked_shape
from rlpyt.models.utils import (
    matmul_precision,
    strip_ddp_state_dict,
    unwrap_ddp,
    update_state_dict,
)
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.spaces.base import Space
from rlpyt.utils.buffer import Arrays, Tensors, buffer_func, buffer_method, buffer_to
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.completion import takes
from rlpyt.utils.seed import undisturbed

TRIAL_ROWS = 3  # number of rows of the forward pass that checks critics
MAX_HOLD_EXPONENT = 100  # of `noise_hold`, far beyond which noise is never kept
MEMORY_ARGUMENTS = ("memory", "lstm_size")


class NetworkInputs(dict[str, Any]):
    """Inputs of each network at the same steps [N], by the network's name.

    Each network has a memory of its own, so algorithms run the memories over sequences and pass
    this in place of the observations of recurrent agents. The values are tuples of arguments.
    """


class QpgAgent(BaseAgent):
    """A policy that acts, and critics for training it.

    Actions are recorded, stored and passed to ``q`` in the units of the action space, which must
    be bounded. Models work in units where the space is [-1, 1]. Evaluation is without noise, unless
    set by ``set_deterministic``.

    With ``model_kwargs=dict(memory="gru", lstm_size=128)`` the policy has a memory, which reads the
    previous action and reward, too. Each critic then has a memory of its own, of the same kind
    unless ``q_model_kwargs`` say otherwise (``memory=None``: none). The agent records the policy's
    state before each step.

    Args:
        ModelCls: class of the policy; ``None``: the class attribute.
        QModelCls: class of the critics; ``None``: the class attribute. If its constructor takes
            ``n_critics`` and observations have no images, all critics are one model, evaluated
            together; otherwise each critic is a model.
        model_kwargs: further arguments of the policy's model; ``hidden_sizes`` defaults to the
            class attribute.
        q_model_kwargs: further arguments of the critics, in the same way.
        initial_model_state_dict: initial parameters of the policy, or a state from ``state_dict``.
        n_critics: number of critics; ``None``: one, whose values have no dimension for critics.
        fast_acting, policy_observation: see `BaseAgent`.
        noise_hold: mu >= 0: while sampling, an action's noise is kept for n steps of the episode,
            with P(n) proportional to n**-mu for n = 1 to 16; ``None``: new noise at each step.
        critic_observation: names of the parts of an observation that critics and state values read;
            ``None``: all. If policy and critics read different parts, each has its own statistics
            of observations.

    Attributes:
        model: the policy.
        q_model: the critics.
        n_quantiles, n_atoms: number of quantiles or atoms that each critic returns; ``None``:
            values.
        target_q_model, target_model: target networks of critics and policy, equal to them at first;
            ``None`` if the agent has none.
        has_target_policy, has_target_critics: True if the agent builds these targets.
        action_std: standard deviation of the noise while sampling, in units of [-1, 1]; ``None``:
            the policy's own.
        pretrain_std: the same before learning starts, or "uniform"; ``None``: ``action_std``.
    """

    family = "rlpyt.agents.qpg"
    QModelCls: Any = None
    changeable = ("action_std", "pretrain_std")
    has_target_policy = False
    network_names: tuple[str, ...] = ("q_model", "target_model", "target_q_model")
    hidden_sizes: tuple[int, ...] = (256, 256)  # default of all networks
    action_std: float | None = None
    pretrain_std: float | str | None = None
    scale: Any = None  # `ActionScale` of a Box, `PolicyParts` of other spaces

    def __init__(
        self,
        ModelCls: ModelFactory | None = None,
        QModelCls: ModelFactory | None = None,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: dict[str, Any] | None = None,
        n_critics: int | None = None,
        fast_acting: bool = True,
        policy_observation: Sequence[str] | None = None,
        critic_observation: Sequence[str] | None = None,
        noise_hold: float | None = None,
    ) -> None:
        model_kwargs = as_arguments(model_kwargs, "model_kwargs")
        self.recurrent = self.recurrent or model_kwargs.get("memory") is not None
        settings = (initial_model_state_dict, fast_acting, policy_observation)
        super().__init__(ModelCls, model_kwargs, *settings)
        self.critic_observation = critic_observation
        if QModelCls is not None:
            self.QModelCls = QModelCls
        self.q_model_kwargs = as_arguments(q_model_kwargs, "q_model_kwargs")
        if "n_critics" in self.q_model_kwargs:
            raise ValueError(
                "q_model_kwargs must not hold n_critics. Pass it to the agent instead."
            )
        self.noise_hold = noise_hold
        if noise_hold is not None:
            check_range("noise_hold", noise_hold, 0, MAX_HOLD_EXPONENT)
        self.n_critics = None if n_critics is None else whole_number("n_critics", n_critics, 1)
        self.n_quantiles = self.q_model_kwargs.get("n_quantiles")
        self.n_atoms = self.q_model_kwargs.get("n_atoms")
        self.q_model: Any = None
        self.has_joint_optimizer = False  # True if one optimizer of ours trains all critics
        self.target_model: Any = None
        self.target_q_model: Any = None
        self.settings["min_itr_learn"] = np.zeros(1)

    # Hooks of subclasses.

    def make_distribution(self, size: int) -> Gaussian:
        """Return the distribution of actions with ``size`` components."""
        raise NotImplementedError(f"{type(self).__name__} must implement make_distribution.")

    def make_dist_info(self, *outputs: Any) -> Any:
        """Return the distribution's parameters, given the policy's outputs; tensors or arrays."""
        raise NotImplementedError(f"{type(self).__name__} must implement make_dist_info.")

    # Life cycle.

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Return ``observation_shape`` and ``action_size``."""
        return dict(
            observation_shape=marked_shape(env_spaces.observation),
            action_size=ActionScale(env_spaces.action, bounded=True).size,
        )

    def make_env_to_critic_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Return the critics' arguments that follow from the spaces."""
        return self.env_model_kwargs

    def _set_action_space(self, action_space: Space) -> None:
        """Set scale and distribution of actions."""
        self.scale = ActionScale(action_space, bounded=True)
        self.distribution = self.make_distribution(self.scale.size)

    def initialize(self, env_spaces: EnvSpaces, share_memory: bool = False, **kwargs: Any) -> None:
        """Build policy, critics and targets.

        Raises:
            TypeError: actions are not continuous.
            ValueError: actions are not bounded, or not a single Box with ``noise_hold``, several
                critics in one model depend on each other, a network normalizes observations that
                are not floating point, critics have a memory but the policy has none, or the agent
                is recurrent and its policy has none.
        """
        self._set_action_space(env_spaces.action)
        if self.noise_hold is not None and not isinstance(self.distribution, Gaussian):
            raise ValueError(
                f"noise_hold must be None for {env_spaces.action}, got {self.noise_hold}: noise is "
                "held only for actions that are a single Box. Leave it out."
            )
        super().initialize(env_spaces, share_memory, **kwargs)
        with_layer = getattr(self.model, "recurrent_layer", None) is not None
        if self.recurrent and not (with_layer or self._overrides("step")):
            raise ValueError(
                f"{type(self.model).__name__} must have a recurrent_layer, since "
                f"{type(self).__name__} is recurrent, got none. Pass model_kwargs="
                "dict(memory='gru'), or derive the model from VectorModel."
            )
        self.env_critic_kwargs = dict(self.make_env_to_critic_kwargs(env_spaces))
        if self._has_groups:
            self.env_critic_kwargs["observation_shape"] = self.group_shape("critic_observation")
        self.q_model = self._build_critics()
        critic = self.q_model.members[0] if isinstance(self.q_model, Ensemble) else self.q_model
        # A custom critic may not have these attributes.
        self.n_quantiles = getattr(critic, "n_quantiles", None)
        self.n_atoms = getattr(critic, "n_atoms", None)
        self._load_initial_critics()
        self._share_statistics()  # before targets are copied
        self._build_targets()
        self._inspect_models()
        self._check_critics()
        initial = self.initial_model_state_dict or {}
        if {"model"} < initial.keys():
            self.load_state_dict(initial)
        for layer in batch_norms(self.model):
            layer.eval()  # until training: the sampler's example must not enter the statistics

    @property
    def _has_groups(self) -> bool:
        """Return True if networks may read different parts of an observation."""
        return not (self.policy_observation is None and self.critic_observation is None)

    def _load_initial_critics(self) -> None:
        """Load the critics' initial parameters, if there are any."""

    def _build_critics(self) -> torch.nn.Module:
        make = partial(self._build, self.QModelCls, self.q_model_kwargs, "q_model_kwargs")
        if self.n_critics is None:
            return make()  # type: ignore[no-any-return]
        # Convolutions and custom encoders cannot be evaluated for several critics at once.
        images = images_of(self.env_critic_kwargs.get("observation_shape", ()))
        custom = is_custom(self.q_model_kwargs.get("encoder"))
        encoded = images or custom or self.q_model_kwargs.get("encoders")
        memory = self._with_memory(self.QModelCls, self.q_model_kwargs).get("memory")
        forward = getattr(self.QModelCls, "forward", None)
        selects = forward is None or takes(forward, "member")  # not if written for one critic
        joined = not encoded and memory is None and selects
        if "n_critics" in inspect.signature(self.QModelCls).parameters and joined:
            return make(n_critics=self.n_critics)  # type: ignore[no-any-return]
        return Ensemble(make, self.n_critics)

    def _separate_critics(self) -> None:
        """Make each critic, and its target, a model of its own.

        Raises:
            RuntimeError: the critics are wrapped for ``torch.distributed``.
        """
        if unwrap_ddp(self.q_model) is not self.q_model:
            raise RuntimeError(
                "With several ranks the critics are trained by one optimizer, so an algorithm that "
                "asks for the parameters of each needs one rank, or an agent with two critics."
            )
        for name, network in self._networks().items():
            if not name.endswith("q_model") or isinstance(network, Ensemble):
                continue
            make = partial(self._build, self.QModelCls, self.q_model_kwargs, "q_model_kwargs")
            members = split_members(network, self.n_critics or 1)
            with undisturbed():
                separate = Ensemble(make, len(members)).to(self.device)
            join_members(separate, members)
            setattr(self, name, separate if name == "q_model" else self._target_of(separate))
        self._share_statistics()

    def _build_model(self) -> Any:
        return self._build(self.ModelCls, self.model_kwargs, "model_kwargs")

    def _build(self, ModelCls: Any, model_kwargs: dict[str, Any], named: str, **more: Any) -> Any:
        kwargs = with_default_sizes(ModelCls, model_kwargs, self.hidden_sizes)
        kwargs = self._with_memory(ModelCls, kwargs)
        if kwargs.get("memory") is not None and not self.recurrent:
            raise ValueError(
                f"{named}: memory must be None if the policy has no memory, got "
                f"{kwargs['memory']!r}. Give the policy one: model_kwargs=dict(memory=...)."
            )
        for_policy = named == "model_kwargs"
        env_kwargs = self.env_model_kwargs if for_policy else self.env_critic_kwargs
        return build_model(ModelCls, named, **{**env_kwargs, **kwargs, **more})

    def _with_memory(self, ModelCls: Any, model_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Add the memory of the policy to the arguments of a model that takes one."""
        if not self.recurrent:
            return model_kwargs
        known = named_arguments(ModelCls)
        names = [x for x in MEMORY_ARGUMENTS if x in self.model_kwargs and x in known]
        kwargs = {**{x: self.model_kwargs[x] for x in names}, **model_kwargs}
        if kwargs.get("memory") is not None and "prev_action_size" in known:
            kwargs["prev_action_size"] = self.prev_action_size
        return kwargs

    @property
    def prev_action_size(self) -> int:
        """Return the size of ``action_input``, which memories read."""
        return self.scale.size  # type: ignore[no-any-return]

    def _build_targets(self) -> None:
        """Copy the networks that have targets."""
        if self.has_target_critics:
            self.target_q_model = self._target_of(self.q_model)
        if self.has_target_policy:
            self.target_model = self._target_of(self.model)
        self._share_statistics()

    def _target_of(self, model: torch.nn.Module) -> Any:
        target = copy.deepcopy(model).requires_grad_(False)
        target.eval()
        for layer in target.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.train()  # dropout is active in targets, too
        return target

    def _observation_models(self) -> list[Any]:
        """Return the models of all networks built so far, the policy's first."""
        networks = [unwrap_ddp(x) for x in (self.model, *self._networks().values())]
        return [m for x in networks for m in (x.members if isinstance(x, Ensemble) else (x,))]

    def _share_statistics(self) -> None:
        """Let all networks that normalize the same observations use the same statistics."""
        models = [m for m in self._observation_models() if hasattr(m, "obs_rms")]
        policies = [m for m in models if m in (unwrap_ddp(self.model), self.target_model)]
        groups = [models]
        if self._has_groups:
            groups = [policies, [m for m in models if m not in policies]]
        for group in groups:
            for model in group[1:]:
                model.obs_rms = group[0].obs_rms

    def _check_critics(self) -> None:
        """Check that the critics in one model are independent of each other.

        Models with a single critic are checked when an algorithm uses them, since a custom agent
        may change their inputs, and a custom algorithm their outputs.
        """
        E = self.n_joined
        if E is None:
            return
        for name, parameter in self.q_model.named_parameters():
            if not parameter.dim() or len(parameter) != E:
                raise ValueError(
                    f"{self.QModelCls.__name__} takes n_critics, so the first dimension of every "
                    f"parameter must be {E}, got {name} of shape {list(parameter.shape)}. Or "
                    "remove n_critics from its constructor: then each critic is a separate model."
                )
        if not type(self).__module__.startswith("rlpyt."):
            return
        N, A = TRIAL_ROWS, self.env_critic_kwargs["action_size"]
        null = self.env_spaces.observation.null_value()
        observation = buffer_func(null, lambda x: torch.from_numpy(np.stack([np.asarray(x)] * N)))
        action = torch.linspace(-0.5, 0.5, N, dtype=torch.float32)[:, None].expand(N, A)
        inputs = (
            observation,
            torch.zeros_like(action),
            torch.zeros(N, dtype=torch.float32),
            action,
        )
        critics = copy.deepcopy(self.q_model).eval()
        with torch.no_grad(), undisturbed(), matmul_precision("highest"):
            q, first = critics(*inputs), critics(*inputs, member=0)
        tensors = isinstance(q, torch.Tensor) and isinstance(first, torch.Tensor)
        if tensors and len(q) == E and not torch.allclose(first, q[0], rtol=1e-3, atol=1e-4):
            raise ValueError(
                f"the first of {E} critics returns different values alone (member=0) than with the "
                f"others, so a layer of {self.QModelCls.__name__} mixes critics or samples. Its "
                "nonlinearity must be elementwise."
            )

    def to_device(self, cuda_idx: int | None = None) -> None:
        """Move all networks to a CUDA device."""
        super().to_device(cuda_idx)
        self._share_statistics()
        for network in self._networks().values():
            network.to(self.device)

    def data_parallel(self) -> None:
        """Wrap policy and critics for ``torch.distributed``."""
        super().data_parallel()
        self.q_model = self._wrap_ddp(self.q_model)

    def target_networks(self) -> list[Any]:
        """Return the target networks that exist."""
        return [x for name, x in self._networks().items() if name.startswith("target")]

    def give_min_itr_learn(self, min_itr_learn: int) -> None:
        """Set the iteration at which learning starts; until then ``pretrain_std`` applies."""
        self.settings["min_itr_learn"][:] = min_itr_learn

    @property
    def min_itr_learn(self) -> int:
        """Return the iteration at which learning starts."""
        return int(self.settings["min_itr_learn"][0])

    @min_itr_learn.setter
    def min_itr_learn(self, value: int) -> None:
        self.give_min_itr_learn(value)

    # Networks by name.

    def _trained_networks(self) -> tuple[Any, ...]:
        if self.q_model is None:
            own = self._networks().items()
            return self.model, *(x for name, x in own if not name.startswith("target"))
        return self.model, self.q_model

    def _networks(self) -> dict[str, Any]:
        """Return all networks built so far except the policy, by their names in the state.

        They are those of a subclass's ``initialize`` if it has built its own, as in rlpyt (2019).
        """
        named = {name: getattr(self, name) for name in self.network_names}
        found = {name: network for name, network in named.items() if network is not None}
        if self.q_model is None:
            own = {k: x for k, x in vars(self).items() if isinstance(x, torch.nn.Module)}
            found |= {k: x for k, x in own.items() if k not in ("model", "shared_model")}
        return found

    def q_parameters(self) -> Any:
        """Return the parameters of the critics, with first dimension E if they are one model."""
        return self.q_model.parameters()

    @property
    def n_joined(self) -> int | None:
        """Return E if the critics are one model of E members, else ``None``."""
        return None if isinstance(unwrap_ddp(self.q_model), Ensemble) else self.n_critics

    # Values.

    def action_input(self, prev_action: Tensors) -> Any:
        """Return the previous action in the models' units."""
        return self.scale.to_unit(prev_action)

    def members(self, name: str) -> list[Any]:
        """Return the models of a network: one, or one per critic if critics are separate."""
        network = unwrap_ddp(getattr(self, name))
        return list(network.members) if isinstance(network, Ensemble) else [network]

    def head_inputs(
        self,
        model: Any,
        observation: Tensors,
        prev_action: Tensors,
        prev_reward: Tensor,
        init_rnn_state: Tensors | None,
    ) -> tuple[Any, Any]:
        """Run encoder and memory of one of the ``members`` over sequences.

        Args:
            model: the model.
            observation: tree of [T, B, ...].
            prev_action: [T, B, A], in the space's units; prev_reward: [T, B].
            init_rnn_state: state before the first step, see `run_recurrent`; ``None``: zeros.

        Returns:
            ``HeadInputs`` [T, B, ...] on the agent's device, and the state after the last step.
        """
        inputs = self._inputs(observation, prev_action, prev_reward)
        head_inputs, state = model.head_inputs(*inputs, buffer_to(init_rnn_state, self.device))
        return head_inputs, state

    def sequence_inputs(self, name: str, inputs: Any, run: Callable[[Any], Any]) -> tuple[Any, ...]:
        """Return the inputs of a network at all steps of sequences, for ``NetworkInputs``.

        Args:
            name: name of the network, "q_model".
            inputs: ``AgentInputs`` [T, B, ...].
            run: calls ``head_inputs`` of a member, given as a function of its other arguments, for
                ``inputs``, and returns ``HeadInputs`` [T, B, ...].
        """
        members = self.members(name)
        if getattr(members[0], "recurrent_layer", None) is None:
            return self._inputs(*inputs)
        parts = [run(partial(self.head_inputs, model)) for model in members]
        if not isinstance(unwrap_ddp(getattr(self, name)), Ensemble):
            return parts[0], None, None
        features = torch.stack([part.features for part in parts], -2)
        return parts[0]._replace(features=features), None, None

    def _inputs_of(
        self, name: str, observation: Any, prev_action: Tensors, prev_reward: Tensor
    ) -> tuple[Any, ...]:
        """Return the inputs of a network, given those of all or ``NetworkInputs``."""
        if not isinstance(observation, NetworkInputs):
            return self._inputs(observation, prev_action, prev_reward)
        # The memory of a frozen network gets no gradient either.
        inputs: tuple[Any, ...] = observation[name]
        trained = any(p.requires_grad for p in getattr(self, name).parameters())
        return inputs if trained else buffer_method(inputs, "detach")

    def mask_of(self, observation: Any) -> Tensor | None:
        """Return the mask of valid actions in observations or ``NetworkInputs``, or ``None``."""
        if isinstance(observation, NetworkInputs):
            return observation["model"][0].mask  # type: ignore[no-any-return]
        return action_mask_of(observation)  # type: ignore[no-any-return]

    def _q_values(self, network: torch.nn.Module, inputs: tuple[Tensors, ...], action: Any) -> Any:
        """Return a network's values of actions in the space's units."""
        if self.device.type != "cpu":
            action = buffer_to(action, self.device)
        return network(*inputs, self.scale.to_unit(action))

    def q(
        self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor, action: Any
    ) -> Any:
        """Return the values of actions, with gradient.

        Args:
            observation: tree of [B, ...] or [T, B, ...]; for recurrent agents ``NetworkInputs``,
                and prev_action and prev_reward are not used.
            prev_action: [.., A]; prev_reward: [..].
            action: [.., A], in the space's units.

        Returns:
            [..] float32 on the agent's device; [E, ..] with E critics: ``q1, q2 = agent.q(...)``.
        """
        inputs = self._inputs_of("q_model", observation, prev_action, prev_reward)
        return self._q_values(self.q_model, inputs, action)

    def critic(self, i: int) -> Any:
        """Return one of several critics, as a function of ``q_model``'s inputs."""
        critics = unwrap_ddp(self.q_model)
        return critics if self.n_critics is None else partial(critics, member=i)

    def update_target(self, tau: float = 1) -> None:
        """Move the targets' parameters towards the models'; ``tau=1`` copies them."""
        for target, model in self.targets:
            update_state_dict(target, model.state_dict(), tau)

    @property
    def targets(self) -> list[tuple[torch.nn.Module, torch.nn.Module]]:
        """Return the target networks, each with the network that it follows."""
        pairs = [(self.target_q_model, self.q_model), (self.target_model, self.model)]
        if self.q_model is None:
            own = {"model": self.model, **self._networks()}
            pairs = [(x, own.get(k.removeprefix("target_"))) for k, x in own.items()]
        return [(x, model) for x, model in pairs if not (x is None or model in (None, x))]

    # Acting.

    @property
    def takes_starts(self) -> bool:
        """Return True if all memories can reset their state at any step of a sequence."""
        layers = [getattr(m, "recurrent_layer", None) for m in self._observation_models()]
        return all(getattr(x, "takes_starts", False) for x in layers if x is not None)

    def choose(self, outputs: tuple[Arrays, ...], sample: Sample) -> tuple[Any, Any]:
        """Choose actions [B, A] in the space's units; record their distribution."""
        dist_info = self.make_dist_info(*outputs)
        return self.scale.to_space(sample(dist_info)), (dist_info,)

    def _takes_mode(self) -> bool:
        return False  # evaluation without noise sets the standard deviation to zero

    def sampling_std(self, itr: int) -> Any:
        """Return the standard deviation of the noise while sampling; ``None``: the policy's."""
        if itr >= self.min_itr_learn or self.pretrain_std is None:
            return self.action_std
        return wide_std(self.pretrain_std)

    def _set_std(self, std: Any) -> None:
        """Set the standard deviation of the noise; ``None``: the policy's own."""
        self.distribution.set_std(std)

    def sample_mode(self, itr: int) -> None:
        """Prepare for sampling, with the noise of this iteration."""
        super().sample_mode(itr)
        self._set_std(self.sampling_std(itr))

    def eval_mode(self, itr: int) -> None:
        """Prepare for evaluation, without noise."""
        super().eval_mode(itr)
        self._set_std(0.0)

    def set_deterministic(self, deterministic: bool, itr: int) -> None:
        """Evaluate without noise, or with the noise of sampling after learning has started."""
        super().set_deterministic(deterministic, itr)
        std = 0.0 if deterministic else self.sampling_std(max(itr, self.min_itr_learn))
        self._set_std(std)

    def train_mode(self, itr: int) -> None:
        """Prepare for training, with the noise of sampling after learning has started."""
        super().train_mode(itr)
        self._set_std(self.sampling_std(max(itr, self.min_itr_learn)))

    # State.

    def _states(self) -> dict[str, Any]:
        """Return the state of every network, with separate states of several critics."""
        states = {"model": self.model.state_dict()}
        for name, network in self._networks().items():
            if self.n_critics is None or not name.endswith("q_model"):
                states[name] = network.state_dict()
            else:
                members = split_members(unwrap_ddp(network), self.n_critics)
                states |= dict(zip(self._critic_names(name), members, strict=True))
        return states

    def state_dict(self) -> dict[str, Any]:
        """Return the parameters of every network, by rlpyt's names: ``model``, ``q1_model``, ..."""
        return {name: dict(strip_ddp_state_dict(s)) for name, s in self._states().items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state from ``state_dict``.

        Raises:
            ValueError: the state has other networks than this agent.
        """
        names = self._states().keys()
        if names != state_dict.keys():
            raise ValueError(
                f"the state must have the networks of this agent, {sorted(names)}, got "
                f"{sorted(state_dict)}."
            )
        unwrap_ddp(self.model).load_state_dict(state_dict["model"])
        for name, network in self._networks().items():
            if name in names:
                unwrap_ddp(network).load_state_dict(state_dict[name])
            else:
                states = [state_dict[member] for member in self._critic_names(name)]
                join_members(unwrap_ddp(network), states)

    def _critic_names(self, name: str) -> list[str]:
        """Return the state names of several critics, for "q_model" or "target_q_model"."""
        prefix = name.removesuffix("q_model")
        return [f"{prefix}q{i + 1}_model" for i in range(self.n_critics or 0)]


def wide_std(pretrain_std: float | str | None) -> float | None:
    """Convert ``pretrain_std`` to a standard deviation of `Gaussian`, infinity for "uniform".

    Raises:
        ValueError: it is another string, negative or not finite.
    """
    if isinstance(pretrain_std, str):
        if pretrain_std != "uniform":
            raise ValueError(f'pretrain_std={pretrain_std!r} must be a number or "uniform".')
        return math.inf
    return pretrain_std if pretrain_std is None else check_std("pretrain_std", pretrain_std)


def check_std(name: str, std: float) -> float:
    """Return the standard deviation; raise ValueError if it is negative or not finite."""
    check_range(name, std, 0, finite=True)
    return std
