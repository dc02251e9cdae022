"""Several processes that optimize together beside an asynchronous sampler: ranks of one optimizer.

Rank 0 is the runner's own process. The others draw from the same replay, in shared memory, and
take every step with it; gradients are averaged.
"""

import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from rlpyt.errors import RlpytError
from rlpyt.models.utils import bare
from rlpyt.runners.distributed import Ranks, common_backend, join_store, serve_store
from rlpyt.runners.run_state import random_state, set_random_state
from rlpyt.samplers import status
from rlpyt.samplers.layout import Hardware
from rlpyt.samplers.pool import Limits, Pool
from rlpyt.samplers.status import allocate_progress
from rlpyt.samplers.workers import command_loop
from rlpyt.utils import serialize
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer
from rlpyt.utils.processes import start_context, starter_lasts
from rlpyt.utils.seed import set_seed
from rlpyt.utils.stacks import StackFile

CONNECT_S = 300.0  # for ranks to meet
SETTLE_S = 15.0  # after a connection was lost, for the one who has lost it to be found


@dataclass(frozen=True)
class OptimizerSpec:
    """All that a further rank is started with; travels by pickle."""

    rank: int
    world_size: int
    recipe: bytes  # (algorithm, agent) as constructed, by value
    arguments: bytes  # of ``async_initialize``, by value
    replay: serialize.ByValue  # in shared memory
    seed: int  # of the run
    port: int  # of the store
    backend: str
    progress: Any  # numbers of ``samplers.status``, int64, shared with the parent
    stacks: StackFile
    hardware: Hardware
    starter_lasts: bool

    @property
    def cpus(self) -> list[int] | None:
        """CPUs that the rank may use."""
        return self.hardware.master_cpus

    @property
    def torch_threads(self) -> int:
        """That it computes with."""
        return self.hardware.master_torch_threads or 1


def optimizer_main(spec: OptimizerSpec, pipe: Connection) -> None:
    """Optimize when told to."""
    command_loop(spec, pipe, Optimizer)


class Optimizer:
    """A further rank: what rank 0 commands.

    Args:
        spec: what it is started with.
    """

    def __init__(self, spec: OptimizerSpec) -> None:
        self.spec = spec
        self.algo, self.agent = serialize.loads(spec.recipe)
        self._arguments = serialize.loads(spec.arguments)
        self.ranks = Ranks(spec.rank, spec.world_size)

    def start(self) -> None:
        """Build the agent; it is ready to ``connect``."""
        set_seed(self.spec.seed + self.spec.rank)
        self.agent.initialize(self._arguments["examples"].spaces)
        self.agent.to_device(self.spec.hardware.cuda_idx)

    def _note(self, doing: int, itr: int = -1) -> None:
        self.spec.progress[[status.ITR, status.DOING]] = itr, doing

    def connect(self) -> None:
        """Join the others; all begin with the parameters of rank 0."""
        spec = self.spec
        self.ranks.store = join_store(spec.port, spec.world_size, CONNECT_S)
        self.ranks.connect(spec.backend, CONNECT_S, on_one_machine=True)
        self.agent.data_parallel()
        replay = {"replay_buffer": spec.replay.carried}
        self.algo.rank = spec.rank
        self.algo.async_initialize(agent=self.agent, **self._arguments, **replay)
        self.algo.optim_initialize(spec.rank)
        self._note(status.IDLE)

    def optimize(self, itr: int, sampler_itr: int) -> None:
        """What rank 0 does at the same time."""
        self._note(status.COLLECTING, itr)
        self.agent.train_mode(itr)
        self.algo.optimize_agent(itr, sampler_itr=sampler_itr)
        self._note(status.IDLE, itr)

    def observe(self) -> None:
        """Take part in learning observation statistics, with no observations of its own."""
        example = self._arguments["examples"].observation
        self.agent.update_obs_rms(torchify_buffer(buffer_from_example(example, 0)))

    def load(self, state: bytes) -> None:
        """Go on from the state of rank 0, with streams of its own if they were saved."""
        agent, optimizer, self.algo.update_counter, streams = serialize.loads(state)
        self.agent.load_state_dict(agent)
        self.algo.load_optim_state_dict(optimizer)
        for own in streams[self.spec.rank - 1 : self.spec.rank]:
            set_random_state(own["random"])
            if own["replay"] is not None:
                self.algo.replay_buffer.rng.bit_generator.state = own["replay"]

    def streams(self) -> dict[str, Any]:
        """States of its random generators, and of that by which it draws from the replay."""
        rng = getattr(self.algo.replay_buffer, "rng", None)
        return {"random": random_state(), "replay": rng and rng.bit_generator.state}

    def parameters(self) -> dict[str, Any]:
        """The model's, as numpy arrays by name; those of all ranks are the same."""
        return {
            name: x.numpy(force=True) for name, x in bare(self.agent.model).state_dict().items()
        }

    def where(self) -> status.WorkerStatus:
        """What the process is occupied with."""
        return optimizer_status(self.spec)

    def close(self) -> None:
        """Leave the others."""
        self.agent.end_data_parallel()
        self.ranks.leave()


class OptimizerStatus(status.WorkerStatus):
    """What a rank is occupied with; ``itr`` counts calls of ``optimize_agent``."""

    def __str__(self) -> str:
        if self.doing == status.BUILDING:
            return "while joining the other ranks"
        return f"{'in' if self.doing == status.COLLECTING else 'after'} optimize_agent({self.itr})"


def optimizer_status(spec: OptimizerSpec) -> status.WorkerStatus:
    """What a rank is, or was, occupied with."""
    doing, itr = int(spec.progress[status.DOING]), int(spec.progress[status.ITR])
    return OptimizerStatus(doing, -1, False, itr, -1, "", None)


