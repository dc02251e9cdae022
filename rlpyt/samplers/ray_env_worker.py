"""An environment worker inside a Ray actor; ``samplers.ray_pool`` starts and commands it.

Nothing here imports ray; the pool makes an actor of the class.
"""

import os
import socket
import sys
import threading
import traceback
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from rlpyt.agents.weights import share_weights
from rlpyt.processes.status import fresh_progress
from rlpyt.samplers.buffer import allocate_samples
from rlpyt.samplers.env_worker import EnvWorker, EnvWorkerSpec
from rlpyt.utils import processes, serialize
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.seed import env_seed, set_seed


@dataclass(frozen=True)
class RemoteSpec:
    """All that a remote environment worker is made of."""

    env_worker: EnvWorkerSpec
    agent: Any  # as constructed
    torch_threads: int
    bootstrap_value: bool  # whether the batch has room for it
    final_observation: bool  # likewise


def in_life(spec: EnvWorkerSpec, life: int) -> EnvWorkerSpec:
    """The recipe of an environment worker that replaces one which has died.

    Its seeds are its own, since the same episodes might end in the same way, and it begins with
    whole episodes.

    Args:
        spec: of the first one.
        life: 0 for that; every replacement in a run has another.
    """
    if life == 0:
        return spec
    seed = env_seed(spec.seed, spec.env_ranks[0], f"restart {life}")
    return replace(spec, seed=seed, max_decorrelation_steps=0)


class Reply(NamedTuple):
    """What comes back from a command.

    Attributes:
        kind: "ok"; "fresh" if the process is a new one, in which nothing was started; "error".
        result: serialised; of an error (summary, traceback, last action), all as text.
        leaves: arrays of the batch [T, rows, ...] after ``collect``, in the order of its tree.
        progress: the numbers of ``processes.status``.
        pid, host: of the process.
    """

    kind: str
    result: bytes = b""
    leaves: tuple[Any, ...] = ()
    progress: tuple[int, ...] = ()
    pid: int = -1
    host: str = ""


class RemoteEnvWorker:
    """Builds an environment worker when told to, and runs its methods in order.

    Construction only remembers, since Ray constructs it again in a new process where the old one
    has died. Commands that Ray then repeats find nothing started, and say so; the pool decides
    how to go on.

    Args:
        recipe: serialised ``RemoteSpec``.
    """

    def __init__(self, recipe: bytes) -> None:
        self._recipe = recipe
        self._progress = fresh_progress()
        self._env_worker: EnvWorker | None = None
        self._samples: Any = None  # [T, rows]
        self._weights: Any = None  # the agent's, shared with nobody
        self._version = 0  # of these
        self._last: tuple[int, Reply] = (-1, Reply("fresh"))

    def run(
        self, number: int, method: str, arguments: bytes, version: int = 0, weights: Any = None
    ) -> Reply:
        """Run a method of the environment worker, or ``start`` it.

        Args:
            number: of the command; the one run last is not run again, its reply is.
            method: of ``EnvWorker``; "start" builds a new one.
            arguments: serialised; those of "start" are those of ``_start``.
            version: of the weights, counted from 1.
            weights: what ``SharedWeights.values`` gave; ``None`` leaves them as they are.
        """
        if number == self._last[0]:  # Ray lost the reply on its way
            return self._last[1]
        try:
            reply = self._run(method, serialize.loads(arguments), version, weights)
        except BaseException as error:  # whatever it is, the master hears of it and decides
            action = None if self._env_worker is None else self._env_worker.where().action
            told = processes.summary_of(error), processes.traceback_text(error), action
            reply = Reply("error", serialize.dumps(told))
        reply = reply._replace(
            progress=tuple(self._progress), pid=os.getpid(), host=socket.gethostname()
        )
        self._last = (number, reply)
        return reply

    def _run(self, method: str, arguments: Any, version: int, weights: Any) -> Reply:
        if method == "start":
            self._start(*arguments)
            return Reply("ok", serialize.dumps(None))
        if self._env_worker is None:
            return Reply("fresh")
        if weights is not None and version != self._version:
            self._weights.load(weights)
            self._version = version
        result = serialize.dumps(getattr(self._env_worker, method)(*arguments))
        leaves = tuple(leaves_of(self._samples)) if method == "collect" else ()
        return Reply("ok", result, leaves)

    def _start(self, life: int) -> None:
        """Build and start the environment worker.

        Args:
            life: see ``in_life``.
        """
        remote: RemoteSpec = serialize.loads(self._recipe)
        spec, agent = in_life(remote.env_worker, life), remote.agent
        torch.set_num_threads(remote.torch_threads)
        set_seed(env_seed(spec.seed, spec.rank, "worker"))
        agent.initialize(
            spec.examples.spaces,
            share_memory=True,  # with nobody but ourselves: weights are written there
            global_B=spec.global_B,
            env_ranks=spec.env_ranks,
        )
        share_weights(agent)
        self._weights, self._version = agent.shared_weights, 0
        self._samples = allocate_samples(
            spec.examples,
            spec.batch_T,
            len(spec.env_ranks),
            remote.bootstrap_value,
            False,
            remote.final_observation,
        )
        self._env_worker = EnvWorker(spec, agent, [self._samples], self._progress)
        self._env_worker.start()

    def look(self) -> tuple[int, ...]:
        """The numbers of ``processes.status``; from another thread, while a command runs."""
        return tuple(self._progress)

    def stacks(self) -> str:
        """What all threads but the asking one are doing; from another thread, too."""
        frames = sys._current_frames()
        frames.pop(threading.get_ident())
        return "\n\n".join("".join(traceback.format_stack(frame)) for frame in frames.values())

    def close(self) -> None:
        """Close the environments."""
        if self._env_worker is not None:
            self._env_worker.close()
            self._env_worker = None
