"""Sampling on the machines of a Ray cluster, with the same batches as on one machine."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rlpyt.agents.weights import share_weights
from rlpyt.errors import RlpytError
from rlpyt.processes.child import ChildSpec
from rlpyt.processes.group import ChildGroup, Limits, Meanwhile
from rlpyt.processes.ray import Cluster, RayActors, WithArrays, import_ray
from rlpyt.processes.status import WorkerStatus, environment_status, fresh_progress
from rlpyt.samplers.buffer import allocate_samples
from rlpyt.samplers.env_worker import EnvWorker, EnvWorkerSpec, seed_process
from rlpyt.samplers.healing import spec_of_life
from rlpyt.samplers.layout import Affinity, Hardware, SamplerLayout
from rlpyt.samplers.parallel.cpu.collectors import CpuEvalCollector, CpuResetCollector
from rlpyt.samplers.sampler import Sampler
from rlpyt.utils import serialize
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.checks import whole_number
from rlpyt.utils.logging import logger

if TYPE_CHECKING:
    from rlpyt.agents.base import BaseAgent

Weights = dict[str, np.ndarray[Any, Any]]  # by name, as ``SharedWeights.values`` returns them


@dataclass
class RestartCounts:
    """Restarts of actors and their cost, counted over a run.

    Attributes:
        restarts: number of restarts of actors.
        dropped_episodes: number of episodes that were in progress in an actor that died; none is
            ever reported as complete.
        pending: True if an actor was restarted since the last batch.
    """

    restarts: int = 0
    dropped_episodes: int = 0
    pending: bool = False


class EvaluationInterrupted(RlpytError):
    """An actor was restarted during an evaluation, so the evaluation must start again."""


class RaySampler(Sampler):
    """A sampler whose Ray actors step their environments and act for them on the CPU.

    It corresponds to ``CpuSampler`` over a cluster, with the same environment workers, and so with
    the same batches for any number of actors (docs/sampling.md). Actors fetch the weights before
    every batch, if they have changed, and return their columns, both through Ray's object store.

    If an actor dies, Ray restarts it on some node, and it starts new episodes. Its columns of the
    batch are collected again with the same weights, so every batch is complete. Episodes in
    progress are dropped: none is reported as complete, and ``interrupted`` is True. With
    ``on_fault``, those columns are void instead, as with workers. Errors of an environment or agent
    do not restart actors; they are raised as ``WorkerError``, or healed by ``on_fault``.

    Args:
        *args, **kwargs: arguments of ``BaseSampler``.
        n_actors: number of actors; ``None``: the number of workers of the affinity. Actors are not
            pinned to the cores of the affinity, which are those of this machine.
        address: address of a cluster, such as "auto" or "10.0.0.1:6379"; ``None``: the program's
            existing connection (``ray.init``), else ``RAY_ADDRESS``, else a new cluster on this
            machine, which is stopped with the sampler.
        ray_init_kwargs: further arguments of ``ray.init``, if there is no connection yet.
        actor_options: resources and placement of each actor, passed to Ray's ``options``, such as
            ``dict(num_cpus=2, scheduling_strategy="SPREAD")``; one CPU by default.
        max_restarts: maximum number of restarts of each actor; -1: unlimited. Further deaths raise
            ``WorkerError``.

    Attributes:
        interrupted: True if an actor was restarted, so that the last batch does not continue the
            previous one. Runners then call the algorithm's ``interrupt`` first.

    Raises:
        TypeError, ValueError: an argument has the wrong type or is out of range.
    """

    layout = SamplerLayout(processes=True)
    restarts_workers = False  # Ray does, if they die
    CollectorCls, eval_CollectorCls = CpuResetCollector, CpuEvalCollector

    def __init__(
        self,
        *args: Any,
        n_actors: int | None = None,
        address: str | None = None,
        ray_init_kwargs: dict[str, Any] | None = None,
        actor_options: dict[str, Any] | None = None,
        max_restarts: int = 3,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.n_actors = None if n_actors is None else whole_number("n_actors", n_actors, 1)
        self.address = address
        self.ray_init_kwargs = dict(ray_init_kwargs or {})
        self.actor_options = dict(actor_options or {})
        self.max_restarts = whole_number("max_restarts", max_restarts, -1)
        self._counts = RestartCounts()

    def initialize(
        self, agent: BaseAgent, affinity: Affinity = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Initialize as ``Sampler`` does; the environment's trial step runs on this machine.

        Raises:
            ImportError: ray is not installed.
            ConnectionError: no cluster answers at the address.
        """
        hardware = Hardware.of(affinity, self.batch_spec.B)
        if self.n_actors is not None:
            n = self.n_actors
            hardware = replace(hardware, n_workers=n, workers_cpus=[None] * n)
        self._counts = RestartCounts()
        return super().initialize(agent, hardware, *args, **kwargs)

    def _start_workers(
        self, specs: list[EnvWorkerSpec], serialized_agent: bytes, hardware: Hardware
    ) -> ChildGroup:
        agent = serialize.loads(serialized_agent)
        fields = (*self.samples_np.agent._fields, *self.samples_np.env._fields)
        optional = {x: x in fields for x in ("bootstrap_value", "final_observation", "void")}
        self._actors = ActorRecords(specs, self.slots, self._counts)
        payloads = [RayPayload(spec, agent, optional) for spec in specs]
        cpus = self.actor_options.get("num_cpus", 1) * len(specs)
        return RayWorkers(
            self.agent,
            self._actors,
            self._counts,
            "worker",
            [
                ChildSpec(
                    rank=i,
                    build=build_ray_env_worker,
                    payload=serialize.ByValue(payload),
                    progress=fresh_progress(),
                    torch_threads=hardware.worker_torch_threads,
                )
                for i, payload in enumerate(payloads)
            ],
            self._actors.status,
            Limits(self.env_timeout, self.reset_timeout, self.start_timeout_s),
            RayActors(
                Cluster(self.address, self.ray_init_kwargs, cpus),
                self.actor_options,
                self.max_restarts,
                self._actors.note_restart,
                self._actors.store_columns,
            ),
        )

    def _note_interruption(self, slot: int) -> None:
        """Set ``interrupted`` if an actor was restarted."""
        self.interrupted, self._counts.pending = self._counts.pending, False

    def _void_lost_columns(self, slot: int) -> None:
        """Void the columns of actors that were restarted since the last batch."""
        assert self._worker_faults is not None
        self._counts.pending = False
        self._worker_faults.lost, self._actors.restarted = self._actors.restarted, []
        super()._void_lost_columns(slot)

    def evaluate_agent(self, itr: int) -> list[Any]:
        """Run the evaluation episodes; start again if an actor dies."""
        while True:
            with contextlib.suppress(EvaluationInterrupted):
                return super().evaluate_agent(itr)

    def statistics(self) -> dict[str, float]:
        """Return the columns of progress.csv, with restarts and dropped episodes."""
        return {
            **super().statistics(),
            "ActorRestarts": self._counts.restarts,
            "DroppedEpisodes": self._counts.dropped_episodes,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all environment workers, and the counts of restarts."""
        state = super().state_dict()
        state["breaks"] = vars(self._counts).copy()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Load a state from ``state_dict``; return True if the run resumes exactly.

        It does not if an actor was restarted after the last batch.
        """
        exact = super().load_state_dict(state)
        saved = RestartCounts(**state.get("breaks", {}))
        self._counts.restarts += saved.restarts
        self._counts.dropped_episodes += saved.dropped_episodes
        return exact and not saved.pending


class RayWorkers(ChildGroup):
    """The actors, which are sent new weights of the agent before they act.

    Args:
        agent: agent of the master.
        actors: records of the actors.
        counts: counts of restarts.
        *args: arguments of ``ChildGroup``.

    Attributes:
        version: number of published weights.
    """

    def __init__(
        self, agent: BaseAgent, actors: ActorRecords, counts: RestartCounts, *args: Any
    ) -> None:
        self._agent, self._actors, self._counts = agent, actors, counts
        self.version = 0
        self._published: tuple[dict[str, Any], Any] = ({}, None)  # (weights, reference to them)
        super().__init__(*args)

    def call(
        self, method: str, *arguments: object, meanwhile: Meanwhile | None = None
    ) -> list[Any]:
        """See ``ChildGroup``.

        Raises:
            EvaluationInterrupted: an actor died in an evaluation.
        """
        restarts = self._counts.restarts
        if method == "collect":
            itr, self._actors.slot = arguments  # type: ignore[assignment]
            arguments = (itr, *self._publish())
        elif method == "evaluate":
            arguments = (*arguments, *self._publish())
        results = super().call(method, *arguments, meanwhile=meanwhile)
        if method == "evaluate" and self._counts.restarts > restarts:
            raise EvaluationInterrupted
        return results

    def _publish(self) -> tuple[int, Any]:
        """Put the weights into Ray's object store if they have changed.

        Returns:
            (version, reference); (0, None) if the agent has no weights.
        """
        if self._agent.shared_weights is None:
            return 0, None
        values, (old_values, reference) = self._agent.shared_weights.values(), self._published
        same = reference is not None and all(
            np.array_equal(value, old_values[name]) for name, value in values.items()
        )
        if not same:
            self.version += 1
            self._published = (values, import_ray().put(values))
        return self.version, self._published[1]


class ActorRecords:
    """Master's records of the actors: their environment workers, and the batches that they fill.

    Args:
        specs: specification of each actor's environment worker.
        slots: the batch [T, B], or several; actor i has the i-th columns.
        counts: counts of restarts.

    Attributes:
        slot: index of the batch that is being collected.
        restarted: actors that were restarted, and whose columns are not void yet (``on_fault``).
    """

    def __init__(
        self, specs: list[EnvWorkerSpec], slots: Sequence[Any], counts: RestartCounts
    ) -> None:
        self._specs, self._current_specs = specs, list(specs)  # original and current specifications
        self._slots, self._counts = slots, counts
        self.slot = 0
        self.restarted: list[int] = []

    def status(self, spec: ChildSpec) -> WorkerStatus:
        """Describe an actor from its activity numbers."""
        return environment_status(spec.progress, self._current_specs[spec.rank])

    def note_restart(self, spec: ChildSpec, identity: str) -> int:
        """Count the restart of an actor; return its new ``ChildSpec.life``."""
        counts, original = self._counts, self._specs[spec.rank]
        n = len(original.env_ranks)
        counts.restarts += 1
        counts.dropped_episodes += n
        counts.pending = True
        self.restarted.append(spec.rank)
        logger.log(
            f"worker {spec.rank} ({identity}) died, last seen {self.status(spec)}; Ray has "
            f"restarted it, and its {n} environments start new episodes. Restarts so far: "
            f"{counts.restarts}, episodes dropped: {counts.dropped_episodes}."
        )
        self._current_specs[spec.rank] = spec_of_life(original, counts.restarts)
        return counts.restarts

    def store_columns(self, rank: int, arrays: Sequence[Any]) -> None:
        """Copy the arrays of an actor into its columns of the batch."""
        rows = len(self._specs[rank].env_ranks)
        columns = self._slots[self.slot][:, rank * rows : (rank + 1) * rows]
        for leaf, new in zip(leaves_of(columns), arrays, strict=True):
            leaf[...] = new


@dataclass(frozen=True)
class RayPayload:
    """Input of ``build_ray_env_worker``."""

    env_worker: EnvWorkerSpec
    agent: BaseAgent  # not initialized
    optional: dict[str, bool]  # fields that the batch may have; True: it has them


class RayEnvWorker(EnvWorker):
    """An environment worker with its own batch and weights."""

    _weights_version = 0
    _evaluating = False
    skips_batch = False  # in which the actor was restarted, since its columns are void (on_fault)

    def collect(self, itr: int, version: int = 0, weights: Weights | None = None) -> Any:  # type: ignore[override]
        """Collect a batch; return finished trajectories, with the batch's arrays.

        Args:
            itr: iteration of the run.
            version: version of the weights, counted from 1; 0 if there are none.
            weights: weights from ``SharedWeights.values``.
        """
        self._load(version, weights)
        finished = [] if self.skips_batch else super().collect(itr)
        self.skips_batch = False
        return WithArrays(finished, tuple(leaves_of(self.slots[0])))

    def evaluate(
        self, itr: int, n_steps: int, first: bool, version: int = 0, weights: Weights | None = None
    ) -> tuple[list[Any], bool]:
        """Start or continue an evaluation; after a restart return at once."""
        self._evaluating = self._evaluating or first
        if not self._evaluating:
            return [], True
        self._load(version, weights)
        return super().evaluate(itr, n_steps, first)

    def _load(self, version: int, weights: Weights | None) -> None:
        if weights is not None and version != self._weights_version:
            assert self.agent is not None
            assert self.agent.shared_weights is not None
            self.agent.shared_weights.load(weights)
            self._weights_version = version


def build_ray_env_worker(spec: ChildSpec) -> RayEnvWorker:
    """Build the environment worker of an actor."""
    payload: RayPayload = spec.payload.value
    worker, agent = spec_of_life(payload.env_worker, spec.life), payload.agent
    seed_process(worker, agent, share=True)  # new weights are written to shared memory
    share_weights(agent)
    rows = len(worker.env_ranks)
    samples = allocate_samples(
        worker.examples, worker.batch_T, rows, memory=False, **payload.optional
    )
    made = RayEnvWorker(worker, agent, [samples], spec.progress)
    made.skips_batch = payload.optional["void"] and spec.life > 0
    return made
