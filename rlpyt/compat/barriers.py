"""Workers, barriers and queues of the protocol of rlpyt (2019); see ``parallel_sampler``."""

import ctypes
import os
import time
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context, parent_process, queues
from multiprocessing.reduction import ForkingPickler
from threading import BrokenBarrierError
from typing import Any

import numpy as np
import torch

from rlpyt.agents.base import BaseAgent
from rlpyt.envs.base import build_env
from rlpyt.errors import WorkerError
from rlpyt.samplers.collectors import BaseCollector
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.env_worker import traj_info_factory
from rlpyt.samplers.environments import close_quietly
from rlpyt.samplers.evaluation import BaseEvalCollector
from rlpyt.samplers.parallel.gpu.action_server import ActionServer
from rlpyt.samplers.policy_source import StepRecord
from rlpyt.utils import serialize
from rlpyt.utils.buffer import buffer_from_example
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.completion import completed
from rlpyt.utils.processes import pin, start_child, start_context, starting_children, stop
from rlpyt.utils.seed import env_seed, set_seed
from rlpyt.utils.shared import SharedBlock
from rlpyt.utils.synchronize import drain_queue

POLL_S = 0.1  # interval at which a waiting process looks after the others
NAP_S = 0.0005  # interval at which it asks whether the others have come
PATIENCE_S = 5.0  # time for workers to exit


def build_parallel_ctrl(sampler: Any, n_worker: int) -> None:
    """Build barriers, flags, queues and semaphores, and let the sampler use them."""
    context: Any = get_context("spawn")  # its parts can also be inherited by fork
    group = WorkersAtBarriers(sampler)
    sampler.ctrl = AttrDict(
        quit=context.RawValue(ctypes.c_bool, False),
        barrier_in=WatchedBarrier(n_worker + 1, ctx=context),
        barrier_out=WatchedBarrier(n_worker + 1, ctx=context),
        do_eval=context.RawValue(ctypes.c_bool, False),
        itr=context.RawValue(ctypes.c_long, 0),
        errors=context.SimpleQueue(),
    )
    for barrier in (sampler.ctrl.barrier_in, sampler.ctrl.barrier_out):
        barrier.watch = group.check
    sampler.traj_infos_queue = QueueByValue(ctx=context)
    sampler.eval_traj_infos_queue = QueueByValue(ctx=context)
    sampler.sync = AttrDict(stop_eval=context.RawValue(ctypes.c_bool, False))
    if sampler.layout.agent == "served":
        sampler.sync.obs_ready = [context.Semaphore(0) for _ in range(n_worker)]
        sampler.sync.act_ready = [context.Semaphore(0) for _ in range(n_worker)]
        sampler._server = ServerOfSampler(sampler)
    sampler._worker_group = group
    sampler._finalizer = group.shutdown


def start_workers(
    sampler: Any,
    worker_process: Callable[..., object] | None,
    common_kwargs: dict[str, Any],
    workers_kwargs: list[dict[str, Any]],
) -> None:
    """Start a process for each worker, and assign them to ``sampler.workers``."""
    agent: Any = common_kwargs.get("agent")
    if agent is sampler.agent:  # the workers have it
        common_kwargs = {**common_kwargs, "agent": _SentAgent(agent._for_workers)}
    target = sampling_process if worker_process is None else worker_process
    context = start_context(sampler.start_method)
    sampler.workers, sampler._pipes = [], []
    with starting_children():
        for i, worker_kwargs in enumerate(workers_kwargs):
            payload = serialize.ByValue((target, common_kwargs, worker_kwargs))
            process, pipe = start_child(context, _run, payload, f"worker {i}")
            sampler.workers.append(process)
            sampler._pipes.append(pipe)  # open while the worker lives


def send_with_weights(agent: Any, arguments: tuple[Any, ...]) -> None:
    """Let the initialized agent be an argument of processes that a user's script starts.

    Args:
        agent: the agent.
        arguments: those of ``_worker_agent``.
    """
    agent._for_workers = arguments
    ForkingPickler.register(type(agent), _reduce_agent)


