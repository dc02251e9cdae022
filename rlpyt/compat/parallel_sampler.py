"""Parallel samplers with the protocol of rlpyt (2019): barriers, flags and queues.

`BarrierSampler` is the parent of rlpyt's samplers with workers. It adds the methods from which
rlpyt's ``initialize`` was composed. A subclass that overrides or uses them is run by them, all
others by ``Sampler``. Such a run has no time limits for steps, and its checkpoints do not hold the
environments.
"""

from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.weights import share_weights
from rlpyt.envs.base import build_env
from rlpyt.samplers.buffer import get_example_outputs
from rlpyt.samplers.environments import close_quietly
from rlpyt.samplers.layout import Affinity, Hardware
from rlpyt.samplers.sampler import Sampler, _quotas
from rlpyt.utils import serialize
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.completion import completed
from rlpyt.utils.shared import Arena

HOOKS = frozenset(
    (
        *("_get_n_envs_list", "_agent_init", "_build_buffers", "_build_parallel_ctrl"),
        *("_assemble_common_kwargs", "_assemble_workers_kwargs", "serve_actions_evaluation"),
    )
)
ATTRIBUTES = frozenset(("ctrl", "traj_infos_queue", "eval_traj_infos_queue"))


def uses_old_protocol(cls: type) -> bool:
    """Return True if a user's sampler class overrides the hooks, or its code reads ``ctrl``."""
    for owner in cls.__mro__:
        if owner.__module__.startswith("rlpyt.") or owner is object:
            continue
        functions = [f for f in vars(owner).values() if isinstance(f, FunctionType)]
        if HOOKS & vars(owner).keys() or any(ATTRIBUTES & _names(f.__code__) for f in functions):
            return True
    return False


def _names(code: CodeType) -> set[str]:
    """Return the names of all attributes and globals that the code uses."""
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return {*code.co_names}.union(*inner)


