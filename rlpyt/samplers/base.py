"""Interface of all samplers: arguments, initialization, sampling, evaluation and shutdown."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.weights import share_weights
from rlpyt.envs.base import build_env
from rlpyt.samplers.buffer import agent_examples, allocate_samples
from rlpyt.samplers.collections import BatchSpec, TrajInfo
from rlpyt.samplers.environments import (
    Around,
    has_generator,
    takes_rows,
    try_environment,
    with_rows,
)
from rlpyt.samplers.fault_policy import FaultPolicy, as_policy
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.completion import completed, warn_of_lost_state
from rlpyt.utils.recorded import FixedWhileRunning
from rlpyt.utils.seed import check_seed, make_seed
from rlpyt.utils.shared import Arena

if TYPE_CHECKING:
    import torch

    from rlpyt.curricula.base import Curriculum
    from rlpyt.samplers.collectors import BaseCollector
    from rlpyt.samplers.evaluation import BaseEvalCollector

# Methods that the samplers of rlpyt (2019) called, but these samplers do not.
UNCALLED_HOOKS: tuple[str, ...] = ("_make_alternating_pairs",)
UNCALLED_ASYNC_HOOKS: tuple[str, ...] = (
    *("_get_n_envs_list", "_get_n_envs_lists", "_make_alternating_pairs", "_agent_init"),
    *("_build_buffers", "_build_parallel_ctrl", "_assemble_common_kwargs"),
    *("_assemble_workers_kwargs", "_assemble_servers_kwargs", "action_server_process"),
    *("launch_workers", "shutdown_workers", "serve_actions", "serve_actions_evaluation"),
)

EnvKwargs = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class BaseSampler(FixedWhileRunning):
    """Collects batches of agent-environment interaction.

    The constructor only checks types and ranges of numbers. ``initialize`` checks the other
    arguments; a subclass with a custom ``initialize`` may give them any meaning.

    Args:
        EnvCls: class of the environment, or function that makes one, such as
            ``rlpyt.envs.gym.make``.
        env_kwargs: keyword arguments of ``EnvCls``, or a list of ``batch_B`` dictionaries, one for
            each environment.
        batch_T: time steps per batch.
        batch_B: number of environments.
        CollectorCls: class of the collection loop; ``None``: the class attribute.
        max_decorrelation_steps: maximum number of random actions at the start of each environment.
        TrajInfoCls: class of the statistics of a trajectory.
        eval_n_envs: number of evaluation environments; 0 for none.
        eval_CollectorCls: class of the evaluation loop; ``None``: the class attribute.
        eval_env_kwargs: keyword arguments of the evaluation environments, or a list of
            ``eval_n_envs`` dictionaries; ``None``: ``env_kwargs``.
        eval_max_steps: maximum environment steps per evaluation, over all environments.
        eval_max_trajectories: episodes per evaluation, divided evenly among the environments.
        eval_deterministic: take the most likely action in evaluations instead of a sampled one.
        env_timeout: seconds; a worker that steps its environments and makes no progress for longer
            ends the run with ``WorkerTimeout``, after a warning.
        reset_timeout: the same for resets.
        curriculum: a ``rlpyt.curricula.base.Curriculum`` that chooses the task of each training
            episode and receives its result; environments must support tasks.
        start_method: start method of worker processes, "forkserver", "spawn" or "fork"; ``None``:
            see ``rlpyt.utils.processes.start_context``.
        deterministic_acting: act in tiles of a fixed number of rows, so that batches are bitwise
            equal for any layout that acts on the CPU and any number of workers, on machines with
            the same CPU. Costs time; see ``samplers.tiles`` and docs/sampling.md.
        on_fault: what to do about environments that raise and workers that hang or die; ``None``:
            end the run. "restart": build them anew and void what the broken episodes recorded. Or
            a dictionary with fields of ``rlpyt.samplers.fault_policy.FaultPolicy``.

    Raises:
        TypeError: a number has the wrong type, or ``curriculum`` is not a curriculum.
        ValueError: a number is out of range, or a curriculum is combined with a collector that lets
            environments wait for the end of the batch.
    """

    agent: BaseAgent
    examples: Any  # examples of one step
    layout: Any = None  # a ``SamplerLayout``, in samplers of this package
    SamplerCls: Any = None  # class that the processes of an asynchronous sampler run
    start_timeout_s = 300.0  # time to start a process and build its environments
    alternating = False
    curriculum: Curriculum | None = None
    start_method: str | None = None
    on_fault: FaultPolicy | None = None
    CollectorCls: type[BaseCollector] | None = None
    eval_CollectorCls: type[BaseEvalCollector] | None = None
    mid_batch_reset: bool = True
    TrajInfoCls: Any = TrajInfo
    has_sampled = False  # True after the first batch: episodes are in progress
    interrupted = False  # True if the last batch does not continue the previous one
    # Gives the agent's parameters to its copies in workers, and checks what has changed in it.
    _publish: Callable[[], object] = staticmethod(lambda: None)

    def __init__(
        self,
        EnvCls: Callable[..., Any],
        env_kwargs: EnvKwargs | None = None,
        batch_T: int = 128,
        batch_B: int = 8,
        CollectorCls: type[BaseCollector] | None = None,
        max_decorrelation_steps: int = 100,
        TrajInfoCls: type[TrajInfo] = TrajInfo,
        eval_n_envs: int = 0,
        eval_CollectorCls: type[BaseEvalCollector] | None = None,
        eval_env_kwargs: EnvKwargs | None = None,
        eval_max_steps: int | None = None,
        eval_max_trajectories: int | None = None,
        eval_deterministic: bool = False,
        env_timeout: float = 60.0,
        reset_timeout: float = 300.0,
        curriculum: Curriculum | None = None,
        start_method: str | None = None,
        deterministic_acting: bool = False,
        on_fault: Any = None,
    ) -> None:
        policy = as_policy(on_fault)
        self.on_fault = policy if policy.heals else None
        self.start_method = start_method or self.start_method
        self.EnvCls = EnvCls if curriculum is None else with_tasks(EnvCls, curriculum)
        self.curriculum = curriculum
        plain = env_kwargs is None or isinstance(env_kwargs, Mapping)
        self.env_kwargs: Any = dict(env_kwargs or {}) if plain else env_kwargs  # type: ignore[arg-type]
        self.batch_spec = BatchSpec(
            whole_number("batch_T", batch_T, 1), whole_number("batch_B", batch_B, 1)
        )
        self.batch_T, self.batch_B = self.batch_spec
        self.CollectorCls = CollectorCls or self.CollectorCls
        self.max_decorrelation_steps = whole_number(
            "max_decorrelation_steps", max_decorrelation_steps or 0, 0
        )
        self.TrajInfoCls = TrajInfoCls
        self.eval_n_envs = whole_number("eval_n_envs", eval_n_envs or 0, 0)
        self.eval_CollectorCls = eval_CollectorCls or self.eval_CollectorCls
        self.eval_env_kwargs: Any = eval_env_kwargs
        for name, value in (
            ("eval_max_steps", eval_max_steps),
            ("eval_max_trajectories", eval_max_trajectories),
        ):
            if value is not None and self.eval_n_envs:
                whole_number(name, value, 1)
        self.eval_max_steps = None if eval_max_steps is None else int(eval_max_steps)
        self.eval_max_trajectories = (
            None if eval_max_trajectories is None else int(eval_max_trajectories)
        )
        self.eval_deterministic = bool(eval_deterministic)
        check_range("env_timeout", env_timeout, low=0, open_low=True)
        self.env_timeout = float(env_timeout)
        check_range("reset_timeout", reset_timeout, low=0, open_low=True)
        self.reset_timeout = float(reset_timeout)
        self.deterministic_acting = bool(deterministic_acting)
        self.mid_batch_reset = getattr(self.CollectorCls, "mid_batch_reset", True)
        if curriculum is not None and not self.mid_batch_reset:
            raise ValueError(
                f"{self.CollectorCls} lets environments wait for the end of the batch, but a "
                "curriculum counts every step. Use a collector that resets at once."
            )

    def arguments(self) -> dict[str, Any]:
        """Return arguments with which another sampler collects the same batches."""
        names = [*inspect.signature(BaseSampler.__init__).parameters][1:]
        return {name: getattr(self, name) for name in names}

    def initialize(self, *args: Any, **kwargs: Any) -> Any:
        """Acquire environments, buffers and processes; return examples of one step."""
        raise NotImplementedError(f"{type(self).__name__} must implement initialize.")

    def obtain_samples(self, itr: int) -> Any:
        """Collect one batch; return (samples, finished trajectories)."""
        raise NotImplementedError(f"{type(self).__name__} must implement obtain_samples.")

    def evaluate_agent(self, itr: int) -> Any:
        """Run evaluation episodes; return finished trajectories."""
        raise NotImplementedError(f"{type(self).__name__} must implement evaluate_agent.")

    @staticmethod
    def should_stop() -> bool:
        """Return True to end an evaluation early; called during one. Runners replace it."""
        return False

    def lasting_state(self) -> dict[str, Any]:
        """Return the part of ``state_dict`` that is known without the environments."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint; here empty, with a warning."""
        warn_of_lost_state(self, "A resumed run starts new episodes.")
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Load a state from ``state_dict``; return True if the run resumes exactly."""
        return False

    def start_anew(self, itr: int) -> None:
        """Start new episodes, with random streams that no earlier part of the run has used.

        Args:
            itr: first iteration of the resumed run.
        """

    def statistics(self) -> dict[str, float]:
        """Return the sampler's columns of progress.csv; the names must not change."""
        return {}

    def shutdown(self) -> None:
        """Release everything. Can be called again."""

    @property
    def batch_size(self) -> int:
        """Return the number of environment steps per batch."""
        return self.batch_spec.size

    # Used by the samplers of this package.

    def _check_arguments(self) -> None:
        """Check the arguments of the constructor.

        Raises:
            TypeError, ValueError: an argument has the wrong type, or is missing.
        """
        EnvCls, CollectorCls = self.EnvCls, self.CollectorCls
        if not callable(EnvCls):
            raise TypeError(
                "EnvCls must be an environment class or a function that makes an environment, got "
                f"{EnvCls!r:.100}. Pass its arguments in env_kwargs."
            )
        if not callable(self.TrajInfoCls):
            raise TypeError(
                f"TrajInfoCls must be a class such as TrajInfo, got {self.TrajInfoCls}."
            )
        if not hasattr(CollectorCls, "collect_batch"):
            raise TypeError(
                "CollectorCls must be a class with a method collect_batch, got "
                f"{CollectorCls!r:.100}. Derive it from "
                "rlpyt.samplers.collectors.DecorrelatingStartCollector."
            )
        self._warn_of_uncalled_hooks()
        if self.eval_n_envs and self.eval_max_steps is None:
            raise ValueError("eval_max_steps must be set with eval_n_envs: evaluation must end.")
        self._kwargs_by_env()
        if self.eval_n_envs and self.eval_env_kwargs is not None:
            kwargs_by_env("eval_env_kwargs", self.eval_env_kwargs, self.eval_n_envs, "eval_n_envs")

    def _start_run(self, agent: BaseAgent, seed: int | None) -> None:
        """Shut down an earlier run, check the arguments, and set agent and seed.

        Raises:
            TypeError, ValueError: an argument or the agent has the wrong type, or is missing.
        """
        self.shutdown()
        self._check_arguments()
        self.has_sampled = False
        if not hasattr(agent, "initialize") or isinstance(agent, type):
            raise TypeError(
                f"agent={agent!r:.100} must be an agent, such as CategoricalMlpAgent()."
            )
        self.agent = completed(agent, BaseAgent, BaseAgent())
        self.agent.mailbox = None  # of an earlier run
        self.seed = make_seed() if seed is None else check_seed(seed)
        if self.agent.noise_hold is not None:
            CollectorCls: Any = self.CollectorCls
            if not getattr(CollectorCls, "holds_noise", False):
                raise ValueError(
                    f"noise_hold must be None with {CollectorCls.__name__}, got "
                    f"{self.agent.noise_hold}. Remove it from the agent's arguments, or use a "
                    "collector that derives from rlpyt.samplers.collectors.Collector."
                )

    def _check_evaluates(self) -> None:
        """Raise ValueError if there are no environments for evaluation."""
        if not self.eval_n_envs:
            raise ValueError(
                "eval_n_envs must be above 0 to evaluate, got 0. Pass it to the constructor."
            )

    def _warn_of_uncalled_hooks(self) -> None:
        """Warn of a subclass's methods that are not called any more."""
        if not self.layout.processes:
            return
        cls, names, remedy = type(self), UNCALLED_HOOKS, "Use affinity, the agent and the collector"
        if self.SamplerCls is not None:
            names, remedy = UNCALLED_ASYNC_HOOKS, "Set SamplerCls to a synchronous sampler"
        methods = {name: getattr(cls, name, None) for name in names}
        custom = [n for n, m in methods.items() if m and not m.__module__.startswith("rlpyt.")]
        if custom:
            warnings.warn(
                f"{', '.join(f'{cls.__name__}.{name}' for name in custom)} "
                f"{'is' if len(custom) == 1 else 'are'} not called: {cls.__name__} starts and "
                f"serves its workers differently. {remedy}, or derive the class from BaseSampler "
                "and define initialize, obtain_samples and evaluate_agent."
            )

    def _kwargs_by_env(self) -> list[dict[str, Any]]:
        """Return the keyword arguments of each training environment, [B]."""
        return kwargs_by_env("env_kwargs", self.env_kwargs, self.batch_spec.B, "batch_B")

    def _eval_kwargs_by_env(self, n: int) -> list[dict[str, Any]]:
        """Return the keyword arguments of ``n`` evaluation environments.

        If ``n`` exceeds ``eval_n_envs``, since each worker needs an environment, they repeat.
        Without ``eval_env_kwargs`` they are those of the training environments.
        """
        if not n:
            return []
        kwargs, n_given = self.eval_env_kwargs, self.eval_n_envs
        if kwargs is None:
            kwargs = self._kwargs_by_env()
        else:
            kwargs = kwargs_by_env("eval_env_kwargs", kwargs, n_given, "eval_n_envs")
        return [kwargs[b % len(kwargs)] for b in range(n)]

    def _try_environment(self, in_child: bool, around: Around = contextlib.nullcontext) -> Any:
        """Step one environment and return the examples; see `try_environment`."""
        kwargs = self._kwargs_by_env()
        arguments, how = kwargs[0], (in_child, self.start_method, self.start_timeout_s, around)
        examples = try_environment(self.EnvCls, arguments, *how)
        if arguments is kwargs[-1] and len(kwargs) > 1 and has_generator(self.EnvCls, arguments):
            warnings.warn(
                "env_kwargs has a random generator. Environments of one process draw from it in "
                "turns, and those of several processes from equal copies. Make the generator in "
                "the environment, from the seed of reset, or pass a list of env_kwargs."
            )
        if takes_rows(self.EnvCls, arguments):
            arguments = with_rows(self.EnvCls, arguments, [0])
        examples.make_env = partial(build_env, self.EnvCls, arguments)
        return examples

    def _initialize_agent(self, share_memory: bool, rank: int = 0, world_size: int = 1) -> None:
        """Initialize the agent's model and clear its recurrent state."""
        B = self.batch_spec.B
        if share_memory:
            self.agent.shared_weights = None  # discard the weights of an earlier run
        self.agent.initialize(
            self.examples.spaces,
            share_memory=share_memory,
            global_B=B * world_size,
            env_ranks=list(range(rank * B, (rank + 1) * B)),
        )
        self._publish = partial(self.agent.arguments.write, self.agent)
        if share_memory:
            self._publish = self.agent.sync_shared_memory
            share_weights(self.agent)
        if self.agent.memory is not None:
            self.agent.memory.forget()

    def _allocate_batch(
        self,
        memory: Arena | bool | torch.device,
        bootstrap_value: bool,
        final_observation: bool,
        extra_rows: int = 0,
    ) -> Any:
        """Allocate a batch [T + extra_rows, B]; add the agent's outputs to the examples."""
        if "agent_info" not in self.examples:
            agent_examples(self.agent, self.examples)
        ours = str(getattr(self.CollectorCls, "__module__", "")).startswith("rlpyt.")
        if bootstrap_value and ours and not callable(getattr(self.agent, "value", None)):
            raise TypeError(
                f"{type(self.agent).__name__} must have a method value(observation, prev_action, "
                "prev_reward), since the algorithm bootstraps (bootstrap_value is True). Define "
                "it, or set bootstrap_value = False in the algorithm."
            )
        recorded = getattr(self.CollectorCls, "records_final_observations", False)
        T, B = self.batch_spec
        final = final_observation and recorded
        T += extra_rows
        void = self.on_fault is not None
        return allocate_samples(self.examples, T, B, bootstrap_value, memory, final, void)