class QueueByValue(queues.Queue):  # type: ignore[type-arg]
    """A queue for objects of classes that the user's script defines."""

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an object."""
        super().put(serialize.dumps(obj), block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove and return the oldest object."""
        return serialize.loads(super().get(block, timeout))


class WatchedBarrier:
    """A barrier at which a process notices that another one has died.

    It has the methods of ``multiprocessing.Barrier``, in which a killed process blocks the others
    forever.

    Args:
        parties: number of processes that wait for each other.
        ctx: multiprocessing context of the lock.

    Attributes:
        watch: function that the process which built the barrier calls while it waits; may raise.
    """

    def __init__(self, parties: int, *, ctx: Any) -> None:
        self.parties = parties
        self.watch: Callable[[], None] | None = None
        self._lock, self._owner = ctx.Lock(), os.getpid()
        # number of waiting processes, number of passages, whether the barrier is broken
        self._state = SharedBlock(24).array(0, (3,), np.int64)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"watch": None}

    @property
    def n_waiting(self) -> int:
        """Return the number of processes that wait."""
        return int(self._state[0])

    @property
    def broken(self) -> bool:
        """Return True if waiting raises an error."""
        return bool(self._state[2])

    def abort(self) -> None:
        """Let all processes that wait, now or later, raise BrokenBarrierError."""
        self._state[2] = 1

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all parties do; return the number of those that came before.

        Raises:
            BrokenBarrierError: a process has aborted the barrier, or waited for too long.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._lock.acquire(timeout=POLL_S):
            self._look_after_others()
        state = self._state
        try:
            index, passages = int(state[0]), int(state[1])
            last = index + 1 == self.parties
            state[0] = 0 if last else index + 1
            state[1] += last
        finally:
            self._lock.release()
        checked = time.monotonic()
        while state[1] == passages and not state[2]:
            time.sleep(NAP_S)
            now = time.monotonic()
            if now - checked > POLL_S:
                checked = now
                self._look_after_others()
            if end is not None and now > end:
                self.abort()
        if state[1] == passages:
            self._look_after_others()
            raise BrokenBarrierError
        return index

    def _look_after_others(self) -> None:
        parent = parent_process()
        if os.getpid() == self._owner:
            if self.watch is not None:
                self.watch()
        elif parent is not None and not parent.is_alive():
            raise SystemExit(1)


