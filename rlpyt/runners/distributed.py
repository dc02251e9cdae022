"""Ranks: the processes that train one agent together, and their collective communication."""

import ctypes
import gc
import hmac
import json
import os
import socket
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # imported later, it would hold on to a group for ever
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.distributed.rendezvous import rendezvous

from rlpyt.errors import RankError, RankTimeout
from rlpyt.utils.state_bytes import from_bytes, to_bytes

FOREVER = timedelta(days=365)  # of a collective: who keeps others waiting is the watch's business
BLOCK, HEAD = 2048, 8  # bytes that every rank sends in any case, and those of them for a size
CHUNK = 2**28  # bytes of a large message that go at a time
GLANCE_S = 0.02
LOCALHOST = "127.0.0.1"
ENV_SECRET = "RLPYT_SECRET"  # shared by the machines of a run
LOOPBACK = "lo" if sys.platform.startswith("linux") else "lo0"


class Ranks:
    """One rank's membership in a run of ``world_size``; every process of the run has one.

    All ranks call the methods in the same order, so each call is answered by those of the others.
    What a rank has to say out of turn (that it lives, that it failed) is `RankWatch`'s business.
    No bytes from another rank are unpickled. A run of one rank needs no store and no connection.

    Args:
        rank, world_size: which of how many this is.

    Attributes:
        store: of ``torch.distributed``, where all ranks can leave notes; set where there are
            several.
    """

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.rank, self.world_size = rank, world_size
        self.store: Any = None
        self._connected = self._on_one_machine = False

    # Coming together and parting.

    def meet(self, note: dict[str, Any], timeout_s: float) -> list[dict[str, Any]]:
        """Wait until all ranks have come, and exchange notes (of what JSON knows), by rank.

        Raises:
            RankTimeout: one did not come in time; the message says which.
        """
        if self.world_size == 1:
            return [note]
        self.store.set(f"note/{self.rank}", json.dumps(note))
        deadline = time.monotonic() + timeout_s
        notes = []
        for rank in range(self.world_size):
            while not self.store.check([f"note/{rank}"]):
                _check_patience(rank, self.world_size, deadline, timeout_s)
            notes.append(json.loads(self.store.get(f"note/{rank}")))
        return notes

    def connect(self, backend: str, timeout_s: float, on_one_machine: bool = False) -> None:
        """Join the others in a process group, ``torch.distributed``'s default one.

        Args:
            backend: "gloo", or "nccl"; what is on the CPU goes by gloo in any case.
            timeout_s: for connecting. Once connected, ranks wait for each other without limit.
            on_one_machine: connect by the loopback interface, whatever the host's name means.

        Raises:
            RuntimeError: the process has a process group already, or cannot connect.
        """
        if self.world_size == 1:
            return
        if dist.is_initialized():
            raise RuntimeError(
                "torch.distributed is initialized already; the runner does that: leave out "
                "init_process_group."
            )
        with _interface(LOOPBACK if on_one_machine else None):
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if backend == "nccl" else backend,
                store=PrefixStore("group", self.store),
                rank=self.rank,
                world_size=self.world_size,
                timeout=timedelta(seconds=timeout_s),
            )
        self._connected, self._on_one_machine = True, on_one_machine
        _set_pg_timeout(FOREVER)

    def leave(self, failed: bool = False) -> None:
        """Close the connections and end their threads; can be called again.

        No network is ``data_parallel`` any more. A thread that outlives the interpreter can abort
        the process, after a run in which all was well.

        Args:
            failed: others may not answer any more. Where one can be lost with its machine, leave
                the threads alone: what they have begun cannot be called off.
        """
        self.store = None
        if self._connected:
            self._connected = False
            if failed and not self._on_one_machine:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(dist.group.WORLD))
            dist.destroy_process_group()
            gc.collect()

    # Talking in turn.

    def largest(self, numbers: Sequence[int]) -> list[int]:
        """Return the largest of each of these numbers in any rank."""
        if self.world_size == 1:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor.tolist()  # type: ignore[no-any-return]

    def gather(self, content: Any) -> list[Any]:
        """Gather one object, of JSON's types and numpy numbers, from every rank."""
        if self.world_size == 1:
            return [content]
        text = json.dumps(content, default=lambda number: number.tolist()).encode()
        own = np.frombuffer(len(text).to_bytes(HEAD, "little") + text, np.uint8)
        first = _all_of(own[:BLOCK], BLOCK, self.world_size)
        sizes = [HEAD + int.from_bytes(x[:HEAD].tobytes(), "little") for x in first]
        if max(sizes) > BLOCK:  # which is rare
            rest = _all_of(own[BLOCK:], max(sizes) - BLOCK, self.world_size)
            first = [np.concatenate(parts) for parts in zip(first, rest, strict=True)]
        return [json.loads(x[HEAD:size].tobytes()) for x, size in zip(first, sizes, strict=True)]

    def collect_states(self, state: dict[str, Any]) -> list[dict[str, Any]]:
        """Return, in rank 0, the states (as checkpoints hold them) of ranks 1, 2, ..."""
        collected = []
        for rank in range(1, self.world_size):
            self.largest([0])  # wait for it without limit
            if self.rank == rank:
                self._send_state(state, 0)
            elif self.rank == 0:
                collected.append(self._receive_state(rank))
        return collected

    def hand_out_states(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the state that rank 0 has for this rank; rank 0 gives one for each."""
        own = states[0] if self.rank == 0 else {}
        for rank in range(1, self.world_size):
            self.largest([0])
            if self.rank == 0:
                self._send_state(states[rank], rank)
            elif self.rank == rank:
                own = self._receive_state(0)
        return own

    def _send_state(self, state: dict[str, Any], to: int) -> None:
        packed = to_bytes(state)
        dist.send(torch.tensor([len(packed)]), to)
        for chunk in torch.split(torch.frombuffer(packed, dtype=torch.uint8), CHUNK):
            dist.send(chunk, to)

    def _receive_state(self, sender: int) -> dict[str, Any]:
        size = torch.zeros(1, dtype=torch.int64)
        dist.recv(size, sender)
        packed = bytearray(int(size))
        for chunk in torch.split(torch.frombuffer(packed, dtype=torch.uint8), CHUNK):
            dist.recv(chunk, sender)
        return from_bytes(packed)  # type: ignore[no-any-return]


def common_backend(devices: Sequence[Any]) -> str:
    """Return the backend for ranks on these devices: "nccl" if each has its own GPU, else "gloo".

    Args:
        devices: by rank, (host, index of the CUDA device or ``None``).
    """
    own = {tuple(device) for device in devices if device[1] is not None}
    return "nccl" if len(own) == len(devices) and dist.is_nccl_available() else "gloo"


def serve_store(port: int | None, world_size: int, timeout_s: float) -> Any:
    """Keep the store of a run on this machine in this process, for this machine alone.

    Args:
        port: to listen on; ``None``: any that is free.

    Raises:
        RuntimeError: the port is in use.
    """
    try:
        # Torch itself would listen on all interfaces, whatever the host name.
        listener = socket.create_server((LOCALHOST, port or 0))
    except OSError as error:
        raise RuntimeError(
            f"ranks cannot meet at port {port}: {error}. Leave port=None to take a free one, or "
            "give another (rlpyt.utils.synchronize.find_port)."
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


def join_store(port: int, world_size: int, timeout_s: float) -> Any:
    """Connect to the store that rank 0 keeps on this machine."""
    wait = timedelta(seconds=timeout_s)
    return TCPStore(LOCALHOST, port, world_size, timeout=wait, wait_for_workers=False)


def torchrun_store(rank: int, world_size: int, timeout_s: float) -> Any:
    """Return the store at MASTER_ADDR and MASTER_PORT, once all ranks have come to it.

    Where RLPYT_SECRET is set, ranks prove to rank 0, and rank 0 to them, that they know it.

    Raises:
        RankError: a rank's RLPYT_SECRET differs from rank 0's.
        RankTimeout: a rank did not come within ``timeout_s``.
        RuntimeError: no rank keeps a store there, or another program uses the port.
    """
    where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    try:
        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=timeout_s)))
    except (dist.DistError, ValueError) as error:
        raise RuntimeError(
            f"ranks cannot meet at {where} (MASTER_ADDR, MASTER_PORT): "
            f"{str(error).splitlines()[0]} If another program has the port, give torchrun another "
            "(--master-port, or --rdzv-endpoint)."
        ) from error
    secret = os.fsencode(os.environ.get(ENV_SECRET, ""))
    return PrefixStore(_greet(store, rank, world_size, timeout_s, secret), store)


def _greet(store: Any, rank: int, world_size: int, timeout_s: float, secret: bytes) -> str:
    """Agree on a prefix for this attempt: the store may hold notes of those that failed before.

    Each rank publishes a random name. Rank 0 answers with its own, which names the attempt, and the
    others confirm. Answer and confirmation are keyed by the secret and contain the name that the
    receiver has just drawn, so that earlier ones are of no use to a process without the secret.

    Raises:
        RankError: a rank's secret differs from rank 0's.
        RankTimeout: a rank did not come within ``timeout_s``.
    """

    def keyed(said: str) -> bytes:
        return hmac.digest(secret, said.encode(), "sha256").hex().encode()

    deadline = time.monotonic() + timeout_s
    own = uuid.uuid4().hex
    if rank:
        store.set(f"hello/{rank}", own)
        while not store.check([f"answer/{own}"]):
            _check_patience(0, world_size, deadline, timeout_s)
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
            _check_patience(min(missing), world_size, deadline, timeout_s)
    return keyed(f"prefix of {own}").decode()


def _check_secret(rank: int, proof: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(proof, expected):
        raise RankError(
            f"rank {rank} gave another {ENV_SECRET} than rank 0; set the same on all machines, or "
            "on none.",
            rank=rank,
        )


def _check_patience(rank: int, world_size: int, deadline: float, timeout_s: float) -> None:
    """Wait a moment for a rank; raise RankTimeout if it was time for it to have come."""
    if time.monotonic() > deadline:
        raise RankTimeout(
            f"rank {rank} of {world_size} did not come within {timeout_s:g} s (start_timeout_s).",
            rank=rank,
        )
    time.sleep(GLANCE_S)


def _all_of(own: Any, size: int, world_size: int) -> list[Any]:
    """Gather the bytes of every rank, each filled up to ``size``."""
    mine = torch.zeros(size, dtype=torch.uint8)
    mine[: len(own)] = torch.from_numpy(own.copy())
    every = [torch.empty_like(mine) for _ in range(world_size)]
    dist.all_gather(every, mine)
    return [x.numpy() for x in every]


@contextmanager
def _interface(name: str | None) -> Iterator[None]:
    """Let gloo use this network interface, unless the user has named another."""
    if name is None or "GLOO_SOCKET_IFNAME" in os.environ:
        yield
        return
    os.environ["GLOO_SOCKET_IFNAME"] = name
    try:
        yield
    finally:
        del os.environ["GLOO_SOCKET_IFNAME"]
