"""Samplers that run in processes of their own: hosts, each with some columns of the batches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from rlpyt.agents.weights import WeightMailbox
from rlpyt.samplers import status
from rlpyt.samplers.layout import Hardware
from rlpyt.samplers.pool import Limits, Pool, recorded_action
from rlpyt.samplers.workers import command_loop
from rlpyt.utils import serialize
from rlpyt.utils.seed import env_seed, set_seed
from rlpyt.utils.stacks import StackFile
from rlpyt.utils.synchronize import name_semaphores, remove_semaphores


@dataclass(frozen=True)
class SamplerProcessSpec:
    """All that a host is started with; travels by pickle."""

    rank: int
    world_size: int  # of hosts
    recipe: bytes  # (sampler and agent as constructed, arguments of ``initialize``), by value
    examples: bytes  # of one step, by value
    slots: list[Any]  # its columns of the batches that are filled in turn
    mailbox: WeightMailbox  # where new parameters come from
    progress: Any  # numbers of ``samplers.status``, int64, shared with the parent
    stop: Any  # [1] uint8, shared: the parent wants an evaluation to end early
    semaphores: str  # with what the names of its semaphores begin
    stacks: StackFile
    hardware: Hardware
    torch_threads: int
    starter_lasts: bool

    @property
    def cpus(self) -> list[int] | None:
        """Where the host itself runs."""
        return self.hardware.master_cpus


def sampler_process_main(spec: SamplerProcessSpec, pipe: Connection) -> None:
    """Build a sampler, and sample with it."""
    command_loop(spec, pipe, SamplerProcess)


class SamplerProcess:
    """A sampler in a process of its own: what its parent commands.

    Args:
        spec: what it is started with.
    """

    def __init__(self, spec: SamplerProcessSpec) -> None:
        name_semaphores(spec.semaphores)
        self.spec = spec
        self.sampler, self.agent, self._settings = serialize.loads(spec.recipe)
        self.sampler.progress = spec.progress.data
        self.sampler.should_stop = self._should_stop

    def _should_stop(self) -> bool:
        return bool(self.spec.stop[0])

    def start(self) -> None:
        """Initialize the sampler; afterwards it can collect."""
        spec = self.spec
        set_seed(env_seed(self._settings["seed"], spec.rank, "host"))
        self.sampler.initialize(
            self.agent,
            spec.hardware,
            rank=spec.rank,
            world_size=spec.world_size,
            examples=serialize.loads(spec.examples),
            slots=spec.slots,
            **self._settings,
        )
        self.agent.to_device(spec.hardware.cuda_idx)
        self.agent.async_cpu()
        self.agent.mailbox = spec.mailbox
        self._note(status.IDLE)

    def _note(self, doing: int) -> None:
        if self.sampler.layout.processes:  # else the environment worker notes it
            self.spec.progress[status.DOING] = doing

    def collect(self, itr: int, slot: int) -> tuple[list[Any], int, dict[str, float]]:
        """Fill a slot.

        Returns:
            (finished trajectories, updates that the policy had had, ``statistics``).
        """
        self._note(status.COLLECTING)
        self.spec.progress[status.ITR] = itr
        self.agent.recv_shared_memory()
        finished = self.sampler.fill(itr, slot)
        self._note(status.IDLE)
        return finished, self.agent.policy_updates, self.statistics()

    def statistics(self) -> dict[str, float]:
        """What the sampler says of itself in a row of progress.csv."""
        said: dict[str, float] = self.sampler.statistics()
        return said

    def evaluate(self, itr: int) -> list[Any]:
        """Evaluate the newest policy; the first host does it alone."""
        if self.spec.rank:
            return []
        self._note(status.COLLECTING)
        self.agent.recv_shared_memory()
        finished: list[Any] = self.sampler.evaluate_agent(itr)
        self._note(status.IDLE)
        return finished

    def state_dict(self) -> dict[str, Any]:
        """State of the sampler."""
        state: dict[str, Any] = self.sampler.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Go on from a saved state; returns whether exactly."""
        return bool(self.sampler.load_state_dict(state))

    def where(self) -> status.WorkerStatus:
        """What the process is occupied with, if it has environments itself."""
        env_worker = self.sampler._env_worker
        if env_worker is None:
            return status.WorkerStatus(status.IDLE, -1, False, -1, -1, "", None)
        where: status.WorkerStatus = env_worker.where()
        return where

    def close(self) -> None:
        """Release the sampler."""
        self.sampler.shutdown()


@dataclass(frozen=True)
class SamplerProcessEnvs:
    """A host's environments; ``samplers.status`` asks for them by these names."""

    EnvCls: Any
    env_kwargs: Sequence[Mapping[str, Any]]  # of each environment
    env_ranks: Sequence[int]
    eval_env_kwargs: Sequence[Mapping[str, Any]]
    eval_env_ranks: Sequence[int]
    seed: int


class SamplerProcessPool(Pool):
    """The hosts of an asynchronous sampler.

    Args:
        specs: one per host.
        envs: of each, for messages.
        limits, start_method, beat: of ``Pool``.
    """

    target = sampler_process_main
    who = "sampler process"
    daemon = False

    def __init__(
        self,
        specs: Sequence[SamplerProcessSpec],
        envs: Sequence[SamplerProcessEnvs],
        limits: Limits | None = None,
        start_method: str | None = None,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self._envs = envs
        super().__init__(specs, limits, start_method, beat)

    def _status_of(self, rank: int, action: Any = None) -> status.WorkerStatus:
        spec = self._specs[rank]
        action = recorded_action(spec) if action is None else action
        return status.status_of(spec.progress, self._envs[rank], action)

    def shutdown(self, patience_s: float = 2.0) -> None:
        """Stop all hosts, however they are. Can be called again."""
        try:
            super().shutdown(patience_s)
        finally:  # one that was killed while it started workers could not do it itself
            for spec in self._specs:
                remove_semaphores(spec.semaphores)
