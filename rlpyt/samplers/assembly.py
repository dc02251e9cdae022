"""What a sampler's processes are started with: stations, the action server, workers."""

import warnings
from functools import partial
from typing import Any

import numpy as np

from rlpyt.samplers.buffer import agent_examples, allocate_samples
from rlpyt.samplers.environments import try_environment
from rlpyt.samplers.layout import Hardware, rows_per_worker
from rlpyt.samplers.place import BEAT, N_NUMBERS, fresh_progress
from rlpyt.samplers.pool import Limits, WorkerPool
from rlpyt.samplers.serving import ActionServer
from rlpyt.samplers.station import StationSpec, quotas
from rlpyt.samplers.workers import WorkerSpec
from rlpyt.utils import serialize
from rlpyt.utils.processes import start_context, starter_lasts
from rlpyt.utils.shared import Arena
from rlpyt.utils.stacks import StackFile


def checked_agent(agent: Any) -> Any:
    """The agent, if it is one.

    Raises:
        TypeError: it is not.
    """
    if not hasattr(agent, "initialize") or isinstance(agent, type):
        raise TypeError(
            f"agent={agent!r:.100} must be an agent as constructed, such as CategoricalMlpAgent()."
        )
    return agent


def try_out(sampler: Any, in_child: bool) -> Any:
    """Examples of what a sampler's environments give; tried out in a child, or here."""
    return try_environment(
        sampler.EnvCls,
        sampler.env_kwargs,
        in_child,
        sampler.start_method,
        sampler.start_timeout_s,
    )


def initialize_agent(sampler: Any, share_memory: bool, rank: int = 0, world_size: int = 1) -> None:
    """Have a sampler's agent build its model, without memories of samplers before."""
    B = sampler.batch_spec.B
    sampler.agent.initialize(
        sampler.examples.spaces,
        share_memory=share_memory,
        global_B=B * world_size,
        env_ranks=list(range(rank * B, (rank + 1) * B)),
    )
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

    def spec(i: int) -> StationSpec:
        mine = slice(i * n_eval, (i + 1) * n_eval)
        first = rank * B + i * rows
        eval_env_kwargs = sampler.eval_env_kwargs
        return StationSpec(
            rank=i,
            EnvCls=sampler.EnvCls,
            env_kwargs=sampler.env_kwargs,
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
            eval_env_kwargs=sampler.env_kwargs if eval_env_kwargs is None else eval_env_kwargs,
            eval_env_ranks=list(range(i * n_eval, (i + 1) * n_eval)),
            eval_max_T=eval_steps_per_env(sampler, n_stations),
            eval_quota=None if quota is None else quota[mine],
            eval_deterministic=sampler.eval_deterministic,
            tasks=None if tasks is None else tasks[i * rows : (i + 1) * rows],
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
