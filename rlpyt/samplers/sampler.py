"""The synchronous sampler: environment workers in this process or in worker processes."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rlpyt.processes.child import ChildSpec
from rlpyt.processes.group import ChildGroup, Limits, Replied
from rlpyt.processes.pipe import Pipes
from rlpyt.processes.status import BEAT, Progress, allocate_progress, describe_env
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.custom_collectors import CustomCollectors
from rlpyt.samplers.env_worker import (
    EnvWorker,
    EnvWorkerSpec,
    WorkerPayload,
    build_env_worker,
    runs_in_chunks,
    worker_status,
)
from rlpyt.samplers.evaluation import EvalCollector
from rlpyt.samplers.in_process import InProcess
from rlpyt.samplers.layout import Affinity, Hardware, SamplerLayout, rows_per_worker
from rlpyt.samplers.surroundings import Surroundings, mark_torch_seed
from rlpyt.utils import serialize
from rlpyt.utils.buffer import torchify_buffer
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.completion import warn_of_lost_state
from rlpyt.utils.logging import logger
from rlpyt.utils.old_names import AssignableProperty
from rlpyt.utils.processes import start_context
from rlpyt.utils.seed import env_seed, undisturbed
from rlpyt.utils.shared import Arena

if TYPE_CHECKING:
    from rlpyt.agents.base import BaseAgent
    from rlpyt.samplers.healing import WorkerFaults
    from rlpyt.samplers.serving import ActionServer
    from rlpyt.samplers.task_flow import TaskFlow


def _of_worker(name: str) -> Any:
    return AssignableProperty(lambda sampler: getattr(sampler._env_worker, name, None))


class Sampler(BaseSampler):
    """A sampler whose ``layout`` determines where its environment workers and its agent are.

    Attributes (after ``initialize``):
        samples_np, samples_pyt: the batch as numpy and torch trees over the same memory.
        agent: agent of the master.
    """

    layout = SamplerLayout()
    examples: Any = None
    slots: Sequence[Any] = ()
    progress: Any = None  # activity numbers of this process, if its parent watches it
    _worker_group: Any = None  # a ``ChildGroup``, or ``InProcess``
    _finalizer: Any = None  # function that shuts it down
    _n_env_workers = 1
    _surroundings: Surroundings  # of an environment worker in this process
    _server: ActionServer | None = None
    _served_batch: tuple[Any, ...] = ()  # (slot, ``replied``) of the batch being collected
    _task_flow: TaskFlow | None = None  # None without a curriculum
    _worker_faults: WorkerFaults | None = None  # None without ``on_fault``
    _env_statistics: Sequence[Any] = ()  # of each env. worker, if they have any, after a batch
    _n_void = _n_env_restarts = 0  # steps voided, and environments built anew, by faults so far
    _initialized = False  # True if ``initialize`` of this class has run

    def initialize(
        self,
        agent: BaseAgent,
        affinity: Affinity = None,
        seed: int | None = None,
        bootstrap_value: bool = False,
        traj_info_kwargs: dict[str, Any] | None = None,
        rank: int = 0,
        world_size: int = 1,
        worker_process: object = None,
        final_observation: bool = False,
        examples: AttrDict | None = None,
        slots: Sequence[Any] = (),
    ) -> Any:
        """Initialize the agent, allocate the batch, start the environment workers.

        Args:
            agent: the agent, not initialized.
            affinity: cores, threads and GPU, see ``Hardware.of``.
            seed: seed of environments and actions; ``None``: random.
            bootstrap_value: record the agent's ``value`` for bootstrapping.
            traj_info_kwargs: settings of the ``TrajInfo``, such as ``dict(discount=0.99)``.
            rank, world_size: index of this sampler, and number of samplers of the run.
            worker_process: ignored, an argument of rlpyt (2019).
            final_observation: add the field ``final_observation`` to ``samples.env``, with the true
                final observations of episodes, if the collector records them.
            examples, slots: examples and batches to ``fill``, passed by an asynchronous sampler.

        Returns:
            AttrDict of examples of one step: observation, action, reward, done, env_info,
            agent_info, and the environment's ``spaces``.

        Raises:
            WorkerError: an environment or worker failed to start.
            ValueError, TypeError: the parts do not fit together.
        """
        self._start_run(agent, seed)
        if self.deterministic_acting and not slots:  # else the asynchronous sampler warns
            from rlpyt.samplers.tiles import warn_if_untiled

            warn_if_untiled(self.agent)
        self.examples, self.slots = examples, slots
        self._task_flow = self._worker_faults = None  # of an earlier run, as is this method:
        vars(self).pop("_note_interruption", None)
        try:
            self._build(
                Hardware.of(affinity, self.batch_spec.B, self.layout.groups),
                bootstrap_value,
                final_observation,
                traj_info_kwargs or {},
                rank,
                world_size,
            )
            known = self._worker_group.call("statistics")
            self._env_statistics = known if any(any(own) for own in known) else []
        except BaseException:
            self.shutdown()
            raise
        self._n_void = self._n_env_restarts = 0
        self._fixed = frozenset({*self.arguments(), "batch_spec"})
        return self.examples

    def _build(
        self,
        hardware: Hardware,
        bootstrap_value: bool,
        final_observation: bool,
        traj_info_kwargs: dict[str, Any],
        rank: int,
        world_size: int,
    ) -> None:
        self._initialized = True
        n_env_workers = hardware.n_workers if self.layout.processes else 1
        rows_per_worker(self.batch_spec.B, n_env_workers, self.layout.groups)  # raises if uneven
        self._n_env_workers = n_env_workers
        in_workers = self.layout.processes and self.layout.agent == "local"
        serialized_agent = serialize.dumps(self.agent if in_workers else None)  # as constructed
        kwargs = self._kwargs_by_env()
        self._surroundings = Surroundings(describe_env(self.EnvCls, kwargs[0]))
        if self.examples is None:
            around = self._surroundings.checked
            self.examples = self._try_environment(self.layout.processes, around)
        self._initialize_agent(in_workers, rank, world_size)
        if not self.slots:
            memory = Arena() if self.layout.processes else False
            self.slots = [self._allocate_batch(memory, bootstrap_value, final_observation)]
        self.samples_np = self.slots[0]
        self.samples_pyt = torchify_buffer(self.samples_np)
        tasks = None
        if self.curriculum is not None:
            from rlpyt.samplers.task_flow import TaskFlow

            self._task_flow = TaskFlow(self.curriculum, self.batch_spec.B, self.seed, rank)
            tasks = self._task_flow.draw(range(self.batch_spec.B))
        specs = self._env_worker_specs(n_env_workers, rank, world_size, traj_info_kwargs, tasks)
        self._eval_max_T = specs[0].eval_max_T
        if self.on_fault is not None:
            from rlpyt.samplers.healing import WorkerFaults

            given = self.on_fault.env_error
            if given not in ("restart_env", "raise") and not self.restarts_workers:
                raise ValueError(
                    "on_fault: env_error must be 'restart_env' or 'raise' with "
                    f"{type(self).__name__}, which restarts no workers, got {given!r}."
                )
            draw = None if self._task_flow is None else self._task_flow.draw
            self._worker_faults = WorkerFaults(self.on_fault, n_env_workers, draw)
            self._note_interruption = self._void_lost_columns  # type: ignore[method-assign]
        if self.layout.agent == "served":
            from rlpyt.samplers.serving import ActionServer

            self._server = ActionServer(
                agent=self.agent,
                specs=specs,
                slots=self.slots,
                layout=self.layout,
                context=start_context(self.start_method),
                progress=self.progress,
            )
        if self.layout.processes:
            self._worker_group = self._start_workers(specs, serialized_agent, hardware)
            self._finalizer = weakref.finalize(self, self._worker_group.shutdown)
            self._finalizer.atexit = False  # at exit the group stops its children itself
            if self._worker_faults is not None:
                self._worker_group.call("begin")
                self._worker_faults.settle()
        else:
            mark_torch_seed()
            with self._surroundings.checked():
                worker = EnvWorker(specs[0], self.agent, self.slots, self.progress)
            self._worker_group = InProcess(worker, self._surroundings)
            self._finalizer = self._worker_group.shutdown
            with undisturbed():  # keep this process's random streams, as with workers
                self._worker_group.call("start")

    def _env_worker_specs(
        self,
        n_env_workers: int,
        rank: int,
        world_size: int,
        traj_info_kwargs: dict[str, Any],
        tasks: list[Any] | None = None,
    ) -> list[EnvWorkerSpec]:
        """Return the specification of each environment worker, with its first tasks, if any."""
        assert self.CollectorCls is not None
        CollectorCls, B = self.CollectorCls, self.batch_spec.B
        rows = rows_per_worker(B, n_env_workers, self.layout.groups)
        n_eval = -(-self.eval_n_envs // n_env_workers)  # at least one each, as documented
        quota = _quotas(self.eval_max_trajectories, n_eval * n_env_workers)
        kwargs = self._kwargs_by_env()
        eval_kwargs = self._eval_kwargs_by_env(n_eval * n_env_workers)
        is_first = _first_occurrences([*kwargs, *eval_kwargs])
        # Show constructor warnings once per distinct env_kwargs; rank 0 shows those of all ranks.
        warns = [first and (rank == 0 or sum(is_first[:B]) > 1) for first in is_first[:B]]
        eval_warns = [first and rank == 0 for first in is_first[B:]]

        def spec(i: int) -> EnvWorkerSpec:
            eval_envs = slice(i * n_eval, (i + 1) * n_eval)
            first_rank = rank * B + i * rows
            return EnvWorkerSpec(
                rank=i,
                EnvCls=self.EnvCls,
                env_kwargs=kwargs[i * rows : (i + 1) * rows],
                env_warns=warns[i * rows : (i + 1) * rows],
                CollectorCls=CollectorCls,
                TrajInfoCls=self.TrajInfoCls,
                traj_info_kwargs=traj_info_kwargs,
                batch_T=self.batch_spec.T,
                env_ranks=list(range(first_rank, first_rank + rows)),
                global_B=B * world_size,
                seed=self.seed,
                max_decorrelation_steps=self.max_decorrelation_steps,
                examples=self.examples,
                eval_CollectorCls=self.eval_CollectorCls,
                eval_env_kwargs=eval_kwargs[eval_envs],
                eval_env_warns=eval_warns[eval_envs],
                eval_env_ranks=list(range(i * n_eval, (i + 1) * n_eval)),
                eval_max_T=self._eval_steps_per_env(n_env_workers),
                eval_quota=None if quota is None else quota[eval_envs],
                eval_deterministic=self.eval_deterministic,
                tasks=None if tasks is None else tasks[i * rows : (i + 1) * rows],
                deterministic_acting=self.deterministic_acting,
                on_fault=self.on_fault,
                begins_by_command=self.on_fault is not None and self.layout.processes,
            )

        return [spec(i) for i in range(n_env_workers)]

    def _eval_steps_per_env(self, n_env_workers: int) -> int:
        """Return the maximum number of steps of each evaluation environment, 0 without any."""
        n_envs = -(-self.eval_n_envs // n_env_workers) * n_env_workers
        return self.eval_max_steps // n_envs if self.eval_max_steps and n_envs else 0

    def _start_workers(
        self,
        specs: list[EnvWorkerSpec],
        serialized_agent: bytes,
        hardware: Hardware,
    ) -> ChildGroup:
        """Start a worker process for each environment worker.

        Raises:
            WorkerError: a process cannot be started, or its environments cannot be built.
        """
        context = start_context(self.start_method)
        torch_threads = hardware.worker_torch_threads
        if torch_threads > 1 and context.get_start_method() == "fork":
            torch_threads = 1
            warnings.warn(
                f"worker_torch_threads must be 1 with start_method='fork', got "
                f"{hardware.worker_torch_threads}; 1 is used, since threads do not survive a fork. "
                "Start workers by forkserver or spawn."
            )
        rows, server = self.batch_spec.B // len(specs), self._server
        agent = serialize.loads(serialized_agent)
        progress = allocate_progress(len(specs))
        payloads = [
            WorkerPayload(
                env_worker=spec,
                agent=agent,
                slots=[slot[:, i * rows : (i + 1) * rows] for slot in self.slots],
                weights=self.agent.shared_weights,
                channel=None if server is None else server.channels[i],
            )
            for i, spec in enumerate(specs)
        ]
        workers = ChildGroup(
            "worker",
            [
                ChildSpec(
                    rank=i,
                    build=build_env_worker,
                    payload=serialize.ByValue(payload),
                    progress=progress[i],
                    cpus=hardware.workers_cpus[i],
                    torch_threads=torch_threads,
                )
                for i, payload in enumerate(payloads)
            ],
            worker_status,
            Limits(self.env_timeout, self.reset_timeout, self.start_timeout_s),
            Pipes(self.start_method),
            poll=None if self.progress is None else partial(_count_check, self.progress),
            release=None if server is None else server.abandon,
            healer=self._worker_faults,
        )
        if server is not None and self._worker_faults is None:  # else successors open them, too
            server.forget_names()
        return workers

    def _call_each(self, method: str, rows: list[Any]) -> list[Any]:
        """Run a method with one argument per environment, [B]; return the results, [B]."""
        each = len(rows) // self._n_env_workers
        parts = [(rows[i : i + each],) for i in range(0, len(rows), each)]
        return [x for reply in self._worker_group.call_each(method, parts) for x in reply]

    def _check_ready(self) -> None:
        if self._worker_group is not None:
            return
        if "collector" not in vars(self):  # set by a custom ``initialize``
            raise RuntimeError("the sampler must be initialized. Call initialize first.")
        self._worker_group = InProcess(CustomCollectors(self), Surroundings())
        self._finalizer = self._worker_group.shutdown
        n_envs = max(1, self.eval_n_envs)
        self._eval_max_T = max(1, (self.eval_max_steps or 0) // n_envs)

    def obtain_samples(self, itr: int) -> tuple[Any, list[Any]]:
        """Collect one batch.

        Returns:
            (samples, trajectories): ``Samples`` [T, B] as torch tensors over memory that the next
            batch overwrites, and the ``TrajInfo`` of trajectories that ended.

        Raises:
            WorkerError: a worker failed; nothing of the sampler is left running.
        """
        self.has_sampled = True
        completed = self.fill(itr, 0)
        return self.samples_pyt, completed

    def fill(self, itr: int, slot: int) -> list[Any]:
        """Collect one batch into ``slots[slot]``; return the trajectories that ended."""
        self._check_ready()
        self._publish()

        serve = None
        if self._server is not None:
            self._server.drain()
            serve = partial(self._serve_batch, itr, slot)
        completed = self._worker_group.call("collect", itr, slot, meanwhile=serve)
        self._note_interruption(slot)
        if self._env_statistics:
            self._env_statistics = self._worker_group.call("statistics")
        if self._task_flow is not None:
            self._task_flow.report(self.slots[slot], self.interrupted)
            self._task_flow.set_queued(self._call_each("assign_tasks", self._task_flow.choose()))
        return [info for infos in completed for info in infos]

    def _serve_batch(self, itr: int, slot: int, replied: Replied) -> None:
        self._served_batch = slot, replied
        self.serve_actions(itr)

    def serve_actions(self, itr: int) -> None:
        """Serve actions to the workers while they collect a batch; subclasses may extend this."""
        assert self._server is not None
        slot, replied = self._served_batch
        self._server.serve_actions(itr, slot, replied, self._worker_faults is not None)

    def _note_interruption(self, slot: int) -> None:
        """Hook: set ``interrupted`` if this slot's batch does not continue the previous one."""

    def _void_lost_columns(self, slot: int) -> None:
        """Void the columns of workers that were lost while they collected this batch."""
        from rlpyt.samplers.healing import void_rows

        assert self._worker_faults is not None
        rows = self.batch_spec.B // self._n_env_workers
        lost = self._worker_faults.settle()
        for worker in lost:
            columns = slice(worker * rows, (worker + 1) * rows)
            void_rows(self.slots[slot], slice(None), columns)
            if self._server is not None:
                self._server.step_buffer_np.done[columns] = True  # clears recurrent states
        if restarted := lost - self._worker_faults.dropped:
            self._pass_statistics_on(restarted)
        self._n_void += int(self.slots[slot].env.void.sum())
        self._log_faults()

    def _pass_statistics_on(self, restarted: set[int]) -> None:
        """Give workers that were started again the running statistics of another one."""
        known = self._worker_group.call("statistics")
        others = [own for worker, own in enumerate(known) if own and worker not in restarted]
        if others:
            given = [(others[0] if i in restarted else [],) for i in range(len(known))]
            self._worker_group.call_each("load_statistics", given)

    def _log_faults(self) -> None:
        """Log the faults of environments that workers have healed."""
        assert self._worker_group is not None
        lines = [line for lines in self._worker_group.call("take_faults") for line in lines]
        self._n_env_restarts += len(lines)
        for line in lines:
            logger.log(line)

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run the evaluation episodes; return their ``TrajInfo``.

        ``should_stop`` may end the evaluation between chunks of steps; then the episodes that have
        ended are returned.

        Raises:
            ValueError: the sampler has no evaluation environments.
            WorkerError: a worker failed; nothing of the sampler is left running.
        """
        self._check_evaluates()
        self._check_ready()
        self._publish()
        max_T = self._eval_max_T
        if max_T < 1:
            raise ValueError(
                f"eval_max_steps must be at least the number of evaluation environments, got "
                f"{self.eval_max_steps} (eval_n_envs={self.eval_n_envs}, at least one per worker)."
            )
        chunk = EvalCollector.CHUNK if runs_in_chunks(self.eval_CollectorCls) else max_T
        finished: list[Any] = []
        for t in range(0, max_T, chunk):
            n, first = min(chunk, max_T - t), t == 0
            serve = None
            if self._server is not None:
                self._server.drain()
                serve = partial(self._server.serve_actions_evaluation, itr, n, first)
            replies = self._worker_group.call("evaluate", itr, n, first, meanwhile=serve)
            finished += [info for infos, _ in replies for info in infos]
            if all(satisfied for _, satisfied in replies) or self.should_stop():
                break
        if self._worker_faults is not None:
            self._log_faults()
        return finished

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all environments, random streams and statistics in progress."""
        if not self._initialized:
            return super().state_dict()  # a subclass with a custom ``initialize``
        self._check_ready()
        if self._worker_faults is not None:
            self._log_faults()
        stations = self._worker_group.call("state_dict")
        state = {**self.lasting_state(), "stations": stations, "kind": self._resume_key()}
        if any("collector" not in env_worker for env_worker in state["stations"]):
            warn_of_lost_state(self.CollectorCls, "A resumed run starts new episodes.")
        if self._env_worker is not None:
            state["surroundings"] = self._surroundings.state_dict()
        if self._server is not None:
            state["server"] = self._server.state_dict()
        return state

    def lasting_state(self) -> dict[str, Any]:
        """Return the part of the state that is known without the environment workers."""
        state: dict[str, Any] = {}
        if self._env_statistics:
            state["stations"] = [{"statistics": own} for own in self._env_statistics]
        if self._task_flow is not None:
            state["curriculum"] = self._task_flow.state_dict()
        if self._worker_faults is not None:
            faults = self._worker_faults
            counts = self._n_env_restarts, self._n_void, faults.restarts, faults.lives
            state["faults"] = [*map(int, counts)]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Load a saved state; return True if the run resumes exactly.

        If an environment has no state, or the saved sampler has another layout, number of workers
        or collector, environments start new episodes. Running statistics of vector environments,
        the state of a curriculum and counts of faults are loaded in any case.
        """
        exact = self._load_env_workers(state)
        if self._task_flow is not None and "curriculum" in state:
            self._task_flow.load_state_dict(state["curriculum"], exact)
        if self._worker_faults is not None and "faults" in state:
            self._log_faults()  # those of the random steps at the start, which did not happen
            faults = self._worker_faults
            self._n_env_restarts, self._n_void, faults.restarts, faults.lives = state["faults"]
        return exact

    def start_anew(self, itr: int) -> None:
        """Start new episodes; see `BaseSampler.start_anew`."""
        if self._worker_group is None:  # a custom ``initialize`` has made the environments
            return
        seed = env_seed(self.seed, itr, "resumed")
        with undisturbed():
            self._worker_group.call("start_anew", seed, self.layout.processes)
        if self._server is not None:
            self._server.start_anew(seed)
        if self._task_flow is not None:
            self._task_flow.abandon()
            self._task_flow.set_queued(self._call_each("assign_tasks", [[]] * self.batch_spec.B))

    def _load_env_workers(self, state: dict[str, Any]) -> bool:
        env_workers = state.get("stations")
        if env_workers is None:
            return False
        if state["kind"] != self._resume_key():
            statistics = [s for env_worker in env_workers for s in env_worker["statistics"]]
            self._worker_group.call("load_statistics", statistics)
            return False
        exact = all(self._worker_group.call_each("load_state_dict", [(s,) for s in env_workers]))
        self._surroundings.load_state_dict(state.get("surroundings", {}))
        if exact and self._server is not None:
            self._server.load_state_dict(state["server"])
        return exact

    def statistics(self) -> dict[str, float]:
        """Return the columns of progress.csv of the curriculum, and of ``on_fault``."""
        columns = {} if self._task_flow is None else self._task_flow.curriculum.statistics()
        if self._worker_faults is not None:
            faults, rows = self._worker_faults, self.batch_spec.B // self._n_env_workers
            columns |= {
                "EnvRestarts": self._n_env_restarts,
                "WorkerRestarts": faults.restarts,
                "DroppedEnvs": len(faults.dropped) * rows,
                "VoidSteps": self._n_void,
            }
        return columns

    def _resume_key(self) -> list[Any]:
        """Return the settings that must match for an exact resume."""
        stock_infos = self.TrajInfoCls is TrajInfo
        assert self.CollectorCls is not None
        collector = f"{self.CollectorCls.__module__}.{self.CollectorCls.__qualname__}"
        layout = self.layout
        parts = (layout.processes, layout.agent, layout.groups, self._n_env_workers)
        custom = [] if collector.startswith("rlpyt.") else [collector]
        return [*parts, self.mid_batch_reset, stock_infos, *custom]

    @property
    def _env_worker(self) -> Any:
        """Return the environment worker, if it is in this process."""
        return getattr(self._worker_group, "worker", None)

    ctrl: Any = None  # attributes of rlpyt (2019): barriers and flags, not used
    sync: Any = None

    @property
    def restarts_workers(self) -> bool:
        """Return True if ``on_fault`` can start workers again."""
        return bool(self.layout.processes)

    @AssignableProperty
    def workers(self) -> list[Any]:
        """Return the worker processes; none in a serial sampler."""
        return [] if self._worker_group is None else list(self._worker_group.processes)

    @AssignableProperty
    def n_worker(self) -> int:
        """Return the number of worker processes."""
        return len(self.workers)

    # Attributes of the environment worker in this process, else None.
    collector, eval_collector = _of_worker("collector"), _of_worker("eval_collector")
    agent_inputs, traj_infos = _of_worker("agent_inputs"), _of_worker("traj_infos")

    def shutdown(self) -> None:
        """Close environments and stop workers."""
        self._fixed = frozenset()
        if self._worker_group is not None:
            self._finalizer()
            self._worker_group = self._finalizer = None
        if self._server is not None:
            self._server.forget_names()
            self._server = None


def _first_occurrences(kwargs: list[dict[str, Any]]) -> list[bool]:
    """Return True for each dictionary that differs from all before it."""
    distinct: list[dict[str, Any]] = []
    is_first = []
    for settings in kwargs:
        is_first.append(not any(_equal(settings, other) for other in distinct))
        if is_first[-1]:
            distinct.append(settings)
    return is_first


def _equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    try:
        return a is b or bool(a == b)
    except Exception:  # arrays have no single truth value
        return False


def _quotas(total: int | None, n_envs: int) -> list[int] | None:
    """Divide ``total`` episodes evenly; return ``None`` without a total or without environments."""
    if total is None or not n_envs:
        return None
    return [total // n_envs + (i < total % n_envs) for i in range(n_envs)]


def _count_check(progress: Progress) -> None:
    """Count a check of this process's workers, as a sign of its own progress."""
    progress[BEAT] += 1
