"""Data-parallel optimizer of asynchronous runs.

Rank 0 is the runner's process. All ranks draw from one replay in shared memory and take every
gradient step together, with averaged gradients.
"""

import os
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.replay import ReplayAlgo
from rlpyt.errors import RlpytError, WorkerError, WorkerTimeout
from rlpyt.models.utils import unwrap_ddp
from rlpyt.processes import status
from rlpyt.processes.child import Child, ChildSpec
from rlpyt.processes.group import ChildGroup, Limits
from rlpyt.processes.pipe import Pipes
from rlpyt.replays.buffer import ReplayBuffer
from rlpyt.runners.distributed import DaemonThread, Ranks, common_backend, join_store, serve_store
from rlpyt.runners.rank_watch import GRACE_S, Kind, kind_of
from rlpyt.samplers.layout import Hardware
from rlpyt.utils import serialize
from rlpyt.utils.buffer import buffer_from_example, torchify_buffer
from rlpyt.utils.logging.console import say
from rlpyt.utils.processes import failure_text
from rlpyt.utils.seed import random_state, set_random_state, set_seed

PROCESS_NAME = "optimizer rank"
CONNECT_S = 300.0  # time limit for connecting
SETTLE_S = 15.0  # wait after a lost connection for the error of the rank that failed


@dataclass(frozen=True)
class OptimizerPayload:
    """Input of ``Optimizer``."""

    world_size: int
    recipe: bytes  # (algorithm, agent) as constructed
    arguments: dict[str, Any]  # of ``async_initialize``, except agent and replay
    replay: ReplayBuffer  # in shared memory
    seed: int  # seed of the run
    port: int  # port of the store
    backend: str
    cuda_idx: int | None


class Optimizer(Child):
    """Optimizer rank 1, 2, ...: a child process that executes the commands of rank 0.

    Args:
        spec: spec of the process, with an ``OptimizerPayload``.
    """

    def __init__(self, spec: ChildSpec) -> None:
        super().__init__(spec)
        self.payload: OptimizerPayload = spec.payload.value
        self.algo, self.agent = serialize.loads(self.payload.recipe)
        self.ranks = Ranks(spec.rank, self.payload.world_size)

    def start(self) -> None:
        """Build the agent; called before ``connect``."""
        set_seed(self.payload.seed + self.spec.rank)
        self.agent.initialize(self.payload.arguments["examples"].spaces)
        self.agent.to_device(self.payload.cuda_idx)

    def _set_activity(self, doing: int, itr: int = -1) -> None:
        self.spec.progress[[status.ITR, status.ACTIVITY]] = itr, doing

    def connect(self) -> None:
        """Connect to the other ranks, and copy the parameters of rank 0."""
        payload, rank = self.payload, self.spec.rank
        self.ranks.store = join_store(payload.port, payload.world_size, CONNECT_S)
        self.ranks.connect(payload.backend, CONNECT_S, on_one_machine=True)
        self.agent.data_parallel()
        self.algo.rank = rank
        arguments = {**payload.arguments, "replay_buffer": payload.replay}
        self.algo.async_initialize(agent=self.agent, **arguments)
        self.algo.optim_initialize(rank)
        self._set_activity(status.IDLE)

    def optimize(self, itr: int, sampler_itr: int, changes: serialize.ByValue) -> None:
        """Make updates together with rank 0, with the settings changed there."""
        self._set_activity(status.COLLECTING, itr)
        self.algo.change(changes.value)
        self.agent.train_mode(itr)
        self.algo.apply_schedule(sampler_itr)
        self.algo.optimize_agent(itr, sampler_itr=sampler_itr)
        self._set_activity(status.IDLE, itr)

    def observe(self) -> None:
        """Take part in an update of observation statistics, without observations."""
        example = self.payload.arguments["examples"].observation
        self.agent.update_obs_rms(torchify_buffer(buffer_from_example(example, 0)))

    def load(self, state: bytes) -> None:
        """Load the state of rank 0, and this rank's random generators if they were saved."""
        agent, optimizer, self.algo.update_counter, streams = serialize.loads(state)
        self.agent.load_state_dict(agent)
        self.algo.load_optim_state_dict(optimizer)
        if len(streams) >= self.spec.rank:
            stream = streams[self.spec.rank - 1]
            set_random_state(stream["random"])
            self.algo.replay_buffer.rng.bit_generator.state = stream["replay"]

    def streams(self) -> dict[str, Any]:
        """Return the states of this rank's random generators, including the replay's."""
        rng = self.algo.replay_buffer.rng
        return {"random": random_state(), "replay": rng.bit_generator.state}

    def parameters(self) -> dict[str, Any]:
        """Return the model's parameters as numpy arrays by name, the same in all ranks."""
        return {
            name: x.numpy(force=True)
            for name, x in unwrap_ddp(self.agent.model).state_dict().items()
        }

    def close(self) -> None:
        """Disconnect from the other ranks."""
        self.ranks.leave(self.agent)


