"""Environment worker: the environments, agent and collectors of one process of a sampler."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlpyt.agents.weights import SharedWeights
from rlpyt.envs.base import Env, build_env, built_like
from rlpyt.processes import status
from rlpyt.processes.child import Abandoned, ChildSpec
from rlpyt.processes.status import ChildEnvs, Progress
from rlpyt.samplers import custom_collectors
from rlpyt.samplers.batch_checks import BatchChecks
from rlpyt.samplers.collectors import BaseCollector, Collector
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.env_batch import is_batch
from rlpyt.samplers.environments import (
    check_spaces,
    close_quietly,
    other_bounds,
    takes_rows,
    with_rows,
)
from rlpyt.samplers.evaluation import BaseEvalCollector, EvalCollector
from rlpyt.samplers.fault_policy import FaultLimit, FaultPolicy
from rlpyt.samplers.policy_source import ServerChannel, StepRecord
from rlpyt.utils.buffer import (
    buffer_from_example,
    buffer_func,
)
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.completion import completed, takes
from rlpyt.utils.running import merge_statistics
from rlpyt.utils.seed import env_seed, set_seed

if TYPE_CHECKING:
    from rlpyt.agents.base import BaseAgent
    from rlpyt.envs.vector.base import VectorEnv
    from rlpyt.samplers.collections import TrajInfo
    from rlpyt.samplers.tiles import ActingAgent

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class EnvWorkerSpec(ChildEnvs):
    """Specification of an environment worker: plain data and classes."""

    rank: int
    env_warns: list[bool]  # whether to show the warnings of the environment's constructor
    CollectorCls: Callable[..., BaseCollector]
    TrajInfoCls: type[TrajInfo]
    traj_info_kwargs: dict[str, Any]
    batch_T: int
    global_B: int
    max_decorrelation_steps: int
    examples: AttrDict
    eval_CollectorCls: Callable[..., BaseEvalCollector] | None = None
    eval_env_warns: list[bool] = field(default_factory=list)
    eval_max_T: int = 0
    eval_quota: list[int] | None = None
    eval_deterministic: bool = False
    tasks: list[Any] | None = None  # tasks of each environment's first episodes
    deterministic_acting: bool = False
    on_fault: FaultPolicy | None = None
    begins_by_command: bool = False  # the command `EnvWorker.begin`, whose faults can be healed


class EnvWorker:
    """Environments, agent and collectors of one process, ready to collect and to evaluate.

    Args:
        spec: specification of the environment worker.
        agent: the agent; ``None`` if it is in an action server.
        slots: columns of the batch, or of several batches that are filled in turn.
        progress: activity numbers of the process (``processes.status``).
        channel: memory and semaphores shared with the action server.
    """

    def __init__(
        self,
        spec: EnvWorkerSpec,
        agent: BaseAgent | None,
        slots: Sequence[Any],
        progress: Progress | None = None,
        channel: ServerChannel | None = None,
    ) -> None:
        self.spec = spec
        self.slots = [buffer_func(slot, np.asarray) for slot in slots]  # plain arrays are faster
        self.agent = agent
        self.channel = channel
        self.context = CollectorContext(spec.seed, where=self.where, warns=any(spec.env_warns))
        if progress is not None:
            self.context.progress = progress
        self.checks = BatchChecks(self.slots, self.context, agent, spec.examples.spaces.action)
        self.envs: list[Any] = []
        self.eval_envs: list[Any] = []
        if spec.on_fault is not None:
            self._env_faults = FaultLimit(spec.on_fault)
        self._healing: list[Any] = []  # environments that are built anew after a fault
        self.collector: BaseCollector
        self.eval_collector: BaseEvalCollector | None = None
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        spec, channel = self.spec, self.channel
        self._make_envs(self.envs, spec.env_kwargs, spec.env_warns, spec.env_ranks, "env")
        if spec.tasks is not None:  # random steps at the start repeat the first task
            self.assign_tasks([tasks[:1] for tasks in spec.tasks])
        self._note(status.ACTIVITY, status.BUILDING, evaluation=True)
        kwargs_of, warns = spec.eval_env_kwargs, spec.eval_env_warns
        self._make_envs(self.eval_envs, kwargs_of, warns, spec.eval_env_ranks, "eval env")
        self._note(status.ACTIVITY, status.BUILDING)
        collector = spec.CollectorCls(
            rank=spec.rank,
            envs=self.envs,
            samples_np=self.slots[0],
            batch_T=spec.batch_T,
            TrajInfoCls=traj_info_factory(spec.TrajInfoCls, spec.traj_info_kwargs),
            agent=self._agent_for(spec.env_ranks),
            **({} if channel is None else dict(sync=channel, step_buffer_np=channel.step)),
            global_B=spec.global_B,
            env_ranks=spec.env_ranks,
        )
        self.collector = completed(collector, BaseCollector)
        self.collector.context = self.context
        self._collect_batch: Callable[..., Any] = self.collector.collect_batch
        if not str(type(self.collector).collect_batch.__module__).startswith("rlpyt."):
            self._collect_batch = custom_collectors.explained(self.collector, self.agent)
        if spec.on_fault is not None:
            from rlpyt.samplers.healing import breaks_of, marking_void

            self._collect_batch = marking_void(self.collector, self._collect_batch)
        self.has_begun = self._has_evaluated = False
        self.agent_inputs: Any = None
        self.traj_infos: list[Any] = []
        if self.eval_envs:
            self.eval_collector = self._make_eval_collector()
            if spec.on_fault is not None:
                breaks_of(self.eval_collector)
        self._count_steps_of_custom_loops()

    def _agent_for(self, env_ranks: list[int]) -> ActingAgent | None:
        """Return the agent that acts for these environments, in tiles if set."""
        if self.agent is None or not self.spec.deterministic_acting:
            return self.agent
        from rlpyt.samplers.tiles import tiled

        return tiled(self.agent, env_ranks)

    def _note(self, number: int, value: int, evaluation: bool = False) -> None:
        """Set an activity number, and ``EVAL``."""
        self.context.progress[number] = value
        self.context.progress[status.EVAL] = int(evaluation)

    def _note_begin(self, itr: int, evaluation: bool = False) -> None:
        """Set the activity numbers at the start of a batch, or of a part of an evaluation."""
        self._n_steps.clear()
        self.context.progress[status.STEP] = -1
        self.context.progress[status.ACTIVITY] = status.COLLECTING
        self._note(status.ITR, itr, evaluation)

    def _make_envs(
        self,
        envs: list[Any],
        kwargs_of: list[dict[str, Any]],
        warns: list[bool],
        ranks: list[int],
        purpose: str,
    ) -> None:
        """Make one environment per rank, or vector environments for all ranks."""
        spaces = self.spec.examples.spaces
        todo, known = list(ranks), set[int]()
        while todo:
            row = len(ranks) - len(todo)
            self.context.progress[status.ROW] = row
            kwargs = kwargs_of[row]
            where = f"worker {self.spec.rank}, {purpose} {todo[0]}"
            build = partial(self._build_env, kwargs, todo, purpose, where)
            # catch_warnings makes Python repeat warnings, so enter it only to hide them.
            hidden = warnings.catch_warnings(action="ignore", category=UserWarning)
            visible = contextlib.nullcontext() if warns[row] else hidden
            with visible, built_like(spaces.observation):
                env = build()
            own = id(getattr(env, "unwrapped", env))
            if own in known:
                raise ValueError(
                    f"{where}: EnvCls must return a new environment at each call, got the same "
                    "object again, which all rows would step. Create it inside the function."
                )
            known.add(own)
            self.context.warn(other_bounds(env, spaces, where), "bounds")
            n = env.n if is_batch(env) else 1
            if any(row_kwargs is not kwargs for row_kwargs in kwargs_of[row : row + n]):
                close_quietly([env])
                raise ValueError(
                    f"{where}: the {n} rows of a vector environment must have the same arguments. "
                    "Pass env_kwargs as one dictionary."
                )
            envs.append(self._heal(build, env, n))
            todo = todo[n:]

    def _build_env(
        self, kwargs: dict[str, Any], ranks: list[int], purpose: str, where: str, restarts: int = 0
    ) -> Any:
        """Build and seed an environment for the first of these ranks, as many as it has rows.

        Args:
            kwargs: its arguments.
            ranks: global indices.
            purpose: purpose of its random stream.
            where: its name, for messages.
            restarts: number of environments of these ranks that were broken before.
        """
        make, spaces, seed = self.spec.EnvCls, self.spec.examples.spaces, self.context.seed
        stream = f"{purpose} restart {restarts}" if restarts else purpose
        seeds = [env_seed(seed, rank, stream) for rank in ranks]
        arguments = with_rows(make, kwargs, seeds) if takes_rows(make, kwargs) else kwargs
        env = build_env(make, arguments, where)
        try:
            check_spaces(env, spaces, where)
            if is_batch(env) and env.n > len(ranks):
                total = len(self.spec.env_ranks if purpose == "env" else self.spec.eval_env_ranks)
                raise ValueError(
                    f"{where}: num_envs of the vector environment must divide the {total} "
                    f"environments of a worker, got {env.n} rows with {len(ranks)} left."
                )
        except ValueError:
            close_quietly([env])
            raise
        if "seeds" not in arguments:
            _seed_env(env, seeds)
        return env

    def _heal(self, build: Callable[[int], Any], env: Any, rows: int) -> Any:
        """Return the environment, healed if that is the policy for one that raises."""
        policy = self.spec.on_fault
        if policy is None or policy.env_error != "restart_env":
            return env
        from rlpyt.samplers.healing import HealingEnv

        record = buffer_from_example(self._example_step(), rows)
        finite = getattr(self.spec.CollectorCls, "check_finite", True)
        self._healing.append(HealingEnv(build, env, record, self._env_faults, finite))
        return self._healing[-1]

    def _example_step(self) -> StepRecord:
        return StepRecord(*(self.spec.examples[name] for name in StepRecord._fields))

    def _make_eval_collector(self) -> BaseEvalCollector:
        spec, CollectorCls = self.spec, self.spec.eval_CollectorCls
        assert CollectorCls is not None
        factory = traj_info_factory(spec.TrajInfoCls, spec.traj_info_kwargs)
        agent = self._agent_for(spec.eval_env_ranks)
        self._eval_queue: SimpleQueue[Any] = SimpleQueue()
        kwargs: dict[str, Any] = dict(
            envs=self.eval_envs, agent=agent, TrajInfoCls=factory, max_T=spec.eval_max_T
        )
        if "max_trajectories" in inspect.signature(CollectorCls).parameters:  # the serial one
            kwargs["max_trajectories"] = None if spec.eval_quota is None else sum(spec.eval_quota)
        else:
            kwargs |= dict(rank=spec.rank, traj_infos_queue=self._eval_queue)
            if self.channel is not None:
                kwargs |= dict(sync=self.channel, step_buffer_np=self.channel.eval_step)
            elif not _is_own_loop(CollectorCls) and takes(CollectorCls, "sync"):
                kwargs["sync"] = custom_collectors.EvalSync(self._eval_queue, spec.eval_quota)
        collector: BaseEvalCollector = completed(CollectorCls(**kwargs), BaseEvalCollector)
        collector.context = self.context
        collector.env_ranks = spec.eval_env_ranks
        collector.quota = spec.eval_quota
        if not self.collector.check_finite:
            collector.check_finite = False
        n = len(spec.eval_env_ranks)
        collector.example_step = buffer_from_example(self._example_step(), n)
        return collector

    def _count_steps_of_custom_loops(self) -> None:
        """Record the progress of custom collectors, which do not do so themselves."""
        self._n_steps: dict[Any, int] = {}  # steps of each environment in this batch
        for envs, loop, own_class in (
            (self.envs, self.collector, Collector),
            (self.eval_envs, self.eval_collector, EvalCollector),
        ):
            if loop is not None and not isinstance(loop, own_class):
                first_rows = np.cumsum([0, *(env.n if is_batch(env) else 1 for env in envs)])
                for b, env in zip(first_rows.tolist(), envs):
                    custom_collectors.watch(env, self.context, b, self._n_steps)

    def start(self) -> None:
        """Begin, unless there is a command for it."""
        if not self.spec.begins_by_command:
            self.begin()

    def begin(self) -> None:
        """Start environments and agent, once; must be called before ``collect``."""
        if self.has_begun:
            return
        self.has_begun = True
        self._start_episodes()
        if self.spec.tasks is not None:
            self.assign_tasks([tasks[1:] for tasks in self.spec.tasks])

    def _start_episodes(self) -> None:
        with torch.inference_mode():
            self.collector.start_agent()
            started = self.collector.start_envs(self.spec.max_decorrelation_steps)
        self.agent_inputs, self.traj_infos = custom_collectors.results_of(
            self.collector, "start_envs", started, "(agent_inputs, traj_infos)"
        )
        if isinstance(self.collector, Collector):
            self.agent_inputs = self.collector.adopt(self.agent_inputs, self.traj_infos)
        self._note(status.ACTIVITY, status.IDLE)

    def start_anew(self, seed: int, alone: bool) -> None:
        """Start new episodes in all environments, with the random streams of another seed.

        Args:
            seed: the seed.
            alone: the process is this worker's own, so seed its global generators, too.
        """
        self.context.seed = seed
        if alone:
            set_seed(env_seed(seed, self.spec.env_ranks[0], "worker"))
        for envs, ranks, purpose in (
            (self.envs, self.spec.env_ranks, "env"),
            (self.eval_envs, self.spec.eval_env_ranks, "eval env"),
        ):
            left = iter(ranks)
            for env in envs:
                n = env.n if is_batch(env) else 1
                _seed_env(env, [env_seed(seed, b, purpose) for b in itertools.islice(left, n)])
        self._start_episodes()

    def collect(self, itr: int, slot: int = 0) -> list[Any]:
        """Fill a batch; return finished trajectories."""
        self._note_begin(itr)
        if slot != self.context.progress[status.SLOT]:
            self.collector.write_into(self.slots[slot])
            self.context.progress[status.SLOT] = slot
        if self.agent is not None:
            self.agent.sample_mode(itr)
        with torch.inference_mode():
            self.collector.reset_if_needed(self.agent_inputs)
            try:
                results = self._collect_batch(self.agent_inputs, self.traj_infos, itr)
            except Exception as error:
                if not isinstance(error, Abandoned):
                    self.checks.raise_cause(self.collector, slot, error)
                raise
        self.agent_inputs, self.traj_infos, completed = results
        n_taken = max(self._n_steps.values()) if self._n_steps else None
        self.checks.check(self.collector, slot, self.agent_inputs, n_taken)
        self._note(status.ACTIVITY, status.IDLE)
        return list(completed)

    def take_faults(self) -> list[str]:
        """Return a line about each environment that was built anew since the last call."""
        lines, self._env_faults.lines = self._env_faults.lines, []
        return lines

    def assign_tasks(self, tasks: list[Any]) -> list[int]:
        """Give each environment tasks for its next episodes; return the number that each has."""
        return [env.assign(its_tasks) for env, its_tasks in zip(self.envs, tasks, strict=True)]

    def evaluate(self, itr: int, n_steps: int, first: bool) -> tuple[list[Any], bool]:
        """Start an evaluation, or continue it.

        Args:
            itr: iteration of the run.
            n_steps: number of steps; custom collectors run the whole evaluation at once.
            first: True to start an evaluation.

        Returns:
            (finished trajectories, True if this worker's part of the evaluation is complete).
        """
        self._note_begin(itr, evaluation=True)
        result = self._evaluate(itr, n_steps, first)
        self._note(status.ACTIVITY, status.IDLE)
        return result

    def _evaluate(self, itr: int, n_steps: int, first: bool) -> tuple[list[Any], bool]:
        if first:
            self._begin_evaluation(itr)
        collector = self.eval_collector
        assert collector is not None
        with torch.inference_mode():
            if isinstance(collector, EvalCollector) and runs_in_chunks(type(collector)):
                if first:
                    collector.begin()
                elif not collector.has_begun:
                    return [], True
                return collector.run(n_steps), collector.satisfied
            finished = collector.collect_evaluation(itr)
        queue = self._eval_queue
        found = [*(queue.get() for _ in range(queue.qsize())), *(finished or [])]
        return [*{id(info): info for info in found if info is not None}.values()], True

    def _begin_evaluation(self, itr: int) -> None:
        self._has_evaluated = True
        if self.agent is not None:
            self.agent.deterministic = self.spec.eval_deterministic
            self.agent.eval_mode(itr)
        if self.eval_envs and is_batch(self.eval_envs[0]):
            statistics = merge_statistics([env.statistics() for env in self.envs])
            for env in self.eval_envs:
                env.load_statistics(statistics)
                env.freeze()

    def where(self) -> status.WorkerStatus:
        """Return the current or last activity of the process."""
        progress, action = self.context.progress, None
        if progress[status.ACTIVITY] == status.STEPPING and self.context.actions is not None:
            action = self.context.actions[progress[status.ROW]]
        spec = replace(self.spec, seed=self.context.seed)
        return status.environment_status(progress, spec, action)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of environments, random streams and running statistics."""
        state: dict[str, Any] = {"envs": [_state_of(env) for env in self.envs]}
        # An environment may have no state before its first reset.
        known = self._has_evaluated
        state["eval_envs"] = [_state_of(env) if known else None for env in self.eval_envs]
        state["restarts"] = [env.restarts for env in self._healing]
        state["statistics"] = self.statistics()
        collector = self.collector.state_dict()
        if collector is not None:
            state["collector"] = collector
        if self.agent is not None:
            state["agent"] = agent_memory(self.agent)
        state["evaluations"] = self.eval_collector.evaluations if self.eval_collector else 0
        state["seed"] = self.context.seed
        return state

    def statistics(self) -> list[Any]:
        """Return the running statistics of vector environments."""
        return [env.statistics() for env in self.envs if is_batch(env)]

    def load_statistics(self, statistics: list[Any]) -> None:
        """Load running statistics of vector environments, merged if their number differs."""
        batches = [env for env in self.envs if is_batch(env)]
        if batches and statistics:
            merged = merge_statistics(statistics) if len(statistics) != len(batches) else None
            for i, env in enumerate(batches):
                env.load_statistics(statistics[i] if merged is None else merged)

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Load a state from ``state_dict``; return True if every environment continues exactly.

        Running statistics of vector environments are loaded in any case.
        """
        self.load_statistics(state["statistics"])
        if "collector" not in state or any(saved is None for saved in state["envs"]):
            return False
        for env, saved in zip(self.envs + self.eval_envs, state["envs"] + state["eval_envs"]):
            if saved is not None:
                env.set_state(saved)
        self._has_evaluated = any(saved is not None for saved in state["eval_envs"])
        for env, restarts in zip(self._healing, state.get("restarts", [])):
            env.restarts = restarts
        self.collector.load_state_dict(state["collector"])
        if self.agent is not None:
            load_agent_memory(self.agent, state["agent"])
        if self.eval_collector is not None:
            self.eval_collector.evaluations = state["evaluations"]
        self.context.seed = state["seed"]  # for random streams that start later
        return True

    def close(self) -> None:
        """Close the environments."""
        close_quietly(self.envs + self.eval_envs)


@dataclass(frozen=True)
class WorkerPayload:
    """Input of ``build_env_worker``."""

    env_worker: EnvWorkerSpec
    agent: BaseAgent | None  # not initialized; None if it is in an action server
    slots: Sequence[Any]  # columns of the worker in each batch
    weights: SharedWeights | None = None
    channel: ServerChannel | None = None


def seed_process(worker: EnvWorkerSpec, agent: BaseAgent | None, share: bool = False) -> None:
    """Seed a worker process, and initialize its agent, in shared memory if set."""
    number = worker.env_ranks[0] // len(worker.env_ranks)  # among the workers of all ranks
    set_seed(env_seed(worker.seed, number, "worker"))
    if agent is not None:
        more = dict(global_B=worker.global_B, env_ranks=worker.env_ranks)
        agent.initialize(worker.examples.spaces, share_memory=share, **more)


def build_env_worker(spec: ChildSpec) -> EnvWorker:
    """Build the environment worker of a worker process."""
    payload: WorkerPayload = spec.payload.value
    worker, agent = payload.env_worker, payload.agent
    seed_process(worker, agent)
    if agent is not None and payload.weights is not None:
        agent.bind_shared_memory(payload.weights)
    progress = spec.progress.data  # a memoryview: written several times faster than an array
    return EnvWorker(worker, agent, payload.slots, progress, payload.channel)


def worker_status(spec: ChildSpec) -> status.WorkerStatus:
    """Return the status of a worker process; called by its parent."""
    payload: WorkerPayload = spec.payload.value
    action = recorded_action(spec.progress, payload.slots, payload.channel)
    return status.environment_status(spec.progress, payload.env_worker, action)


def recorded_action(
    progress: Progress, slots: Sequence[Any], channel: ServerChannel | None = None
) -> Any:
    """Return the last action of the environment that is being stepped, None if it is unknown.

    Args:
        progress: activity numbers of the process.
        slots: columns of the process in the batches.
        channel: memory that the process shares with an action server.
    """
    row, step = int(progress[status.ROW]), int(progress[status.STEP])
    if row < 0 or step < 0 or progress[status.ITR] < 0:
        return None
    try:
        if not progress[status.EVAL]:
            return slots[progress[status.SLOT]].agent.action[step, row]
        eval_step = None if channel is None else channel.eval_step
        return None if eval_step is None else eval_step.action[row]
    except IndexError:  # custom collectors may count steps differently
        return None


def _state_of(env: Env | VectorEnv) -> Any:
    return env.get_state() if hasattr(env, "get_state") else None


def _is_own_loop(CollectorCls: object) -> bool:
    return isinstance(CollectorCls, type) and issubclass(CollectorCls, EvalCollector)


def runs_in_chunks(eval_CollectorCls: object) -> bool:
    """Return True if the evaluation loop is rlpyt's own, which can run in chunks."""
    return getattr(eval_CollectorCls, "collect_evaluation", None) is (
        EvalCollector.collect_evaluation
    )


def _seed_env(env: Any, seeds: list[int]) -> None:
    """Seed an environment, or the rows of a vector environment, if it can be."""
    if hasattr(env, "seed"):
        env.seed(seeds[: env.n] if is_batch(env) else seeds[0])


def agent_memory(agent: BaseAgent) -> Any:
    """Return an agent's recurrent states for a checkpoint; ``None`` if it has none."""
    return None if agent.memory is None else agent.memory.state_dict()


def load_agent_memory(agent: BaseAgent, state: dict[str, Any] | None) -> None:
    """Load recurrent states from ``agent_memory``."""
    if state is not None:
        assert agent.memory is not None
        agent.memory.load_state_dict(state)


def traj_info_factory(TrajInfoCls: type[TrajInfo], settings: dict[str, Any]) -> Callable[[], Any]:
    """Return a function that makes empty ``TrajInfo`` objects with settings such as the discount.

    Settings become attributes ``_name`` of each object, or of the class if the constructor takes no
    keywords.
    """
    hidden = {f"_{name}": value for name, value in settings.items()}
    try:
        TrajInfoCls(**hidden)
    except TypeError:
        for name, value in hidden.items():
            setattr(TrajInfoCls, name, value)
        return TrajInfoCls  # type: ignore[no-any-return]
    return lambda: TrajInfoCls(**hidden)
