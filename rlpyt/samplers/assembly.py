"""What a sampler's processes are started with: stations, the action server, workers."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.weights import share_weights
from rlpyt.samplers.buffer import agent_examples, allocate_samples
from rlpyt.samplers.environments import try_environment
from rlpyt.samplers.layout import Hardware, rows_per_worker
from rlpyt.samplers.place import BEAT, N_NUMBERS, fresh_progress
from rlpyt.samplers.pool import Limits, WorkerPool
from rlpyt.samplers.serving import ActionServer
from rlpyt.samplers.station import StationSpec, quotas
from rlpyt.samplers.workers import WorkerSpec
from rlpyt.utils import serialize
from rlpyt.utils.completion import completed
from rlpyt.utils.processes import start_context, starter_lasts
from rlpyt.utils.shared import Arena
from rlpyt.utils.stacks import StackFile

# Methods that rlpyt's samplers with worker processes called, and that ours do not.
UNCALLED_HOOKS: tuple[str, ...] = (
    *("_get_n_envs_list", "_get_n_envs_lists", "_make_alternating_pairs", "_agent_init"),
    *("_build_buffers", "_build_parallel_ctrl", "_assemble_common_kwargs"),
    *("_assemble_workers_kwargs", "_assemble_servers_kwargs", "action_server_process"),
    *("launch_workers", "shutdown_workers", "serve_actions_evaluation"),
)


def check_arguments(sampler: Any) -> None:
    """Check what a sampler was constructed with, before it is used.

    A subclass with its own ``initialize`` may give these arguments any meaning.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind, or one is missing.
    """
    EnvCls, CollectorCls = sampler.EnvCls, sampler.CollectorCls
    if not callable(EnvCls):
        raise TypeError(
            f"EnvCls must be callable: the environment's class or a function that makes one, got "
            f"{EnvCls!r:.100}. An environment's arguments go into env_kwargs."
        )
    if not callable(sampler.TrajInfoCls):
        raise TypeError(f"TrajInfoCls must be a class such as TrajInfo, got {sampler.TrajInfoCls}.")
    if not hasattr(CollectorCls, "collect_batch"):
        raise TypeError(
            f"CollectorCls must be a class with a method collect_batch, got {CollectorCls!r:.100}. "
            "Derive it from rlpyt.samplers.collectors.DecorrelatingStartCollector."
        )
    _warn_of_uncalled_hooks(sampler)
    if sampler.eval_n_envs and sampler.eval_max_steps is None:
        raise ValueError("eval_max_steps is needed with eval_n_envs: evaluation must end.")
    kwargs_by_env("env_kwargs", sampler.env_kwargs, sampler.batch_spec.B, "batch_B")
    if sampler.eval_n_envs and sampler.eval_env_kwargs is not None:
        kwargs_by_env(
            "eval_env_kwargs", sampler.eval_env_kwargs, sampler.eval_n_envs, "eval_n_envs"
        )


def _warn_of_uncalled_hooks(sampler: Any) -> None:
    """Warn of methods in a subclass that rlpyt's samplers called, and that are not called here."""
    if not sampler.layout.processes:
        return
    cls, names, remedy = type(sampler), UNCALLED_HOOKS, "Use affinity, the agent and the collector"
    if hasattr(cls, "SamplerCls"):  # an asynchronous sampler, whose hosts run this class
        names, remedy = (*names, "serve_actions"), "Set SamplerCls to a synchronous sampler"
    methods = {name: getattr(cls, name, None) for name in names}
    own = [n for n, m in methods.items() if m and not m.__module__.startswith("rlpyt.")]
    if own:
        warnings.warn(
            f"{', '.join(f'{cls.__name__}.{name}' for name in own)} "
            f"{'is' if len(own) == 1 else 'are'} not called: {cls.__name__} starts and serves its "
            f"workers in another way. {remedy}, or derive the class from BaseSampler and define "
            "initialize, obtain_samples and evaluate_agent."
        )


def kwargs_by_env(named: str, kwargs: Any, n: int, n_named: str) -> list[dict[str, Any]]:
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
    return [dict(own) for own in kwargs]