def with_tasks(EnvCls: Callable[..., Any], curriculum: Curriculum) -> Callable[..., Any]:
    """Return a function that makes environments with the curriculum's tasks.

    Raises:
        TypeError: ``curriculum`` is not a curriculum.
    """
    from rlpyt.curricula.base import Curriculum
    from rlpyt.curricula.env import TaskEnvs

    if not isinstance(curriculum, Curriculum):
        raise TypeError(
            f"curriculum={curriculum!r:.100} must be a curriculum, such as "
            "rlpyt.curricula.prioritized.PrioritizedLevelReplay(64)."
        )
    return EnvCls if isinstance(EnvCls, TaskEnvs) else TaskEnvs(EnvCls, curriculum.space)


def kwargs_by_env(named: str, kwargs: EnvKwargs, n: int, n_named: str) -> list[dict[str, Any]]:
    """Return the keyword arguments of each of ``n`` environments.

    Args:
        named: name of the argument, for messages.
        kwargs: a dictionary for all environments, or a list with one for each.
        n: number of environments.
        n_named: name of the argument that gives this number, for messages.

    Raises:
        TypeError: ``kwargs`` is neither a dictionary nor a list of dictionaries.
        ValueError: the length of the list is not ``n``.
    """
    if isinstance(kwargs, Mapping):
        return [dict(kwargs)] * n
    if not isinstance(kwargs, list | tuple) or not all(isinstance(k, Mapping) for k in kwargs):
        raise TypeError(
            f"{named} must be a dictionary, or a list of dictionaries, one for each environment, "
            f"got {kwargs!r:.100}."
        )
    if len(kwargs) != n:
        raise ValueError(
            f"{named} must have one dictionary for each environment, {n_named}={n}, got "
            f"{len(kwargs)}."
        )
    # Rows of a vector environment have one dictionary, also after copying.
    copies = {id(env_kwargs): dict(env_kwargs) for env_kwargs in kwargs}
    return [copies[id(env_kwargs)] for env_kwargs in kwargs]
