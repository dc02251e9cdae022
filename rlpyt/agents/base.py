"""The agent: chooses actions in the sampler, gives values to the algorithm, owns the model."""

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from rlpyt.agents.building import build_model
from rlpyt.agents.memory import RecurrentMemory
from rlpyt.agents.weights import SharedWeights, WeightMailbox
from rlpyt.models.observation import check_normalized
from rlpyt.models.utils import bare, strip_ddp_state_dict
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.completion import warn_of_lost_state
from rlpyt.utils.launching.machine import check_gpu

AgentInputs = namedarraytuple("AgentInputs", ["observation", "prev_action", "prev_reward"])
AgentInputsRnn = namedarraytuple(
    "AgentInputsRnn", ["observation", "prev_action", "prev_reward", "init_rnn_state"]
)
AgentStep = namedarraytuple("AgentStep", ["action", "agent_info"])


class BaseAgent:
    """Base of all agents.

    Construction only remembers the arguments, so an agent pickles until ``initialize`` builds
    the model; workers receive the agent as constructed, initialize their own copy and bind it to
    the master's parameters (``SharedWeights``). Subclasses implement ``step`` and ``__call__``,
    and ``value`` for algorithms that bootstrap.

    Args:
        ModelCls: class of the model, a ``torch.nn.Module``.
        model_kwargs: its keyword arguments, beside those from ``make_env_to_model_kwargs``.
        initial_model_state_dict: parameter values to start from.

    Attributes:
        settings: numbers that the master may change during a run and that workers act by, arrays
            by name; written in place. They lie in shared memory beside the parameters.
        group: which group of environments the agent acts for, see ``attend``.
        rows: the rows of the next ``step`` or ``value``, as indices into the environments that
            ``collector_initialize`` named, where a sampler acts in tiles; ``None``: the group's.
    """

    recurrent = False
    alternating = False
    family = "rlpyt.agents.pg"  # where there are ready ones
    deterministic = False  # in evaluation, take the likeliest action instead of sampling one

    def __init__(
        self,
        ModelCls: Any = None,
        model_kwargs: dict[str, Any] | None = None,
        initial_model_state_dict: dict[str, Any] | None = None,
    ) -> None:
        self.ModelCls = ModelCls
        self.model_kwargs = dict(model_kwargs or {})
        self.initial_model_state_dict = initial_model_state_dict
        self.model: Any = None
        self.shared_model: Any = None
        self.shared_weights: SharedWeights | None = None
        self.distribution: Any = None
        self.device = torch.device("cpu")
        self.env_spaces: Any = None
        self.env_model_kwargs: dict[str, Any] = {}
        self.settings: dict[str, np.ndarray[Any, Any]] = {}
        self.group = 0
        self.rows: tuple[int, ...] | None = None
        self.mailbox: WeightMailbox | None = None
        self._version = -1  # of what was taken out of it last
        self.policy_updates = 0  # that those parameters have had
        self._mode: str | None = None
        self._modules: tuple[Any, list[Any]] = (None, [])  # the model, all its modules

    # What subclasses implement.

    def __call__(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Run the model on training data [T, B] or [B]; what is returned, the algorithm knows."""
        raise NotImplementedError(f"{type(self).__name__} must implement __call__.")

    def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Choose actions for [B] environments; returns ``AgentStep(action, agent_info)``."""
        raise NotImplementedError(f"{type(self).__name__} must implement step.")

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """Arguments of the model that depend on the environment's spaces."""
        return {}

    # Life cycle.

    def initialize(self, env_spaces: Any, share_memory: bool = False, **kwargs: Any) -> None:
        """Build the model for these spaces.

        Args:
            env_spaces: ``EnvSpaces(observation, action)``.
            share_memory: put the parameters into shared memory, for workers to act with.
            **kwargs: ``global_B`` and ``env_ranks``, for agents that treat environments apart.

        Raises:
            ValueError: no ModelCls was given, or the model normalizes observations that are no
                real numbers.
        """
        if self.ModelCls is None:
            raise ValueError(
                f"{type(self).__name__} has no ModelCls: pass one, or use an agent that brings "
                f"its model ({self.family}.vector for plain vectors, {self.family}.atari)."
            )
        self.env_spaces = env_spaces
        self.env_model_kwargs = self.make_env_to_model_kwargs(env_spaces)
        self.model = self._build_model()
        check_normalized(self._parts(), env_spaces.observation)
        if self.initial_model_state_dict is not None:
            self._load_initial_state(self.initial_model_state_dict)
        if share_memory:
            self.bind_shared_memory(SharedWeights(self.model, self.settings))
            self.shared_model = self.model

    def _build_model(self) -> torch.nn.Module:
        kwargs = {**self.env_model_kwargs, **self.model_kwargs}
        return build_model(self.ModelCls, "model_kwargs", **kwargs)  # type: ignore[no-any-return]

    def _parts(self) -> list[Any]:
        """The models that read observations."""
        return [bare(self.model)]

    def _load_initial_state(self, state_dict: dict[str, Any]) -> None:
        self.model.load_state_dict(state_dict)

    def bind_shared_memory(self, weights: SharedWeights) -> None:
        """Act by these parameters and settings from now on, as they change."""
        weights.bind(self.model)
        self.shared_weights = weights
        self.settings = weights.settings

    def to_device(self, cuda_idx: int | None = None) -> None:
        """Move the model to a CUDA device; a shared model stays, and a copy of it moves.

        Raises:
            ValueError: no such device.
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
        """Average gradients over processes: wrap the model for ``torch.distributed``.

        All processes begin with the parameters of the first, in target networks, too.
        """
        self.model = self._wrapped(self.model)
        for target in self.target_networks():
            for tensor in target.state_dict().values():
                torch.distributed.broadcast(tensor, 0)

    def end_data_parallel(self) -> None:
        """Undo ``data_parallel``; networks keep what they have learnt."""
        for name, network in list(vars(self).items()):
            setattr(self, name, bare(network))

    def _wrapped(self, network: Any) -> Any:
        ids = None if self.device.type == "cpu" else [self.device.index]
        cls: Any = torch.nn.parallel.DistributedDataParallel
        known = inspect.signature(cls).parameters  # torch 2.13 has a new name for it
        buffers = next(n for n in ("forward_sync_buffers", "broadcast_buffers") if n in known)
        return cls(network, device_ids=ids, **{buffers: False})

    def target_networks(self) -> list[Any]:
        """Networks that follow others, and that no optimizer trains."""
        return []

    def async_cpu(self, share_memory: bool = True) -> None:
        """Called in an asynchronous sampler once the agent has its own model there."""

    def collector_initialize(self, global_B: int = 1, env_ranks: Any = None) -> None:
        """Called in each process that acts, with the global ranks of its environments."""

    def sync_shared_memory(self) -> None:
        """Give the master's parameter values to the workers; free where the model is shared."""
        if self.shared_weights is not None and bare(self.model) is not self.shared_model:
            self.shared_weights.publish(bare(self.model))

    def open_mailbox(self) -> WeightMailbox:
        """For asynchronous samplers, which act with models of their own: where those get news."""
        self.mailbox = WeightMailbox(bare(self.model), self.settings)
        return self.mailbox

    def send_shared_memory(self) -> None:
        """Let asynchronous samplers have the parameters."""
        if self.mailbox is None:
            self.sync_shared_memory()
        else:
            self.mailbox.put(bare(self.model), self.settings)

    def recv_shared_memory(self) -> None:
        """In an asynchronous sampler: act by the newest parameters from now on."""
        if self.mailbox is not None:
            taken = self.mailbox.take(self.model, self.settings, self._version)
            self._version, self.policy_updates = taken

    # Acting: memory, modes, noise.

    def reset(self) -> None:
        """Forget the recurrent state, if there is one."""

    def reset_one(self, idx: int) -> None:
        """Forget the recurrent state of one environment."""

    def attend(self, group: int) -> None:
        """From now on, act for this group of environments.

        The environments of one process form groups of equal size, group g of n rows the rows g * n
        to (g + 1) * n of those that ``collector_initialize`` named. Most agents have one, group 0.
        """
        self.group = group

    def toggle_alt(self) -> None:
        """Kept for rlpyt's alternating agents; ``attend`` does it here."""

    def set_noise(self, noise: torch.Tensor | None) -> None:
        """Give the randomness of the next ``step``; see ``Distribution.set_noise``."""
        if self.distribution is not None and hasattr(self.distribution, "set_noise"):
            self.distribution.set_noise(noise)

    @property
    def noise_spec(self) -> Any:
        """What one environment step consumes of randomness, or ``None``: torch's generator."""
        return getattr(self.distribution, "noise_spec", None)

    def fast_policy(self) -> Any:
        """A numpy function that acts as ``step`` does, or ``None``; see ``agents.pg.agent``."""
        return None

    def train_mode(self, itr: int) -> None:
        """Before training in iteration ``itr``."""
        self._set_training(True)
        self._mode = "train"

    def sample_mode(self, itr: int) -> None:
        """Before sampling for iteration ``itr``."""
        self._set_training(False)
        self._mode = "sample"

    def eval_mode(self, itr: int) -> None:
        """Before evaluation at iteration ``itr``."""
        self._set_training(False)
        self._mode = "eval"

    def set_deterministic(self, deterministic: bool, itr: int) -> None:
        """In evaluation, take the likeliest action or draw one; for those who play by hand.

        Agents that samplers evaluate without noise in any case draw as in sampling at ``itr``.
        """
        self.deterministic = deterministic

    def _set_training(self, training: bool) -> None:
        """As ``model.train(training)``, which checks so much that small networks feel it.

        It took a tenth of deep Q-learning's time on CartPole.
        """
        if self.model is None:  # the agent acts without a torch model
            return
        model, (known, modules) = bare(self.model), self._modules
        if known is not model:
            modules = [*model.modules()]
            own = (type(m).train is torch.nn.Module.train for m in modules)
            if not all(own) or any("training" not in m.__dict__ for m in modules):
                modules = []  # a user's module has something of its own to do
            self._modules = (model, modules)
        if not modules:
            model.train(training)
        for module in modules:
            module.__dict__["training"] = training

    # Parameters.

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """What the optimizer trains."""
        return iter(self.model.parameters())

    def state_dict(self) -> dict[str, Any]:
        """Model parameters, named as outside ``DistributedDataParallel``."""
        if self.model is None:
            warn_of_lost_state(self, "A resumed run has the agent as it was constructed.")
            return {}
        return dict(strip_ddp_state_dict(self.model.state_dict()))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` gave."""
        if self.model is not None:
            bare(self.model).load_state_dict(state_dict)


class RecurrentAgentMixin:
    """Gives an agent a recurrent memory: ``class MyLstmAgent(RecurrentAgentMixin, MyAgent)``.

    The agent's ``step`` reads ``self.prev_rnn_state`` and ends with
    ``self.advance_rnn_state(new_state)``, leaves [N, B, H].
    """

    recurrent = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.memory = RecurrentMemory()

    @property
    def prev_rnn_state(self) -> Any:
        """The state that the next step starts from; ``None`` means zeros."""
        return self.memory.state

    def advance_rnn_state(self, new_rnn_state: Any) -> None:
        """Keep the model's new state for the next step."""
        self.memory.advance(new_rnn_state)

    def reset(self) -> None:
        """Forget the state of all environments attended to."""
        self.memory.clear()

    def reset_one(self, idx: int) -> None:
        """Zero the state of environment ``idx``."""
        self.memory.reset_one(idx)

    def attend(self, group: int) -> None:
        """From now on, act for this group of environments."""
        super().attend(group)  # type: ignore[misc]
        self.memory.attend(group=group)

    def train_mode(self, itr: int) -> None:
        """Training leaves the sampling state alone."""
        super().train_mode(itr)  # type: ignore[misc]

    def sample_mode(self, itr: int) -> None:
        """Go on from the last sampling state."""
        super().sample_mode(itr)  # type: ignore[misc]
        self.memory.attend(mode="sample")

    def eval_mode(self, itr: int) -> None:
        """Start from a cleared state; the sampling state is kept."""
        super().eval_mode(itr)  # type: ignore[misc]
        self.memory.clear("eval")
        self.memory.attend(mode="eval")


class AlternatingRecurrentAgentMixin(RecurrentAgentMixin):
    """As ``RecurrentAgentMixin``; alternating samplers say which group acts through ``attend``."""

    alternating = True

    def get_alt(self) -> int:
        """The group that acts next."""
        return self.memory.group

    def toggle_alt(self) -> None:
        """Attend to the other of two groups, for samplers that alternate by themselves."""
        self.attend(1 - self.memory.group)