class WorkersAtBarriers:
    """Workers that run between two barriers, with the methods of ``ChildGroup``.

    Args:
        sampler: their sampler, which has ``workers``, a list of processes.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = weakref.ref(sampler)
        self._finished: list[Any] | None = None  # of an evaluation in this process

    @property
    def sampler(self) -> Any:
        """Return the sampler."""
        return self._sampler()

    @property
    def processes(self) -> list[Any]:
        """Return the workers."""
        workers = vars(self.sampler).get("workers", ())
        return [w for w in workers if hasattr(w, "exitcode")]

    def check(self) -> None:
        """Raise WorkerError if a worker has failed, after ending the others.

        Raises:
            WorkerError: a worker raised or has died.
        """
        sampler = self.sampler
        if sampler is None:
            return
        dead = [w for w in self.processes if w.pid is not None and w.exitcode is not None]
        errors = sampler.ctrl.errors
        if dead or not errors.empty():
            rank, summary, text = errors.get() if not errors.empty() else (-1, "", "")
            if rank < 0:
                rank = self.processes.index(dead[0])
                summary = f"has ended (exit code {dead[0].exitcode})"
            stop([w for w in self.processes if w.pid is not None], 1.0)
            error = WorkerError(f"worker {rank} {summary}.", worker=rank, traceback=text)
            if text:
                error.add_note(text)
            raise error
        if self._finished is not None:
            self._finished += drain_queue(sampler.eval_traj_infos_queue, guard_sentinel=True)
            if len(self._finished) >= (sampler.eval_max_trajectories or float("inf")):
                sampler.sync.stop_eval.value = True

    def call(
        self, method: str, *args: Any, meanwhile: Callable[..., object] | None = None
    ) -> list[Any]:
        """Let all workers collect a batch, or evaluate; return the results."""
        if method not in ("collect", "evaluate"):
            raise NotImplementedError(
                f"{type(self.sampler).__name__} uses methods of rlpyt (2019), whose workers have "
                f"no {method}."
            )
        sampler, evaluation = self.sampler, method == "evaluate"
        ctrl = sampler.ctrl
        ctrl.itr.value = args[0]
        if not evaluation:
            ctrl.barrier_in.wait()
            if meanwhile is not None:
                meanwhile(self._replied)
            ctrl.barrier_out.wait()
            return [drain_queue(sampler.traj_infos_queue)]
        ctrl.do_eval.value, sampler.sync.stop_eval.value = True, False
        finished: list[Any] = []
        try:
            ctrl.barrier_in.wait()
            if sampler.layout.agent == "served":
                finished += sampler.serve_actions_evaluation(args[0])
            else:
                self._finished = finished
            ctrl.barrier_out.wait()
        finally:
            self._finished, ctrl.do_eval.value = None, False
        n_sentinel = len(self.processes)
        finished += drain_queue(sampler.eval_traj_infos_queue, n_sentinel, timeout=PATIENCE_S)
        return [(finished, True)]

    def _replied(self, rank: int) -> bool:
        self.check()
        return False

    def shutdown(self) -> None:
        """Let the workers exit, and end those that do not."""
        workers, ctrl = self.processes, self.sampler.ctrl
        started = [w for w in workers if w.pid is not None]
        if started and len(started) == len(workers) and all(w.is_alive() for w in started):
            ctrl.quit.value = True
            try:
                ctrl.barrier_in.wait(timeout=PATIENCE_S)
            except (BrokenBarrierError, WorkerError):
                pass
            else:
                for worker in started:
                    worker.join(PATIENCE_S)
        stop(started, 1.0)


class ServerOfSampler(ActionServer):
    """Action server for the buffers and semaphores of a ``BarrierSampler``."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = weakref.ref(sampler)
        self._n_groups, self._overlap = sampler.layout.groups, sampler.layout.overlap

    @property
    def samples_np(self) -> Any:  # type: ignore[override]
        """Return the batch."""
        return self._sampler().samples_np  # type: ignore[union-attr]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler(), name)

    def serve_actions(self, itr: int, *served_batch: object) -> None:
        """Act for every step of one batch."""
        super().serve_actions(itr)

    def _replied(self, rank: int) -> bool:
        self._worker_group.check()
        return False

    def drain(self) -> None:
        """Do nothing: no actions are left."""

    forget_names = drain


# In the workers.


