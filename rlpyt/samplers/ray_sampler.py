"""Sampling on the machines of a Ray cluster, with the same batches as on this one."""

import contextlib
from dataclasses import replace
from typing import Any

from rlpyt.processes.group import Limits
from rlpyt.samplers.env_worker import EnvWorkerSpec
from rlpyt.samplers.layout import Hardware, SamplerLayout
from rlpyt.samplers.parallel.cpu.collectors import CpuEvalCollector, CpuResetCollector
from rlpyt.samplers.ray_cluster import Cluster
from rlpyt.samplers.ray_env_worker import RemoteSpec
from rlpyt.samplers.ray_pool import ActorPool, Breaks, EvaluationBroken
from rlpyt.samplers.sampler import Sampler
from rlpyt.utils import serialize
from rlpyt.utils.checks import whole_number


class RaySampler(Sampler):
    """Each Ray actor steps its environments and acts for them on the CPU.

    Corresponds to ``CpuSampler`` over a cluster: with the same environment workers, so with the
    same batches for any number of actors (docs/sampling.md). Actors fetch the weights before every
    batch, if they have changed, and return their columns; both go through Ray's object store.

    An actor that dies is restarted by Ray, somewhere, and begins new episodes. The batch in which
    it died is then collected anew in its columns, by the same weights, so every batch is whole;
    the episodes that were in progress are dropped: none is reported as complete, and
    ``interrupted`` says that this batch does not follow the one before. What the environment or
    the agent raises restarts nothing: it is a ``WorkerError``.

    Args:
        *args, **kwargs: as ``BaseSampler`` takes them.
        n_actors: how many; ``None`` for as many as the affinity has workers. The affinity's cores
            are those of this machine, so actors are not pinned.
        address: of a cluster, such as "auto" or "10.0.0.1:6379"; ``None`` for the connection
            that this program has (``ray.init``), or what ``RAY_ADDRESS`` says, or else a cluster
            on this machine that lives as long as the sampler.
        ray_init_kwargs: further arguments of ``ray.init``, if there is no connection yet.
        actor_options: resources and placement of each actor, as Ray's ``options`` takes them,
            such as ``dict(num_cpus=2, scheduling_strategy="SPREAD")``; one CPU by default.
        max_restarts: of each actor; after that its death is a ``WorkerError``. -1 for any number.

    Attributes:
        interrupted: whether an actor was restarted since the batch before the last, so that the
            last one does not follow it; the algorithm's ``interrupt`` is to be called before it is
            given that batch. Runners do.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind or out of range.
    """

    layout = SamplerLayout(processes=True)

    def __init__(
        self,
        *args: Any,
        n_actors: int | None = None,
        address: str | None = None,
        ray_init_kwargs: dict[str, Any] | None = None,
        actor_options: dict[str, Any] | None = None,
        max_restarts: int = 3,
        CollectorCls: Any = CpuResetCollector,
        eval_CollectorCls: Any = CpuEvalCollector,
        **kwargs: Any,
    ) -> None:
        kwargs.update(CollectorCls=CollectorCls, eval_CollectorCls=eval_CollectorCls)
        super().__init__(*args, **kwargs)
        self.n_actors = None if n_actors is None else whole_number("n_actors", n_actors, 1)
        self.address = address
        self.ray_init_kwargs = dict(ray_init_kwargs or {})
        self.actor_options = dict(actor_options or {})
        self.max_restarts = whole_number("max_restarts", max_restarts, -1)
        self._breaks = Breaks()

    def initialize(self, agent: Any, affinity: Any = None, *args: Any, **kwargs: Any) -> Any:
        """As ``Sampler.initialize``; the environment is tried out on this machine.

        Raises:
            ImportError: ray is not installed.
            ConnectionError: no cluster answers at the address.
        """
        hardware = Hardware.of(affinity, self.batch_spec.B)
        if self.n_actors is not None:
            n = self.n_actors
            hardware = replace(hardware, n_workers=n, workers_cpus=[None] * n)
        self._breaks = Breaks()
        return super().initialize(agent, hardware, *args, **kwargs)

    def _start_workers(
        self, specs: list[EnvWorkerSpec], recipe_agent: bytes, hardware: Hardware
    ) -> Any:  # an ActorPool, which takes the calls of a WorkerPool
        agent = serialize.loads(recipe_agent)
        agent_fields, env_fields = self.samples_np.agent._fields, self.samples_np.env._fields
        remote_specs = [
            RemoteSpec(
                env_worker=spec,
                agent=agent,
                torch_threads=hardware.worker_torch_threads,
                bootstrap_value="bootstrap_value" in agent_fields,
                final_observation="final_observation" in env_fields,
            )
            for spec in specs
        ]
        cpus = self.actor_options.get("num_cpus", 1) * len(specs)
        return ActorPool(
            Cluster(self.address, self.ray_init_kwargs, cpus),
            remote_specs,
            self.slots,
            self.agent.shared_weights,
            Limits(self.env_timeout, self.reset_timeout, self.start_timeout_s),
            self.actor_options,
            self.max_restarts,
            self._breaks,
        )

    def _note_interruption(self) -> None:
        """See ``interrupted``."""
        self.interrupted, self._breaks.pending = self._breaks.pending, False

    def evaluate_agent(self, itr: int) -> list[Any]:
        """As ``Sampler.evaluate_agent``; where an actor dies, the evaluation begins anew."""
        while True:
            with contextlib.suppress(EvaluationBroken):
                return super().evaluate_agent(itr)

    def statistics(self) -> dict[str, float]:
        """What a row of progress.csv says about the sampler: restarts and episodes dropped."""
        return {
            **super().statistics(),
            "ActorRestarts": self._breaks.restarts,
            "DroppedEpisodes": self._breaks.dropped_episodes,
        }

    def state_dict(self) -> dict[str, Any]:
        """State of all environment workers, and what restarts have cost."""
        state = super().state_dict()
        state["breaks"] = vars(self._breaks).copy()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Go on from a saved state; returns whether it could be done exactly.

        It cannot where an actor had been restarted after the last batch, either.
        """
        exact = super().load_state_dict(state)
        saved = Breaks(**state.get("breaks", {}))
        self._breaks.restarts += saved.restarts
        self._breaks.dropped_episodes += saved.dropped_episodes
        return exact and not saved.pending