class BarrierSampler(Sampler):
    """A sampler that can run its workers by the methods of rlpyt (2019).

    Attributes (after ``_build_parallel_ctrl``):
        ctrl: ``quit``, ``do_eval`` and ``itr`` with a ``value``, ``barrier_in``, ``barrier_out``.
        sync: ``stop_eval``; if the agent is served, also ``obs_ready`` and ``act_ready``, lists of
            one semaphore for each worker.
        traj_infos_queue, eval_traj_infos_queue: queues of finished trajectories.
    """

    traj_infos_queue: Any
    eval_traj_infos_queue: Any
    rank, world_size = 0, 1
    _final_observation = False

    def initialize(  # type: ignore[override]
        self,
        agent: BaseAgent,
        affinity: Affinity = None,
        seed: int | None = None,
        bootstrap_value: bool = False,
        traj_info_kwargs: dict[str, Any] | None = None,
        rank: int = 0,
        world_size: int = 1,
        worker_process: Callable[..., object] | None = None,
        final_observation: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Start the workers; see ``Sampler.initialize``.

        Args:
            agent, affinity, seed, bootstrap_value, traj_info_kwargs, rank, world_size,
                final_observation, **kwargs: see ``Sampler.initialize``.
            worker_process: function that a worker runs, in place of ``sampling_process``.
        """
        if worker_process is None and not uses_old_protocol(type(self)):
            return super().initialize(
                agent,
                affinity,
                seed,
                bootstrap_value,
                traj_info_kwargs,
                rank=rank,
                world_size=world_size,
                final_observation=final_observation,
                **kwargs,
            )
        self._start_run(agent, seed)
        self.rank, self.world_size = rank, world_size
        self._final_observation = final_observation
        hardware = Hardware.of(affinity, self.batch_spec.B, self.layout.groups)
        try:
            examples = self._start_by_hooks(hardware, bootstrap_value, traj_info_kwargs or {})
            from rlpyt.compat.barriers import start_workers

            start_workers(self, worker_process, *self._workers_arguments)
            self.ctrl.barrier_out.wait()
        except BaseException:
            self.shutdown()
            raise
        return examples

    def _start_by_hooks(
        self, hardware: Hardware, bootstrap_value: bool, traj_info_kwargs: dict[str, Any]
    ) -> Any:
        """Call the hooks in rlpyt's order; return the examples."""
        n_envs_list = self._get_n_envs_list(affinity=hardware)
        n_worker, B = len(n_envs_list), self.batch_spec.B
        self.n_worker = n_worker
        if self.eval_n_envs:
            self.eval_n_envs_per = max(1, self.eval_n_envs // n_worker)
            self.eval_n_envs = self.eval_n_envs_per * n_worker
            self.eval_max_T = self.eval_max_steps // self.eval_n_envs  # type: ignore[operator]
        env_ranks = list(range(self.rank * B, (self.rank + 1) * B))
        global_B = B * self.world_size
        kwargs = self.env_kwargs
        env = build_env(self.EnvCls, kwargs if isinstance(kwargs, Mapping) else kwargs[0], "")
        try:
            self._agent_init(self.agent, env, global_B=global_B, env_ranks=env_ranks)
            examples = self._build_buffers(env, bootstrap_value)
        finally:
            close_quietly([env])
        self._build_parallel_ctrl(n_worker)
        for name, value in traj_info_kwargs.items():
            setattr(self.TrajInfoCls, f"_{name}", value)
        common = self._assemble_common_kwargs(hardware, global_B)
        common.setdefault("traj_info_kwargs", traj_info_kwargs)
        workers_kwargs = self._assemble_workers_kwargs(hardware, self.seed, n_envs_list)
        self._workers_arguments = common, workers_kwargs
        return examples

    # Hooks of rlpyt (2019).

    def _get_n_envs_list(
        self, affinity: Any = None, n_worker: int | None = None, B: int | None = None
    ) -> list[int]:
        """Return the number of environments of each worker."""
        B = self.batch_spec.B if B is None else B
        n_worker = min(len(affinity["workers_cpus"]) if n_worker is None else n_worker, B)
        return [B // n_worker + (i < B % n_worker) for i in range(n_worker)]

    def _agent_init(
        self, agent: BaseAgent, env: Any, global_B: int = 1, env_ranks: list[int] | None = None
    ) -> None:
        """Initialize the agent, in shared memory if the workers have it."""
        local = self.layout.agent == "local"
        made = serialize.dumps(agent)
        self.agent = completed(agent, BaseAgent, BaseAgent())
        if local:
            self.agent.shared_weights = None
        kwargs: dict[str, Any] = dict(global_B=global_B, env_ranks=env_ranks)
        self.agent.initialize(env.spaces, share_memory=local, **kwargs)
        if self.agent.memory is not None:
            self.agent.memory.forget()
        if local:
            from rlpyt.compat.barriers import send_with_weights

            share_weights(self.agent)
            arguments = (made, env.spaces, self.agent.shared_weights, kwargs)
            send_with_weights(self.agent, arguments)
        else:
            self.agent.collector_initialize(**kwargs)

    def _build_buffers(self, env: Any, bootstrap_value: bool) -> Any:
        """Allocate the batch, and the step buffers of a served agent; return the examples."""
        self.examples = examples = AttrDict()
        get_example_outputs(self.agent, env, examples)
        self.samples_np = self._allocate_batch(Arena(), bootstrap_value, self._final_observation)
        self.samples_pyt = torchify_buffer(self.samples_np)
        if self.layout.agent == "served":
            from rlpyt.samplers.serving import build_step_buffer

            buffers = build_step_buffer(examples, self.batch_spec.B)
            self.step_buffer_pyt, self.step_buffer_np = buffers
            if self.eval_n_envs:
                buffers = build_step_buffer(examples, self.eval_n_envs)
                self.eval_step_buffer_pyt, self.eval_step_buffer_np = buffers
        return examples

    def _build_parallel_ctrl(self, n_worker: int) -> None:
        """Build barriers, flags, queues and semaphores, and use them from now on."""
        from rlpyt.compat.barriers import build_parallel_ctrl

        build_parallel_ctrl(self, n_worker)
        self._eval_max_T = getattr(self, "eval_max_T", 0)

    def _assemble_common_kwargs(self, affinity: Any, global_B: int = 1) -> dict[str, Any]:
        """Return the arguments of all workers."""
        common = dict(
            EnvCls=self.EnvCls,
            env_kwargs=self.env_kwargs,
            agent=self.agent if self.layout.agent == "local" else None,
            batch_T=self.batch_spec.T,
            CollectorCls=self.CollectorCls,
            TrajInfoCls=self.TrajInfoCls,
            traj_infos_queue=self.traj_infos_queue,
            ctrl=self.ctrl,
            max_decorrelation_steps=self.max_decorrelation_steps,
            torch_threads=affinity.get("worker_torch_threads", None),
            global_B=global_B,
            run_seed=getattr(self, "seed", 0),
        )
        if self.eval_n_envs:
            eval_kwargs = self.eval_env_kwargs
            common |= dict(
                eval_n_envs=self.eval_n_envs_per,
                eval_CollectorCls=self.eval_CollectorCls,
                eval_env_kwargs=self.env_kwargs if eval_kwargs is None else eval_kwargs,
                eval_max_T=self.eval_max_T,
                eval_traj_infos_queue=self.eval_traj_infos_queue,
            )
        return common

    def _assemble_workers_kwargs(
        self, affinity: Any, seed: int, n_envs_list: list[int]
    ) -> list[dict[str, Any]]:
        """Return the arguments of each worker."""
        workers_kwargs: list[dict[str, Any]] = []
        first = 0
        n_eval = getattr(self, "eval_n_envs_per", 0)
        quota = _quotas(self.eval_max_trajectories, n_eval * len(n_envs_list))
        for rank, n_envs in enumerate(n_envs_list):
            rows = slice(first, first + n_envs)
            evals = slice(rank * n_eval, (rank + 1) * n_eval)
            first_rank = self.rank * self.batch_spec.B + first
            worker = dict(
                rank=rank,
                env_ranks=list(range(first_rank, first_rank + n_envs)),
                seed=seed + rank,
                cpus=affinity["workers_cpus"][rank],
                n_envs=n_envs,
                samples_np=self.samples_np[:, rows],
                sync=self.sync,
                eval_quota=None if quota is None else quota[evals],
                eval_env_ranks=list(range(evals.start, evals.stop)),
            )
            if self.layout.agent == "served":
                worker["sync"] = AttrDict(
                    stop_eval=self.sync.stop_eval,
                    obs_ready=self.sync.obs_ready[rank],
                    act_ready=self.sync.act_ready[rank],
                )
                worker["step_buffer_np"] = self.step_buffer_np[rows]
                if self.eval_n_envs:
                    worker["eval_step_buffer_np"] = self.eval_step_buffer_np[evals]
            workers_kwargs.append(worker)
            first += n_envs
        return workers_kwargs

    def serve_actions_evaluation(self, itr: int) -> list[Any]:
        """Act for one evaluation; return finished trajectories."""
        server: Any = self._server
        return server.serve_actions_evaluation(itr)  # type: ignore[no-any-return]