def eval_kwargs_by_env(sampler: Any, n: int) -> list[dict[str, Any]]:
    """Return the keyword arguments of ``n`` evaluation environments, of ``eval_n_envs`` or more.

    ``n`` exceeds ``eval_n_envs`` where each worker needs an environment; the list is then repeated.
    Without ``eval_env_kwargs`` the arguments are those of the training environments.
    """
    if not n:
        return []
    if sampler.eval_env_kwargs is None:
        own = kwargs_by_env("env_kwargs", sampler.env_kwargs, sampler.batch_spec.B, "batch_B")
    else:
        own = kwargs_by_env(
            "eval_env_kwargs", sampler.eval_env_kwargs, sampler.eval_n_envs, "eval_n_envs"
        )
    return [own[b % len(own)] for b in range(n)]


def _first_of_their_kind(kwargs: list[dict[str, Any]]) -> list[bool]:
    """Return for each dictionary whether it equals none of those before it."""
    distinct: list[dict[str, Any]] = []
    first = []
    for own in kwargs:
        first.append(not any(_equal(own, other) for other in distinct))
        if first[-1]:
            distinct.append(own)
    return first


def _equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # arrays among them have no single truth value
        return False


def checked_agent(agent: Any) -> Any:
    """Return the agent, with the attributes of ``BaseAgent`` that it lacks.

    Raises:
        TypeError: `agent` has no ``initialize``, or is a class.
    """
    if not hasattr(agent, "initialize") or isinstance(agent, type):
        raise TypeError(
            f"agent={agent!r:.100} must be an agent as constructed, such as CategoricalMlpAgent()."
        )
    return completed(agent, BaseAgent, BaseAgent())


def try_out(sampler: Any, in_child: bool) -> Any:
    """Examples of what a sampler's environments give; tried out in a child, or here."""
    kwargs = kwargs_by_env("env_kwargs", sampler.env_kwargs, sampler.batch_spec.B, "batch_B")
    return try_environment(
        sampler.EnvCls,
        kwargs[0],
        in_child,
        sampler.start_method,
        sampler.start_timeout_s,
    )


def initialize_agent(sampler: Any, share_memory: bool, rank: int = 0, world_size: int = 1) -> None:
    """Have a sampler's agent build its model, without memories of samplers before."""
    B = sampler.batch_spec.B
    if share_memory:
        sampler.agent.shared_weights = None  # those of a run before
    sampler.agent.initialize(
        sampler.examples.spaces,
        share_memory=share_memory,
        global_B=B * world_size,
        env_ranks=list(range(rank * B, (rank + 1) * B)),
    )
    if share_memory:
        share_weights(sampler.agent)
    if hasattr(sampler.agent, "memory"):
        sampler.agent.memory.forget()


def allocate_batch(
    sampler: Any, memory: Arena | bool, bootstrap_value: bool, final_observation: bool
) -> Any:
    """A batch for what environments and agent give; completes the examples."""
    if "agent_info" not in sampler.examples:
        agent_examples(sampler.agent, sampler.examples)
    recorded = getattr(sampler.CollectorCls, "records_final_observations", False)
    T, B = sampler.batch_spec
    final = final_observation and recorded
    return allocate_samples(sampler.examples, T, B, bootstrap_value, memory, final)


def progress_of(n: int) -> Any:
    """Numbers of ``samplers.place`` for n processes, [n, N_NUMBERS] int64 in shared memory."""
    progress = Arena().allocate((n, N_NUMBERS), np.int64)
    progress[...] = fresh_progress()
    return progress