def optimizer_status(spec: ChildSpec) -> status.WorkerStatus:
    """Return the status of a rank; ``itr`` counts calls of ``optimize_agent``."""
    doing, itr = int(spec.progress[status.ACTIVITY]), int(spec.progress[status.ITR])
    text = f"{'in' if doing == status.COLLECTING else 'after'} optimize_agent({itr})"
    if doing == status.BUILDING:
        text = "while joining the other ranks"
    return status.WorkerStatus(doing, itr, text=text)


class Optimizers:
    """Handle of rank 0 to the other optimizer ranks: start, command and stop them.

    Args:
        algo, agent: algorithm and agent of rank 0, not initialized; the other ranks get copies.
        hardware: hardware of every rank, including rank 0.
    """

    def __init__(self, algo: ReplayAlgo, agent: BaseAgent, hardware: list[Hardware]) -> None:
        self.hardware = hardware
        self.world_size = len(hardware)
        self._algo, self._agent = algo, agent
        self._recipe = serialize.dumps((algo, agent)) if self.world_size > 1 else b""
        self._ranks = Ranks(0, self.world_size)
        self._children: ChildGroup | None = None
        self._closing = False
        self._thread = DaemonThread("optimizer ranks")
        self._others: Future[Any] | None = None  # current or last call in the other ranks
        self._returned = threading.Event()  # set unless rank 0 is in ``run_together``

    def start(
        self,
        replay: ReplayBuffer,
        arguments: dict[str, Any],
        seed: int,
        timeout_s: float,
        start_method: str | None,
    ) -> None:
        """Start the other ranks.

        Args:
            replay: replay shared by all ranks.
            arguments: arguments of ``async_initialize``, except agent and replay.
            seed: seed of the run.
            timeout_s: time limit for one call of ``optimize_agent``.
            start_method: start method of the processes.

        Raises:
            WorkerError: a rank could not start.
        """
        self._timeout_s = timeout_s
        store = self._ranks.store = serve_store(None, self.world_size, CONNECT_S)
        backend = common_backend([("here", hardware.cuda_idx) for hardware in self.hardware])

        def spec(rank: int, hardware: Hardware) -> ChildSpec:
            payload = OptimizerPayload(
                world_size=self.world_size,
                recipe=self._recipe,
                arguments=arguments,
                replay=replay,
                seed=seed,
                port=store.port,
                backend=backend,
                cuda_idx=hardware.cuda_idx,
            )
            threads = hardware.master_torch_threads or 1
            return ChildSpec(
                rank,
                Optimizer,
                serialize.ByValue(payload),
                cpus=hardware.master_cpus,
                torch_threads=threads,
            )

        self._backend = backend
        self._children = ChildGroup(
            PROCESS_NAME,
            [spec(rank, hardware) for rank, hardware in enumerate(self.hardware) if rank],
            optimizer_status,
            Limits(timeout_s, 0, CONNECT_S, "rank_timeout_s", "time to join"),
            Pipes(start_method),
            poll=self._raise_if_closing,
            n_in_other_groups=1,  # rank 0 is this process
        )

    def connect(self) -> None:
        """Connect all ranks; this rank's agent must be on its device."""

        def connect_here() -> None:
            self._ranks.connect(self._backend, CONNECT_S, on_one_machine=True)
            self._agent.data_parallel()

        self.run_together(connect_here, "connect")

    def run_together(self, function: Callable[[], Any], method: str, *arguments: object) -> Any:
        """Call a function here while the other ranks run a method; return the function's result.

        Raises:
            WorkerError: another rank failed, or takes too long.
        """
        if self._children is None:
            return function()
        self._returned.clear()
        others = self._others = self._thread.submit(self._children.call, method, *arguments)
        others.add_done_callback(self._end_if_this_rank_hangs)
        try:
            result = function()
        except BaseException as error:
            if kind_of(error) is not Kind.OWN:  # wait for the error of the rank that caused it
                self._raise_error_of_others(others, error)
            self._closing = True
            wait([others])
            error.add_note(f"(in {PROCESS_NAME} 0 of {self.world_size})")
            raise
        finally:
            self._returned.set()
        others.result()
        return result

    def _end_if_this_rank_hangs(self, others: Future[Any]) -> None:
        """End the program if another rank fails, and rank 0 does not notice.

        Its main thread then hangs in code of the algorithm, where nothing else interrupts it. The
        other ranks have waited for it for their whole time limit if they failed by that.
        """
        error = others.exception()
        if not isinstance(error, WorkerError):
            return
        if self._returned.wait(GRACE_S if isinstance(error, WorkerTimeout) else self._timeout_s):
            return
        who = f"{PROCESS_NAME} 0 of {self.world_size} (pid {os.getpid()}, this process)"
        event = f"{who} has made no progress for {self._timeout_s:g} s (rank_timeout_s)"
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        stack = "".join(traceback.format_stack(frame))
        where = "while the others waited. The program ends; resume from the newest checkpoint"
        say(failure_text(event, where, "that rank", stacks=stack), sys.stderr)
        os._exit(1)

    def check(self) -> None:
        """Raise the error of another rank, if one has failed.

        Raises:
            WorkerError: another rank has failed.
        """
        if self._others is not None and self._others.done():
            self._others.result()

    @property
    def has_failed(self) -> bool:
        """Return True if a rank failed and the other ranks were stopped."""
        return self._children is not None and (self._closing or not self._children.processes)

    def call(self, method: str, *arguments: object) -> list[Any]:
        """Call a method of ``Optimizer`` in the other ranks; return the results."""
        return [] if self._children is None else self._children.call(method, *arguments)

    def streams(self) -> list[dict[str, Any]]:
        """Return the random generators of the other ranks for ``load``; [] after a failure."""
        return [] if self.has_failed else self.call("streams")

    def load(self, streams: list[dict[str, Any]]) -> None:
        """Send the loaded state of rank 0 to the other ranks.

        Args:
            streams: result of ``streams``; if empty, random generators are not restored.
        """
        algo, agent = self._algo, self._agent
        state = agent.state_dict(), algo.optim_state_dict(), algo.update_counter, streams
        self.call("load", serialize.dumps(state))

    def _raise_error_of_others(self, others: Future[Any], error: BaseException) -> None:
        done, _ = wait([others], SETTLE_S)
        cause = others.exception() if done else None
        if cause is not None:
            raise cause from error

    def _raise_if_closing(self) -> None:
        if self._closing:
            raise Closing

    def shutdown(self) -> None:
        """Stop the other ranks; can be called again."""
        self._closing = True
        if self._others is not None:
            wait([self._others], SETTLE_S)
        self._thread.end()
        if self._children is not None:
            self._children.shutdown(patience_s=0.1)
            self._children = None
        self._ranks.leave(self._agent)


class Closing(RlpytError):
    """Rank 0 has failed or is shutting down, and does not wait for replies."""
