"""Ranks: the processes that train one agent together, and their collective communication."""

import ctypes
import gc
import hmac
import json
import os
import queue
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # if imported later, it would keep a reference to a group
from numpy.typing import NDArray
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import _set_pg_timeout, _world
from torch.distributed.rendezvous import rendezvous

from rlpyt.agents.base import BaseAgent
from rlpyt.errors import RankError, RankTimeout
from rlpyt.utils.processes import first_line
from rlpyt.utils.state_bytes import from_bytes, to_bytes

FOREVER = timedelta(days=365)  # time limit of a collective; RankWatch detects ranks that hang
BLOCK, HEAD = 2048, 8  # bytes of the first message of `all_gather`, and of the size in it
CHUNK = 2**28  # bytes of one message of a large state
ANSWER_S = 1.0  # seconds after torch's own time limit, whose error says more
POLL_S = 0.02  # between two reads of the store while waiting for a rank
LOCALHOST = "127.0.0.1"
LOOPBACK_S = 10.0  # time limit for a connection of this process to itself
ENV_SECRET = "RLPYT_SECRET"  # shared by the machines of a run
LOOPBACK = "lo" if sys.platform.startswith("linux") else "lo0"


class Ranks:
    """Connection of this process to the other ranks of a run, with collective operations.

    As in ``torch.distributed``, all ranks must call the methods in the same order. (Heartbeats and
    reports of failures, which have no order, are sent by `RankWatch`.) Bytes from other ranks are
    never unpickled. A run of one rank needs no store and no connection.

    Args:
        rank: rank of this process.
        world_size: number of ranks.

    Attributes:
        store: key-value store of ``torch.distributed``; must be set if there are several ranks.
    """

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.rank, self.world_size = rank, world_size
        self.store: Any = None
        self._connected = self._on_one_machine = False
        self._backends: list[Any] = []
        self._n_messages = 0  # sent to or received from single ranks

    # Connecting and disconnecting.

    def exchange_notes(self, note: dict[str, Any], timeout_s: float) -> list[dict[str, Any]]:
        """Publish a note, wait for all ranks, and return the notes of all, by rank.

        Args:
            note: dictionary that can be converted to JSON.
            timeout_s: time limit for waiting.

        Raises:
            RankTimeout: a rank did not publish its note in time; the message names it.
        """
        if self.world_size == 1:
            return [note]
        self.store.set(f"note/{self.rank}", json.dumps(note))
        deadline = time.monotonic() + timeout_s
        while missing := self._missing("note"):
            _wait_or_time_out(missing, self.world_size, deadline, timeout_s)
        return [json.loads(self.store.get(f"note/{rank}")) for rank in range(self.world_size)]

    def _missing(self, key: str) -> list[int]:
        """Return the ranks that have not set their ``key`` in the store."""
        return [r for r in range(self.world_size) if not self.store.check([f"{key}/{r}"])]

    def connect(self, backend: str, timeout_s: float, on_one_machine: bool = False) -> None:
        """Create the default process group of ``torch.distributed``.

        Args:
            backend: "gloo", or "nccl" for GPU tensors; CPU tensors are sent by gloo.
            timeout_s: time limit for connecting. Later operations have no time limit.
            on_one_machine: True to use the loopback interface.

        Raises:
            RankTimeout: a rank did not connect in time; the message names it.
            RuntimeError: a process group already exists, or the connection fails.
        """
        if self.world_size == 1:
            return
        if dist.is_initialized():
            raise RuntimeError(
                "torch.distributed must be initialized by the runner, but it is initialized "
                "already. Remove the call of init_process_group."
            )
        _world.group_count = 0  # in the names of keys; a start that failed here has raised it
        started = time.monotonic()
        self.store.set(f"connecting/{self.rank}", "")
        try:
            with _interface(LOOPBACK if on_one_machine else None):
                dist.init_process_group(
                    "cpu:gloo,cuda:nccl" if backend == "nccl" else backend,
                    store=PrefixStore("group", self.store),
                    rank=self.rank,
                    world_size=self.world_size,
                    timeout=timedelta(seconds=timeout_s),
                )
            self._connected, self._on_one_machine = True, on_one_machine
            dist.all_reduce(torch.zeros(1))  # a barrier, while operations have a time limit
        except RuntimeError as error:
            if time.monotonic() - started < timeout_s:
                raise
            missing = self._missing("connecting")
            raise not_connected(missing, self.world_size, timeout_s, error) from error
        _set_pg_timeout(FOREVER)
        group: Any = dist.group.WORLD
        backends = [group._get_backend(device) for device in group._device_types]
        self._backends = list({id(backend): backend for backend in backends}.values())

    @property
    def n_collectives(self) -> int:
        """Return the number of collective operations begun in this rank; for any thread.

        A rank that has begun fewer than another keeps that one waiting.
        """
        begun: int = sum(backend._get_sequence_number_for_group() for backend in self._backends)
        return begun - self._n_messages

    def leave(self, agent: BaseAgent, failed: bool = False) -> None:
        """Unwrap the agent's networks, close the connections and end their threads.

        A thread that outlives the interpreter can abort the process after a successful run. Can be
        called again.

        Args:
            agent: agent to unwrap.
            failed: True if other ranks may not respond. With ranks on other machines the threads
                then keep running, because their operations cannot be cancelled.
        """
        agent.end_data_parallel()
        self.store, self._backends = None, []
        if self._connected:
            self._connected = False
            if failed and not self._on_one_machine:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(dist.group.WORLD))
            dist.destroy_process_group()
            gc.collect()

    # Collective operations.

    def all_reduce_max(self, numbers: Sequence[int]) -> list[int]:
        """Return the maximum of each number over all ranks."""
        if self.world_size == 1:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor.tolist()  # type: ignore[no-any-return]

    def all_gather(self, content: object) -> list[Any]:
        """Return the objects of all ranks, by rank; made of JSON types and numpy numbers."""
        if self.world_size == 1:
            return [content]
        text = json.dumps(content, default=lambda number: number.tolist()).encode()
        data = np.frombuffer(len(text).to_bytes(HEAD, "little") + text, np.uint8)
        first = _gather_bytes(data[:BLOCK], BLOCK, self.world_size)
        sizes = [HEAD + int.from_bytes(x[:HEAD].tobytes(), "little") for x in first]
        if max(sizes) > BLOCK:  # rare
            rest = _gather_bytes(data[BLOCK:], max(sizes) - BLOCK, self.world_size)
            first = [np.concatenate(parts) for parts in zip(first, rest, strict=True)]
        return [json.loads(x[HEAD:size].tobytes()) for x, size in zip(first, sizes, strict=True)]

    def gather_states(self, state: dict[str, Any]) -> list[dict[str, Any]]:
        """Return in rank 0 the states (as in checkpoints) of ranks 1, 2, ..."""
        collected = []
        for rank in range(1, self.world_size):
            self.all_reduce_max([0])  # a barrier without a time limit
            if self.rank == rank:
                self._send_state(state, 0)
            elif self.rank == 0:
                collected.append(self._receive_state(rank))
        return collected

    def scatter_states(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Send one state to each rank; return this rank's. Only rank 0 passes ``states``."""
        own = states[0] if self.rank == 0 else {}
        for rank in range(1, self.world_size):
            self.all_reduce_max([0])
            if self.rank == 0:
                self._send_state(states[rank], rank)
            elif self.rank == rank:
                own = self._receive_state(0)
        return own

    def _send_state(self, state: dict[str, Any], to: int) -> None:
        packed = to_bytes(state)
        self._send(torch.tensor([len(packed)]), to)
        for chunk in torch.split(torch.frombuffer(packed, dtype=torch.uint8), CHUNK):
            self._send(chunk, to)

    def _receive_state(self, sender: int) -> dict[str, Any]:
        size = torch.zeros(1, dtype=torch.int64)
        self._receive(size, sender)
        packed = bytearray(int(size))
        for chunk in torch.split(torch.frombuffer(packed, dtype=torch.uint8), CHUNK):
            self._receive(chunk, sender)
        return from_bytes(packed)  # type: ignore[no-any-return]

    def _send(self, tensor: torch.Tensor, to: int) -> None:
        self._n_messages += 1
        dist.send(tensor, to)

    def _receive(self, tensor: torch.Tensor, sender: int) -> None:
        self._n_messages += 1
        dist.recv(tensor, sender)


def common_backend(devices: Sequence[Any]) -> str:
    """Return "nccl" if each of these ranks has its own GPU, else "gloo".

    Args:
        devices: (host, index of the CUDA device or ``None``) of each rank.
    """
    gpus = {tuple(device) for device in devices if device[1] is not None}
    return "nccl" if len(gpus) == len(devices) and dist.is_nccl_available() else "gloo"


def serve_store(port: int | None, world_size: int, timeout_s: float) -> Any:
    """Return a store served by this process, on the loopback interface only.

    Args:
        port: port to listen on; ``None``: a free one.

    Raises:
        RankError: the loopback interface is missing.
        RuntimeError: the port is in use.
    """
    _check_loopback()
    try:
        # Not by torch, which would listen on all interfaces.
        listener = socket.create_server((LOCALHOST, port or 0))
    except OSError as error:
        raise RuntimeError(
            f"ranks cannot connect at port {port}: {error}. Use port=None for a free port, or "
            "choose another (rlpyt.utils.synchronize.find_port)."
        ) from error
    return TCPStore(
        LOCALHOST,
        listener.getsockname()[1],
        world_size,
        is_master=True,
        timeout=timedelta(seconds=timeout_s),
        wait_for_workers=False,
        master_listen_fd=listener.detach(),  # the store closes it
    )


def _check_loopback() -> None:
    """Check that programs on this machine can connect to each other.

    Without a network, as in some containers, a program can listen there, but torch would try to
    connect until its time limit.

    Raises:
        RankError: they cannot.
    """
    try:
        with socket.create_server((LOCALHOST, 0)) as listener:
            socket.create_connection(listener.getsockname(), LOOPBACK_S).close()
    except OSError as error:
        raise RankError(
            f"ranks cannot connect to each other at {LOCALHOST}: {error}. Enable the loopback "
            f"interface (ip link set {LOOPBACK} up), run the container with a network, or train "
            "with one rank.",
            rank=0,
        ) from error


def join_store(port: int, world_size: int, timeout_s: float) -> Any:
    """Connect to the store that rank 0 serves on this machine.

    Raises:
        RankTimeout: rank 0 did not answer within ``timeout_s``.
    """
    wait, started = timedelta(seconds=timeout_s), time.monotonic()
    try:
        return _call_within(
            timeout_s,
            lambda: TCPStore(LOCALHOST, port, world_size, timeout=wait, wait_for_workers=False),
        )
    except (dist.DistError, TimeoutError) as error:
        if time.monotonic() - started < timeout_s:
            raise
        raise not_connected([0], world_size, timeout_s, error) from error


def _call_within(timeout_s: float, connect: Callable[[], Any]) -> Any:
    """Call a function that connects to a store; return its result.

    Torch limits the time until a server accepts the connection, but not until it answers.

    Raises:
        TimeoutError: there was no answer in time.
    """
    thread = DaemonThread("connect to the store")
    answer = thread.submit(connect)
    thread.end()
    try:
        return answer.result(timeout_s + ANSWER_S)
    except TimeoutError:
        raise TimeoutError("The server accepts the connection but does not answer.") from None


class DaemonThread:
    """Thread that calls functions in order, and does not keep the program from ending.

    Args:
        name: name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._name, self._started = name, False

    def submit(self, function: Callable[..., Any], *args: object) -> Future[Any]:
        """Call a function in the thread; return a future with its result."""
        future: Future[Any] = Future()

        def call() -> None:
            try:
                result = function(*args)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self._calls.put(call)
        return future

    def end(self) -> None:
        """End the thread after the calls that were submitted."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def torchrun_store(rank: int, world_size: int, timeout_s: float) -> Any:
    """Return the store at MASTER_ADDR and MASTER_PORT, once all ranks have connected.

    If RLPYT_SECRET is set, rank 0 and the other ranks prove to each other that they know it.

    Raises:
        RankError: a rank's RLPYT_SECRET differs from rank 0's, or the loopback interface is
            missing.
        RankTimeout: a rank did not connect within ``timeout_s``.
        RuntimeError: no rank serves a store there, or another program uses the port.
    """
    where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    if os.environ["MASTER_ADDR"] in (LOCALHOST, "localhost"):
        _check_loopback()
    wait = timedelta(seconds=timeout_s)
    try:
        store, _, _ = _call_within(timeout_s, lambda: next(rendezvous("env://", timeout=wait)))
    except (dist.DistError, ValueError, TimeoutError) as error:
        raise RuntimeError(
            f"ranks cannot connect at {where} (MASTER_ADDR, MASTER_PORT): "
            f"{first_line(error)}. If another program uses the port, pass torchrun another "
            "(--master-port, or --rdzv-endpoint)."
        ) from error
    secret = os.fsencode(os.environ.get(ENV_SECRET, ""))
    return PrefixStore(_handshake(store, rank, world_size, timeout_s, secret), store)


def _handshake(store: Any, rank: int, world_size: int, timeout_s: float, secret: bytes) -> str:
    """Agree on a key prefix for this attempt; the store may contain keys of failed attempts.

    Each rank publishes a random name. Rank 0 answers with its own, which names the attempt, and the
    others confirm. Answer and confirmation are authenticated with the secret and contain the name
    that the receiver has just drawn, so that a process without the secret cannot replay old ones.

    Raises:
        RankError: a rank's secret differs from rank 0's.
        RankTimeout: a rank did not connect within ``timeout_s``.
    """

    def keyed(message: str) -> bytes:
        return hmac.digest(secret, message.encode(), "sha256").hex().encode()

    deadline = time.monotonic() + timeout_s
    own = uuid.uuid4().hex
    if rank:
        store.set(f"hello/{rank}", own)
        while not store.check([f"answer/{own}"]):
            _wait_or_time_out([0], world_size, deadline, timeout_s)
        name, _, proof = store.get(f"answer/{own}").partition(b" ")
        attempt: str = name.decode()
        store.set(f"confirmed/{attempt}/{rank}", keyed(f"rank {rank} confirms {attempt}"))
        _check_secret(rank, proof, keyed(f"rank 0 answers {own} with {attempt}"))
        return keyed(f"prefix of {attempt}").decode()
    missing = set(range(1, world_size))
    while missing:
        for other in sorted(missing):
            if store.check([f"hello/{other}"]):
                hello = store.get(f"hello/{other}").decode()
                proof = keyed(f"rank 0 answers {hello} with {own}").decode()
                store.set(f"answer/{hello}", f"{own} {proof}")
            if store.check([f"confirmed/{own}/{other}"]):
                proof = store.get(f"confirmed/{own}/{other}")
                _check_secret(other, proof, keyed(f"rank {other} confirms {own}"))
                missing.remove(other)
        if missing:
            _wait_or_time_out(sorted(missing), world_size, deadline, timeout_s)
    return keyed(f"prefix of {own}").decode()


def _check_secret(rank: int, proof: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(proof, expected):
        raise RankError(
            f"rank {rank} must have the {ENV_SECRET} of rank 0, got another value. Set the same on "
            "all machines, or on none.",
            rank=rank,
        )


def _wait_or_time_out(
    missing: list[int], world_size: int, deadline: float, timeout_s: float
) -> None:
    """Sleep until the next read of the store; raise RankTimeout after the deadline."""
    if time.monotonic() > deadline:
        raise not_connected(missing, world_size, timeout_s)
    time.sleep(POLL_S)


def not_connected(
    missing: list[int], world_size: int, timeout_s: float, error: BaseException | None = None
) -> RankTimeout:
    """Return the error for ranks that did not connect to each other in time.

    Args:
        missing: ranks that did not come; empty if all came, but the connection failed.
        world_size: number of ranks.
        timeout_s: time limit.
        error: error of ``torch.distributed``, if there was one.
    """
    limit = f"within {timeout_s:g} s (start_timeout_s)"
    detail = "" if error is None else f" ({first_line(error)})"
    if not missing:
        return RankTimeout(
            f"all {world_size} ranks started, but could not connect to each other {limit}{detail}. "
            "Raise start_timeout_s on a busy machine, or name the network interface in "
            "GLOO_SOCKET_IFNAME."
        )
    who, *others = (f"rank {rank}" for rank in missing)
    who = f"{who} of {world_size}" + "".join(f", {other}" for other in others)
    came = world_size - len(missing)
    return RankTimeout(
        f"{who} did not connect {limit}{detail}; {came} of {world_size} ranks did. Look for an "
        f"error in the output of rank {missing[0]}, or raise start_timeout_s on a busy machine.",
        rank=missing[0],
    )


def _gather_bytes(own: NDArray[np.uint8], size: int, world_size: int) -> list[Any]:
    """Return the bytes of every rank, each padded to ``size``."""
    padded = torch.zeros(size, dtype=torch.uint8)
    padded[: len(own)] = torch.from_numpy(own.copy())
    gathered = [torch.empty_like(padded) for _ in range(world_size)]
    dist.all_gather(gathered, padded)
    return [x.numpy() for x in gathered]


@contextmanager
def _interface(name: str | None) -> Iterator[None]:
    """Make gloo use this network interface, unless GLOO_SOCKET_IFNAME names one."""
    if name is None or "GLOO_SOCKET_IFNAME" in os.environ:
        yield
        return
    os.environ["GLOO_SOCKET_IFNAME"] = name
    try:
        yield
    finally:
        del os.environ["GLOO_SOCKET_IFNAME"]