def station_specs(
    sampler: Any,
    n_stations: int,
    rank: int,
    world_size: int,
    traj_info_kwargs: dict[str, Any],
    tasks: list[Any] | None = None,
) -> list[StationSpec]:
    """The recipe of each station.

    Args:
        sampler: with arguments, seed and examples.
        n_stations: among which its environments are shared out.
        rank, world_size: which of how many samplers of one run it is.
        traj_info_kwargs: settings of the ``TrajInfo``.
        tasks: of each environment's first episodes, where a curriculum chooses them.
    """
    B = sampler.batch_spec.B
    rows = rows_per_worker(B, n_stations, sampler.layout.groups)
    n_eval = -(-sampler.eval_n_envs // n_stations)  # at least one each, as documented
    quota = quotas(sampler.eval_max_trajectories, n_eval * n_stations)
    kwargs = kwargs_by_env("env_kwargs", sampler.env_kwargs, B, "batch_B")
    eval_kwargs = eval_kwargs_by_env(sampler, n_eval * n_stations)
    first = _first_of_their_kind([*kwargs, *eval_kwargs])
    # Rank 0 shows the warnings of environments that are made alike everywhere.
    warns = [own and (rank == 0 or sum(first[:B]) > 1) for own in first[:B]]
    eval_warns = [own and rank == 0 for own in first[B:]]

    def spec(i: int) -> StationSpec:
        mine = slice(i * n_eval, (i + 1) * n_eval)
        first = rank * B + i * rows
        return StationSpec(
            rank=i,
            EnvCls=sampler.EnvCls,
            env_kwargs=kwargs[i * rows : (i + 1) * rows],
            env_warns=warns[i * rows : (i + 1) * rows],
            CollectorCls=sampler.CollectorCls,
            TrajInfoCls=sampler.TrajInfoCls,
            traj_info_kwargs=traj_info_kwargs,
            batch_T=sampler.batch_spec.T,
            env_ranks=list(range(first, first + rows)),
            global_B=B * world_size,
            seed=sampler.seed,
            max_decorrelation_steps=sampler.max_decorrelation_steps,
            examples=sampler.examples,
            eval_CollectorCls=sampler.eval_CollectorCls,
            eval_env_kwargs=eval_kwargs[mine],
            eval_env_warns=eval_warns[mine],
            eval_env_ranks=list(range(i * n_eval, (i + 1) * n_eval)),
            eval_max_T=eval_steps_per_env(sampler, n_stations),
            eval_quota=None if quota is None else quota[mine],
            eval_deterministic=sampler.eval_deterministic,
            tasks=None if tasks is None else tasks[i * rows : (i + 1) * rows],
            deterministic_acting=sampler.deterministic_acting,
        )

    return [spec(i) for i in range(n_stations)]


def eval_steps_per_env(sampler: Any, n_stations: int) -> int:
    """Steps of each evaluation environment at the most; 0 if there are none."""
    n_envs = -(-sampler.eval_n_envs // n_stations) * n_stations
    return sampler.eval_max_steps // n_envs if sampler.eval_max_steps and n_envs else 0


def build_server(sampler: Any, specs: list[StationSpec], progress: Any) -> ActionServer:
    """The server that answers these stations."""
    return ActionServer(
        agent=sampler.agent,
        examples=sampler.examples,
        slots=sampler.slots,
        env_ranks=[spec.env_ranks for spec in specs],
        eval_env_ranks=[spec.eval_env_ranks for spec in specs],
        n_groups=sampler.layout.groups,
        overlap=sampler.layout.overlap,
        seed=sampler.seed,
        global_B=specs[0].global_B,
        eval_deterministic=sampler.eval_deterministic,
        context=start_context(sampler.start_method),
        progress=progress,
        deterministic_acting=sampler.deterministic_acting,
    )


def start_workers(
    sampler: Any,
    specs: list[StationSpec],
    server: ActionServer | None,
    recipe_agent: bytes,
    hardware: Hardware,
) -> WorkerPool:
    """Start a worker for each station.

    Raises:
        WorkerError: one cannot be started, or its station not be built.
    """
    context = start_context(sampler.start_method)
    torch_threads = hardware.worker_torch_threads
    if torch_threads > 1 and context.get_start_method() == "fork":
        torch_threads = 1
        warnings.warn(
            f"worker_torch_threads={hardware.worker_torch_threads} is taken for 1: the threads "
            "of a process do not survive a fork. Start workers by forkserver or spawn."
        )
    rows = sampler.batch_spec.B // len(specs)
    agent = serialize.loads(recipe_agent)
    progress = progress_of(len(specs))
    worker_specs = [
        WorkerSpec(
            rank=i,
            recipe=serialize.dumps((spec, agent)),
            slots=[slot[:, i * rows : (i + 1) * rows] for slot in sampler.slots],
            weights=sampler.agent.shared_weights,
            exchange=server.exchanges[i] if server is not None else None,
            progress=progress[i],
            stacks=StackFile(),
            cpus=hardware.workers_cpus[i],
            torch_threads=torch_threads,
            starter_lasts=starter_lasts(context),
        )
        for i, spec in enumerate(specs)
    ]
    limits = Limits(sampler.env_timeout, sampler.reset_timeout, sampler.start_timeout_s)
    beat = None if sampler.progress is None else partial(_beat, sampler.progress)
    return WorkerPool(worker_specs, specs, limits, sampler.start_method, beat)


def _beat(progress: Any) -> None:
    """Note that this process looks after its workers."""
    progress[BEAT] += 1