class _SentAgent:
    """The agent among the arguments of a worker; see ``_worker_agent``."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments


def _reduce_agent(agent: Any) -> Any:
    """Pickle the initialized agent of a sampler for a worker, other agents as usual."""
    arguments = vars(agent).get("_for_workers")
    return agent.__reduce_ex__(2) if arguments is None else (_worker_agent, arguments)


def _worker_agent(made: bytes, spaces: Any, weights: Any, kwargs: dict[str, Any]) -> Any:
    """Return the agent with the parameters of the master."""
    agent = completed(serialize.loads(made), BaseAgent, BaseAgent())
    agent.initialize(spaces, share_memory=False, **kwargs)
    if weights is not None:
        agent.bind_shared_memory(weights)
    return agent


def _run(payload: serialize.ByValue, pipe: Any) -> None:
    """Run the function of a worker."""
    target, common, worker = payload.value
    if isinstance(common.get("agent"), _SentAgent):
        common = {**common, "agent": _worker_agent(*common["agent"].arguments)}
    target(common_kwargs=common, worker_kwargs=worker)


def initialize_worker(
    rank: int,
    seed: int | None = None,
    cpu: int | Sequence[int] | None = None,
    torch_threads: int | None = None,
    group: Any = None,
) -> None:
    """Pin this process to cores, set its number of torch threads, and seed it."""
    if cpu is not None:
        pin([cpu] if isinstance(cpu, int) else cpu)
    torch.set_num_threads(torch_threads or 1)
    if seed is not None:
        set_seed(seed)


def sampling_process(common_kwargs: Mapping[str, Any], worker_kwargs: Mapping[str, Any]) -> None:
    """Run a worker between the barriers, until ``ctrl.quit``."""
    c, w = AttrDict(**common_kwargs), AttrDict(**worker_kwargs)
    envs: list[Any] = []
    try:
        initialize_worker(w.rank, w.seed, w.cpus, c.torch_threads)
        _work(c, w, envs)
    except BrokenBarrierError:  # another process has failed
        pass
    except Exception as error:
        c.ctrl.errors.put((w.rank, f"raised {error!r}", traceback.format_exc()))
        c.ctrl.barrier_in.abort()
        c.ctrl.barrier_out.abort()
    finally:
        close_quietly(envs)


def _work(c: Any, w: Any, envs: list[Any]) -> None:
    collector, agent = _collector(c, w, envs), c.get("agent", None)
    evaluation: Any = _eval_collector(c, w, envs) if c.get("eval_n_envs", 0) else None
    with torch.inference_mode():
        collector.start_agent()
        agent_inputs, traj_infos = collector.start_envs(c.max_decorrelation_steps)
    ctrl = c.ctrl
    ctrl.barrier_out.wait()
    while True:
        collector.reset_if_needed(agent_inputs)
        ctrl.barrier_in.wait()
        if ctrl.quit.value:
            return
        itr = ctrl.itr.value
        with torch.inference_mode():
            if ctrl.do_eval.value:
                if agent is not None:
                    agent.eval_mode(itr)
                evaluation.collect_evaluation(itr)
            else:
                if agent is not None:
                    agent.sample_mode(itr)
                results = collector.collect_batch(agent_inputs, traj_infos, itr)
                agent_inputs, traj_infos, finished = results
                for info in finished:
                    c.traj_infos_queue.put(info)
        ctrl.barrier_out.wait()


def _make_envs(c: Any, kwargs: Any, ranks: Sequence[int], purpose: str, envs: list[Any]) -> Any:
    """Build and seed the environments of these ranks, and add them to ``envs``."""
    made = []
    for rank in ranks:
        one = kwargs if isinstance(kwargs, Mapping) else kwargs[rank % len(kwargs)]
        env = build_env(c.EnvCls, one, f"{purpose} {rank}")
        envs.append(env)
        made.append(env)
        if hasattr(env, "seed"):
            env.seed(env_seed(c.get("run_seed", 0), rank, purpose))
    return made


def _collector(c: Any, w: Any, envs: list[Any]) -> Any:
    made = c.CollectorCls(
        rank=w.rank,
        envs=_make_envs(c, c.env_kwargs, w.env_ranks[: w.n_envs], "env", envs),
        samples_np=w.samples_np,
        batch_T=c.batch_T,
        TrajInfoCls=traj_info_factory(c.TrajInfoCls, c.get("traj_info_kwargs", {})),
        agent=c.get("agent", None),
        sync=w.get("sync", None),
        step_buffer_np=w.get("step_buffer_np", None),
        global_B=c.get("global_B", 1),
        env_ranks=w.get("env_ranks", None),
    )
    collector = completed(made, BaseCollector)
    collector.context = CollectorContext(c.get("run_seed", 0))
    return collector


def _eval_collector(c: Any, w: Any, envs: list[Any]) -> Any:
    ranks = w.get("eval_env_ranks", None) or list(range(c.eval_n_envs))
    made = c.eval_CollectorCls(
        rank=w.rank,
        envs=_make_envs(c, c.eval_env_kwargs, ranks, "eval env", envs),
        TrajInfoCls=traj_info_factory(c.TrajInfoCls, c.get("traj_info_kwargs", {})),
        traj_infos_queue=c.eval_traj_infos_queue,
        max_T=c.eval_max_T,
        agent=c.get("agent", None),
        sync=w.get("sync", None),
        step_buffer_np=w.get("eval_step_buffer_np", None),
    )
    collector = completed(made, BaseEvalCollector)
    collector.context = CollectorContext(c.get("run_seed", 0))
    collector.quota, collector.env_ranks = w.get("eval_quota", None), ranks
    agent, env = w.samples_np.agent[0, 0], w.samples_np.env[0, 0]
    fields = (env.observation, agent.action, env.reward, env.done, env.env_info, agent.agent_info)
    collector.example_step = buffer_from_example(StepRecord(*fields), len(ranks))
    return collector
