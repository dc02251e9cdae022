"""Ranks of one optimizer in asynchronous runs.

Rank 0 is the runner's process. The others draw from the same replay, in shared memory, and take
every gradient step together with it; gradients are averaged.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.replay import ReplayAlgo
from rlpyt.errors import RlpytError
from rlpyt.models.utils import unwrap_ddp
from rlpyt.processes import status
from rlpyt.processes.child import Child, ChildSpec
from rlpyt.processes.group import ChildGroup, Limits
from rlpyt.processes.pipe import Pipes
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.runners.distributed import Ranks, common_backend, join_store, serve_store
from rlpyt.runners.rank_watch import Kind, kind_of
from rlpyt.runners.run_state import random_state, set_random_state
from rlpyt.samplers.layout import Hardware
from rlpyt.utils import serialize
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer
from rlpyt.utils.seed import set_seed

NAME = "optimizer rank"
CONNECT_S = 300.0  # for ranks to connect
SETTLE_S = 15.0  # after a connection was lost, for the failure of the other rank to be found


@dataclass(frozen=True)
class OptimizerPayload:
    """Input of ``Optimizer``."""

    world_size: int
    recipe: bytes  # (algorithm, agent) as constructed
    arguments: dict[str, Any]  # of ``async_initialize``, but for agent and replay
    replay: ReplayBuffer  # in shared memory
    seed: int  # of the run
    port: int  # of the store
    backend: str
    cuda_idx: int | None


class Optimizer(Child):
    """Further rank of the optimizer, which executes the commands of rank 0.

    Args:
        spec: of the process, with an ``OptimizerPayload``.
    """

    def __init__(self, spec: ChildSpec) -> None:
        super().__init__(spec)
        self.own: OptimizerPayload = spec.payload.value
        self.algo, self.agent = serialize.loads(self.own.recipe)
        self.ranks = Ranks(spec.rank, self.own.world_size)

    def start(self) -> None:
        """Build the agent, before ``connect``."""
        set_seed(self.own.seed + self.spec.rank)
        self.agent.initialize(self.own.arguments["examples"].spaces)
        self.agent.to_device(self.own.cuda_idx)

    def _note(self, doing: int, itr: int = -1) -> None:
        self.spec.progress[[status.ITR, status.ACTIVITY]] = itr, doing

    def connect(self) -> None:
        """Connect to the other ranks; all start with the parameters of rank 0."""
        own, rank = self.own, self.spec.rank
        self.ranks.store = join_store(own.port, own.world_size, CONNECT_S)
        self.ranks.connect(own.backend, CONNECT_S, on_one_machine=True)
        self.agent.data_parallel()
        self.algo.rank = rank
        arguments = {**own.arguments, "replay_buffer": own.replay}
        self.algo.async_initialize(agent=self.agent, **arguments)
        self.algo.optim_initialize(rank)
        self._note(status.IDLE)

    def optimize(self, itr: int, sampler_itr: int) -> None:
        """Make the same updates as rank 0 at the same time."""
        self._note(status.COLLECTING, itr)
        self.agent.train_mode(itr)
        self.algo.optimize_agent(itr, sampler_itr=sampler_itr)
        self._note(status.IDLE, itr)

    def observe(self) -> None:
        """Join the other ranks in an update of observation statistics, without own observations."""
        example = self.own.arguments["examples"].observation
        self.agent.update_obs_rms(torchify_buffer(buffer_from_example(example, 0)))

    def load(self, state: bytes) -> None:
        """Continue from the state of rank 0, with this rank's random streams if they were saved."""
        agent, optimizer, self.algo.update_counter, streams = serialize.loads(state)
        self.agent.load_state_dict(agent)
        self.algo.load_optim_state_dict(optimizer)
        for own in streams[self.spec.rank - 1 : self.spec.rank]:
            set_random_state(own["random"])
            self.algo.replay_buffer.rng.bit_generator.state = own["replay"]

    def streams(self) -> dict[str, Any]:
        """Return the states of this rank's random generators, including that of the replay."""
        rng = self.algo.replay_buffer.rng
        return {"random": random_state(), "replay": rng.bit_generator.state}

    def parameters(self) -> dict[str, Any]:
        """Return the model's parameters, numpy arrays by name; all ranks have the same."""
        return {
            name: x.numpy(force=True)
            for name, x in unwrap_ddp(self.agent.model).state_dict().items()
        }

    def close(self) -> None:
        """Disconnect from the other ranks."""
        self.ranks.leave(self.agent)


