"""Base of agents, which choose actions in the sampler and evaluate the model for the algorithm."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rlpyt.agents.arguments import NAME, SIZE, SharedArguments
from rlpyt.agents.building import build_model
from rlpyt.agents.memory import RecurrentMemory
from rlpyt.agents.spaces import SPACE_ARGUMENTS
from rlpyt.agents.weights import ModelWatch, SharedWeights, WeightMailbox
from rlpyt.distributions.joint import Joint
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.masking import masks_actions
from rlpyt.models.observation import check_normalized, marked_shape, shape_of_group
from rlpyt.models.recurrent import recorded_state
from rlpyt.models.utils import strip_ddp_state_dict, unwrap_ddp, updates_obs_rms
from rlpyt.spaces.action_mask import action_mask_of, checked_mask_sizes
from rlpyt.utils.buffer import Arrays, Tensors, buffer_func, buffer_method, buffer_to, leaves_of
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.completion import warn_of_lost_state
from rlpyt.utils.launching.machine import check_gpu
from rlpyt.utils.recorded import Recorded

AgentInputs = namedarraytuple("AgentInputs", ["observation", "prev_action", "prev_reward"])
AgentInputsRnn = namedarraytuple(
    "AgentInputsRnn", ["observation", "prev_action", "prev_reward", "init_rnn_state"]
)
AgentStep = namedarraytuple("AgentStep", ["action", "agent_info"])

ModelFactory = Callable[..., torch.nn.Module]  # usually a model's class
Sample = Callable[[Any], Any]  # parameters of a distribution -> actions, tensors or numpy arrays
# (observation, noise) -> (action, all leaves of agent_info but the last, the last), numpy [B, ...];
# the action is an array, or a tree of arrays for an action of several parts.
FastPolicy = Callable[[Any, Any], tuple[Any, tuple[Any, ...], Any]]


class BaseAgent(Recorded):
    """Base of all agents.

    The constructor only stores the arguments, so an agent can be pickled until ``initialize``
    builds the model. Workers receive the agent before that, initialize their own copy and bind it
    to the master's parameters (``SharedWeights``).

    A subclass implements ``__call__``, ``value`` if the algorithm bootstraps, and either ``step``
    or ``choose``, which turns the model's outputs into actions. Ready agents declare their
    differences by class attributes.

    Args:
        ModelCls: class of the model, a ``torch.nn.Module``; ``None``: the class attribute.
        model_kwargs: keyword arguments of the model, added to ``make_env_to_model_kwargs``.
        initial_model_state_dict: parameter values to start from.
        fast_acting: act in numpy where model and distribution allow it (MLPs on the CPU): the same
            actions from the same noise, several times faster for small batches.
        policy_observation: names of the parts of a Dict or Tuple observation that the policy reads,
            ``["state"]``; ``None``: all. See `rlpyt.models.observation.shape_of_group`.

    Attributes:
        memory: recurrent states while acting, in recurrent agents that implement ``choose`` or
            derive from ``RecurrentAgentMixin``; otherwise ``None``.
        settings: named arrays, such as epsilon's schedule, that the master changes during a run and
            workers read. They are in shared memory, so write them in place.
        arguments: keeps plain arguments of the constructor equal in all processes, so that an
            attribute assigned in a hook has its effect in the next batch, see ``changeable``.
        acting_device: device of the actions that ``step`` returns, and of ``value``.
        group: index of the group of environments that the agent acts for, see ``set_group``.
        rows: indices of the environments of the next call, among the ``env_ranks`` of
            ``collector_initialize``, if the sampler acts in tiles; ``None``: all of the group.
        observation_only: True if no model reads the previous action and reward.
        mask_sizes: number of choices of each discrete component of actions, if observations have
            a mask of valid ones; else ``None``.
    """

    ModelCls: Any = None
    space_arguments: tuple[str, ...] = ()  # the model's arguments among SPACE_ARGUMENTS
    AgentInfo: Any = None  # record of the outputs of ``choose`` in addition to the action
    AgentInfoRnn: Any = None  # the same for a recurrent agent, ``prev_rnn_state`` last
    recurrent = False  # True if the model takes a recurrent state last and returns the next one
    takes_memory = False  # True if the model's argument ``memory`` makes the agent recurrent
    alternating = False
    family = "rlpyt.agents.pg"  # package of ready agents, for error messages
    deterministic = False  # in evaluation, take the most likely action instead of sampling
    memory: RecurrentMemory | None = None
    provides: str | None = None  # kind of outputs for training, compared to ``algo.requires``
    n_critics: int | None = None  # number of critics, in agents with several
    n_quantiles: int | None = None  # number of quantiles of each critic or action value
    n_atoms: int | None = None  # number of atoms of their distributions
    has_target_critics = True  # False if targets are from the critics themselves
    parts: Any = None  # `PolicyParts` of SAC's agent, if actions are not a single Box
    value: ClassVar[Callable[..., Tensor]]  # V [B], in agents that can bootstrap, like ``PgAgent``
    # True if each row's action is bitwise independent of the other rows in the batch.
    rows_are_independent = False
    mask_sizes: tuple[int, ...] | None = None
    masks_choices = False  # True if the distribution takes the mask, and not the model
    policy_observation: Sequence[str] | None = None
    noise_hold: float | None = None  # see `QpgAgent`
    changeable: tuple[str, ...] = ()  # a ready agent's arguments that may change during a run

    def __init__(
        self,
        ModelCls: ModelFactory | None = None,
        model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: dict[str, Any] | None = None,
        fast_acting: bool = True,
        policy_observation: Sequence[str] | None = None,
    ) -> None:
        if ModelCls is not None:
            self.ModelCls = ModelCls
        self.model_kwargs = dict(model_kwargs or {})
        self.initial_model_state_dict = initial_model_state_dict
        self.fast_acting = fast_acting
        self.policy_observation = policy_observation
        self.model: Any = None
        self.shared_model: Any = None
        self.shared_weights: SharedWeights | None = None
        self._watch: ModelWatch | None = None  # of the model that other processes copy
        self.distribution: Any = None
        self.device = torch.device("cpu")
        self.acting_device = torch.device("cpu")
        self.env_spaces: Any = None
        self.env_model_kwargs: dict[str, Any] = {}
        self.observation_only = False
        self.settings: dict[str, np.ndarray[Any, Any]] = {NAME: np.zeros(SIZE, np.uint8)}
        self.arguments = SharedArguments()
        self.group = 0
        self.rows: tuple[int, ...] | None = None
        if self.takes_memory and self.model_kwargs.get("memory") is not None:
            self.recurrent = True
        # An agent that overrides ``step`` may also store its recurrent state itself.
        uses_choose = type(self).choose is not BaseAgent.choose
        if self.recurrent and (uses_choose or isinstance(self, RecurrentAgentMixin)):
            self.memory = RecurrentMemory()
        self._rnn_state: Any = None  # state of a recurrent agent without memory
        self.mailbox: WeightMailbox | None = None
        self._version = -1  # version of the parameters last taken from the mailbox
        self.policy_updates = 0  # number of gradient steps of those parameters
        self._mode: str | None = None
        self._observes = False  # True if models have observation statistics
        self._modules: tuple[Any, list[Any]] = ((), [])  # (networks, all their modules)

    # Hooks of subclasses.

    def __call__(self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor) -> Any:
        """Evaluate the model on training data [T, B] or [B], in the form the algorithm expects."""
        raise NotImplementedError(f"{type(self).__name__} must implement __call__.")

    def choose(self, outputs: tuple[Arrays, ...], sample: Sample) -> tuple[Any, Any]:
        """Choose actions, given the model's outputs.

        It must work with tensors and numpy arrays, since agents may act in numpy.

        Args:
            outputs: the model's outputs [B, ...], without the recurrent state.
            sample: function that draws actions, given the distribution's parameters.

        Returns:
            Actions [B, ...], and a tuple of the fields of ``AgentInfo`` to record. Only the first
            field may be a record of several arrays.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement choose or step.")

    def statistics(self, itr: int) -> dict[str, float]:
        """Return columns of progress.csv about sampling in iteration ``itr``; none by default."""
        return {}

    def make_env_to_model_kwargs(self, env_spaces: EnvSpaces) -> dict[str, Any]:
        """Return the model's arguments that follow from the spaces; see ``space_arguments``."""
        return {name: SPACE_ARGUMENTS[name](env_spaces) for name in self.space_arguments}

    def action_input(self, prev_action: Tensors) -> Tensors:
        """Return the previous action in the form that the model reads."""
        return prev_action

    # Life cycle.

    def initialize(self, env_spaces: EnvSpaces, share_memory: bool = False, **kwargs: Any) -> None:
        """Build the model for these spaces.

        Args:
            env_spaces: ``EnvSpaces(observation, action)``.
            share_memory: put the parameters into shared memory, for workers.
            **kwargs: ``global_B`` and ``env_ranks``, for agents with settings per environment.

        Raises:
            ValueError: ModelCls is None, the model normalizes observations that are not
                floating point, the part ``action_mask`` of observations is not a mask, or
                ``policy_observation`` does not name parts of observations.
        """
        if self.ModelCls is None:
            raise ValueError(
                f"{type(self).__name__} has no ModelCls. Pass one, or use an agent with a default "
                f"model ({self.family}.vector for vectors, {self.family}.atari for images)."
            )
        self.env_spaces = env_spaces
        self.mask_sizes = checked_mask_sizes(env_spaces.observation, env_spaces.action)
        self.env_model_kwargs = self.make_env_to_model_kwargs(env_spaces)
        if self.policy_observation is not None:
            self.env_model_kwargs["observation_shape"] = self.group_shape("policy_observation")
        self.model = self._build_model()
        self._inspect_models()
        if self.initial_model_state_dict is not None:
            self._load_initial_state(self.initial_model_state_dict)
        self.arguments.bind(self)
        if share_memory:
            self.bind_shared_memory(SharedWeights(self.model, self.settings))
            self.shared_model = self.model

    def group_shape(self, group: str) -> Any:
        """Return the shape of observations for models, with parts outside a group marked.

        Args:
            group: name of the attribute that lists the parts: "policy_observation".
        """
        shape = marked_shape(self.env_spaces.observation)
        return shape_of_group(shape, getattr(self, group), group)

    def _build_model(self) -> torch.nn.Module:
        kwargs = {**self.env_model_kwargs, **self.model_kwargs}
        return build_model(self.ModelCls, "model_kwargs", **kwargs)  # type: ignore[no-any-return]

    def _observation_models(self) -> list[Any]:
        """Return the models that read observations."""
        return [unwrap_ddp(self.model)]

    def _inspect_models(self) -> None:
        """Check what the models do with observations, and whether they read anything else."""
        models = self._observation_models()
        check_normalized(models, self.env_spaces.observation)
        self.observation_only = all(getattr(m, "observation_only", False) for m in models)
        self._observes = any(map(updates_obs_rms, models))

    def _load_initial_state(self, state_dict: dict[str, Any]) -> None:
        self.model.load_state_dict(state_dict.get("model", state_dict))

    def bind_shared_memory(self, weights: SharedWeights) -> None:
        """Use these shared parameters and settings from now on."""
        weights.bind(self.model)
        self.shared_weights = weights
        self.settings = weights.settings
        self._watch = ModelWatch(self.model)

    def to_device(self, cuda_idx: int | None = None) -> None:
        """Move the model to a CUDA device; if the model is shared, move a copy.

        Raises:
            ValueError: there is no such device.
        """
        if cuda_idx is None:
            return
        check_gpu(cuda_idx)
        self.device = torch.device("cuda", cuda_idx)
        if self.shared_model is not None:
            self.model = self._build_model()
            self.model.load_state_dict(self.shared_model.state_dict())
        self.model.to(self.device)

    def data_parallel(self) -> None:
        """Wrap the model for ``torch.distributed``, which averages gradients over processes.

        All processes start with the parameters of the first one, including target networks.
        """
        self.model = self._wrap_ddp(self.model)
        for target in self.target_networks():
            for tensor in target.state_dict().values():
                torch.distributed.broadcast(tensor, 0)

    def buffers_to_share(self) -> list[torch.Tensor]:
        """Return the buffers, in all networks, that the user's and torch's modules own.

        Those modules update them from the data of their rank. Modules of rlpyt exchange theirs.
        """
        networks = [x for x in vars(self).values() if isinstance(x, torch.nn.Module)]
        modules = dict.fromkeys(module for network in networks for module in network.modules())
        foreign = [m for m in modules if type(m).__module__.partition(".")[0] != "rlpyt"]
        return [buffer for module in foreign for buffer in module.buffers(recurse=False)]

    def end_data_parallel(self) -> None:
        """Undo ``data_parallel``; networks keep their parameters."""
        for name, network in list(vars(self).items()):
            setattr(self, name, unwrap_ddp(network))
        self._modules = ((), [])  # the wrappers are not kept alive

    def _wrap_ddp(self, network: torch.nn.Module) -> Any:
        ids = None if self.device.type == "cpu" else [self.device.index]
        cls: Any = torch.nn.parallel.DistributedDataParallel
        names = inspect.signature(cls).parameters  # torch 2.13 renamed the argument
        buffers = next(n for n in ("forward_sync_buffers", "broadcast_buffers") if n in names)
        return cls(network, device_ids=ids, **{buffers: False})

    def target_networks(self) -> list[Any]:
        """Return the target networks."""
        return []

    def async_cpu(self, share_memory: bool = True) -> None:
        """Hook: called in an asynchronous sampler after the agent has built its model."""

    def give_min_itr_learn(self, min_itr_learn: int) -> None:
        """Hook: called with the iteration at which learning starts."""

    def collector_initialize(
        self, global_B: int = 1, env_ranks: Sequence[int] | None = None
    ) -> None:
        """Hook: called in each acting process, with the global ranks of its environments."""

    # Parameters for other processes.

    def sync_shared_memory(self) -> None:
        """Publish the master's parameters, unless the model shares them, and changed arguments."""
        self.arguments.write(self)
        if self.shared_weights is not None:
            model = unwrap_ddp(self.model)
            replaced = self._notice_changes(model)
            if model is not self.shared_model:
                self.shared_weights.publish(model)
            elif replaced:  # as by ``parameter.data = x``
                self.shared_weights.publish(model)
                self.bind_shared_memory(self.shared_weights)

    def _notice_changes(self, model: torch.nn.Module) -> bool:
        """Return True if the model has other tensors; warn of what other processes do not see."""
        if self._watch is not None and self._watch.model is model and not self._watch.notice():
            return False
        self._watch = ModelWatch(model)
        return True

    def open_mailbox(self) -> WeightMailbox:
        """Create the mailbox through which asynchronous samplers get new parameters."""
        self.mailbox = WeightMailbox(unwrap_ddp(self.model), self.settings)
        self._watch = ModelWatch(unwrap_ddp(self.model))
        return self.mailbox

    def send_shared_memory(self) -> None:
        """Publish the parameters to asynchronous samplers."""
        if self.mailbox is None:
            self.sync_shared_memory()
        else:
            self.arguments.write(self)
            self._notice_changes(unwrap_ddp(self.model))
            self.mailbox.put(unwrap_ddp(self.model), self.settings)

    def recv_shared_memory(self) -> None:
        """Load the newest parameters; called in an asynchronous sampler."""
        if self.mailbox is not None:
            taken = self.mailbox.take(self.model, self.settings, self._version)
            self._version, self.policy_updates = taken

    # Evaluating the model.

    def _inputs(
        self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor
    ) -> tuple[Any, ...]:
        """Return the model's inputs on its device."""
        if not self.observation_only:
            prev_action = self.action_input(prev_action)
        inputs = (observation, prev_action, prev_reward)
        return inputs if self.device.type == "cpu" else buffer_to(inputs, self.device)

    def _run(
        self, model: torch.nn.Module, inputs: tuple[Tensors, ...], rnn_state: Tensors | None = None
    ) -> tuple[Any, Any]:
        """Return a model's outputs as a tuple, and its next recurrent state or None."""
        if self.recurrent:
            # A state from a checkpoint may be on another device.
            *outputs, next_state = model(*inputs, buffer_to(rnn_state, self.device))
            rnn_state = recorded_state(next_state, model)
        else:
            outputs, rnn_state = model(*inputs), None
            if not isinstance(outputs, tuple | list):
                outputs = (outputs,)
        if self.mask_sizes is not None and not masks_actions(model):
            outputs = self._mask_outputs(outputs, action_mask_of(inputs[0]))
        return tuple(outputs), rnn_state

    def _mask_outputs(self, outputs: Any, mask: Tensor) -> Any:
        """Hook: apply a mask [.., n] of actions to the outputs of a model that does not."""
        return outputs

    # Acting.

    def _acting_model(self) -> Any:
        """Return the network whose outputs ``choose`` takes."""
        return self.model

    @torch.no_grad()
    def step(self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor) -> Any:
        """Choose actions for [B] environments.

        Returns:
            ``AgentStep(action, agent_info)`` on ``acting_device``. Recurrent agents record the
            state before the step, leaves [B, N, H], and keep the state after it.
        """
        inputs = self._inputs(observation, prev_action, prev_reward)
        B = prev_reward.shape[0] if prev_reward.dim() else None
        self._begin_step(B)
        outputs, rnn_state = self._run(self._acting_model(), inputs, self.prev_rnn_state)
        action, fields = self.choose(outputs, self._sampler(inputs[0]))
        if self.recurrent:
            agent_info = self.AgentInfoRnn(*fields, self._exchange_state(rnn_state, B))
        else:
            agent_info = self.AgentInfo(*fields)
        if self.device != self.acting_device:
            action, agent_info = buffer_to((action, agent_info), self.acting_device)
        return AgentStep(action, agent_info)

    def _begin_step(self, B: int | None) -> None:
        """Hook: called before each step of B environments; ``None``: no batch dimension."""

    def _sampler(self, observation: Tensors) -> Sample:
        """Return the function that draws actions; the most likely in deterministic evaluation."""
        draw: Any = self.distribution.mode if self._takes_mode() else self.distribution.sample
        return self._among_valid(draw, observation)

    def _among_valid(self, draw: Any, observation: Tensors) -> Sample:
        """Return a method of the distribution, with the mask of actions if it takes that."""
        if self.mask_sizes is None or not self.masks_choices:
            return draw  # type: ignore[no-any-return]
        return partial(draw, mask=action_mask_of(observation))

    def _takes_mode(self) -> bool:
        """Return True if actions are the most likely ones instead of samples."""
        return self.deterministic and self._mode == "eval"

    def greedy(
        self,
        observation: Tensors,
        prev_action: Tensors,
        prev_reward: Tensor,
        rnn_state: Tensors | None = None,
    ) -> tuple[Any, Any, Any]:
        """Choose the most likely actions in deterministic evaluation, as a pure function.

        Unlike ``step``, it takes and returns the recurrent state, and can be exported
        (``Run.export``). An agent that overrides ``step`` is called by it.

        Args:
            observation, prev_action, prev_reward: arguments of ``step``, [B, ...].
            rnn_state: recurrent state, leaves [N, B, H]; ``None``: zeros.

        Returns:
            Actions [B, ...]; the next recurrent state or ``None``; the parameters of the
            distribution, or ``None`` if ``step`` is overridden.
        """
        if self._overrides("step"):
            self.prev_rnn_state = rnn_state
            action, _ = self.step(observation, prev_action, prev_reward)
            return action, self.prev_rnn_state, None
        self._begin_step(None)
        inputs = self._inputs(observation, prev_action, prev_reward)
        outputs, rnn_state = self._run(self._acting_model(), inputs, rnn_state)
        chosen_from = []

        def mode(dist_info: Tensors) -> Any:
            chosen_from.append(dist_info)
            return self._among_valid(self.distribution.mode, inputs[0])(dist_info)

        action, _ = self.choose(outputs, mode)
        return action, rnn_state, chosen_from[0] if chosen_from else None

    def _exchange_state(self, rnn_state: Tensors, B: int | None) -> Any:
        """Store the next recurrent state; return the previous one in the form to record."""
        previous = buffer_to(self.prev_rnn_state, self.device)
        if previous is None:
            previous = buffer_func(rnn_state, torch.zeros_like)
        self.advance_rnn_state(rnn_state)
        # [N, B, H] -> [B, N, H], recorded by row
        return previous if B is None else buffer_method(previous, "transpose", 0, 1)

    def fast_policy(self) -> FastPolicy | None:
        """Return a numpy function that acts as ``step`` does; ``None`` if there is none.

        It exists if the model has ``numpy_forward``, the distribution has ``draw``, and neither
        the class nor this object overrides ``step`` or the methods that it calls. It uses the
        current parameters, so request it again before each batch.
        """
        stock = not (self.recurrent or self._overrides("step", "_inputs", "_run"))
        if not (stock and self.fast_acting) or self.device.type != "cpu":
            return None
        masks_itself = self.mask_sizes is not None and self._overrides("_mask_outputs")
        if masks_itself and not masks_actions(self.model):
            return None
        draw = self._numpy_draw() if can_draw(self.distribution) else None
        forward = None if draw is None else numpy_forward(self._acting_model())
        if draw is None or forward is None:
            return None
        choose = self.choose
        masked = self.mask_sizes is not None and self.masks_choices
        flatten: Any = leaves_of if isinstance(self.distribution, Joint) else tuple

        def policy(observation: Arrays, noise: Arrays) -> tuple[Any, tuple[Any, ...], Any]:
            def sample(dist_info: Any) -> Any:
                if masked:
                    return draw(dist_info, noise, action_mask_of(observation))  # type: ignore
                return draw(dist_info, noise)

            action, fields = choose(forward(observation), sample)
            if isinstance(fields[0], tuple):  # a record of parameters
                fields = (*flatten(fields[0]), *fields[1:])
            return action, fields[:-1], fields[-1]

        return policy

    def _overrides(self, *names: str) -> bool:
        """Return True if a method is not that of `BaseAgent`, in the class or in this object."""
        methods = [getattr(getattr(self, name), "__func__", None) for name in names]
        return methods != [getattr(BaseAgent, name) for name in names]

    def _numpy_draw(self) -> Callable[[Any, Any], Any] | None:
        """Return a numpy function (parameters, noise) -> actions, or ``None``."""
        return None if self._takes_mode() else self.distribution.draw  # type: ignore[no-any-return]

    def set_noise(self, noise: torch.Tensor | None) -> None:
        """Set the noise of the next ``step``; see ``Distribution.set_noise``."""
        if self.distribution is not None and hasattr(self.distribution, "set_noise"):
            self.distribution.set_noise(noise)

    @property
    def noise_spec(self) -> Any:
        """Return the ``NoiseSpec`` of one environment's step; ``None``: use torch's generator."""
        return getattr(self.distribution, "noise_spec", None)

    def update_obs_rms(self, observation: Tensors) -> None:
        """Update the models' running observation statistics, if they have any, with a batch."""
        updated: list[Any] = []
        models = self._observation_models() if self._observes else ()
        for model in filter(updates_obs_rms, models):
            statistics = getattr(model, "obs_rms", None)
            if not any(statistics is other for other in updated):  # models may share them
                model.update_obs_rms(observation)
                updated.append(statistics)

    @property
    def has_obs_rms(self) -> bool:
        """Return True if ``update_obs_rms`` has an effect."""
        method = getattr(self.update_obs_rms, "__func__", None)
        overridden = method is not BaseAgent.update_obs_rms
        return overridden or self._observes

    # Recurrent memory; these methods do nothing in agents without it.

    @property
    def takes_starts(self) -> bool:
        """Return True if the model can reset its state at any step of a sequence.

        ``__call__`` then also takes a ``StateAndStarts`` as recurrent state.
        """
        return getattr(unwrap_ddp(self.model), "takes_starts", False)

    @property
    def attention_window(self) -> int | None:
        """Return how many earlier steps a memory attends to at most; ``None``: no attention."""
        windows = [getattr(m, "attention_window", None) for m in self._observation_models()]
        return max((w for w in windows if w is not None), default=None)

    @property
    def prev_rnn_state(self) -> Any:
        """Return the recurrent state before the next step, leaves [N, B, H]; ``None``: zeros."""
        return self._rnn_state if self.memory is None else self.memory.state

    @prev_rnn_state.setter
    def prev_rnn_state(self, state: Tensors | None) -> None:
        if self.memory is not None:
            self.memory.advance(state)
        else:
            self._rnn_state = state

    def recorded_value(self, agent_info: Any, observation: Tensors) -> Any:
        """Return the recorded values [*lead] of these observations, for returns."""
        return agent_info.value

    def advance_rnn_state(self, new_rnn_state: Tensors) -> None:
        """Store the model's new state, leaves [N, B, H], for the next step."""
        self.prev_rnn_state = new_rnn_state

    def reset(self) -> None:
        """Clear the recurrent state of all environments of the group."""
        if self.memory is not None:
            self.memory.clear()

    def reset_one(self, idx: int) -> None:
        """Zero the recurrent state of environment ``idx`` of the group."""
        if self.memory is not None:
            self.memory.reset_one(idx)

    def reset_rows(self, where: Tensor) -> None:
        """Zero the recurrent states of rows of the group, without reading the mask on the host.

        An agent that overrides ``reset_one`` is asked row by row, unless it overrides this as well.

        Args:
            where: [B] bool, on the device of the states.
        """
        if type(self).reset_one is not BaseAgent.reset_one:
            for b in where.nonzero().flatten().tolist():
                self.reset_one(b)
        elif self.memory is not None:
            self.memory.reset_rows(where)

    def set_group(self, group: int) -> None:
        """Act for this group of environments from now on.

        The environments of one process form groups of equal size n; group g has entries g * n to
        (g + 1) * n of the ``env_ranks`` of ``collector_initialize``. Usually there is only group 0.
        """
        self.group = group
        if self.memory is not None:
            self.memory.select(group=group)

    def get_alt(self) -> int:
        """Return the index of the group that acts next."""
        return self.group

    def toggle_alt(self) -> None:
        """Switch to the other of two groups, for custom alternating samplers."""
        if self.alternating:
            self.set_group(1 - self.group)

    # Modes.

    def train_mode(self, itr: int) -> None:
        """Prepare for training in iteration ``itr``; the recurrent state is not changed."""
        self._set_training(True)
        self._mode = "train"

    def sample_mode(self, itr: int) -> None:
        """Prepare for sampling in iteration ``itr``; select the recurrent state of sampling."""
        self.arguments.take(self)
        self._set_training(False)
        self._mode = "sample"
        if self.memory is not None:
            self.memory.select(mode="sample")

    def eval_mode(self, itr: int) -> None:
        """Prepare for evaluation at iteration ``itr``; clear the recurrent state of evaluation."""
        self.arguments.take(self)
        self._set_training(False)
        self._mode = "eval"
        if self.memory is not None:
            self.memory.clear("eval")
            self.memory.select(mode="eval")

    def set_deterministic(self, deterministic: bool, itr: int) -> None:
        """Take the most likely action in evaluation, or sample; for interactive use.

        Agents that samplers always evaluate without noise then sample as in training at ``itr``.
        """
        self.deterministic = deterministic

    def _set_training(self, training: bool) -> None:
        """Do the same as ``train(training)`` of every trained network, without its checks.

        They took a tenth of deep Q-learning's time on CartPole.
        """
        networks = self._trained_networks()
        cached_networks, modules = self._modules
        if cached_networks != networks:
            modules = [m for network in networks for m in unwrap_ddp(network).modules()]
            inherited = (type(m).train is torch.nn.Module.train for m in modules)
            if not all(inherited) or any("training" not in m.__dict__ for m in modules):
                modules = []  # a user's module overrides ``train``
            self._modules = (networks, modules)
        if not modules:
            for network in networks:
                unwrap_ddp(network).train(training)
        for module in modules:
            module.__dict__["training"] = training

    def _trained_networks(self) -> tuple[Any, ...]:
        """Return the networks that training changes; an agent may have none."""
        return () if self.model is None else (self.model,)

    # Parameters.

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters that the optimizer trains."""
        return iter(self.model.parameters())

    def state_dict(self) -> dict[str, Any]:
        """Return the model's state, without the names of ``DistributedDataParallel``."""
        if self.model is None:
            warn_of_lost_state(self, "A resumed run has the agent as it was constructed.")
            return {}
        return dict(strip_ddp_state_dict(self.model.state_dict()))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        if self.model is not None:
            unwrap_ddp(self.model).load_state_dict(state_dict)


