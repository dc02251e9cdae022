"""What agents of continuous control share: a policy, critics, and target networks of both."""

import copy
import inspect
import math
from functools import partial
from typing import Any

import numpy as np
import torch

from rlpyt.agents.action_scale import ActionScale
from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.building import as_arguments, build_model, with_default_sizes
from rlpyt.agents.fast import FastPolicy, has_twin, numpy_forward
from rlpyt.agents.qpg.trial import try_critics
from rlpyt.distributions.gaussian import Gaussian
from rlpyt.models.ensemble import Ensemble, join_members, split_members
from rlpyt.models.observation import check_normalized
from rlpyt.models.utils import bare, keeps_statistics, strip_ddp_state_dict, update_state_dict
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.checks import check_range, whole_number


class QpgAgent(BaseAgent):
    """A policy that acts, and critics that algorithms train it by.

    Actions are recorded, stored and passed to ``q`` in the action space's own units, which must
    have bounds. Models speak in units where the space is [-1, 1]. Evaluation is without noise,
    unless ``set_deterministic`` asks for it.

    Args:
        ModelCls: of the policy.
        QModelCls: of the critics. Where its constructor takes ``n_critics``, all are one model,
            evaluated together; else each is one.
        model_kwargs: further arguments of the policy's model. Where it takes ``hidden_sizes`` and
            none are given, they are the class's.
        q_model_kwargs: and of the critics'.
        initial_model_state_dict: the policy's parameters to begin with, or what ``state_dict``
            gave.
        n_critics: how many; ``None``: one, whose values have no dimension for critics.
        fast_acting: act through numpy where the model offers it (plain perceptrons on the CPU).

    Attributes:
        model: the policy.
        q_model: the critics.
        target_q_model, target_model: targets of critics and policy, equal to them at first;
            ``None`` where the algorithm has no use for one.
    """

    family = "rlpyt.agents.qpg"
    AgentInfo: Any = None  # the record of what actions were chosen by
    has_target_policy = False
    hidden_sizes: tuple[int, ...] = (256, 256)  # of networks for which no others are given

    def __init__(
        self,
        ModelCls: Any,
        QModelCls: Any,
        model_kwargs: dict[str, Any] | None = None,
        q_model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: dict[str, Any] | None = None,
        n_critics: int | None = None,
        fast_acting: bool = True,
    ) -> None:
        model_kwargs = as_arguments(model_kwargs, "model_kwargs")
        super().__init__(ModelCls, model_kwargs, initial_model_state_dict)
        self.QModelCls = QModelCls
        self.q_model_kwargs = as_arguments(q_model_kwargs, "q_model_kwargs")
        if "n_critics" in self.q_model_kwargs:
            raise ValueError("q_model_kwargs holds n_critics: give it to the agent instead.")
        self.n_critics = None if n_critics is None else whole_number("n_critics", n_critics, 1)
        self.fast_acting = fast_acting
        self.q_model: Any = None
        self.target_model: Any = None
        self.target_q_model: Any = None
        self.settings["min_itr_learn"] = np.zeros(1)

    # What subclasses say.

    def make_distribution(self, size: int) -> Gaussian:
        """How actions of ``size`` components are drawn around what the policy gives."""
        raise NotImplementedError(f"{type(self).__name__} must implement make_distribution.")

    def make_dist_info(self, output: Any) -> Any:
        """The distribution's parameters, from the policy's output; tensors or numpy arrays."""
        raise NotImplementedError(f"{type(self).__name__} must implement make_dist_info.")

    def make_agent_info(self, dist_info: Any) -> Any:
        """What is recorded beside an action."""
        raise NotImplementedError(f"{type(self).__name__} must implement make_agent_info.")

    def sampling_std(self, itr: int) -> Any:
        """Deviation of the noise while sampling; ``None``: what the policy says."""
        raise NotImplementedError(f"{type(self).__name__} must implement sampling_std.")

    # Life cycle.

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """``observation_shape`` and ``action_size``."""
        return dict(
            observation_shape=env_spaces.observation.shape,
            action_size=ActionScale(env_spaces.action, bounded=True).size,
        )

    def initialize(
        self,
        env_spaces: Any,
        share_memory: bool = False,
        global_B: int = 1,
        env_ranks: Any = None,
        **kwargs: Any,
    ) -> None:
        """Build policy, critics and targets.

        Raises:
            TypeError: actions are not continuous.
            ValueError: they have no bounds, or a network normalizes observations that are no real
                numbers.
        """
        self.scale = ActionScale(env_spaces.action, bounded=True)
        super().initialize(env_spaces, share_memory, global_B=global_B, env_ranks=env_ranks)
        self.distribution = self.make_distribution(self.scale.size)
        self.q_model = self._build_critics()
        check_normalized(self._parts(), env_spaces.observation)
        self._load_initial_critics()
        self._share_statistics()  # so that targets begin with them
        self._build_targets()
        try_critics(self)
        parts = self._parts()
        self._observation_only = all(getattr(part, "observation_only", False) for part in parts)
        initial = self.initial_model_state_dict or {}
        if {"model"} < initial.keys():
            self.load_state_dict(initial)

    def _load_initial_state(self, state_dict: dict[str, Any]) -> None:
        self.model.load_state_dict(state_dict.get("model", state_dict))

    def _load_initial_critics(self) -> None:
        """Give the critics the parameters that they are to begin with, if any."""

    def _build_critics(self) -> torch.nn.Module:
        make = partial(self._build, self.QModelCls, self.q_model_kwargs, "q_model_kwargs")
        if self.n_critics is None:
            return make()  # type: ignore[no-any-return]
        if "n_critics" in inspect.signature(self.QModelCls).parameters:
            return make(n_critics=self.n_critics)  # type: ignore[no-any-return]
        return Ensemble(make, self.n_critics)

    def _build_model(self) -> Any:
        return self._build(self.ModelCls, self.model_kwargs, "model_kwargs")

    def _build(self, ModelCls: Any, given: dict[str, Any], named: str, **more: Any) -> Any:
        kwargs = with_default_sizes(ModelCls, given, self.hidden_sizes)
        return build_model(ModelCls, named, **{**self.env_model_kwargs, **kwargs, **more})

    def _build_targets(self) -> None:
        """Copies that no optimizer moves."""
        self.target_q_model = self._target_of(self.q_model)
        if self.has_target_policy:
            self.target_model = self._target_of(self.model)
        self._share_statistics()

    def _target_of(self, model: Any) -> Any:
        target = copy.deepcopy(model).requires_grad_(False)
        target.eval()
        for layer in target.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.train()  # targets are averages over it, too
        return target

    def _parts(self) -> list[Any]:
        """The models of all networks there are by now, the policy's first."""
        networks = [bare(x) for x in (self.model, *self._networks().values())]
        return [m for x in networks for m in (x.members if isinstance(x, Ensemble) else (x,))]

    def _share_statistics(self) -> None:
        """All networks that look at normalised observations do so by the same statistics."""
        keepers = [part for part in self._parts() if hasattr(part, "obs_rms")]
        for part in keepers[1:]:
            part.obs_rms = keepers[0].obs_rms

    def to_device(self, cuda_idx: int | None = None) -> None:
        """Move all networks to a CUDA device."""
        super().to_device(cuda_idx)
        self._share_statistics()
        for network in self._networks().values():
            network.to(self.device)

    def data_parallel(self) -> None:
        """Average gradients over processes, of the policy and of the critics."""
        super().data_parallel()
        self.q_model = self._wrapped(self.q_model)

    def target_networks(self) -> list[Any]:
        """Those of critics and policy, as far as there are any."""
        return [x for name, x in self._networks().items() if name.startswith("target")]

    def give_min_itr_learn(self, min_itr_learn: int) -> None:
        """Say when learning begins; until then actions are spread widely. Workers see it, too."""
        self.settings["min_itr_learn"][:] = min_itr_learn

    @property
    def min_itr_learn(self) -> int:
        """Iteration at which learning begins."""
        return int(self.settings["min_itr_learn"][0])

    # Networks by name.

    def _networks(self) -> dict[str, Any]:
        """All but the policy: those that exist by now, by their names in the state."""
        named = {
            "q_model": self.q_model,
            "target_model": self.target_model,
            "target_q_model": self.target_q_model,
        }
        return {name: network for name, network in named.items() if network is not None}

    def q_parameters(self) -> Any:
        """What the critics' optimizer trains: where there are E, each has a dimension of E first.

        That holds for critics that are one model; others are separate.
        """
        return self.q_model.parameters()

    @property
    def n_joined(self) -> int | None:
        """E, where the critics are one model of E members; else ``None``."""
        return None if isinstance(bare(self.q_model), Ensemble) else self.n_critics

    @property
    def n_quantiles(self) -> int | None:
        """N that each critic gives, by its own word once it is built; ``None``: values."""
        n: int | None
        if self.q_model is None:
            n = self.q_model_kwargs.get("n_quantiles")
        else:
            critics = bare(self.q_model)
            one = critics.members[0] if isinstance(critics, Ensemble) else critics
            n = getattr(one, "n_quantiles", None)
        return n

    # Values.

    def _inputs(self, observation: Any, prev_action: Any, prev_reward: Any) -> tuple[Any, ...]:
        if not self._observation_only:
            prev_action = self.scale.to_unit(prev_action)
        inputs = (observation, prev_action, prev_reward)
        return inputs if self.device.type == "cpu" else buffer_to(inputs, self.device)

    def _valued(self, network: Any, inputs: tuple[Any, ...], action: Any) -> Any:
        """Values of actions in the space's units."""
        return network(*inputs, self.scale.to_unit(buffer_to(action, self.device)))

    def q(self, observation: Any, prev_action: Any, prev_reward: Any, action: Any) -> Any:
        """Values of actions, with gradient.

        Args:
            observation: tree of [B, ...] or [T, B, ...].
            prev_action: [.., A]; prev_reward: [..].
            action: [.., A], in the space's units.

        Returns:
            [..] float32 on the agent's device, or [E, ..] of E critics: ``q1, q2 = agent.q(...)``.
        """
        inputs = self._inputs(observation, prev_action, prev_reward)
        return self._valued(self.q_model, inputs, action)

    def critic(self, i: int) -> Any:
        """One of several critics, as a function of ``q_model``'s inputs: models speak to models."""
        critics = bare(self.q_model)
        return critics if self.n_critics is None else partial(critics, member=i)

    def update_target(self, tau: float = 1) -> None:
        """Move the targets' parameters towards the models': ``tau`` 1 copies them."""
        update_state_dict(self.target_q_model, self.q_model.state_dict(), tau)
        if self.target_model is not None:
            update_state_dict(self.target_model, self.model.state_dict(), tau)

    # Acting.

    @torch.no_grad()
    def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Choose actions [B, A], in the space's units; record what they were chosen by."""
        output = self.model(*self._inputs(observation, prev_action, prev_reward))
        dist_info = self.make_dist_info(output)
        action = self.scale.to_space(self.distribution.sample(dist_info))
        agent_info = self.make_agent_info(dist_info)
        if self.device.type != "cpu":
            action, agent_info = buffer_to((action, agent_info), "cpu")
        return AgentStep(action, agent_info)

    def fast_policy(self) -> FastPolicy | None:
        """Acting through numpy, where ``fast_acting`` is on and model and distribution offer it."""
        if not self.fast_acting or self.device.type != "cpu" or self.recurrent:
            return None
        own = type(self)
        ours = own.step is QpgAgent.step and own._inputs is QpgAgent._inputs
        forward = numpy_forward(self.model) if ours and has_twin(self.distribution) else None
        if forward is None:
            return None
        sample, make_dist_info, scale = self.distribution, self.make_dist_info, self.scale

        def policy(observation: Any, noise: Any) -> tuple[Any, tuple[Any, ...], Any]:
            output = forward(observation)
            dist_info = make_dist_info(output if len(output) > 1 else output[0])
            *parameters, last = dist_info
            action = scale.to_space(sample.sample_numpy(dist_info, noise))
            return action, tuple(parameters), last

        return policy

    def sample_mode(self, itr: int) -> None:
        """Act with noise, more of it before learning begins."""
        super().sample_mode(itr)
        self.distribution.set_std(self.sampling_std(itr))

    def eval_mode(self, itr: int) -> None:
        """Act without noise."""
        super().eval_mode(itr)
        self.distribution.set_std(0.0)

    def set_deterministic(self, deterministic: bool, itr: int) -> None:
        """In evaluation, act without noise or with that of sampling after learning has begun."""
        super().set_deterministic(deterministic, itr)
        std = 0.0 if deterministic else self.sampling_std(max(itr, self.min_itr_learn))
        self.distribution.set_std(std)

    def train_mode(self, itr: int) -> None:
        """Before training."""
        super().train_mode(itr)
        self.distribution.set_std(self.sampling_std(max(itr, self.min_itr_learn)))

    def update_obs_rms(self, observation: Any) -> None:
        """Let the observation statistics, if there are any, take in a batch."""
        for part in self._parts():
            if hasattr(part, "obs_rms"):
                part.update_obs_rms(observation)
                return

    @property
    def keeps_statistics(self) -> bool:
        """Whether ``update_obs_rms`` does anything."""
        return any(keeps_statistics(part) for part in self._parts())

    # State.

    def _states(self) -> dict[str, Any]:
        """The state of every network, of several critics apart."""
        states = {"model": self.model.state_dict()}
        for name, network in self._networks().items():
            if self.n_critics is None or not name.endswith("q_model"):
                states[name] = network.state_dict()
            else:
                members = split_members(bare(network), self.n_critics)
                states |= dict(zip(self._members(name), members, strict=True))
        return states

    def state_dict(self) -> dict[str, Any]:
        """Parameters of every network, under rlpyt's names: ``model``, ``q1_model``, ..."""
        return {name: dict(strip_ddp_state_dict(s)) for name, s in self._states().items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` gave.

        Raises:
            ValueError: it is of an agent with other networks.
        """
        own = self._states()
        if own.keys() != state_dict.keys():
            raise ValueError(
                f"the state is of an agent with {sorted(state_dict)}; this one has {sorted(own)}."
            )
        bare(self.model).load_state_dict(state_dict["model"])
        for name, network in self._networks().items():
            if name in own:
                bare(network).load_state_dict(state_dict[name])
            else:
                states = [state_dict[member] for member in self._members(name)]
                join_members(bare(network), states)

    def _members(self, name: str) -> list[str]:
        """Names of the states of "q_model" or "target_q_model", where they are several critics."""
        prefix = name.removesuffix("q_model")
        return [f"{prefix}q{i + 1}_model" for i in range(self.n_critics or 0)]


def wide_std(pretrain_std: float | str | None) -> float | None:
    """What `Gaussian` takes for a ``pretrain_std``: infinite where it is "uniform".

    Raises:
        ValueError: it is another word, negative or not finite.
    """
    if isinstance(pretrain_std, str):
        if pretrain_std != "uniform":
            raise ValueError(f'pretrain_std={pretrain_std!r} must be a number or "uniform".')
        return math.inf
    return pretrain_std if pretrain_std is None else check_std("pretrain_std", pretrain_std)


def check_std(name: str, std: float) -> float:
    """The deviation, if it is finite and not negative; else ValueError."""
    check_range(name, std, 0, finite=True)
    return std
