"""Worker processes: what they are started with, and their main loop. ``samplers.pool`` has them."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from rlpyt.agents.weights import SharedWeights
from rlpyt.errors import WorkerError
from rlpyt.samplers.actions import Abandoned
from rlpyt.utils import processes, serialize
from rlpyt.utils.seed import env_seed, set_seed
from rlpyt.utils.stacks import StackFile


@dataclass(frozen=True)
class WorkerSpec:
    """All that a worker is started with; travels by pickle."""

    rank: int
    recipe: bytes  # (EnvWorkerSpec, agent as constructed or None), by value
    slots: list[Any]  # the worker's columns of the batch, or of several
    weights: SharedWeights | None
    exchange: Any  # what is shared with an action server, or None
    progress: Any  # numbers of ``samples.place``, int64, shared with the master
    stacks: StackFile  # where the worker writes its stacks for the master
    cpus: list[int] | None
    torch_threads: int
    starter_lasts: bool = True  # see ``processes.be_a_child``


def worker_main(spec: WorkerSpec, pipe: Connection) -> None:
    """Build an environment worker, and collect with it."""
    command_loop(spec, pipe, _build_env_worker)


def command_loop(spec: Any, pipe: Connection, build: Callable[[Any], Any]) -> None:
    """Build something and run its methods as told, until told to exit or the parent is gone.

    Commands are (number, method, arguments); replies (number, kind, result) with the kinds "ok",
    whose result is serialised, "raised", a serialised ``WorkerError`` of a process further down,
    and "error": (summary, traceback, last action), all as text.

    Args:
        spec: ``cpus``, ``starter_lasts``, ``stacks`` and ``torch_threads`` as in ``WorkerSpec``.
        pipe: to the parent.
        build: makes of the spec what commands are about, with ``start()``, ``close()``, and
            ``where()`` it stands.
    """
    processes.be_a_child(spec.cpus, spec.starter_lasts)
    spec.stacks.listen()
    import torch

    torch.set_num_threads(spec.torch_threads)
    built: Any = None
    number, method, arguments = 0, "", ()
    try:
        while True:
            try:
                result = None
                if built is None:
                    built = build(spec)
                    built.start()
                else:
                    result = getattr(built, method)(*arguments)
                reply = (number, "ok", serialize.dumps(result))
            except Abandoned:
                return
            except BaseException as error:  # whatever it is, the parent hears of it and decides
                if isinstance(error, WorkerError) and error.pid >= 0:  # it names who failed
                    _send(pipe, (number, "raised", serialize.dumps(error)))
                else:
                    _send(pipe, (number, "error", _report(error, built)))
                return
            if not _send(pipe, reply):
                return
            number, method, arguments = _receive(pipe)
            if method == "exit":
                return
    finally:
        if built is not None:
            built.close()
        processes.end_descendants()


def _build_env_worker(spec: WorkerSpec) -> Any:
    from rlpyt.samplers.env_worker import EnvWorker

    env_worker_spec, agent = serialize.loads(spec.recipe)
    own = env_worker_spec.env_ranks
    set_seed(env_seed(env_worker_spec.seed, own[0] // len(own), "worker"))  # of all ranks' workers
    if agent is not None:
        agent.initialize(
            env_worker_spec.examples.spaces,
            share_memory=False,
            global_B=env_worker_spec.global_B,
            env_ranks=env_worker_spec.env_ranks,
        )
        if spec.weights is not None:
            agent.bind_shared_memory(spec.weights)
    progress = spec.progress.data  # a memoryview: written several times faster than an array
    return EnvWorker(env_worker_spec, agent, spec.slots, progress, spec.exchange)


def packed(arguments: tuple[Any, ...]) -> bytes:
    """Arguments of a command, by value: a pipe would share a tensor's memory, and keep a socket."""
    return pickle.dumps(arguments) if _are_plain(arguments) else serialize.dumps(arguments)


def _are_plain(arguments: tuple[Any, ...]) -> bool:
    return all(isinstance(x, int | float | str | bytes | None) for x in arguments)


def _report(error: BaseException, built: Any) -> tuple[str, str, str | None]:
    action = None if built is None else built.where().action
    return processes.summary_of(error), processes.traceback_text(error), action


def _send(pipe: Connection, reply: Any) -> bool:
    """Send to the parent; whether it is still there."""
    try:
        pipe.send(reply)
    except OSError:
        return False
    return True


def _receive(pipe: Connection) -> Any:
    """The next command; to exit, if the parent is gone."""
    try:
        number, method, arguments = pipe.recv()
    except (EOFError, OSError):
        return 0, "exit", ()
    return number, method, serialize.loads(arguments) if method != "exit" else ()