class RankLimits(Limits):
    """How long a rank may take, under the runner's names."""

    def of(self, doing: int) -> tuple[str, float]:
        """(name of the setting, seconds) for an activity of ``samplers.status``."""
        if doing == status.BUILDING:
            return "time to join", self.start_s
        return "rank_timeout_s", self.step_s


class OptimizerPool(Pool):
    """The further ranks' processes."""

    target = optimizer_main
    who = "optimizer rank"
    others = 1  # rank 0 is the parent

    def _named(self, rank: int) -> str:
        number, pid = self._specs[rank].rank, self.processes[rank].pid
        world_size = len(self._specs) + self.others
        return f"{self.who} {number} of {world_size} (pid {pid} on {socket.gethostname()})"

    def _status_of(self, rank: int, action: Any = None) -> status.WorkerStatus:
        return optimizer_status(self._specs[rank])


class Optimizers:
    """Rank 0's side of all ranks.

    Args:
        algo, agent: of rank 0, as constructed; to be made anew in the others.
        hardware: of every rank, this one included.
    """

    def __init__(self, algo: Any, agent: Any, hardware: list[Hardware]) -> None:
        self.hardware = hardware
        self.world_size = len(hardware)
        self._recipe = serialize.dumps((algo, agent)) if self.world_size > 1 else b""
        self._ranks = Ranks(0, self.world_size)
        self._pool: OptimizerPool | None = None
        self._given_up = False
        self._thread = ThreadPoolExecutor(1, "optimizer ranks")
        self._others: Future[Any] | None = None  # what the other ranks do now, or did last

    def start(
        self,
        replay: Any,
        arguments: dict[str, Any],
        seed: int,
        timeout_s: float,
        start_method: str | None,
    ) -> None:
        """Start the further ranks.

        Args:
            replay: that all draw from.
            arguments: of ``async_initialize``, but for agent and replay.
            seed: of the run.
            timeout_s: for one call of ``optimize_agent``.
            start_method: of processes.

        Raises:
            WorkerError: a rank could not start.
        """
        store = self._ranks.store = serve_store(None, self.world_size, CONNECT_S)
        backend = common_backend([("here", own.cuda_idx) for own in self.hardware])
        context = start_context(start_method)
        specs = [
            OptimizerSpec(
                rank=rank,
                world_size=self.world_size,
                recipe=self._recipe,
                arguments=serialize.dumps(arguments),
                replay=serialize.ByValue(replay),
                seed=seed,
                port=store.port,
                backend=backend,
                progress=allocate_progress(1)[0],
                stacks=StackFile(),
                hardware=own,
                starter_lasts=starter_lasts(context),
            )
            for rank, own in enumerate(self.hardware)
            if rank
        ]
        limits = RankLimits(step_s=timeout_s, start_s=CONNECT_S)
        self._backend = backend
        self._pool = OptimizerPool(specs, limits, start_method, self._raise_if_given_up)

    def connect(self, agent: Any) -> None:
        """Connect this rank's agent, on its device, with those of the others."""

        def own() -> None:
            self._ranks.connect(self._backend, CONNECT_S, on_one_machine=True)
            agent.data_parallel()

        self.together(own, "connect")

    def together(self, own: Callable[[], Any], method: str, *arguments: Any) -> Any:
        """Do something here while the other ranks run a method; what it gives here.

        Raises:
            WorkerError: a rank failed, or takes too long; this rank's own error otherwise.
        """
        if self._pool is None:
            return own()
        others = self._others = self._thread.submit(self._pool.call, method, *arguments)
        try:
            result = own()
        except BaseException as error:
            # Where the connection to another rank is lost, its error matters, and will be here.
            if isinstance(error, RuntimeError) and not isinstance(error, RlpytError):
                self._raise_theirs(others, error)
            self._given_up = True
            wait([others])
            error.add_note(f"(in {OptimizerPool.who} 0 of {self.world_size})")
            raise
        others.result()
        return result

    def check(self) -> None:
        """For this rank, where it waits for the others' doing: raise the error of one that failed.

        Raises:
            WorkerError: that.
        """
        if self._others is not None and self._others.done():
            self._others.result()

    @property
    def gone(self) -> bool:
        """Whether the other ranks have been ended, because one of them or this one failed."""
        return self._pool is not None and (self._given_up or not self._pool.processes)

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of ``Optimizer`` gives in every other rank."""
        return [] if self._pool is None else self._pool.call(method, *arguments)

    def streams(self) -> list[dict[str, Any]]:
        """The random streams of the other ranks, for ``load``; none if a rank has failed."""
        return [] if self.gone else self.ask("streams")

    def load(self, agent: Any, algo: Any, streams: list[dict[str, Any]]) -> None:
        """Let the others go on from the state of rank 0, which was loaded here.

        Args:
            agent, algo: of rank 0.
            streams: what ``streams`` gave; where it is empty, they begin new ones.
        """
        own = agent.state_dict(), algo.optim_state_dict(), algo.update_counter, streams
        self.ask("load", serialize.dumps(own))

    def _raise_theirs(self, others: Any, error: BaseException) -> None:
        done, _ = wait([others], SETTLE_S)
        theirs = others.exception() if done else None
        if theirs is not None:
            raise theirs from error

    def _raise_if_given_up(self) -> None:
        if self._given_up:
            raise GivenUp

    def shutdown(self) -> None:
        """End the other ranks; can be called again."""
        self._given_up = True
        self._thread.shutdown()
        if self._pool is not None:
            self._pool.shutdown(patience_s=0.1)
            self._pool = None
        self._ranks.leave()


class GivenUp(RlpytError):
    """Rank 0 has failed; the others need not answer."""