def can_draw(distribution: Any) -> bool:
    """Return True if the class that defines ``sample`` also defines the pure ``draw``.

    A user's distribution, or a patched one, may override only ``sample``; the inherited ``draw``
    does not match it.
    """
    places = [distribution, *type(distribution).__mro__]
    definer = next((x for x in places if "sample" in getattr(x, "__dict__", ())), object)
    return "draw" in vars(definer)


def numpy_forward(model: torch.nn.Module) -> Any:
    """Return the model's forward pass, with its current parameters, as a numpy function or None."""
    make = getattr(unwrap_ddp(model), "numpy_forward", None)
    if make is None:
        return None
    try:
        return make(live=False)
    except TypeError:  # a custom method without the argument; it reads the parameters itself
        return make()


# rlpyt's mixins, for ``class MyLstmAgent(RecurrentAgentMixin, MyAgent)``; ``BaseAgent`` implements
# them.


class RecurrentAgentMixin(BaseAgent):
    """Mixin that gives an agent a recurrent memory.

    An agent that overrides ``step`` must read ``self.prev_rnn_state`` in it and call
    ``self.advance_rnn_state(new_state)``, leaves [N, B, H].
    """

    recurrent = True


class AlternatingRecurrentAgentMixin(RecurrentAgentMixin):
    """Mixin that gives an agent a recurrent memory, for alternating samplers."""

    alternating = True