def optimizer_status(spec: ChildSpec) -> status.WorkerStatus:
    """Describe a rank from its activity numbers; ``itr`` counts calls of ``optimize_agent``."""
    doing, itr = int(spec.progress[status.ACTIVITY]), int(spec.progress[status.ITR])
    text = f"{'in' if doing == status.COLLECTING else 'after'} optimize_agent({itr})"
    if doing == status.BUILDING:
        text = "while joining the other ranks"
    return status.WorkerStatus(doing, itr, text=text)


class Optimizers:
    """Further ranks of the optimizer, as rank 0 starts, commands and ends them.

    Args:
        algo, agent: of rank 0, as constructed; the other ranks get copies.
        hardware: of every rank, including this one.
    """

    def __init__(self, algo: ReplayAlgo, agent: BaseAgent, hardware: list[Hardware]) -> None:
        self.hardware = hardware
        self.world_size = len(hardware)
        self._algo, self._agent = algo, agent
        self._recipe = serialize.dumps((algo, agent)) if self.world_size > 1 else b""
        self._ranks = Ranks(0, self.world_size)
        self._pool: ChildGroup | None = None
        self._given_up = False
        self._thread = ThreadPoolExecutor(1, "optimizer ranks")
        self._others: Future[Any] | None = None  # what the other ranks do now, or did last

    def start(
        self,
        replay: ReplayBuffer,
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

        def spec(rank: int, own: Hardware) -> ChildSpec:
            payload = OptimizerPayload(
                world_size=self.world_size,
                recipe=self._recipe,
                arguments=arguments,
                replay=replay,
                seed=seed,
                port=store.port,
                backend=backend,
                cuda_idx=own.cuda_idx,
            )
            threads = own.master_torch_threads or 1
            return ChildSpec(
                rank,
                Optimizer,
                serialize.ByValue(payload),
                cpus=own.master_cpus,
                torch_threads=threads,
            )

        self._backend = backend
        self._pool = ChildGroup(
            NAME,
            [spec(rank, own) for rank, own in enumerate(self.hardware) if rank],
            optimizer_status,
            Limits(timeout_s, 0, CONNECT_S, "rank_timeout_s", "time to join"),
            Pipes(start_method),
            poll=self._raise_if_given_up,
            n_in_other_groups=1,  # rank 0 is this process
        )

    def connect(self) -> None:
        """Connect this rank's agent, which is on its device, with those of the others."""

        def own() -> None:
            self._ranks.connect(self._backend, CONNECT_S, on_one_machine=True)
            self._agent.data_parallel()

        self.together(own, "connect")

    def together(self, own: Callable[[], Any], method: str, *arguments: Any) -> Any:
        """Call a function here while the other ranks run a method; return its result.

        Raises:
            WorkerError: another rank failed, or takes too long.
        """
        if self._pool is None:
            return own()
        others = self._others = self._thread.submit(self._pool.call, method, *arguments)
        try:
            result = own()
        except BaseException as error:
            if kind_of(error) is not Kind.OWN:  # the error of the rank that caused it will come
                self._raise_theirs(others, error)
            self._given_up = True
            wait([others])
            error.add_note(f"(in {NAME} 0 of {self.world_size})")
            raise
        others.result()
        return result

    def check(self) -> None:
        """Raise the error of another rank, if one has failed.

        Raises:
            WorkerError: another rank has failed.
        """
        if self._others is not None and self._others.done():
            self._others.result()

    @property
    def gone(self) -> bool:
        """Return True if the other ranks have been ended, because some rank failed."""
        return self._pool is not None and (self._given_up or not self._pool.processes)

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Return the results of a method of ``Optimizer`` in the other ranks."""
        return [] if self._pool is None else self._pool.call(method, *arguments)

    def streams(self) -> list[dict[str, Any]]:
        """Return the random streams of the other ranks for ``load``; none if a rank has failed."""
        return [] if self.gone else self.ask("streams")

    def load(self, streams: list[dict[str, Any]]) -> None:
        """Send the loaded state of rank 0 to the other ranks.

        Args:
            streams: result of ``streams``; if it is empty, random streams start afresh.
        """
        algo, agent = self._algo, self._agent
        state = agent.state_dict(), algo.optim_state_dict(), algo.update_counter, streams
        self.ask("load", serialize.dumps(state))

    def _raise_theirs(self, others: Future[Any], error: BaseException) -> None:
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
        self._ranks.leave(self._agent)


class GivenUp(RlpytError):
    """Rank 0 has failed; replies of the others are not needed."""
