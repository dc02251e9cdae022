"""Worker processes: what they are started with, and their main loop. ``samplers.pool`` has them."""

from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from rlpyt.agents.weights import SharedWeights
from rlpyt.samplers.actions import Abandoned
from rlpyt.utils import processes, serialize
from rlpyt.utils.seed import env_seed, set_seed
from rlpyt.utils.stacks import StackFile


@dataclass(frozen=True)
class WorkerSpec:
    """All that a worker is started with; travels by pickle."""

    rank: int
    recipe: bytes  # (StationSpec, agent as constructed or None), by value
    samples: Any  # the worker's columns of the batch
    weights: SharedWeights | None
    exchange: Any  # what is shared with an action server, or None
    progress: Any  # numbers of ``samples.place``, int64, shared with the master
    stacks: StackFile  # where the worker writes its stacks for the master
    cpus: list[int] | None
    torch_threads: int
    starter_lasts: bool = True  # see ``processes.be_a_child``


def worker_main(spec: WorkerSpec, pipe: Connection) -> None:
    """Build a station and obey commands until told to exit or the parent is gone.

    Commands are (number, method, arguments); replies (number, kind, result) with the kinds "ok",
    whose result is serialised, and "error": (summary, traceback, last action), all as text.
    """
    processes.be_a_child(spec.cpus, spec.starter_lasts)
    spec.stacks.listen()
    import torch

    torch.set_num_threads(spec.torch_threads)
    station: Any = None
    number, method, arguments = 0, "", ()
    try:
        while True:
            try:
                result = None
                if station is None:
                    station = _build_station(spec)
                    station.start()
                else:
                    result = getattr(station, method)(*arguments)
                reply = (number, "ok", serialize.dumps(result))
            except Abandoned:
                return
            except BaseException as error:  # whatever it is, the parent hears of it and decides
                _send(pipe, (number, "error", _report(error, station)))
                return
            if not _send(pipe, reply):
                return
            number, method, arguments = _receive(pipe)
            if method == "exit":
                return
    finally:
        if station is not None:
            station.close()


def _build_station(spec: WorkerSpec) -> Any:
    from rlpyt.samplers.station import Station

    station_spec, agent = serialize.loads(spec.recipe)
    set_seed(env_seed(station_spec.seed, spec.rank, "worker"))
    if agent is not None:
        agent.initialize(
            station_spec.examples.spaces,
            share_memory=False,
            global_B=station_spec.global_B,
            env_ranks=station_spec.env_ranks,
        )
        if spec.weights is not None:
            agent.bind_shared_memory(spec.weights)
    progress = spec.progress.data  # a memoryview: written several times faster than an array
    return Station(station_spec, agent, spec.samples, progress, spec.exchange)


def _report(error: BaseException, station: Any) -> tuple[str, str, str | None]:
    action = None if station is None else station.where().action
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
        return pipe.recv()
    except (EOFError, OSError):
        return 0, "exit", ()
